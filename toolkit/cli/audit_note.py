"""What a command says of itself for the audit while it is at work; `auditing.py` writes it down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from toolkit.model.errors import CrawlctlError

MAX_NODES = 1000


@dataclass(frozen=True, slots=True)
class Told:
    """What a command said of itself: what it is done to, on which nodes, and one line more."""

    subject: str = ""
    nodes: tuple[str, ...] = ()
    detail: str | None = None


@dataclass(slots=True)
class AuditNote:
    """One command's entry while it is not written yet; without anything `told` it may not have come to its work."""

    action: str
    told: Told | None = None
    error: CrawlctlError | None = None
    is_unwanted: bool = False

    def tell(self, *, subject: str | None, nodes: Iterable[str] | None, detail: str | None) -> None:
        """Keep what was said; what is not said again stays."""
        told = self.told or Told()
        self.told = replace(
            told,
            subject=told.subject if subject is None else subject,
            nodes=told.nodes if nodes is None else tuple(nodes)[:MAX_NODES],
            detail=told.detail if detail is None else detail,
        )
