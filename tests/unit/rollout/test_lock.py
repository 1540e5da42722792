"""A rollout's lock: kept alive while it is held, and given back on every way out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.waiting import wait_until

from toolkit.model.errors import ConflictError, LockHeldError, StoreUnreachableError
from toolkit.model.names import ProjectName
from toolkit.model.releases import RolloutLock
from toolkit.rollout import lock as locking
from toolkit.rollout.lock import holding_lock, operator
from toolkit.store.interfaces import Store
from toolkit.store.open import open_store

SHOP = ProjectName("shop")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(None, tmp_path)
    yield store
    store.close()


def test_the_lock_says_who_and_why_and_is_given_back(store: Store) -> None:
    with holding_lock(store.releases, SHOP, why="deploy v1"):
        holder = store.releases.holder(SHOP)
        assert holder is not None
        assert (holder.who, holder.why) == (operator(), "deploy v1")
    assert store.releases.holder(SHOP) is None


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyboardInterrupt(), ConflictError("no")])
def test_the_lock_is_given_back_whatever_ends_the_block(store: Store, error: BaseException) -> None:
    with pytest.raises(type(error)), holding_lock(store.releases, SHOP, why="deploy v1"):
        raise error
    assert store.releases.holder(SHOP) is None


def test_a_second_one_is_told_who_holds_it(store: Store) -> None:
    with (
        holding_lock(store.releases, SHOP, why="deploy v1"),
        pytest.raises(LockHeldError, match="deploy v1"),
        holding_lock(store.releases, SHOP, why="deploy v2"),
    ):
        pass


def test_a_stolen_lock_is_noticed_and_not_given_back_from_under_the_thief(store: Store) -> None:
    with holding_lock(store.releases, SHOP, why="deploy v1") as held:
        held.check()
        thief = store.releases.lock(SHOP, who="bob", why="deploy v2", ttl_s=60, steal=True)
        with pytest.raises(ConflictError):
            held.check()
    assert store.releases.holder(SHOP) == thief


def test_a_long_rollout_keeps_its_lock(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "RENEW_EVERY_S", 0.05)
    monkeypatch.setattr(locking, "TTL_S", 2.0)
    with holding_lock(store.releases, SHOP, why="deploy v1") as held:
        first_end = held.lock.expires_at
        wait_until(lambda: store.now() > first_end, deadline_s=30, what="the lock to outlive its first term")
        holder = store.releases.holder(SHOP)
        assert holder is not None
        assert holder.token == held.lock.token
        assert holder.expires_at > first_end
        held.check()


def test_a_store_that_is_away_for_a_moment_ends_no_renewing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "RENEW_EVERY_S", 0.02)
    asked: list[RolloutLock] = []

    def away(lock: RolloutLock, *, ttl_s: float) -> None:
        del ttl_s
        asked.append(lock)
        raise StoreUnreachableError("away")

    monkeypatch.setattr(store.releases, "renew", away)
    with holding_lock(store.releases, SHOP, why="deploy v1"):
        wait_until(lambda: len(asked) > 3, deadline_s=30, what="the lock to be renewed again and again")


def test_nothing_goes_on_renewing_afterwards(store: Store) -> None:
    # Threads that other tests have left may end meanwhile.
    before = set(threading.enumerate())
    with holding_lock(store.releases, SHOP, why="deploy v1"):
        assert len(set(threading.enumerate()) - before) == 1
    assert set(threading.enumerate()) <= before
