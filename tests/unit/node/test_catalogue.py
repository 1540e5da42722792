"""The catalogue counts what was proven, for those very bytes and surroundings, over any restart."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from toolkit.model.names import ProjectName, SpiderName, VersionName
from toolkit.node.catalogue import Catalogue, Proof, Surroundings
from toolkit.node.eggstorage import EggFile

HERE = Surroundings("CPython 3.11.7", "aaaa")
FILE = EggFile(size_bytes=3, modified_ns=7)
PROOF = Proof(
    "d1", (SpiderName("books"), SpiderName("größe")), HERE, datetime(2026, 11, 20, 10, 0, 0, 5, tzinfo=UTC), FILE
)
SHOP, V9, V10 = ProjectName("shop"), VersionName("9"), VersionName("10")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "catalogue.json"


def test_versions_are_in_scrapyds_order(path: Path) -> None:
    catalogue = Catalogue(path)
    for version in (V10, V9):
        catalogue.add(SHOP, version, PROOF)
    assert catalogue.versions() == {SHOP: (V9, V10)}
    assert catalogue.newest(SHOP) == V10
    assert catalogue.spiders(SHOP, V9) == ("books", "größe")
    assert catalogue.spiders(SHOP, "11") is None
    assert catalogue.newest("news") is None


def test_a_restart_counts_a_version_again_only_when_its_file_and_surroundings_are_untouched(path: Path) -> None:
    Catalogue(path).add(SHOP, V9, PROOF)
    later = Catalogue(path)
    assert later.versions() == {}
    assert not later.confirm(SHOP, V9, file=replace(FILE, modified_ns=8), surroundings=HERE)
    assert not later.confirm(SHOP, V9, file=FILE, surroundings=replace(HERE, packages="bbbb"))
    assert later.versions() == {}
    assert later.confirm(SHOP, V9, file=FILE, surroundings=HERE)
    assert later.versions() == {SHOP: (V9,)}
    assert later.proof(SHOP, V9) == PROOF


def test_the_same_bytes_are_remembered_whatever_version_or_file_they_come_as(path: Path) -> None:
    Catalogue(path).add(SHOP, V9, PROOF)
    later = Catalogue(path)
    assert later.remembered(SHOP, digest="d1", surroundings=HERE) == PROOF
    assert later.remembered(SHOP, digest="d2", surroundings=HERE) is None
    assert later.remembered("news", digest="d1", surroundings=HERE) is None
    assert later.remembered(SHOP, digest="d1", surroundings=replace(HERE, python="CPython 3.12.0")) is None


def test_what_was_dropped_is_gone_for_good(path: Path) -> None:
    catalogue = Catalogue(path)
    catalogue.add(SHOP, V9, PROOF)
    catalogue.add(SHOP, V10, PROOF)
    catalogue.suspend(SHOP, "11", "broken")
    catalogue.drop(SHOP, V9)
    catalogue.drop(SHOP, V9)
    assert catalogue.versions() == {SHOP: (V10,)}
    catalogue.drop(SHOP)
    assert (catalogue.versions(), catalogue.behind()) == ({}, {})
    assert not Catalogue(path).confirm(SHOP, V10, file=FILE, surroundings=HERE)


def test_a_suspended_version_does_not_count_and_its_reason_goes_when_it_is_proven(path: Path) -> None:
    catalogue = Catalogue(path)
    catalogue.add(SHOP, V9, PROOF)
    catalogue.suspend(SHOP, V9, "no module named x")
    assert catalogue.versions() == {}
    assert catalogue.behind() == {"shop 9": "no module named x"}
    assert catalogue.reason(SHOP, V9) == "no module named x"
    catalogue.add(SHOP, V9, PROOF)
    assert (catalogue.versions(), catalogue.behind()) == ({SHOP: (V9,)}, {})


def test_reasons_of_what_nobody_wants_any_more_are_forgotten(path: Path) -> None:
    catalogue = Catalogue(path)
    catalogue.suspend(SHOP, V9, "broken")
    catalogue.suspend(SHOP, V10, "broken")
    catalogue.keep_behind(frozenset({(SHOP, V9)}))
    assert catalogue.behind() == {"shop 9": "broken"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1, "proofs": [{}]}', "\xff"])
def test_a_file_that_cannot_be_read_costs_a_listing_and_no_start(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text, encoding="latin-1")
    catalogue = Catalogue(path)
    assert catalogue.versions() == {}
    catalogue.add(SHOP, V9, PROOF)
    assert Catalogue(path).confirm(SHOP, V9, file=FILE, surroundings=HERE)


def test_a_disk_that_takes_nothing_costs_a_listing_and_no_upload(path: Path) -> None:
    path.parent.parent.joinpath("state").write_text("a file where the folder should be")
    catalogue = Catalogue(path)
    catalogue.add(SHOP, V9, PROOF)
    assert catalogue.versions() == {SHOP: (V9,)}


def test_the_surroundings_of_this_process_are_always_the_same() -> None:
    assert Surroundings.now() == Surroundings.now()
    assert Surroundings.now().python.startswith("CPython 3")
