"""One job's log on its way: the note and the link that outlive Scrapyd's housekeeping, and one step of shipping it.

In the threads of `shipping.py`; only `note` is called elsewhere. A hard link keeps a log's bytes until all of it is
shipped, however few logs Scrapyd keeps, and over any restart.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName
from toolkit.model.shipped import IN_REDIS, LogName, Shipment, ShippedLog, next_shipment
from toolkit.node.log_places import LogPlace
from toolkit.node.shipping_settings import ShippingSettings
from toolkit.store.interfaces_logs import Laid, ShippedLogs
from toolkit.store.wire_logs import pack

_NOTE, _LINK = ".json", ".log"
_NEVER = datetime.fromtimestamp(0, UTC)


def note(folder: Path, name: LogName) -> None:
    """Remember, on the disk, that the job's log is to be shipped.

    Raises:
        OSError: the disk is full, or worse.

    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = folder / f".{name.job_id}.draft"
    draft.write_text(json.dumps(asdict(name)), encoding="utf-8")
    draft.replace(folder / f"{name.job_id}{_NOTE}")


def noted(folder: Path) -> Iterator[LogName]:
    """Yield the logs that are to be shipped, those that were noted first coming first; what says nothing is removed."""
    for path in sorted(folder.glob(f"*{_NOTE}"), key=_written):
        try:
            fields = json.loads(path.read_bytes())
            yield LogName(
                ProjectName(str(fields["project"])),
                SpiderName(str(fields["spider"])),
                JobId(str(fields["job_id"])),
                NodeName(str(fields["node"])),
            )
        except (OSError, ValueError, TypeError, KeyError):
            path.unlink(missing_ok=True)


def _written(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


@dataclass(slots=True)
class Tail:
    """One log that is being shipped.

    `known` is what lies at the other end, as far as is known; `was_full` says that the last part found no room there,
    `problem` why the log could not be read.
    """

    name: LogName
    source: Path
    folder: Path
    known: ShippedLog | None = None
    due_at: float = 0.0
    is_linked: bool = False
    was_full: bool = False
    problem: str | None = None

    @property
    def link(self) -> Path:
        """The second name of the log, which Scrapyd does not know."""
        return self.folder / f"{self.name.job_id}{_LINK}"

    def begin_again(self) -> None:
        """Look for the log anew: the job was begun once more, and may have another file."""
        self.is_linked, self.due_at = False, 0.0

    def hold(self) -> None:
        """Give the log its second name as soon as it is there; where the disk cannot, its first one must do."""
        if self.is_linked:
            return
        try:
            if self.link.exists() and not self.link.samefile(self.source):
                self.link.unlink()
            if not self.link.exists():
                os.link(self.source, self.link, follow_symlinks=False)
            self.is_linked = True
        except OSError:
            # Not there yet, or gone already, or the file system knows no links: then `stand` finds what there is.
            return

    def stand(self) -> os.stat_result | None:
        """Return what the system says of the log; `None` when there is none, or it is no file."""
        for path in (self.link, self.source):
            with contextlib.suppress(OSError):
                status = path.lstat()
                return status if stat.S_ISREG(status.st_mode) else None
        return None

    def read(self, begin: int, length: int) -> bytes:
        """Return a run of the log's bytes; fewer where it was cut meanwhile.

        Raises:
            OSError: it cannot be read.

        """
        path = self.link if self.link.exists() else self.source
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            file.seek(begin)
            return file.read(length)

    def let_go(self) -> None:
        """Forget the log: it is shipped, or there is none."""
        self.link.unlink(missing_ok=True)
        (self.folder / f"{self.name.job_id}{_NOTE}").unlink(missing_ok=True)


class Carrier:
    """Brings logs to their place, step by step. `place` is `None` where that is Redis."""

    def __init__(self, settings: ShippingSettings, place: LogPlace | None) -> None:
        self._settings = settings
        self._place = place

    def step(self, tail: Tail, logs: ShippedLogs, *, has_ended: bool) -> int | None:
        """Ship the next part of a log; return how many bytes that were, `None` when nothing is left to do now.

        Of a log whose job has ended, `None` means that all of it is shipped, and that this is noted.

        Raises:
            StoreUnreachableError: Redis does not answer.
            OSError: the place does not take it.

        """
        status = tail.stand()
        if status is None:
            return None
        known = tail.known or self._look(tail, logs)
        shipment = next_shipment(known.parts, status.st_size, max_bytes=self._settings.max_bytes)
        if shipment is None:
            return self._conclude(tail, known, logs) if has_ended and not known.is_complete else None
        try:
            content = tail.read(shipment.part.begin, shipment.part.length)
        except OSError as error:
            tail.problem = error.strerror or str(error)
            return None
        tail.problem = None
        if len(content) != shipment.part.length:
            return 0  # It was cut just now: the next look sees its new size.
        log = replace(
            known,
            parts=shipment.applied(known.parts),
            written_at=datetime.fromtimestamp(status.st_mtime, UTC),
            is_complete=False,
            revision=known.revision + 1,
        )
        return self._carry(tail, log, shipment, content, logs)

    def _carry(self, tail: Tail, log: ShippedLog, shipment: Shipment, content: bytes, logs: ShippedLogs) -> int | None:
        job_id, terms = tail.name.job_id, self._settings.terms
        if self._place is None:
            laid = logs.lay(job_id, log, terms=terms, shipment=shipment, content=content)
        else:
            # First the bytes, then the word of them, then what nobody reads any more: whoever dies in between leaves
            # at most a part too many, which `keep_only` finds.
            self._place.put(tail.name, shipment.part, pack(content))
            laid = logs.lay(job_id, log, terms=terms)
            if laid is Laid.DONE:
                self._place.remove(tail.name, [part for part in shipment.gone if part.name != shipment.part.name])
        tail.known = log if laid is Laid.DONE else None
        tail.was_full = laid is Laid.FULL
        return None if tail.was_full else len(content)

    def _conclude(self, tail: Tail, known: ShippedLog, logs: ShippedLogs) -> int | None:
        if self._place is not None:
            self._place.keep_only(tail.name, known.parts)
        log = replace(known, is_complete=True, revision=known.revision + 1)
        laid = logs.lay(tail.name.job_id, log, terms=self._settings.terms)
        tail.known = log if laid is Laid.DONE else None
        return None if laid is Laid.DONE else 0

    def _look(self, tail: Tail, logs: ShippedLogs) -> ShippedLog:
        address = self._settings.address
        place = IN_REDIS if address is None else address.text
        known = next((each for each in logs.of_job(tail.name.job_id) if each.node == tail.name.node), None)
        if known is None:
            return ShippedLog(tail.name.node, place, (), _NEVER)
        # What was shipped elsewhere stays there unread: the whole log comes here.
        return known if known.place == place else replace(known, place=place, parts=())
