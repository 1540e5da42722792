"""What is asked of nodes, and how the answers look on their way: a head as JSON in the first piece, then raw bytes."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from toolkit.model.calls import Redialled
from toolkit.store.envelope import read, write

LOG, ITEMS, SOFTWARE, REDIAL = "log", "items", "software", "redial"
"""The questions. `log`, `items`: a part of a job's file. `software`: what is installed. `redial`: a new address."""


@dataclass(frozen=True, slots=True)
class FileHead:
    """What precedes a part of a file: its first byte's position, the file's whole size; `None` where there is none."""

    begins_at: int
    size: int | None
    written_at: str | None = None


def write_head(head: FileHead) -> bytes:
    """Return the head as JSON."""
    return write(asdict(head)).encode()


def read_head(piece: bytes) -> FileHead:
    """Return the head that the JSON describes.

    Raises:
        StoreUnreadableError: it is none, or of a newer format.

    """
    fields = read(piece, "node's answer")
    return FileHead(fields.whole("begins_at"), fields.maybe_whole("size"), fields.maybe_text("written_at"))


def write_redialled(redialled: Redialled) -> bytes:
    """Return what became of a redial as JSON."""
    return write(asdict(redialled)).encode()


def read_redialled(piece: bytes) -> Redialled:
    """Return what became of a redial.

    Raises:
        StoreUnreadableError: it is none, or of a newer format.

    """
    fields = read(piece, "node's answer")
    return Redialled(
        old=fields.maybe_text("old"),
        new=fields.maybe_text("new"),
        seconds=fields.number("seconds"),
        why=fields.maybe_text("why"),
        again_s=fields.maybe_number("again_s"),
    )
