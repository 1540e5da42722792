"""A range in a name stands for the names that it says, and nothing else."""

from __future__ import annotations

from string import ascii_lowercase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.config.inventory.ranges import MAX_NAMES, expand
from toolkit.model.errors import ConfigurationError

names = st.from_regex(r"[a-z][a-z0-9_.-]{0,8}", fullmatch=True)


@settings(deadline=None)
@given(names, st.integers(0, 5000), st.integers(0, 300))
def test_a_range_of_numbers_gives_each_once_in_order(prefix: str, first: int, more: int) -> None:
    found = expand(f"{prefix}[{first}:{first + more}].example.com")
    assert found == tuple(f"{prefix}{number}.example.com" for number in range(first, first + more + 1))


@settings(deadline=None)
@given(names, st.integers(0, 99), st.integers(0, 99))
def test_leading_zeros_keep_the_width(prefix: str, one: int, other: int) -> None:
    low, high = sorted((one, other))
    found = expand(f"{prefix}[{low:03}:{high:03}]")
    assert len({len(name) for name in found}) == 1
    assert [int(name.removeprefix(prefix)) for name in found] == list(range(low, high + 1))


@settings(deadline=None)
@given(st.sampled_from(ascii_lowercase), st.sampled_from(ascii_lowercase))
def test_letters_count_as_numbers_do(one: str, other: str) -> None:
    first, last = sorted((one, other))
    found = expand(f"node-[{first}:{last}]")
    assert found[0] == f"node-{first}"
    assert found[-1] == f"node-{last}"
    assert list(found) == sorted(set(found))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), min_size=1, max_size=3))
def test_several_ranges_give_every_combination_once(spans: list[tuple[int, int]]) -> None:
    found = expand("x" + "-".join(f"[{low}:{low + more}]" for low, more in spans))
    assert len(found) == len(set(found))
    count = 1
    for _, more in spans:
        count *= more + 1
    assert len(found) == count


@settings(deadline=None)
@given(names)
def test_a_name_without_a_range_is_itself(name: str) -> None:
    assert expand(name) == (name,)


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_gives_names_or_one_clear_refusal(text: str) -> None:
    try:
        outcome: tuple[str, ...] | str = expand(text)
    except ConfigurationError as error:
        outcome = error.message
    assert 0 < len(outcome) <= MAX_NAMES


def test_the_rightmost_range_counts_fastest() -> None:
    assert expand("[a:b]-[1:2]") == ("a-1", "a-2", "b-1", "b-2")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("node-[3:1]", "range [3:1] runs backwards: write [1:3]"),
        ("node-[f:a]", "range [f:a] runs backwards: write [a:f]"),
        ("node-[1-3]", "[1-3] is no range"),
        ("node-[a:F]", "[a:F] is no range"),
        ("node-[1:3", "a bracket without its partner"),
        ("node-1]", "a bracket without its partner"),
        ("node-[01:100]", "differ in length"),
        ("node-[1:999999999]", "stands for more than 10000 names"),
        ("node-[1:200][1:200]", "stands for more than 10000 names"),
        ("-node", "'-node' is no name"),
        ("@node", "'@node' is no name"),
        ("..", "'..' is no name"),
        ("a/b", "'a/b' is no name"),
        ("", "'' is no name"),
        ("n" * 201, "is no name"),
    ],
)
def test_a_bad_name_is_refused_with_the_reason(name: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        expand(name)
    assert words in str(caught.value)
