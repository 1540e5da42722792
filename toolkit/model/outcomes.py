"""What a call over many nodes returns: one outcome a node, never an exception for one node's failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from toolkit.model.errors import CrawlctlError
from toolkit.model.names import NodeName

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """The result on one node: a value, or the error that took its place; `seconds` is how long it took."""

    node: NodeName
    value: T | None = None
    error: CrawlctlError | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """The call did what was asked on this node."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class Outcomes(Generic[T]):
    """The outcome on each node, in the order in which the nodes were named."""

    each: tuple[Outcome[T], ...]

    def __iter__(self) -> Iterator[Outcome[T]]:
        return iter(self.each)

    def __len__(self) -> int:
        return len(self.each)

    @property
    def failed(self) -> tuple[Outcome[T], ...]:
        """The nodes on which it did not work."""
        return tuple(outcome for outcome in self.each if not outcome.ok)

    @property
    def values(self) -> dict[NodeName, T]:
        """The values of the nodes on which it worked."""
        return {outcome.node: outcome.value for outcome in self.each if outcome.ok and outcome.value is not None}
