"""A node that trusts certain keys loads no code but what they signed, however it came, and while they are trusted."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from scrapyd.config import Config
from support.eggs import small_egg
from support.stores import SHOP, V1, V2, a_lock, a_release, a_rollout

from toolkit.model.errors import ConfigurationError, UntrustedError
from toolkit.model.hosts import Secret
from toolkit.model.names import NodeName, VersionName
from toolkit.model.releases import Release
from toolkit.node.catalogue import Catalogue
from toolkit.node.eggstorage import ProvenEggStorage
from toolkit.node.environments import Environments
from toolkit.node.installer import Installer
from toolkit.node.listing import SpiderLister
from toolkit.node.shelf import Shelf
from toolkit.node.trusting import Trust
from toolkit.store.interfaces import Store
from toolkit.store.open import open_store
from toolkit.trust.keys import SigningKey, new_key
from toolkit.trust.signatures import sign

ANN, BOB = new_key("ann"), new_key("bob")
EGG, OTHER = small_egg(("alpha",)), small_egg(("beta",))


def digest_of(egg: bytes) -> str:
    return hashlib.sha256(egg).hexdigest()


def signed(egg: bytes = EGG, version: VersionName = V1, *, key: SigningKey = ANN) -> str:
    return sign(SHOP, version, digest_of(egg), key=key)


class Node:
    """A shelf that trusts the keys of the file `trusted.keys`, and an installer."""

    def __init__(self) -> None:
        self.keys = Path("trusted.keys").absolute()
        self.trust(ANN)
        self.catalogue = Catalogue(Path("state/catalogue.json"))
        self.eggs = ProvenEggStorage(Config())
        self.shelf = Shelf(
            eggs=self.eggs,
            catalogue=self.catalogue,
            lister=SpiderLister(runner="scrapyd.runner", timeout_s=60),
            environments=Environments(Path("state/environments")),
            max_egg_bytes=1_000_000,
            trust=Trust(self.keys),
        )
        self.installer = Installer(self.shelf, NodeName("node-1"))

    def trust(self, *keys: SigningKey) -> None:
        draft = self.keys.with_suffix(".draft")
        draft.write_text("".join(f"{key.public}\n" for key in keys))
        draft.replace(self.keys)

    def lay(self, egg: bytes = EGG, version: VersionName = V1, *, signature: str | None = None) -> None:
        """Put an egg there by hand, as somebody with a shell does."""
        path = self.eggs.path(SHOP, version)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(egg)
        self.eggs.keep_signature(SHOP, version, signature)

    def push(self, egg: bytes = EGG, version: VersionName = V1, *, signature: str | None = None) -> None:
        with self.shelf.staged(SHOP, io.BytesIO(egg)) as staged:
            self.shelf.trust.require(SHOP, version, staged.digest, signature)
            held = self.shelf.held_digest(SHOP, version)
            self.shelf.publish(staged, version, self.shelf.prove(staged), replaces=held, signature=signature)

    def holds(self, version: VersionName = V1) -> bool:
        return version in self.catalogue.versions().get(SHOP, ())

    def reason(self, version: VersionName = V1) -> str:
        return self.catalogue.reason(SHOP, version) or ""


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count the eggs whose code was loaded."""
    loaded: list[str] = []

    def listing(_: SpiderLister, _project: str, version: str, **_options: object) -> tuple[str, ...]:
        loaded.append(version)
        return ("alpha",)

    monkeypatch.setattr(SpiderLister, "spiders", listing)
    return loaded


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: list[str]) -> Node:
    (tmp_path / "scrapyd.conf").write_text("[scrapyd]\neggs_dir = eggs\n")
    monkeypatch.chdir(tmp_path)
    assert listed == []
    return Node()


