"""What the options of a deploy in waves mean together, and which words are refused before anything is built."""

from __future__ import annotations

import pytest

from toolkit.cli.waves import WaveWishes
from toolkit.model.errors import UsageError
from toolkit.model.rollouts import Allowance, GateRules, SmokeCheck

SPIDERS = ("products", "prices")


def test_without_any_word_there_are_no_waves() -> None:
    assert not WaveWishes().are_any
    WaveWishes().refuse_mixture(keep_going=True)


@pytest.mark.parametrize(
    ("wishes", "keep_going", "why"),
    [
        (WaveWishes(waves="10%,50%"), False, "the last one must be 100%"),
        (WaveWishes(max_failures="lots"), False, "no number of nodes"),
        (WaveWishes(pause="1m"), False, "there is one only"),
        (WaveWishes(canary=1, pause="soon"), False, "no span of time"),
        (WaveWishes(canary=1), True, "--keep-going has no meaning in waves"),
        (WaveWishes(canary=1, check_items=2), False, "say how to check"),
        (WaveWishes(check="products", check_timeout="long"), False, "no span of time"),
    ],
)
def test_words_that_make_no_waves_are_refused(wishes: WaveWishes, keep_going: bool, why: str) -> None:  # noqa: FBT001
    with pytest.raises(UsageError, match=why):
        wishes.refuse_mixture(keep_going=keep_going)


def test_a_check_names_a_spider_of_the_release() -> None:
    wishes = WaveWishes(check="none")
    wishes.refuse_mixture(keep_going=False)
    with pytest.raises(UsageError, match="no spider 'none'") as caught:
        wishes.rules(SPIDERS)
    assert "prices, products" in str(caught.value.hint)


def test_the_words_become_the_rules_of_the_gate() -> None:
    wishes = WaveWishes(1, "50%,100%", "2m", "5%", "products", "90s", 0, hold=True)
    wishes.refuse_mixture(keep_going=False)
    check = SmokeCheck(SPIDERS[0], 90.0, 0)  # type: ignore[arg-type]
    assert wishes.rules(SPIDERS) == GateRules(Allowance(percent=5), check, 120.0, holds=True)
    assert wishes.shares == (50, 100)
    assert WaveWishes(check="products").rules(SPIDERS).check == SmokeCheck(SPIDERS[0], 600.0, 1)  # type: ignore[arg-type]
    assert WaveWishes(canary=1).shares == (100,)
