"""Which signal a process gets when, and what becomes of all of them when Scrapyd is stopped."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolkit.node.stopping import (
    FORCED_GRACE_S,
    MIN_GRACE_S,
    STOP_GRACE_S,
    OnStop,
    Step,
    Stopping,
    closing,
    takes_all_with_it,
)

TIMES = st.floats(0, 1e6)


def test_it_is_asked_then_told_then_killed() -> None:
    assert Stopping(100.0, 30.0).steps() == (
        (100.0, Step.ASK),
        (130.0, Step.INSIST),
        (130.0 + FORCED_GRACE_S, Step.KILL),
    )


def test_without_grace_it_is_told_at_once_but_not_with_the_same_signal() -> None:
    assert Stopping(100.0, 0.0).steps()[1] == (100.0 + MIN_GRACE_S, Step.INSIST)


@given(TIMES, TIMES, TIMES, TIMES)
@example(0.0, 0.25, 0.125, 0.0)
def test_asking_again_can_only_hurry_it(since: float, grace_s: float, later: float, other_grace_s: float) -> None:
    first, second = Stopping(since, grace_s), Stopping(since + later, other_grace_s)
    both = first.sooner(second)

    assert both.steps()[-1][0] <= first.steps()[-1][0]
    assert both.sooner(first) == both


def test_the_next_step_is_the_first_that_is_not_done() -> None:
    way = Stopping(0.0, 1.0)

    assert way.due(frozenset()) == (0.0, Step.ASK)
    assert way.due(frozenset({Step.ASK})) == (1.0, Step.INSIST)
    assert way.due(frozenset(Step)) is None


@given(TIMES, st.floats(1, 1e6))
def test_within_a_limit_it_is_told_before_the_limit_and_killed_at_it(since: float, limit_s: float) -> None:
    (asked_at, _), (told_at, _), (killed_at, _) = Stopping.within(since, limit_s).steps()

    assert asked_at == since
    assert killed_at == pytest.approx(since + limit_s)
    assert since + 0.7 * limit_s <= told_at < killed_at


@pytest.mark.parametrize(
    ("on_stop", "limit_s", "asked"),
    [
        (OnStop.LEAVE, None, None),
        (OnStop.LEAVE, 60.0, None),
        (OnStop.CLOSE, None, (0.0, STOP_GRACE_S)),
        (OnStop.CLOSE, 60.0, (0.0, 60.0)),
        (OnStop.DRAIN, None, None),
        (OnStop.DRAIN, 3590.0, (3560.0, 30.0)),
        (OnStop.DRAIN, 20.0, (0.0, 20.0)),
    ],
)
def test_spiders_are_closed_at_once_or_before_the_limit_of_a_drain_or_never(
    on_stop: OnStop, limit_s: float | None, asked: tuple[float, float] | None
) -> None:
    assert closing(on_stop, limit_s) == asked


@pytest.mark.parametrize(
    ("pid", "parent", "process_1", "is_so"),
    [
        (1, 0, "scrapyd", True),
        (7, 1, "docker-init", True),
        (7, 1, "tini", True),
        (7, 1, "systemd", False),
        (7, 1, "init", False),
        (7, 6, "docker-init", False),
        (7, 6, "", False),
    ],
)
def test_all_ends_with_process_1_of_a_container_and_nothing_with_a_service(
    pid: int, parent: int, process_1: str, *, is_so: bool
) -> None:
    assert takes_all_with_it(pid, parent, process_1) is is_so
