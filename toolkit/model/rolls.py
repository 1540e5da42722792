"""What a change that rolls through hosts did on each of them."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.errors import CrawlctlError
from toolkit.model.names import NodeName

DONE, NOT_BEGUN = "done", "not begun"


@dataclass(frozen=True, slots=True)
class Rolled:
    """What became of one host; `step` is the last that it came to, `not begun` where the roll had stopped before."""

    host: NodeName
    step: str
    seconds: float = 0.0
    note: str | None = None
    error: CrawlctlError | None = None

    @property
    def ok(self) -> bool:
        """The change was made, and the node is as it should be."""
        return self.step == DONE
