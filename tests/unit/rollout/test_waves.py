"""How nodes are cut into waves, and what the options about them may say."""

from __future__ import annotations

import pytest

from toolkit.model.errors import UsageError
from toolkit.model.names import NodeName
from toolkit.model.rollouts import Allowance
from toolkit.rollout.waves import cut, parse_allowance, parse_waves


def names(count: int) -> list[NodeName]:
    return [NodeName(f"n{number}") for number in range(1, count + 1)]


def sizes(count: int, *, canary: int = 0, shares: tuple[float, ...] = (100,), lost: int = 0) -> list[int]:
    """Return how many nodes each wave has, the first `lost` ones of which are lost."""
    waves = cut(names(count), canary=canary, shares=shares, lost=set(names(lost)))
    assert sorted(name for wave in waves for name in wave) == sorted(names(count))
    return [len(wave) for wave in waves]


def test_waves_are_the_canary_and_growing_shares_of_the_rest() -> None:
    assert sizes(101, canary=1, shares=(10, 50, 100)) == [1, 10, 40, 50]
    assert sizes(100, shares=(10, 50, 100)) == [10, 40, 50]
    assert sizes(1000, canary=2, shares=(0.1, 100)) == [2, 1, 997]
    assert sizes(5) == [5]


def test_few_nodes_make_fewer_waves_and_never_an_empty_one() -> None:
    assert sizes(3, canary=1, shares=(10, 50, 100)) == [1, 1, 1]
    assert sizes(2, shares=(10, 50, 100)) == [1, 1]
    assert sizes(1, canary=1, shares=(10, 50, 100)) == [1]
    assert sizes(2, canary=5, shares=(50, 100)) == [2]
    assert sizes(0, canary=1) == []


def test_waves_follow_the_order_of_the_inventory_and_end_with_the_lost() -> None:
    n1, n2, n3, n4 = names(4)
    assert cut([n3, n1, n4, n2], canary=1, shares=(50, 100), lost={n3}) == ((n1,), (n4,), (n2, n3))


def test_nothing_is_learnt_from_lost_nodes_so_they_are_no_canary() -> None:
    assert sizes(4, canary=1, shares=(100,), lost=3) == [4]
    assert sizes(3, canary=1, shares=(50, 100), lost=3) == [3]


def test_shares_are_read_as_they_are_written() -> None:
    assert parse_waves("10%,50%,100%") == (10, 50, 100)
    assert parse_waves(" 0.5% , 100% ") == (0.5, 100)
    assert parse_waves("100%") == (100,)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10,50,100", "'10' is no percentage"),
        ("", "'' is no percentage"),
        ("10%,,100%", "'' is no percentage"),
        ("ten%,100%", "'ten%' is no percentage"),
        ("-10%,100%", "'-10%' is no percentage"),
        ("50%,50%,100%", "50% adds nothing to 50%"),
        ("50%,10%,100%", "10% adds nothing to 50%"),
        ("0%,100%", "a wave of 0% is none"),
        ("10%,50%", "leave nodes without the release"),
        ("10%,150%", "more than there is"),
    ],
)
def test_waves_that_cannot_be_are_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        parse_waves(text)
    assert "10%,50%,100%" in str(caught.value.hint)


def test_failures_are_allowed_by_number_or_by_share_of_those_tried() -> None:
    one, share = parse_allowance("1"), parse_allowance("5%")
    assert (one, share) == (Allowance(1), Allowance(percent=5))
    assert [one.allows(failed, tried=10) for failed in (0, 1, 2)] == [True, True, False]
    assert [share.allows(failed, tried=40) for failed in (0, 2, 3)] == [True, True, False]
    assert not share.allows(1, tried=1)
    assert (str(one), str(share)) == ("1", "5%")


@pytest.mark.parametrize("text", ["", "-1", "many", "5 %", "100%", "1.5", "nan"])
def test_an_allowance_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_allowance(text)
