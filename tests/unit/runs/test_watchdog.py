"""When a node counts as gone: after a lease of silence that somebody was awake to hear, and not before."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from toolkit.runs.watchdog import Silence, Step

LEASE_S, KILL_AFTER_S, LOOK_S = 15.0, 30.0, 1.0


def silence() -> Silence:
    return Silence(lease_s=LEASE_S, kill_after_s=KILL_AFTER_S, look_s=LOOK_S)


def steps(looks: Iterable[tuple[float | None, float]]) -> list[tuple[float, Step]]:
    """Return what is to be done, and when, at these looks: pairs of the sign of life and the time."""
    listener = silence()
    done = [(now, listener.look(heard, now)) for heard, now in looks]
    return [(now, step) for now, step in done if step is not Step.NOTHING]


def test_a_silent_node_is_given_a_lease_and_then_a_time_to_close_before_the_kill() -> None:
    looks = ((7.0, float(now)) for now in range(60))
    assert steps(looks) == [(15.0, Step.CLOSE), (45.0, Step.KILL)]


def test_a_node_that_never_spoke_is_given_a_lease_too() -> None:
    looks = ((None, float(now)) for now in range(20))
    assert steps(looks) == [(15.0, Step.CLOSE)]


def test_a_node_that_speaks_within_every_lease_is_never_gone() -> None:
    assert steps((float(now // 14), float(now)) for now in range(1000)) == []


def test_a_sign_of_life_counts_by_its_change_and_not_by_its_clock() -> None:
    assert steps((-float(now // 5), float(now)) for now in range(100)) == []


def test_a_sleep_of_the_whole_machine_is_not_the_nodes_silence() -> None:
    asleep = [(1.0, 0.0), (1.0, 1.0), (1.0, 10_000.0), (1.0, 10_001.0), (2.0, 10_002.0)]
    assert steps(asleep) == []


def test_sleeping_again_and_again_kills_nobody_before_many_looks() -> None:
    found = steps((1.0, float(100 * n)) for n in range(20))
    assert found == [(800.0, Step.CLOSE)], "eight looks, each for no more than two intervals"


def test_a_node_that_comes_back_while_the_spider_closes_saves_it_from_the_kill() -> None:
    looks = ((1.0 if now < 20 else float(now // 10), float(now)) for now in range(100))
    assert steps(looks) == [(15.0, Step.CLOSE)]


def test_a_node_that_comes_back_and_goes_again_is_given_a_lease_again() -> None:
    looks = ((1.0 if now < 20 else 2.0, float(now)) for now in range(70))
    assert steps(looks) == [(15.0, Step.CLOSE), (35.0, Step.CLOSE), (65.0, Step.KILL)]


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 100)), max_size=200))
def test_nobody_is_closed_without_a_lease_of_silence_or_killed_without_a_close(
    looks: list[tuple[bool, float]],
) -> None:
    listener, now, heard, silent_since, closed_at = silence(), 0.0, 0.0, 0.0, None
    for speaks, gap_s in looks:
        now += gap_s
        if speaks:
            heard, silent_since, closed_at = heard + 1, now, None
        step = listener.look(heard, now)
        if step is Step.CLOSE:
            assert closed_at is None
            assert now - silent_since >= LEASE_S
            closed_at = now
        if step is Step.KILL:
            assert closed_at is not None
            assert now - closed_at >= KILL_AFTER_S
            break
