"""Fingerprints met last are remembered, up to a number."""

from __future__ import annotations

from toolkit.spider.seen_cache import SeenCache


def prints(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def test_what_was_added_is_known_until_it_is_forgotten() -> None:
    cache = SeenCache(100)
    cache.add(prints(0, 10))
    assert all(each in cache for each in prints(0, 10))
    assert b"10" not in cache
    cache.clear()
    assert b"0" not in cache


def test_it_holds_no_more_than_its_size_and_what_is_met_again_stays() -> None:
    cache = SeenCache(100)
    cache.add([b"again"])
    for number in range(1000):
        cache.add([b"%d" % number])
        assert b"again" in cache
    assert sum(each in cache for each in prints(0, 1000)) <= 100


def test_a_size_of_zero_remembers_nothing() -> None:
    cache = SeenCache(0)
    cache.add([b"a"])
    assert b"a" not in cache