@pytest.fixture
def store(redis_url: str, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(Secret(redis_url), tmp_path / "state")
    yield opened
    opened.close()


def made_active(store: Store, *, signature: str | None, egg: bytes = EGG) -> Release:
    release = replace(a_release(V1, digest=digest_of(egg)), size_bytes=len(egg), signature=signature)
    assert store.shared is not None
    store.shared.eggs.offer(release, egg)
    lock = a_lock(store)
    store.releases.record(release, lock)
    store.releases.activate(a_rollout(V1), lock, held_by=[])
    return release


def test_a_signed_egg_is_taken_and_keeps_its_signature_beside_it(node: Node) -> None:
    node.push(signature=signed())
    assert node.holds()
    assert node.eggs.signature(SHOP, V1) == signed() + "\n"
    assert node.eggs.list(SHOP) == (V1,)


def test_the_signature_goes_with_its_egg(node: Node) -> None:
    node.push(signature=signed())
    node.shelf.drop(SHOP, V1)
    assert list(Path("eggs").rglob("*")) == []


@pytest.mark.parametrize("by_hand", [None, sign(SHOP, V1, digest_of(EGG), key=BOB), "nonsense"])
def test_code_that_nobody_trusted_signed_is_not_even_loaded(node: Node, listed: list[str], by_hand: str | None) -> None:
    node.lay(signature=by_hand)
    assert node.installer.survey()
    assert not node.holds()
    assert "signed" in node.reason()
    with pytest.raises(UntrustedError):
        node.push(signature=by_hand)
    assert listed == []


def test_an_egg_under_another_name_than_it_was_signed_for_is_refused(node: Node, listed: list[str]) -> None:
    node.lay(version=V2, signature=signed())
    node.installer.survey()
    assert "another project or version" in node.reason(V2)
    assert listed == []


def test_an_egg_laid_by_hand_with_its_signature_counts(node: Node) -> None:
    node.lay(signature=signed())
    node.installer.survey()
    assert node.holds()


def test_bytes_that_were_changed_after_they_were_proven_no_longer_count(node: Node, listed: list[str]) -> None:
    node.push(signature=signed())
    node.eggs.path(SHOP, V1).write_bytes(OTHER)
    node.installer.survey()
    assert not node.holds()
    assert len(listed) == 1


def test_what_a_revoked_key_alone_has_signed_is_given_up_and_taken_back_when_it_is_trusted_again(node: Node) -> None:
    node.push(signature=signed())
    node.trust(BOB)
    assert node.installer.survey()
    assert not node.holds()
    node.trust(BOB, ANN)
    assert node.installer.survey()
    assert node.holds()


def test_a_node_that_cannot_read_its_keys_trusts_none_and_says_so(node: Node) -> None:
    node.push(signature=signed())
    node.keys.unlink()
    node.installer.survey()
    assert not node.holds()
    assert "cannot be trusted now: trusted_keys" in node.reason()
    with pytest.raises(ConfigurationError):
        node.shelf.trust.check_start()


def test_a_list_with_a_wrong_line_trusts_nobody(node: Node) -> None:
    node.keys.write_text(f"{ANN.public}\nnonsense\n")
    with pytest.raises(UntrustedError, match=r"trusted\.keys:2"):
        node.push(signature=signed())


def test_a_key_revoked_while_an_egg_is_listed_counts_no_longer(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def listing(_: SpiderLister, *_args: object, **_options: object) -> tuple[str, ...]:
        node.trust(BOB)
        return ("alpha",)

    monkeypatch.setattr(SpiderLister, "spiders", listing)
    with pytest.raises(UntrustedError):
        node.push(signature=signed())
    assert node.eggs.list(SHOP) == ()


def test_a_release_is_fetched_only_with_a_signature_that_is_trusted(
    node: Node, store: Store, listed: list[str]
) -> None:
    made_active(store, signature=None)
    assert node.installer.install(store)
    assert "not signed" in node.reason()
    assert listed == []


def test_a_release_signed_later_is_taken_at_once(node: Node, store: Store) -> None:
    release = made_active(store, signature=None)
    node.installer.sync(store)
    lock = store.releases.lock(SHOP, who="ann", why="sign", ttl_s=60, steal=True)
    store.releases.sign(replace(release, signature=signed()), lock)
    assert store.releases.active(SHOP) == replace(release, signature=signed())
    assert node.installer.sync(store)
    assert node.holds()


def test_what_lies_here_unproven_is_proven_by_the_signature_that_the_cluster_knows(node: Node, store: Store) -> None:
    node.lay()
    node.installer.survey()
    assert not node.holds()
    made_active(store, signature=signed())
    assert node.installer.install(store)
    assert node.holds()
    assert node.eggs.signature(SHOP, V1) == signed() + "\n"


def test_a_release_held_for_a_rollback_takes_up_its_signature_too(node: Node, store: Store) -> None:
    node.lay(OTHER, V2)
    made_active(store, signature=signed())
    lock = store.releases.lock(SHOP, who="ann", why="sign", ttl_s=60, steal=True)
    store.releases.record(replace(a_release(V2, digest=digest_of(OTHER)), signature=signed(OTHER, V2)), lock)
    node.installer.sync(store)
    assert node.holds()
    assert node.holds(V2)


def test_a_signature_that_is_not_trusted_does_not_replace_one_that_is(node: Node, store: Store) -> None:
    node.push(signature=signed())
    made_active(store, signature=signed(key=BOB))
    node.installer.sync(store)
    assert node.holds()
    assert node.eggs.signature(SHOP, V1) == signed() + "\n"


def test_without_a_list_of_keys_every_egg_is_taken_and_its_signature_kept(node: Node) -> None:
    node.shelf.trust = Trust(None)
    node.push()
    assert node.holds()
    node.push(egg=OTHER, version=V2, signature=signed(OTHER, V2))
    node.shelf.trust = Trust(node.keys)
    node.installer.survey()
    assert not node.holds()
    assert node.holds(V2)


def test_a_restart_remembers_what_was_proven_but_asks_for_the_signature_again(node: Node, listed: list[str]) -> None:
    node.push(signature=signed())
    again = Node()
    again.installer.survey()
    assert again.holds()
    again.trust(BOB)
    again.installer.survey()
    assert not again.holds()
    assert len(listed) == 1
