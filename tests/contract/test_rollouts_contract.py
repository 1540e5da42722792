"""What every store promises about rollouts in waves (`toolkit/store/interfaces_rollouts.py`), on each back end."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from support.queue_desk import QueueDesk
from support.stores import BEGIN, NEWS, SHOP, V1, V2, Opener, a_lock, a_release

from toolkit.model.errors import ConflictError
from toolkit.model.hosts import Secret
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName
from toolkit.model.releases import NodeResult, RolloutLock
from toolkit.model.rollouts import (
    Allowance,
    GateRules,
    RolloutState,
    Smoke,
    SmokeCheck,
    Wave,
    WaveRollout,
    WaveState,
)
from toolkit.store.connect import RedisDoor
from toolkit.store.interfaces import Store
from toolkit.store.keys import Keys
from toolkit.store.local_file import LocalFile
from toolkit.store.local_releases import LocalReleases
from toolkit.store.local_rollouts import LocalRollouts
from toolkit.store.redis_releases import RedisReleases
from toolkit.store.redis_rollouts import RedisRollouts

EGG = b"PK an egg \x00\xff"
ONE, TWO = NodeName("node-1"), NodeName("node-2")


def a_wave_rollout(
    rollout_id: str = "r1", *, project: ProjectName = SHOP, lock: RolloutLock, minutes: int = 0
) -> WaveRollout:
    return WaveRollout(
        id=rollout_id,
        release=a_release(V2, digest=hashlib.sha256(EGG).hexdigest(), project=project),
        former=V1,
        state=RolloutState.RUNNING,
        rules=GateRules(Allowance(0, 5.0), SmokeCheck(SpiderName("books"), 60.0, 2), pause_s=120.0, holds=True),
        waves=(
            Wave(
                nodes=(ONE,),
                state=WaveState.PASSED,
                results=(NodeResult(ONE, True, "done", 0.7, 2),),  # noqa: FBT003 - a field
                taken=(ONE,),
                smoke=Smoke(ONE, JobId("j1"), 3, "finished"),
                why="für Köln →",
            ),
            Wave(nodes=(TWO,)),
        ),
        who="ann@desk:1",
        began_at=BEGIN + timedelta(minutes=minutes),
        changed_at=BEGIN,
        token=lock.token,
    )


def test_a_rollout_comes_back_as_it_was_with_its_egg(opened: Opener) -> None:
    store = opened()
    lock = a_lock(store)
    rollout = a_wave_rollout(lock=lock)
    store.rollouts.begin(rollout, EGG, lock)
    store.rollouts.begin(rollout, EGG, lock)

    again = opened().rollouts
    assert again.get("r1") == again.open(SHOP) == rollout
    assert list(again.recent()) == [rollout]
    assert again.egg(rollout) == EGG
    assert (again.get("r2"), again.open(NEWS)) == (None, None)


def test_only_one_rollout_of_a_project_is_open(store: Store) -> None:
    lock, other = a_lock(store), a_lock(store, NEWS)
    first = a_wave_rollout(lock=lock)
    store.rollouts.begin(first, EGG, lock)
    with pytest.raises(ConflictError, match="under way or held"):
        store.rollouts.begin(a_wave_rollout("r2", lock=lock), EGG, lock)
    store.rollouts.begin(a_wave_rollout("r3", project=NEWS, lock=other), EGG, other)

    store.rollouts.update(replace(first, state=RolloutState.UNDONE), lock)
    store.rollouts.begin(a_wave_rollout("r2", lock=lock, minutes=1), EGG, lock)
    assert [each.id for each in store.rollouts.recent(limit=1)] == ["r2"]
    assert store.rollouts.recent(limit=0) == ()


def test_a_change_is_seen_and_a_closed_rollout_keeps_no_egg(store: Store) -> None:
    lock = a_lock(store)
    rollout = a_wave_rollout(lock=lock)
    store.rollouts.begin(rollout, EGG, lock)

    held = replace(rollout, state=RolloutState.HELD, why="interrupted")
    store.rollouts.update(held, lock)
    assert store.rollouts.open(SHOP) == held
    assert store.rollouts.egg(held) == EGG

    done = replace(rollout, state=RolloutState.DONE)
    store.rollouts.update(done, lock)
    assert store.rollouts.open(SHOP) is None
    assert store.rollouts.get("r1") == done
    assert store.rollouts.egg(done) is None


def test_nothing_is_written_without_the_lock(store: Store) -> None:
    lost = a_lock(store)
    rollout = a_wave_rollout(lock=lost)
    store.releases.unlock(lost)
    with pytest.raises(ConflictError):
        store.rollouts.begin(rollout, EGG, lost)
    assert store.rollouts.recent() == ()

    lock = a_lock(store)
    store.rollouts.begin(rollout, EGG, lock)
    with pytest.raises(ConflictError):
        store.rollouts.update(replace(rollout, state=RolloutState.DONE), lost)
    assert store.rollouts.open(SHOP) == rollout


def test_an_egg_that_is_not_the_release_s_is_refused(store: Store) -> None:
    lock = a_lock(store)
    with pytest.raises(ConflictError, match="digest"):
        store.rollouts.begin(a_wave_rollout(lock=lock), EGG + b"!", lock)


def test_the_egg_of_an_open_rollout_is_in_use(desk: QueueDesk) -> None:
    lock = a_lock(desk.store)
    rollout = a_wave_rollout(lock=lock)
    desk.store.rollouts.begin(rollout, EGG, lock)
    desk.eggs.offer(rollout.release, EGG)
    desk.eggs.withdraw(SHOP, V2)
    assert desk.eggs.drop_unused() == 0
    assert desk.store.rollouts.egg(rollout) == EGG


@pytest.mark.parametrize("back_end", ["redis", "local"])
def test_old_rollouts_go_and_open_ones_stay(back_end: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if back_end == "redis":
        door = RedisDoor(Secret(request.getfixturevalue("redis_url")))
        request.addfinalizer(door.close)
        releases: RedisReleases | LocalReleases = RedisReleases(door, Keys())
        rollouts: RedisRollouts | LocalRollouts = RedisRollouts(door, Keys(), max_rollouts=2)
    else:
        file = LocalFile(tmp_path / "store.sqlite3")
        request.addfinalizer(file.close)
        releases, rollouts = LocalReleases(file), LocalRollouts(file, max_rollouts=2)
    locks = {name: releases.lock(name, who="ann", why="deploy", ttl_s=60) for name in (SHOP, NEWS)}
    rollouts.begin(a_wave_rollout("open", project=NEWS, lock=locks[NEWS]), EGG, locks[NEWS])
    for number in range(4):
        rollout = a_wave_rollout(f"r{number}", lock=locks[SHOP], minutes=number + 1)
        rollouts.begin(rollout, EGG, locks[SHOP])
        rollouts.update(replace(rollout, state=RolloutState.DONE), locks[SHOP])

    assert [each.id for each in rollouts.recent()] == ["r3", "r2", "open"]
