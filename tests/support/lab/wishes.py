"""What a test wants of a lab: its hosts, what is odd about each, and the routers that some of them are behind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class HostWish:
    """One host; as it is by default it has what a fresh Debian has: systemd, cron, an SSH server, Python, sudo.

    `sudo` is whether the user of the login may use it: freely, with its password, or not at all. Without `systemd` the
    host runs an SSH server and cron, and nothing else. `disk_mb` limits the whole disk. `behind` names a router, made
    at its first mention: nobody outside can connect to the host, but for its SSH server through a port of the router.
    A host that `dials_up` has the program `redial`, which anyone on it may run with sudo. `redis` makes it a Redis
    server with a password.
    """

    name: str
    redis: bool = False
    sudo: Literal["free", "password", "none"] = "free"
    python: bool = True
    systemd: bool = True
    disk_mb: int | None = None
    behind: str | None = None
    dials_up: bool = False


def several(count: int) -> tuple[HostWish, ...]:
    """Return the wish for that many ordinary hosts, `h1` and on."""
    return tuple(HostWish(f"h{number}") for number in range(1, count + 1))


def written(wishes: Iterable[HostWish]) -> str:
    """Write wishes down for `read`."""
    return json.dumps([asdict(wish) for wish in wishes])


def read(text: str) -> tuple[HostWish, ...]:
    """Return the wishes that `written` wrote."""
    return tuple(HostWish(**wish) for wish in json.loads(text or "[]"))
