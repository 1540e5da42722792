"""Logs that nodes have shipped, read where they lie (Redis, a folder, a bucket of S3), each byte at its old offset."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from toolkit.cluster.scrapyd import MAX_EXCERPT_BYTES, Excerpt
from toolkit.config.log_places import LogAddress, log_folder
from toolkit.model.errors import ConfigurationError, MissingExtraError, NotFoundError, NothingReachableError
from toolkit.model.jobs import Job
from toolkit.model.names import NodeName
from toolkit.model.shipped import IN_REDIS, LogName, LogPart, ShippedLog, part_at
from toolkit.store.interfaces import Shared
from toolkit.store.wire_logs import unpack

MAX_PACKED_BYTES = 1024 * 1024
"""A file that is larger is no packed part."""


class ShippedFiles:
    """One node's shipped log of one job, read as a node's own is (`NodeFiles`); what it says of it may grow."""

    def __init__(self, shared: Shared, job: Job, log: ShippedLog, *, address: LogAddress | None) -> None:
        self._shared = shared
        self._job = job
        self._log = log
        self._read = _reader(shared, job, log, address)
        self._last: tuple[LogPart, bytes] | None = None

    @property
    def log_there(self) -> ShippedLog:
        """What is known of the log."""
        return self._log

    @property
    def words(self) -> str:
        """Say where the log comes from, and how far it goes."""
        where = "Redis" if self._log.place == IN_REDIS else self._log.place
        end = "" if self._log.is_complete else f", up to {self._log.written_at:%Y-%m-%d %H:%M:%S} UTC"
        return f"{where}, shipped by {self._log.node}{end}"

    def log(self, *, begin: int = 0, most: int = MAX_EXCERPT_BYTES) -> Excerpt:
        """Return at most `most` bytes from `begin` on, or from where it goes on behind what was not kept.

        Raises:
            NotFoundError: it does not lie any more where it was brought.

        """
        self._look_again(begin)
        part = part_at(self._log.parts, begin)
        if part is None:
            return self._excerpt(b"", begin)
        content = self._content(part)
        if content is None:
            raise self._gone()
        skipped = max(0, begin - part.begin)
        return self._excerpt(content[skipped : skipped + most], part.begin + skipped)

    def log_end(self, *, most: int) -> Excerpt:
        """Return the last bytes, of what was kept without a gap.

        Raises:
            NotFoundError: as in `log`.

        """
        self._look_again(self._log.size_bytes)
        kept, begin = b"", self._log.size_bytes
        for part in reversed(self._log.parts):
            if part.end != begin or len(kept) >= most:
                break
            content = self._content(part)
            if content is None:
                raise self._gone()
            kept, begin = content + kept, part.begin
        kept = kept[-most:] if most else b""
        return self._excerpt(kept, self._log.size_bytes - len(kept))

    def _gone(self) -> NotFoundError:
        where = "Redis" if self._log.place == IN_REDIS else self._log.place
        return NotFoundError(
            f"the log of {self._job.id} was shipped to {where} by {self._log.node}, and is not there any more",
            hint="it is kept for ship_logs_days, or as long as the bucket's own rules say",
        )

    def _excerpt(self, content: bytes, begin: int) -> Excerpt:
        written = format_datetime(self._log.written_at, usegmt=True)
        return Excerpt(content, begin, self._log.size_bytes, written)

    def _look_again(self, begin: int) -> None:
        """See what came since, where somebody has read all there was."""
        if not self._log.is_complete and begin >= self._log.size_bytes:
            self._log = log_of(self._shared, self._job, self._log.node) or self._log

    def _content(self, part: LogPart) -> bytes | None:
        if self._last is None or self._last[0] != part:
            content = self._read(part)
            if content is None:
                # Laid anew meanwhile, together with what followed it, or gone altogether.
                self._log = log_of(self._shared, self._job, self._log.node) or self._log
                again = part_at(self._log.parts, part.begin)
                content = None if again is None or again.begin != part.begin else self._read(again)
                if again is None or content is None:
                    return None
                part = again
            self._last = (part, content)
        return self._last[1]


def log_of(shared: Shared, job: Job, node: NodeName | None) -> ShippedLog | None:
    """Return what was shipped of a job by a node; of any node, without a name, by the one that wrote last."""
    logs = [log for log in shared.logs.of_job(job.id) if node is None or log.node == node]
    return logs[-1] if logs else None


def shipped_files(
    shared: Shared, job: Job, *, node: NodeName | None = None, address: LogAddress | None = None
) -> ShippedFiles | None:
    """Return the shipped log of a job; `None` when none was shipped. `address` is where others than Redis are read.

    Raises:
        NotFoundError: it lies elsewhere, and `address` does not say how to get there.

    """
    log = log_of(shared, job, node)
    return None if log is None else ShippedFiles(shared, job, log, address=address)


def _reader(shared: Shared, job: Job, log: ShippedLog, address: LogAddress | None) -> Callable[[LogPart], bytes | None]:
    if log.place == IN_REDIS:
        return lambda part: shared.logs.read(job.id, log, part)
    # Where to look is the inventory's word alone: what nodes write into Redis must not lead an operator anywhere.
    if address is None or address.is_s3 != log.place.startswith("s3://"):
        why = f"the log of {job.id} was shipped to {log.place} by {log.node}, which the inventory does not name"
        raise NotFoundError(why, hint=f"write shipped_logs: {log.place} into the inventory (crawlctl docs logs)")
    folder = log_folder(LogName(job.project, job.spider, job.id, log.node))
    read = _s3_reader(address, folder) if address.is_s3 else _folder_reader(address, folder)

    def unpacked(part: LogPart) -> bytes | None:
        packed = read(part)
        return None if packed is None else unpack(packed, part)

    return unpacked


def _folder_reader(address: LogAddress, folder: str) -> Callable[[LogPart], bytes | None]:
    root = Path(address.text)
    if not root.is_dir():
        raise NotFoundError(f"there is no folder {root}, which the inventory names as shipped_logs")

    def read(part: LogPart) -> bytes | None:
        try:
            with (root / folder / part.name).open("rb") as file:
                return file.read(MAX_PACKED_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise NothingReachableError(f"the shipped log in {root} cannot be read: {error.strerror}") from error

    return read


def _s3_reader(address: LogAddress, folder: str) -> Callable[[LogPart], bytes | None]:
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - an extra, and heavy
        from obstore.store import S3Store  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise MissingExtraError("obstore, which reads logs that were shipped to S3,", "s3") from error

    def asked(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except FileNotFoundError:
            return None
        except BaseError as error:
            why = " ".join(str(error).split())[:300]
            raise NothingReachableError(f"the shipped log in {address.text} cannot be read: {why}") from error

    try:
        bucket: Any = asked(lambda: S3Store(address.bucket, **address.client_options()))
    except NothingReachableError as error:
        raise ConfigurationError(error.message) from error
    return lambda part: asked(lambda: bytes(bucket.get(f"{address.prefix}{folder}/{part.name}").bytes()))
