"""When a node looks for crons that are due, and what it tells of what it fired."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from support.stores import SHOP, V1, a_release

from toolkit.duties import fire
from toolkit.model.crons import Cron, Due, Firing, FiringState, Proposal, Taken, TakenCrons, Trigger
from toolkit.model.errors import StoreUnreachableError
from toolkit.model.names import SpiderName
from toolkit.node.firing import Firing as Turns
from toolkit.node.machine import Machine

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOURLY = Cron("hourly", SpiderName("books"), at="@hourly")


def test_a_node_looks_when_the_next_firing_is_due_and_now_and_then_all_the_same() -> None:
    assert fire.interval_s(0.5, live_nodes=1, chance=1.0) == 0.5
    assert fire.interval_s(-3.0, live_nodes=1, chance=0.5) == 0.0
    for unknown in (None, 3600.0):
        waits = [fire.interval_s(unknown, live_nodes=10, chance=chance) for chance in (0.0, 1.0)]
        assert waits == [7.5, 12.5]


def test_many_nodes_do_not_come_at_once_and_the_first_of_them_is_early() -> None:
    assert fire.spread_s(live_nodes=1, chance=1.0) == 0.0
    assert fire.spread_s(live_nodes=1000, chance=1.0) == fire.MAX_SPREAD_S
    assert fire.spread_s(live_nodes=1000, chance=0.001) < 0.001


class Store:
    """What a node sees of a store in which one cron may be due."""

    def __init__(self, *due: Taken, next_in_s: float | None = None) -> None:
        self.due = due
        self.next_in_s = next_in_s
        self.committed: list[Proposal] = []
        self.is_away = False
        self.shared = SimpleNamespace(crons=self)
        self.releases = SimpleNamespace(actives=lambda: {SHOP: a_release(V1)})

    def take(self, **_: Any) -> TakenCrons:
        if self.is_away:
            raise StoreUnreachableError("away")
        return TakenCrons(NOON, self.due, self.next_in_s)

    def commit(self, proposals: list[Proposal]) -> list[Firing | None]:
        self.committed += proposals
        return [Firing(each.taken.cron.name, NOON, NOON, FiringState.FIRED, each.by) for each in proposals] + [None]


def test_what_is_due_is_fired_and_the_next_look_is_at_once() -> None:
    store: Any = Store(Taken(HOURLY, "r", Trigger(NOON), due=Due(NOON, NOON)))
    fired = fire.fire(store, by="node-1")
    assert [firing.cron for firing in fired.firings] == ["hourly"]
    assert [(each.by, len(each.jobs)) for each in store.committed] == [("node-1", 1)]
    assert fired.next_in_s == 0.0


def test_a_node_remembers_when_the_next_is_due_until_a_look_fails() -> None:
    turns, store = Turns("node-1", Machine()), Store(next_in_s=2.0)
    anything: Any = store
    assert 0.5 <= turns.wait_s(live_nodes=1, chance=0.5) <= 1.0
    turns.take(anything)
    assert 1.0 < turns.wait_s(live_nodes=1, chance=0.5) <= 2.0
    store.is_away = True
    with pytest.raises(StoreUnreachableError):
        turns.take(anything)
    assert 0.5 <= turns.wait_s(live_nodes=1, chance=0.5) <= 1.0


def test_a_store_without_crons_is_as_good_as_away() -> None:
    nothing: Any = SimpleNamespace(shared=None)
    with pytest.raises(StoreUnreachableError):
        fire.fire(nothing, by="node-1")
