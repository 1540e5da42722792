"""How often a node takes its turn at a duty."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolkit.duties import deliver, expire, judge, requeue, watch

CHANCES = st.floats(0, 1)
NODES = st.integers(0, 5000)


@given(NODES, st.floats(1, 3600), CHANCES)
def test_a_node_looks_for_lost_jobs_often_enough_to_keep_the_grace_from_beginning(
    live_nodes: int, lease_s: float, chance: float
) -> None:
    # The queue takes a silence of 0.6 leases for an outage, and then waits a whole lease more.
    assert 0 < requeue.interval_s(live_nodes=live_nodes, lease_s=lease_s, chance=chance) < 0.6 * lease_s


@given(st.integers(1, 20), CHANCES)
def test_a_dead_nodes_jobs_wait_less_than_two_seconds_beyond_the_lease(live_nodes: int, chance: float) -> None:
    survivors = max(1, live_nodes - 1)
    turn_s = requeue.interval_s(live_nodes=live_nodes, lease_s=15, chance=chance)

    assert turn_s / survivors < 1


def test_more_nodes_each_look_less_often() -> None:
    turns = [requeue.interval_s(live_nodes=n, lease_s=15, chance=0.5) for n in (1, 10, 1000)]

    assert turns == [0.5, 1.0, 5.0]


@given(NODES, CHANCES)
def test_a_cluster_forgets_about_once_a_minute_and_each_node_at_least_once_in_some_hours(
    live_nodes: int, chance: float
) -> None:
    turn_s = expire.interval_s(live_nodes=live_nodes, chance=chance)

    assert 45 <= turn_s <= 1.25 * 3600


def test_turns_differ_by_chance() -> None:
    assert expire.interval_s(live_nodes=1, chance=0) < expire.interval_s(live_nodes=1, chance=1)
    assert requeue.interval_s(live_nodes=9, lease_s=15, chance=0) < requeue.interval_s(
        live_nodes=9, lease_s=15, chance=1
    )


@given(NODES, st.floats(1, 3600), CHANCES)
def test_some_node_looks_at_the_cluster_soon_after_the_last_look_is_old(
    live_nodes: int, lease_s: float, chance: float
) -> None:
    turn_s = watch.interval_s(live_nodes=live_nodes, lease_s=lease_s, chance=chance)

    assert turn_s / max(1, live_nodes) < 2


def test_a_lost_node_is_seen_between_its_silence_and_its_lease_also_when_that_is_short() -> None:
    assert [watch.every_s(lease_s) for lease_s in (1, 15)] == [0.25, 2.0]


@given(st.integers(1, 300), CHANCES)
def test_a_sink_whose_teller_died_has_another_soon_and_a_crowd_does_not_ask_for_it_all_the_time(
    live_nodes: int, chance: float
) -> None:
    turn_s = deliver.interval_s(live_nodes=live_nodes, chance=chance)
    assert turn_s / live_nodes < 2
    assert live_nodes / turn_s < 14
    assert judge.interval_s(live_nodes=live_nodes, chance=chance) >= judge.EVERY_S * 0.3
