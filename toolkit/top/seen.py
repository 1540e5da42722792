"""What one look at a cluster has shown: all that the screens draw from. A value; nothing here reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from toolkit.cluster.board import BoardView
from toolkit.cluster.node_life import NodeRow
from toolkit.cluster.rates import Rates
from toolkit.model.crawls import CrawlView
from toolkit.model.events import Event
from toolkit.model.snapshot import Attention
from toolkit.top.columns import Column, Sorting

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Seen:
    """The cluster after a look. `events` are the newest, newest first; `history` is the cluster's speed, oldest first.

    `crawls` are those of the last look at them, `None` before the first.
    """

    at: datetime
    board: BoardView
    nodes: Sequence[NodeRow] = ()
    attention: Sequence[Attention] = ()
    crawls: Sequence[CrawlView] | None = None
    events: Sequence[Event] = ()
    history: Sequence[Rates] = ()
    has_queue: bool = True


@dataclass(frozen=True, slots=True)
class Tab(Generic[Row]):
    """One of the tables: its name on the screen, its columns, and what it makes of a look.

    `texts` are what a filter looks at. `empty` is said where there is no row.
    """

    name: str
    columns: Sequence[Column[Row]]
    sorting: Sorting
    rows: Callable[[Seen], Sequence[Row]]
    key: Callable[[Row], str]
    texts: Callable[[Row], Sequence[object]]
    empty: str = "none"
    empty_without_queue: str = field(default="")
