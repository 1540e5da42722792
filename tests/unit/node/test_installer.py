"""A node installs what the cluster wants, takes nothing away, and says of the rest why it is behind."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from scrapyd.config import Config
from support.eggs import broken_egg, small_egg
from support.stores import SHOP, V1, V2, a_lock, a_release, a_rollout
from support.wheels import wheel

from toolkit.config.requirements import NEEDS_FILE
from toolkit.model.errors import StoreUnreachableError
from toolkit.model.hosts import Secret
from toolkit.model.names import NodeName, VersionName
from toolkit.model.releases import Release
from toolkit.node.catalogue import Catalogue
from toolkit.node.eggstorage import ProvenEggStorage
from toolkit.node.environments import Environments
from toolkit.node.installer import FIRST_RETRY_S, LAST_RETRY_S, Installer, Patience
from toolkit.node.listing import SpiderLister
from toolkit.node.shelf import Shelf
from toolkit.store.interfaces import Store
from toolkit.store.open import open_store

EGG, OTHER = small_egg(("alpha", "beta")), small_egg(("gamma",))
KEY, BYTES = (SHOP, V1), "aa"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Node:
    """A shelf with its installer, and a count of the listings that it took."""

    def __init__(self, *, max_egg_bytes: int = 1_000_000) -> None:
        self.clock = Clock()
        self.lister = SpiderLister(runner="scrapyd.runner", timeout_s=60)
        self.catalogue = Catalogue(Path("state/catalogue.json"))
        self.shelf = Shelf(
            eggs=ProvenEggStorage(Config()),
            catalogue=self.catalogue,
            lister=self.lister,
            environments=Environments(Path("state/environments")),
            max_egg_bytes=max_egg_bytes,
        )
        self.installer = Installer(self.shelf, NodeName("node-1"), clock=self.clock)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "scrapyd.conf").write_text("[scrapyd]\neggs_dir = eggs\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def store(redis_url: str, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(Secret(redis_url), tmp_path / "state")
    yield opened
    opened.close()


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count the listings as they are done."""
    done: list[str] = []
    really = SpiderLister.spiders

    def counting(lister: SpiderLister, project: str, version: str, *, python: str) -> tuple[str, ...]:
        done.append(project)
        return tuple(really(lister, project, version, python=python))

    monkeypatch.setattr(SpiderLister, "spiders", counting)
    return done


def release_of(egg: bytes, version: VersionName = V1) -> Release:
    return replace(a_release(version), digest=hashlib.sha256(egg).hexdigest(), size_bytes=len(egg))


def offer(store: Store, egg: bytes, version: VersionName = V1) -> Release:
    assert store.shared is not None
    store.shared.eggs.offer(release_of(egg, version), egg)
    return release_of(egg, version)


def make_active(store: Store, release: Release) -> None:
    lock = a_lock(store)
    store.releases.record(release, lock)
    store.releases.activate(replace(a_rollout(release.version), project=release.project), lock, held_by=())
    store.releases.unlock(lock)
    assert store.shared is not None
    store.shared.eggs.withdraw(release.project, release.version)


@pytest.mark.parametrize("is_active", [False, True])
def test_what_is_offered_or_active_is_installed_once(store: Store, listings: list[str], *, is_active: bool) -> None:
    node = Node()
    assert not node.installer.sync(store)
    release = offer(store, EGG)
    if is_active:
        make_active(store, release)
    assert node.installer.sync(store)
    assert node.catalogue.versions() == {SHOP: (V1,)}
    assert node.catalogue.spiders(SHOP, V1) == ("alpha", "beta")
    assert not node.installer.sync(store)
    assert listings == [SHOP]


def test_nothing_is_taken_away(store: Store) -> None:
    node = Node()
    release = offer(store, EGG)
    make_active(store, release)
    node.installer.sync(store)
    make_active(store, offer(store, OTHER, V2))
    node.installer.sync(store)
    assert node.catalogue.versions() == {SHOP: (V1, V2)}


def test_other_bytes_under_an_active_version_are_put_right(store: Store) -> None:
    node = Node()
    node.shelf.eggs.put(io.BytesIO(OTHER), SHOP, V1)
    make_active(store, offer(store, EGG))
    assert node.installer.sync(store)
    assert node.catalogue.spiders(SHOP, V1) == ("alpha", "beta")
    assert node.shelf.held_digest(SHOP, V1) == hashlib.sha256(EGG).hexdigest()


