"""One host chooses versions for all of its kind; where it cannot, the others do not fail one after the other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolkit.provision.choosing import Choosing


def first(kept: list[str]) -> str | None:
    return kept[0] if kept else None


def test_one_chooses_and_all_get_the_same() -> None:
    choosing, kept = Choosing(), list[str]()

    def ask(name: str) -> str:
        return choosing.once("py3.11", "in", known=lambda: first(kept), choose=lambda: name, keep=kept.append)

    with ThreadPoolExecutor(8) as threads:
        got = set(threads.map(ask, [f"scrapy=={number}" for number in range(8)]))
    assert got == set(kept)
    assert len(kept) == 1


def test_after_one_failed_the_others_try_at_the_same_time_and_the_first_to_succeed_has_chosen() -> None:
    choosing, kept = Choosing(), list[str]()
    all_at_it = threading.Barrier(3, timeout=10)

    def fail() -> str:
        raise OSError("no index")

    def choose(name: str) -> str:
        all_at_it.wait()
        return name

    def ask(name: str) -> str:
        return choosing.once("py3.11", "in", known=lambda: first(kept), choose=lambda: choose(name), keep=kept.append)

    with pytest.raises(OSError, match="no index"):
        choosing.once("py3.11", "in", known=lambda: None, choose=fail, keep=kept.append)
    with ThreadPoolExecutor(3) as threads:
        got = set(threads.map(ask, ["a", "b", "c"]))
    assert got == set(kept)
    assert len(kept) == 1
