"""Patterns are algebra on sets of hosts, in the inventory's order."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.config.inventory.patterns import pick
from toolkit.model.errors import NotFoundError, UsageError
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName

HOSTS = tuple(
    Host(name=NodeName(f"node-{number}"), labels={"region": "eu" if number < 5 else "us", "parity": str(number % 2)})
    for number in range(1, 9)
)
GROUPS = {
    "eu": tuple(NodeName(f"node-{number}") for number in (1, 2, 3, 4)),
    "us": tuple(NodeName(f"node-{number}") for number in (5, 6, 7, 8)),
    "big": tuple(NodeName(f"node-{number}") for number in (1, 4, 5)),
}
TERMS = (
    "eu",
    "us",
    "big",
    "node-3",
    "node-8",
    "node-[1:3]",
    "node-[13]",
    "*-5",
    "region=us",
    "parity=*",
    "~node-[2-6]",
)
terms = st.sampled_from(TERMS)


def names(pattern: str | None) -> list[str]:
    try:
        return [host.name for host in pick(pattern, HOSTS, GROUPS)]
    except NotFoundError as error:
        if "leaves no host" not in str(error):
            raise
        return []


@settings(deadline=None)
@given(st.lists(terms, min_size=1, max_size=4), st.lists(terms, max_size=2), st.lists(terms, max_size=2))
def test_a_pattern_unites_then_intersects_then_excludes(plain: list[str], kept: list[str], cut: list[str]) -> None:
    wanted = {name for term in plain for name in names(term)}
    for term in kept:
        wanted &= set(names(term))
    for term in cut:
        wanted -= set(names(term))
    pattern = ":".join([*plain, *(f"&{term}" for term in kept), *(f"!{term}" for term in cut)])
    assert names(pattern) == [host.name for host in HOSTS if host.name in wanted]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["", "&", "!"]), terms), min_size=1, max_size=5), st.randoms())
def test_the_order_of_terms_does_not_matter(written: list[tuple[str, str]], chance: Random) -> None:
    shuffled = list(written)
    chance.shuffle(shuffled)
    assert names(":".join(map("".join, written))) == names(",".join(map("".join, shuffled)))


@settings(deadline=None)
@given(terms)
def test_a_term_and_its_exclusion_share_all_hosts_between_them(term: str) -> None:
    with_it, without_it = names(term), names(f"!{term}")
    assert not set(with_it) & set(without_it)
    assert set(with_it) | set(without_it) == {host.name for host in HOSTS}


@settings(deadline=None)
@given(st.lists(terms, min_size=1, max_size=3))
def test_repeating_a_pattern_changes_nothing(plain: list[str]) -> None:
    pattern = ":".join(plain)
    assert names(pattern) == names(f"{pattern}:{pattern}") == names(f"{pattern}:&all")


@settings(deadline=None)
@given(st.text(max_size=20))
def test_any_text_picks_hosts_or_is_refused_with_a_hint(pattern: str) -> None:
    try:
        outcome: object = pick(pattern, HOSTS, GROUPS)
    except (UsageError, NotFoundError) as error:
        outcome = error.hint
    assert outcome


@pytest.mark.parametrize("pattern", [None, "all", "*"])
def test_all_hosts_have_three_names(pattern: str | None) -> None:
    assert pick(pattern, HOSTS, GROUPS) == HOSTS


def test_a_pattern_reads_as_ansible_reads_it() -> None:
    assert names("eu:&big:!node-4") == ["node-1"]
    assert names("us,node-1") == ["node-1", "node-5", "node-6", "node-7", "node-8"]
    assert names("!eu") == ["node-5", "node-6", "node-7", "node-8"]
    assert names("&big") == ["node-1", "node-4", "node-5"]
    assert names("region=e*:&parity=0") == ["node-2", "node-4"]
    assert names("node-[1:2]:node-[78]") == ["node-1", "node-2", "node-7", "node-8"]


def test_a_glob_reaches_groups_too() -> None:
    assert names("b*") == names("big")


@pytest.mark.parametrize(
    ("pattern", "near"),
    [("nod-3", "node-3"), ("uss", "us"), ("eu:!bigg", "big"), ("NODE-1", "node-1"), ("rregion=eu", "region")],
)
def test_an_unknown_name_names_the_nearest_right_one(pattern: str, near: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        pick(pattern, HOSTS, GROUPS)
    assert f"did you mean {near!r}" in str(caught.value)


@pytest.mark.parametrize("pattern", ["eu:!eu", "eu:&us", "region=asia", "x*", "~x"])
def test_a_pattern_that_leaves_no_host_is_not_found(pattern: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        pick(pattern, HOSTS, GROUPS)
    assert repr(pattern) in str(caught.value)


@pytest.mark.parametrize("pattern", ["", " ", ":", "eu:", "eu::us", "!", "eu:&", "a b", "~(", "node-[3:1]", "@eu"])
def test_a_malformed_pattern_is_a_usage_error(pattern: str) -> None:
    with pytest.raises(UsageError):
        pick(pattern, HOSTS, GROUPS)
