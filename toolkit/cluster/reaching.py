"""Which way leads to a node's files: HTTP where it is reached, else the store, by which a plug-in node hears of us."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

from toolkit.cluster.called import PATIENCE_S, CalledNode
from toolkit.cluster.membership import TAKERS, registered
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import MAX_EXCERPT_BYTES, Excerpt, ScrapydNode
from toolkit.model.errors import NodeTimeoutError, NodeUnreachableError, NotFoundError, StoreUnreachableError
from toolkit.model.hosts import Host
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.model.snapshot import NodeState
from toolkit.store.interfaces import Store

PROBE_S = 1.0
"""How long a node that can be asked through the store too may take to accept a connection."""

T = TypeVar("T")


class NodeFiles(Protocol):
    """A node's logs and items, whichever way leads there; `ScrapydNode` and `CalledNode` are ways."""

    @property
    def name(self) -> NodeName:
        """The node's name."""

    def state_of(self, job_id: JobId) -> JobState | None:
        """Return the job's state; `None` when it is not known (any more)."""

    def log(self, job: Job, *, begin: int = 0, most: int = MAX_EXCERPT_BYTES) -> Excerpt | None:
        """Return a part of the job's log; `None` when there is none (yet)."""

    def log_end(self, job: Job, *, most: int) -> Excerpt | None:
        """Return the last bytes of the job's log; `None` when there is none (yet)."""

    def items(self, job: Job, *, begin: int = 0) -> Excerpt | None:
        """Return a part of the job's items; `None` when the node keeps none."""


class Way(StrEnum):
    """How a node is to be asked: by HTTP alone, through the store alone, or by HTTP if it takes a connection."""

    HTTP = "http"
    STORE = "store"
    EITHER = "either"


def way_to(host: Host | None, record: NodeRecord | None) -> Way | None:
    """Decide by what is known; `None` where no way leads there. Pure.

    A node that listens on its own machine only, or is no host of the inventory, is not tried by HTTP. Behind https lies
    a proxy, which may be on that machine.
    """
    answers = record is not None and record.state in TAKERS | {NodeState.DRAINING}
    if host is None:
        return Way.STORE if answers else None
    if record is None or not answers:
        return Way.HTTP
    listens_here_only = _is_loopback(record.report.address.rpartition(":")[0])
    if listens_here_only and not _is_loopback(host.address) and host.scheme == "http":
        return Way.STORE
    return Way.EITHER


def reach(
    nodes: Nodes,
    name: NodeName,
    open_store: Callable[[], Store],
    *,
    say: Callable[[str], None],
    is_open: Callable[[Host], bool] | None = None,
    patience_s: float = PATIENCE_S,
    records_of: Callable[[Store], Sequence[NodeRecord]] = registered,
) -> NodeFiles:
    """Return the way to a node's files. `say` hears once when it is not HTTP though the inventory has the node.

    Without the store, HTTP is all there is. `patience_s` is how long the node may take to answer through the store;
    `records_of` gives what the registry holds, for who asks of many nodes.

    Raises:
        NotFoundError: the inventory does not have the node, and it is not live in the registry either.

    """
    http = next((node for node in nodes if node.name == name), None)
    called, record = _called(name, open_store, patience_s, records_of)
    way = way_to(http.host if http else None, record)
    if way is None:
        raise _out_of_reach(name, record)
    if way is Way.EITHER and http is not None and not (is_open or takes_connections)(http.host):
        way = Way.STORE
    if way is Way.STORE and called is not None:
        if http is not None:
            say(_detour(name))
        return called
    if way is Way.EITHER and http is not None and called is not None:
        return _EitherWay(http, called, say)
    if http is None:
        raise _out_of_reach(name, record)
    return http


def takes_connections(host: Host, *, within_s: float = PROBE_S) -> bool:
    """Tell whether something there accepts a connection within that time, the look-up of its name included."""
    accepted = threading.Event()

    def connect() -> None:
        with contextlib.suppress(OSError), socket.create_connection((host.address, host.port), timeout=within_s):
            accepted.set()

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(within_s)
    return accepted.is_set()


class _EitherWay:
    """Asks by HTTP until that fails, and from then on through the store."""

    def __init__(self, http: ScrapydNode, called: CalledNode, say: Callable[[str], None]) -> None:
        self._http = http
        self._called = called
        self._say = say
        self._is_reached = True

    @property
    def name(self) -> NodeName:
        """The node's name."""
        return self._http.name

    def state_of(self, job_id: JobId) -> JobState | None:
        """See `NodeFiles`."""
        return self._ask(lambda node: node.state_of(job_id))

    def log(self, job: Job, *, begin: int = 0, most: int = MAX_EXCERPT_BYTES) -> Excerpt | None:
        """See `NodeFiles`."""
        return self._ask(lambda node: node.log(job, begin=begin, most=most))

    def log_end(self, job: Job, *, most: int) -> Excerpt | None:
        """See `NodeFiles`."""
        return self._ask(lambda node: node.log_end(job, most=most))

    def items(self, job: Job, *, begin: int = 0) -> Excerpt | None:
        """See `NodeFiles`."""
        return self._ask(lambda node: node.items(job, begin=begin))

    def _ask(self, call: Callable[[NodeFiles], T]) -> T:
        if self._is_reached:
            try:
                return call(self._http)
            except (NodeUnreachableError, NodeTimeoutError):
                self._is_reached = False
                self._say(_detour(self.name))
        return call(self._called)


def _called(
    name: NodeName,
    open_store: Callable[[], Store],
    patience_s: float,
    records_of: Callable[[Store], Sequence[NodeRecord]],
) -> tuple[CalledNode | None, NodeRecord | None]:
    try:
        store = open_store()
        record = next((each for each in records_of(store) if each.name == name), None)
    except StoreUnreachableError:
        return None, None
    if record is None or store.shared is None:
        return None, None
    return CalledNode(record, store.shared.calls, store.jobs, patience_s=patience_s), record


def _detour(name: NodeName) -> str:
    return f"{name} is not reached by HTTP; through Redis"


def _out_of_reach(name: NodeName, record: NodeRecord | None) -> NotFoundError:
    heard = "" if record is None else f", and was last heard of {record.age_s:.0f} s ago"
    return NotFoundError(
        f"the job's node, {name}, is not in the inventory{heard}",
        hint="logs and items stay on the node that ran the job; crawlctl nodes list shows those that are known",
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
