"""The nodes that a command works on, each with its client; the one place where a call goes to all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from toolkit.cluster.fanout import fan_out
from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.cluster.transport import UPLOAD_PATIENCE
from toolkit.model.errors import NodesFailedError, NodeUnauthorizedError, NothingReachableError
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName
from toolkit.model.outcomes import Outcome, Outcomes

T = TypeVar("T")


class Nodes:
    """Some of the inventory's nodes, in its order, with connections that are kept between calls."""

    def __init__(self, members: Sequence[ScrapydNode]) -> None:
        self._members = {node.name: node for node in members}

    @classmethod
    def of(cls, hosts: Iterable[Host]) -> Nodes:
        """Make the clients; nothing is sent yet."""
        return cls([ScrapydNode(host) for host in hosts])

    def __iter__(self) -> Iterator[ScrapydNode]:
        return iter(self._members.values())

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __getitem__(self, name: NodeName) -> ScrapydNode:
        return self._members[name]

    @property
    def names(self) -> tuple[NodeName, ...]:
        """The nodes' names, in order."""
        return tuple(self._members)

    def only(self, names: Iterable[NodeName]) -> Nodes:
        """Return those of the nodes that are named; the same clients serve them."""
        wanted = set(names)
        return Nodes([node for node in self if node.name in wanted])

    def ask(
        self,
        call: Callable[[ScrapydNode], T],
        *,
        on_done: Callable[[Outcome[T]], None] | None = None,
        calls: int = 1,
        waits_s: float = 0.0,
        finish_begun: bool = False,
    ) -> Outcomes[T]:
        """Make one call on every node at once and return an outcome each.

        `calls` is how many answers of the node the call waits for, each as long as the node's `timeout_s`, and
        `waits_s` how long it may sleep between them; both bound the whole.
        """
        return fan_out(
            tuple(self),
            call,
            deadline_s=lambda node: node.host.timeout_s * (UPLOAD_PATIENCE + calls) + waits_s,
            on_done=on_done,
            finish_begun=finish_begun,
        )

    def close(self) -> None:
        """Let go of all connections."""
        for node in self:
            node.close()


def require_any(outcomes: Outcomes[T], doing: str) -> None:
    """Go on only when at least one node did it.

    Raises:
        NothingReachableError: every node failed; the first one's reason is told.
        NodesFailedError: they were reached, and every one of them refused our credentials.

    """
    if outcomes.each and len(outcomes.failed) == len(outcomes):
        first = outcomes.failed[0].error
        more = f" (and {len(outcomes) - 1} more)" if len(outcomes) > 1 else ""
        if all(isinstance(outcome.error, NodeUnauthorizedError) for outcome in outcomes):
            raise NodesFailedError(f"{doing}: {first}{more}", hint="set username and password in the inventory")
        raise NothingReachableError(f"{doing}: no node could be reached: {first}{more}")
