"""Which files a host shall have, and how a change of one is shown without its secrets. Pure."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from toolkit.config.scrapyd_conf import render, render_stock
from toolkit.model.hosts import Secret
from toolkit.provision.desired import Desired
from toolkit.provision.facts import Facts, FileFact, Manager
from toolkit.provision.packages import is_offline
from toolkit.provision.units import launcher_text, unit_text

MASKED = "***"
CHANGED_SECRET = "(a secret in it is another one)"  # noqa: S105 - words of a diff
_SECRET_LINE = re.compile(r"^(?P<start>\s*(password|redis)\s*[=:]\s*)(?P<secret>\S.*)$")
_CREDENTIALS = re.compile(r"(?P<start>[a-z+]+://[^/\s:@]*:)[^@\s]+(?=@)")
CARRIED_WHEELS = "../wheels"
"""Where carried wheels lie, from the node's working folder on."""

_UNIT_MODE, _PRIVATE, _PROGRAM = 0o644, 0o600, 0o755


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file as it shall be. With `is_secret` nothing of it is shown; `restarts` says that the node must read it anew.

    `is_unit` says that the service manager must.
    """

    path: str
    content: Secret
    mode: int
    owner: str
    is_secret: bool = False
    restarts: bool = True
    is_unit: bool = False

    @property
    def digest(self) -> str:
        """The digest of its bytes."""
        return hashlib.sha256(self.content.reveal().encode()).hexdigest()

    def is_met_by(self, found: FileFact | None) -> bool:
        """Tell whether the host's file is this one."""
        return found is not None and (found.digest, found.mode, found.owner) == (self.digest, self.mode, self.owner)

    def why(self, found: FileFact | None) -> str:
        """Say why it has to be written."""
        if found is None:
            return "is missing"
        if found.digest != self.digest:
            return "is to be changed"
        if found.mode != self.mode:
            return f"has mode {found.mode:04o}, to be {self.mode:04o}"
        return f"belongs to {found.owner}, to be {self.owner}'s"

    def diff(self, found: FileFact | None) -> tuple[str, ...]:
        """Return the lines that change, secrets masked; none where only mode or owner do, or all of it is secret."""
        if self.is_secret or (found is not None and found.digest == self.digest):
            return ()
        old = found.text.reveal() if found is not None and found.text is not None else ""
        lines = _compared(masked(old), masked(self.content.reveal()), is_new=found is None)
        return lines or (CHANGED_SECRET,)


def wanted_files(desired: Desired, facts: Facts, manager: Manager) -> tuple[WantedFile, ...]:
    """Return all files of a host's node, in the order in which they are written."""
    return tuple(_wanted(desired, facts, manager))


def _wanted(desired: Desired, facts: Facts, manager: Manager) -> Iterator[WantedFile]:
    places, owner = facts.places, facts.service_user
    admin = "root" if facts.is_root else facts.user
    yield WantedFile(places.launcher, Secret(launcher_text(places)), _PROGRAM, admin)
    text = Secret(configuration(desired, is_offline=is_offline(desired.packages, facts.record)))
    for path in (places.configuration, places.configuration_again):
        # The second is the same once more; showing it twice would tell nothing.
        yield WantedFile(path, text, _PRIVATE, owner, is_secret=path == places.configuration_again)
    if desired.redis is not None and not desired.is_stock:
        yield WantedFile(places.redis_url, Secret(f"{desired.redis.reveal()}\n"), _PRIVATE, owner, is_secret=True)
    for name, content in desired.extra_files.items():
        is_read_anew = name in desired.read_anew
        yield WantedFile(f"{places.node}/{name}", content, _PRIVATE, owner, is_secret=True, restarts=not is_read_anew)
    if manager != "supervisor":
        path = places.system_unit if manager == "system" else places.user_unit
        yield WantedFile(path, Secret(unit_text(desired, facts, manager)), _UNIT_MODE, admin, is_unit=True)


def configuration(desired: Desired, *, is_offline: bool = False) -> str:
    """Return the text of the node's scrapyd.conf; `is_offline` says that packages come from carried wheels."""
    if desired.crawlctl is None:
        return render_stock(desired.scrapyd)
    carried = {"wheelhouse": CARRIED_WHEELS} if is_offline else {}
    return render(desired.scrapyd, crawlctl={**carried, **desired.crawlctl})


def masked(text: str) -> str:
    """Return the text with every secret of a configuration as ***."""
    lines = (_SECRET_LINE.sub(rf"\g<start>{MASKED}", line) for line in text.splitlines())
    return "\n".join(_CREDENTIALS.sub(rf"\g<start>{MASKED}", line) for line in lines)


def _compared(old: str, new: str, *, is_new: bool) -> tuple[str, ...]:
    if is_new:
        return tuple(f"+{line}" for line in new.splitlines() if line and not line.startswith("#"))
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1)
    return tuple(line for line in lines if not line.startswith(("---", "+++")))
