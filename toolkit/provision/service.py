"""What starts, stops and asks a node's service, for each thing that may keep it running. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from toolkit.provision.facts import Manager
from toolkit.provision.places import UNIT, Places

Verb = Literal["start", "stop", "restart", "enable", "disable", "reload"]

KEEPER = "toolkit.node.keeper"
# A login without a session of its own has no XDG_RUNTIME_DIR, and systemctl finds the user's manager only by that.
_OF_THE_USER = 'XDG_RUNTIME_DIR="/run/user/$(id -u)" exec systemctl --user "$@"'
_KEEPERS_VERBS = {"start": "start", "enable": "start", "stop": "stop", "disable": "stop", "restart": "restart"}


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """A command for a host, and as whom it is run there."""

    words: Sequence[str]
    as_root: bool = False
    as_user: str | None = None


def call_of(verb: Verb, manager: Manager, places: Places, *, user: str) -> ServiceCall | None:
    """Return what does this to the node's service; `None` where its manager needs nothing done.

    `enable` and `disable` start and stop it too, and say what is to be after a boot. `user` is who the node runs as.
    """
    if manager == "supervisor":
        if verb == "reload":
            return None
        return ServiceCall([places.python, "-m", KEEPER, _KEEPERS_VERBS[verb], places.node], as_user=user)
    words = ["daemon-reload"] if verb == "reload" else [verb, UNIT]
    if verb in {"enable", "disable"}:
        words = [verb, "--now", UNIT]
    if manager == "system":
        return ServiceCall(["systemctl", *words], as_root=True)
    return ServiceCall(["sh", "-c", _OF_THE_USER, "systemctl", *words])
