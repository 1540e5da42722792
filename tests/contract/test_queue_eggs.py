"""Eggs in the shared store: whole, under their digest, for as long as a release or an offer names them."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace

import pytest
from support.queue_desk import SOON_S, QueueDesk, a_report
from support.stores import NEWS, SHOP, V1, V2, a_lock, a_release, a_rollout
from support.waiting import wait_until

from toolkit.model.errors import ConflictError, RefusedError, StoreUnreadableError
from toolkit.model.names import NodeName, VersionName
from toolkit.model.releases import Release

EGG, OTHER_EGG = b"PK\x03\x04 an egg \x00\xff\xfe", b"PK another egg"


def release_of(content: bytes, **more: object) -> Release:
    release = replace(a_release(), digest=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
    return replace(release, **more)  # type: ignore[arg-type]


def record(desk: QueueDesk, release: Release, *, is_active: bool = False) -> None:
    """Remember a release as a rollout does, and make it active if asked to."""
    lock = a_lock(desk.store, release.project)
    desk.store.releases.record(release, lock)
    if is_active:
        desk.store.releases.activate(a_rollout(release.version, project=release.project), lock, held_by=[])
    desk.store.releases.unlock(lock)


def test_an_offered_egg_comes_back_byte_for_byte(desk: QueueDesk) -> None:
    release = release_of(EGG)
    desk.eggs.offer(release, EGG)
    assert desk.eggs.fetch(release.digest) == EGG
    assert list(desk.eggs.offered()) == [release]
    assert desk.eggs.fetch("0" * 64) is None


def test_a_large_egg_comes_back_whole(desk: QueueDesk) -> None:
    content = os.urandom(3_000_000)
    desk.eggs.offer(release_of(content), content)
    assert desk.eggs.fetch(release_of(content).digest) == content


def test_an_egg_that_is_larger_than_its_reader_takes_is_not_read(desk: QueueDesk) -> None:
    release = release_of(EGG)
    desk.eggs.offer(release, EGG)
    with pytest.raises(RefusedError, match="too large"):
        desk.eggs.fetch(release.digest, max_bytes=len(EGG) - 1)
    assert desk.eggs.fetch(release.digest, max_bytes=len(EGG)) == EGG


def test_an_egg_that_is_too_large_is_refused(desk: QueueDesk) -> None:
    release = release_of(EGG)
    with pytest.raises(RefusedError):
        desk.eggs.offer(release, EGG, max_bytes=len(EGG) - 1)
    assert desk.eggs.fetch(release.digest) is None
    assert list(desk.eggs.offered()) == []
    desk.eggs.offer(release, EGG, max_bytes=len(EGG))
    assert desk.eggs.fetch(release.digest) == EGG


def test_an_egg_with_another_digest_is_refused(desk: QueueDesk) -> None:
    with pytest.raises(ConflictError):
        desk.eggs.offer(release_of(OTHER_EGG), EGG)
    assert list(desk.eggs.offered()) == []
    assert desk.left_behind() == set()


def test_bytes_that_were_changed_at_rest_are_refused(desk: QueueDesk) -> None:
    release = release_of(EGG)
    desk.eggs.offer(release, EGG)
    desk.redis.set(desk.keys.egg(release.digest), OTHER_EGG)
    with pytest.raises(StoreUnreadableError):
        desk.eggs.fetch(release.digest)


def test_the_same_offer_twice_is_one(desk: QueueDesk) -> None:
    release = release_of(EGG)
    desk.eggs.offer(release, EGG)
    before = desk.beat(a_report()).releases
    desk.eggs.offer(release, EGG)
    assert list(desk.eggs.offered()) == [release]
    assert desk.beat(a_report()).releases == before


def test_an_offer_may_be_for_some_nodes_first_and_for_more_later(desk: QueueDesk) -> None:
    one, two = NodeName("node-1"), NodeName("node-2")
    release = release_of(EGG)

    desk.eggs.offer(release, EGG, nodes=[one])
    assert list(desk.eggs.offered(node=one)) == list(desk.eggs.offered()) == [release]
    assert list(desk.eggs.offered(node=two)) == []

    desk.eggs.offer(release, EGG, nodes=[one, two])
    assert list(desk.eggs.offered(node=two)) == [release]

    desk.eggs.offer(release, EGG, nodes=[])
    assert list(desk.eggs.offered(node=one)) == []
    desk.eggs.offer(release, EGG)
    assert list(desk.eggs.offered(node=one)) == [release]


def test_an_offer_is_none_any_more_once_its_release_is_active(desk: QueueDesk) -> None:
    release, other = release_of(EGG), release_of(OTHER_EGG, version=V2)
    desk.eggs.offer(release, EGG)
    desk.eggs.offer(other, OTHER_EGG)
    record(desk, release, is_active=True)
    assert list(desk.eggs.offered()) == [other]
    assert desk.eggs.fetch(release.digest) == EGG


def test_a_withdrawn_egg_goes_unless_a_release_has_it(desk: QueueDesk) -> None:
    kept, gone = release_of(EGG), release_of(OTHER_EGG, version=V2)
    desk.eggs.offer(kept, EGG)
    desk.eggs.offer(gone, OTHER_EGG)
    record(desk, kept)
    for release in (kept, gone, gone):
        desk.eggs.withdraw(release.project, release.version)

    assert list(desk.eggs.offered()) == []
    assert desk.eggs.fetch(kept.digest) == EGG
    assert desk.eggs.fetch(gone.digest) is None
    desk.eggs.withdraw(NEWS, V1)


def test_an_egg_that_two_offers_share_stays_until_both_are_gone(desk: QueueDesk) -> None:
    one, other = release_of(EGG), release_of(EGG, version=V2, project=NEWS)
    desk.eggs.offer(one, EGG)
    desk.eggs.offer(other, EGG)
    desk.eggs.withdraw(one.project, one.version)
    assert desk.eggs.fetch(EGG_DIGEST) == EGG
    desk.eggs.withdraw(other.project, other.version)
    assert desk.eggs.fetch(EGG_DIGEST) is None


EGG_DIGEST = hashlib.sha256(EGG).hexdigest()


def test_unused_eggs_are_dropped_and_used_ones_stay(desk: QueueDesk) -> None:
    active, recorded, offered = (
        release_of(EGG),
        release_of(OTHER_EGG, version=V2),
        release_of(b"third", project=NEWS),
    )
    desk.eggs.offer(active, EGG)
    desk.eggs.offer(recorded, OTHER_EGG)
    desk.eggs.offer(offered, b"third")
    record(desk, active, is_active=True)
    record(desk, recorded)
    left_over = release_of(b"of a deploy that was killed", version=VersionName("left-over"))
    desk.eggs.offer(left_over, b"of a deploy that was killed")
    desk.redis.delete(desk.keys.offers)
    desk.eggs.offer(offered, b"third")

    assert desk.eggs.drop_unused() == 1
    assert desk.eggs.drop_unused() == 0
    desk.eggs.withdraw(SHOP, V2)
    assert desk.eggs.fetch(recorded.digest) == OTHER_EGG
    lock = a_lock(desk.store)
    desk.store.releases.forget(SHOP, V2, lock)
    assert desk.eggs.drop_unused() == 1
    assert [desk.eggs.fetch(release.digest) for release in (active, recorded, offered)] == [EGG, None, b"third"]


def test_whatever_nodes_should_hold_changes_a_number_that_beats_tell(desk: QueueDesk) -> None:
    seen = [desk.beat(a_report()).releases]

    def has_changed() -> bool:
        seen.append(desk.beat(a_report()).releases)
        return seen[-1] != seen[-2]

    release = release_of(EGG)
    assert not has_changed()
    desk.eggs.offer(release, EGG)
    assert has_changed()
    record(desk, release, is_active=True)
    assert has_changed()
    assert not has_changed()
    other = release_of(OTHER_EGG, version=V2)
    desk.eggs.offer(other, OTHER_EGG)
    assert has_changed()
    desk.eggs.withdraw(other.project, other.version)
    assert has_changed()
    record(desk, other, is_active=True)
    assert has_changed()
    desk.store.releases.forget(SHOP, V1, a_lock(desk.store))
    assert has_changed()


def test_an_offer_wakes_the_nodes(desk: QueueDesk) -> None:
    wakes = desk.queue.wakes(timeout_s=0.05)
    assert next(wakes) == ""
    desk.eggs.offer(release_of(EGG), EGG)
    assert wait_until(lambda: next(wakes), deadline_s=SOON_S, what="a wake")
