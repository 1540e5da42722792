"""Questions to plug-in nodes through the store: for nodes without inbound connections. `redis_calls.py` keeps it.

A question names what is wanted and its arguments as texts; an answer is a row of byte pieces and an end. A node asks
for its questions when it is woken; what nobody fetched in time expires by itself. Nothing is answered twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from toolkit.model.calls import Heard, Question, RedialPlace
from toolkit.model.names import NodeName

MAX_PIECE_BYTES = 64_000
MAX_WAITING_PIECES = 64
"""How many pieces of an answer may wait for who asked, before the node waits too; what is asked for stays bounded."""

MAX_WAITING_QUESTIONS = 100
"""How many questions may wait for one node."""


class NodeCalls(Protocol):
    """Questions and their answers. Any thread may call; every method may raise `StoreUnreachableError`."""

    def ask(
        self, node: NodeName, what: str, args: Mapping[str, str], *, timeout_s: float, silence_s: float
    ) -> Iterator[bytes]:
        """Ask a node and yield its answer piece by piece; closing the iterator early tells the node to stop.

        It is asked when the first piece is wanted. Empty pieces, which say that more will come, are not yielded. Who
        takes no piece for longer than `silence_s` is as good as gone: the node stops.

        Raises:
            NodeTimeoutError: no answer began within `timeout_s`, or it paused for longer than `silence_s`.
            NodeRefusedError: the node says that it cannot, and why; or too many questions wait for it.

        """

    def questions(self, node: NodeName, *, most: int = MAX_WAITING_QUESTIONS) -> Sequence[Question]:
        """Take the oldest questions that wait for a node; each is given out once. The node's side."""

    def answer(self, question: Question, piece: bytes) -> Heard:
        """Append a piece of at most 64 kB; what becomes of it is told."""

    def end(self, question: Question, *, refusal: str | None = None) -> None:
        """End the answer, well or with the reason why there is none."""


class Redials(Protocol):
    """Never more than a share of the nodes changes its address at once. A place is free again when its term is over."""

    def begin(self, node: NodeName, *, share: float, term_s: float) -> RedialPlace:
        """Take a place for at most `term_s`, if fewer than this share of the live nodes has one; one may always.

        The same node again keeps its place, for a new term.
        """

    def end(self, node: NodeName) -> None:
        """Give the place back; none is none."""
