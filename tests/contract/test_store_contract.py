"""What every store promises about releases and locks (`toolkit/store/interfaces.py`), on each back end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, timedelta
from pathlib import Path

import pytest
from support.stores import (
    NEWS,
    SHOP,
    SOON_S,
    V1,
    V2,
    Opener,
    a_job,
    a_lock,
    a_release,
    a_rollout,
)
from support.waiting import wait_until

from toolkit.model.errors import ConflictError, LockHeldError, NotFoundError
from toolkit.model.hosts import Secret
from toolkit.model.names import NodeName, VersionName
from toolkit.store.interfaces import MAX_HISTORY, Store
from toolkit.store.open import open_store

# --- the rollout lock


def test_a_lock_says_who_why_and_until_when(store: Store) -> None:
    before = store.now()
    lock = store.releases.lock(SHOP, who="ann@desk", why="deploy 1.2, für Köln →", ttl_s=60)

    assert (lock.project, lock.who, lock.why) == (SHOP, "ann@desk", "deploy 1.2, für Köln →")
    assert lock.expires_at - lock.since == timedelta(seconds=60)
    assert abs(lock.since - before) < timedelta(seconds=SOON_S)
    assert store.releases.holder(SHOP) == lock


def test_a_held_lock_is_refused_and_names_its_holder(opened: Opener) -> None:
    held = a_lock(opened())

    with pytest.raises(LockHeldError) as caught:
        opened().releases.lock(SHOP, who="bob@laptop", why="hurry", ttl_s=60)

    assert (caught.value.who, caught.value.why, caught.value.since) == ("ann@desk", "deploy", held.since)


def test_the_locks_of_two_projects_do_not_meet(store: Store) -> None:
    assert a_lock(store, SHOP).token != a_lock(store, NEWS).token


def test_nobody_holds_a_lock_that_was_given_back(store: Store) -> None:
    store.releases.unlock(a_lock(store))

    assert store.releases.holder(SHOP) is None
    assert store.releases.holder(NEWS) is None


def test_every_token_is_larger_than_all_before_it(opened: Opener) -> None:
    tokens = []
    for _ in range(20):
        store = opened()
        lock = a_lock(store, SHOP)
        tokens.append(lock.token)
        store.releases.unlock(lock)

    assert tokens == sorted(set(tokens))


def test_an_expired_lock_goes_to_the_next_taker(opened: Opener) -> None:
    store = opened()
    old = a_lock(store, ttl_s=0.2)
    wait_until(lambda: store.releases.holder(SHOP) is None, deadline_s=SOON_S, what="the lock to expire")

    new = a_lock(opened())

    assert new.token > old.token
    assert store.releases.holder(SHOP) == new


def test_a_renewed_lock_outlives_its_first_term(store: Store) -> None:
    lock = a_lock(store, ttl_s=30)
    store.releases.renew(lock, ttl_s=120)

    holder = store.releases.holder(SHOP)
    assert holder is not None
    assert holder.token == lock.token
    assert holder.expires_at > lock.expires_at + timedelta(seconds=60)


def test_an_expired_lock_cannot_be_renewed(store: Store) -> None:
    lock = a_lock(store, ttl_s=0.2)
    wait_until(lambda: store.releases.holder(SHOP) is None, deadline_s=SOON_S, what="the lock to expire")

    with pytest.raises(ConflictError, match="expired or was stolen"):
        store.releases.renew(lock, ttl_s=60)
    assert store.releases.holder(SHOP) is None


def test_a_stolen_lock_refuses_every_write_of_its_former_holder(opened: Opener) -> None:
    store = opened()
    old = a_lock(store)
    store.releases.record(a_release(V1), old)
    new = opened().releases.lock(SHOP, who="bob@laptop", why="stuck", ttl_s=60, steal=True)

    writes: tuple[Callable[[], None], ...] = (
        lambda: store.releases.renew(old, ttl_s=60),
        lambda: store.releases.record(a_release(V2), old),
        lambda: store.releases.activate(a_rollout(V1), old, held_by=[]),
        lambda: store.releases.forget(SHOP, V1, old),
    )
    for write in writes:
        with pytest.raises(ConflictError):
            write()
    store.releases.unlock(old)

    assert store.releases.holder(SHOP) == new
    assert store.releases.releases(SHOP) == (a_release(V1),)
    assert store.releases.active(SHOP) is None
    assert store.releases.history(SHOP) == ()


def test_an_expired_lock_refuses_every_write(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(V1), lock)
    store.releases.unlock(lock)
    short = a_lock(store, ttl_s=0.1)
    wait_until(lambda: store.releases.holder(SHOP) is None, deadline_s=SOON_S, what="the lock to expire")

    with pytest.raises(ConflictError):
        store.releases.record(a_release(V2), short)
    with pytest.raises(ConflictError):
        store.releases.activate(a_rollout(V1), short, held_by=[])
    with pytest.raises(ConflictError):
        store.releases.forget(SHOP, V1, short)


def test_the_lock_of_one_project_does_not_open_another(store: Store) -> None:
    lock = a_lock(store, SHOP)

    with pytest.raises(ConflictError):
        store.releases.record(a_release(project=NEWS), lock)


def test_a_free_lock_may_be_stolen_too(store: Store) -> None:
    lock = store.releases.lock(SHOP, who="bob@laptop", why="careful", ttl_s=60, steal=True)
    assert store.releases.holder(SHOP) == lock


# --- releases


def test_a_recorded_release_is_known_but_not_active(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(), lock)

    assert store.releases.get(SHOP, V1) == a_release()
    assert store.releases.active(SHOP) is None
    assert store.releases.actives() == {}
    assert store.releases.projects() == (SHOP,)


def test_the_same_release_twice_is_one_and_stays_as_first_recorded(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(), lock)
    store.releases.record(replace(a_release(), created_by="bob@laptop"), lock)

    assert store.releases.releases(SHOP) == (a_release(),)


def test_a_version_never_gets_other_bytes(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(digest="aa"), lock)

    with pytest.raises(ConflictError, match="other bytes"):
        store.releases.record(a_release(digest="bb"), lock)
    assert store.releases.get(SHOP, V1) == a_release(digest="aa")


def test_activating_shows_everywhere_at_once(opened: Opener) -> None:
    store, other = opened(), opened()
    lock = a_lock(store)
    store.releases.record(a_release(), lock)
    store.releases.activate(a_rollout(), lock, held_by=[NodeName("node-1"), NodeName("node-3")])

    assert other.releases.active(SHOP) == a_release()
    assert other.releases.actives() == {SHOP: a_release()}
    assert other.releases.holders(SHOP, V1) == {"node-1", "node-3"}
    assert other.releases.history(SHOP) == (a_rollout(),)


def test_activating_again_replaces_the_holders(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(), lock)
    store.releases.activate(a_rollout(), lock, held_by=[NodeName("node-1")])
    store.releases.activate(a_rollout(minutes=1), lock, held_by=[NodeName("node-2")])

    assert store.releases.holders(SHOP, V1) == {"node-2"}


def test_an_unknown_release_cannot_be_made_active(store: Store) -> None:
    lock = a_lock(store)
    with pytest.raises(NotFoundError, match=V1):
        store.releases.activate(a_rollout(), lock, held_by=[])

    assert store.releases.history(SHOP) == ()
    assert store.releases.holders(SHOP, V1) == frozenset()


def test_going_back_makes_the_earlier_release_active_again(store: Store) -> None:
    lock = a_lock(store)
    for version, minutes in ((V1, 0), (V2, 1), (V1, 2)):
        store.releases.record(a_release(version, digest=version), lock)
        store.releases.activate(a_rollout(version, minutes=minutes), lock, held_by=[])

    active = store.releases.active(SHOP)
    assert active is not None
    assert active.version == V1
    assert [rollout.version for rollout in store.releases.history(SHOP)] == [V1, V2, V1]


def test_a_rollout_sent_twice_stands_once_in_the_history(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(), lock)
    for _ in range(2):
        store.releases.activate(a_rollout(), lock, held_by=[])
    for _ in range(2):
        store.releases.note(a_rollout(V2))

    assert store.releases.history(SHOP) == (a_rollout(V2), a_rollout(V1))


def test_a_failed_rollout_is_noted_and_changes_nothing_else(store: Store) -> None:
    failed = replace(a_rollout(), activated=False)
    store.releases.note(failed)

    assert store.releases.history(SHOP) == (failed,)
    assert store.releases.active(SHOP) is None
    assert store.releases.projects() == ()


def test_the_history_keeps_its_newest_entries(store: Store) -> None:
    for minutes in range(MAX_HISTORY + 5):
        store.releases.note(a_rollout(minutes=minutes))
    store.releases.note(a_rollout(project=NEWS))

    history = store.releases.history(SHOP, limit=1000)
    assert history[0] == a_rollout(minutes=MAX_HISTORY + 4)
    assert history[-1] == a_rollout(minutes=5)
    assert store.releases.history(SHOP, limit=2) == history[:2]
    assert len(store.releases.history(SHOP)) == 50
    assert store.releases.history(SHOP, limit=0) == ()
    assert store.releases.history(NEWS) == (a_rollout(project=NEWS),)


def test_releases_come_newest_first_and_are_found_by_their_bytes(store: Store) -> None:
    lock = a_lock(store)
    old, newer, newest = (
        a_release(VersionName("b"), digest="same", hours=1),
        a_release(VersionName("c"), digest="same", hours=2),
        a_release(VersionName("a"), digest="other", hours=3),
    )
    for release in (newer, newest, old):
        store.releases.record(release, lock)

    assert store.releases.releases(SHOP) == (newest, newer, old)
    assert store.releases.with_digest(SHOP, "same") == newer
    assert store.releases.with_digest(SHOP, "none") is None
    assert store.releases.with_digest(NEWS, "same") is None


def test_a_forgotten_release_is_gone_and_its_project_with_the_last(store: Store) -> None:
    lock = a_lock(store)
    for version in (V1, V2):
        store.releases.record(a_release(version, digest=version), lock)

    store.releases.forget(SHOP, V1, lock)
    assert store.releases.get(SHOP, V1) is None
    assert store.releases.holders(SHOP, V1) == frozenset()
    assert store.releases.projects() == (SHOP,)

    store.releases.forget(SHOP, V2, lock)
    store.releases.forget(SHOP, V2, lock)
    assert store.releases.projects() == ()


def test_the_active_release_is_never_forgotten(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(), lock)
    store.releases.activate(a_rollout(), lock, held_by=[NodeName("node-1")])

    with pytest.raises(ConflictError, match="active"):
        store.releases.forget(SHOP, V1, lock)
    assert store.releases.active(SHOP) == a_release()
    assert store.releases.holders(SHOP, V1) == {"node-1"}


def test_a_forgotten_version_may_come_back_with_other_bytes(store: Store) -> None:
    lock = a_lock(store)
    store.releases.record(a_release(digest="aa"), lock)
    store.releases.forget(SHOP, V1, lock)
    store.releases.record(a_release(digest="bb"), lock)

    assert store.releases.get(SHOP, V1) == a_release(digest="bb")


def test_projects_are_sorted_and_each_has_its_own_active_release(store: Store) -> None:
    for project in (SHOP, NEWS):
        lock = a_lock(store, project)
        store.releases.record(a_release(project=project), lock)
        store.releases.activate(a_rollout(project=project), lock, held_by=[])

    assert store.releases.projects() == (NEWS, SHOP)
    assert list(store.releases.actives()) == [NEWS, SHOP]


def test_a_rollout_that_died_between_its_steps_leaves_the_former_release_active(opened: Opener) -> None:
    store = opened()
    lock = a_lock(store)
    store.releases.record(a_release(V1), lock)
    store.releases.activate(a_rollout(V1), lock, held_by=[NodeName("node-1")])
    store.releases.record(a_release(V2, digest="bb", hours=1), lock)
    store.releases.renew(lock, ttl_s=0.2)
    store.close()

    survivor = opened()
    wait_until(lambda: survivor.releases.holder(SHOP) is None, deadline_s=SOON_S, what="the dead one's lock to expire")
    lock = a_lock(survivor)
    assert survivor.releases.active(SHOP) == a_release(V1)
    survivor.releases.activate(a_rollout(V2), lock, held_by=[])
    assert survivor.releases.active(SHOP) == a_release(V2, digest="bb", hours=1)


# --- the store itself


def test_the_clock_is_aware_and_runs(store: Store) -> None:
    first = store.now()
    assert first.tzinfo is UTC
    wait_until(lambda: store.now() > first, deadline_s=SOON_S, what="the clock to go on")


def test_closing_twice_is_harmless(opened: Opener) -> None:
    store = opened()
    store.close()
    store.close()


def test_clusters_do_not_see_each_other(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    for url in (Secret(request.getfixturevalue("redis_url")), None):
        with ExitStack() as closing:
            one, other = (open_store(url, tmp_path, cluster=name) for name in ("eu", "us"))
            closing.callback(one.close)
            closing.callback(other.close)
            a_lock(one)
            one.jobs.add([a_job("a")])

            assert other.releases.holder(SHOP) is None
            assert other.jobs.unfinished() == ()