def test_an_egg_that_cannot_be_listed_is_behind_and_tried_ever_more_rarely(store: Store, listings: list[str]) -> None:
    node = Node()
    make_active(store, offer(store, broken_egg()))
    assert node.installer.sync(store)
    assert node.catalogue.behind() == {
        f"shop {V1}": "ModuleNotFoundError: No module named 'a_module_that_is_not_there'"
    }
    assert node.catalogue.versions() == {}
    assert list(node.shelf.eggs.held()) == []
    node.clock.now += FIRST_RETRY_S - 1
    assert not node.installer.sync(store)
    assert len(listings) == 1
    node.clock.now += 1
    node.installer.sync(store)
    node.clock.now += FIRST_RETRY_S * 2 - 1
    node.installer.sync(store)
    assert len(listings) == 2
    assert node.catalogue.behind()


def test_another_egg_is_another_matter_and_mends_it_at_once(store: Store) -> None:
    node = Node()
    make_active(store, offer(store, broken_egg()))
    node.installer.sync(store)
    make_active(store, offer(store, EGG, V2))
    assert node.installer.sync(store)
    assert (node.catalogue.versions(), node.catalogue.behind()) == ({SHOP: (V2,)}, {})


def test_an_egg_that_the_store_does_not_keep_is_behind_with_what_to_do(store: Store) -> None:
    node = Node()
    make_active(store, release_of(EGG))
    assert node.installer.sync(store)
    assert node.catalogue.behind() == {
        f"shop {V1}": "its egg is not in the store: deploy it again, or copy it here by hand"
    }


def test_an_egg_beyond_this_nodes_limit_is_behind(store: Store) -> None:
    node = Node(max_egg_bytes=100)
    make_active(store, offer(store, EGG))
    node.installer.sync(store)
    assert "too large" in node.catalogue.behind()[f"shop {V1}"]


def test_what_was_brought_by_hand_is_proven_or_behind_also_without_a_store(listings: list[str]) -> None:
    node = Node()
    node.shelf.eggs.put(io.BytesIO(EGG), SHOP, V1)
    node.shelf.eggs.put(io.BytesIO(broken_egg()), SHOP, V2)
    assert node.installer.survey()
    assert node.catalogue.versions() == {SHOP: (V1,)}
    assert "No module named" in node.catalogue.behind()[f"shop {V2}"]
    assert not node.installer.survey()
    assert len(listings) == 2
    # Another egg in its place is looked at without delay.
    node.shelf.eggs.put(io.BytesIO(OTHER), SHOP, V2)
    assert node.installer.survey()
    assert (node.catalogue.versions(), node.catalogue.behind()) == ({SHOP: (V1, V2)}, {})


def test_what_was_taken_away_by_hand_comes_back_if_it_is_active(store: Store, listings: list[str]) -> None:
    node = Node()
    make_active(store, offer(store, EGG))
    node.installer.sync(store)
    node.shelf.eggs.path(SHOP, V1).unlink()
    assert node.installer.sync(store)
    assert node.catalogue.versions() == {SHOP: (V1,)}
    assert len(listings) == 2


def test_the_store_being_away_is_told_and_stops_no_survey(tmp_path: Path) -> None:
    node = Node()
    node.shelf.eggs.put(io.BytesIO(EGG), SHOP, V1)
    with pytest.raises(StoreUnreachableError):
        node.installer.sync(open_store(Secret("redis://127.0.0.1:1/0"), tmp_path / "none"))
    node.installer.survey()
    assert node.catalogue.versions() == {SHOP: (V1,)}


def test_patience_doubles_up_to_half_an_hour_and_forgets_what_nobody_wants() -> None:
    clock = Clock()
    patience = Patience(clock)
    waits = []
    for _ in range(8):
        assert patience.is_due(KEY, BYTES)
        patience.failed(KEY, BYTES)
        begun = clock.now
        while not patience.is_due(KEY, BYTES):
            clock.now += 30
        waits.append(clock.now - begun)
    assert waits == [30, 60, 120, 240, 480, 960, LAST_RETRY_S, LAST_RETRY_S]
    patience.failed(KEY, BYTES)
    assert patience.is_due(KEY, "other bytes")
    patience.keep(frozenset())
    assert patience.is_due(KEY, BYTES)


def test_what_lacks_a_requirement_is_looked_at_again_as_soon_as_other_packages_are_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Node()
    egg = io.BytesIO(small_egg())
    with zipfile.ZipFile(egg, "a") as archive:
        archive.writestr(NEEDS_FILE, "tinydep==1.0\n")
    node.shelf.eggs.put(io.BytesIO(egg.getvalue()), SHOP, V1)
    node.installer.survey()
    assert (node.catalogue.reason(SHOP, V1) or "").startswith("lacks tinydep==1.0 (has none)")

    house = Path("installed")
    house.mkdir()
    with zipfile.ZipFile(io.BytesIO(wheel("tinydep", "1.0"))) as archive:
        archive.extractall(house)
    monkeypatch.syspath_prepend(str(house.absolute()))
    node.installer.survey()
    assert node.catalogue.reason(SHOP, V1) is None
    assert node.catalogue.spiders(SHOP, V1) == ("alpha", "beta")
