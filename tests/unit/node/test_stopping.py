"""Which signal a process gets when."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from toolkit.node.stopping import FORCED_GRACE_S, MIN_GRACE_S, Step, Stopping

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
