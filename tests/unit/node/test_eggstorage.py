"""The folder of eggs is Scrapyd's own, and what is written there is there whole or not at all."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import pytest
from scrapyd.config import Config
from scrapyd.eggstorage import FilesystemEggStorage
from scrapyd.exceptions import DirectoryTraversalError, EggNotFoundError, ProjectNotFoundError
from scrapyd.interfaces import IEggStorage
from zope.interface.verify import verifyObject  # type: ignore[import-untyped]

from toolkit.node.eggstorage import STAGED_PREFIX, ProvenEggStorage, held_as


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(values={"eggs_dir": str(tmp_path / "eggs")})


@pytest.fixture
def eggs(config: Config) -> ProvenEggStorage:
    return ProvenEggStorage(config)


def test_it_is_an_egg_storage_of_scrapyds(eggs: ProvenEggStorage) -> None:
    assert verifyObject(IEggStorage, eggs)


def test_scrapyds_own_storage_reads_what_was_put_and_the_other_way_round(
    eggs: ProvenEggStorage, config: Config
) -> None:
    theirs = FilesystemEggStorage(config)
    eggs.put(io.BytesIO(b"one"), "shop", "1.0")
    theirs.put(io.BytesIO(b"two"), "shop", "2.0")
    for storage in (eggs, theirs):
        assert list(storage.list("shop")) == ["1_0", "2_0"]
        assert storage.list_projects() == ["shop"]
        version, file = storage.get("shop", "1.0")
        with file:
            assert (version, file.read()) == ("1.0", b"one")
        version, file = storage.get("shop")
        with file:
            assert (version, file.read()) == ("2_0", b"two")


def test_a_version_is_held_under_the_name_that_scrapyd_lists(eggs: ProvenEggStorage) -> None:
    eggs.put(io.BytesIO(b"one"), "shop", "r1.0-main+x")
    assert list(eggs.list("shop")) == [held_as("r1.0-main+x")] == ["r1_0-main_x"]


def test_what_is_not_there_is_nothing_or_scrapyds_own_error(eggs: ProvenEggStorage) -> None:
    assert eggs.list_projects() == []
    assert list(eggs.list("shop")) == []
    assert eggs.get("shop", "1") == eggs.get("shop") == (None, None)
    assert eggs.digest("shop", "1") is None
    assert eggs.file("shop", "1") is None
    with pytest.raises(ProjectNotFoundError):
        eggs.delete("shop")
    with pytest.raises(EggNotFoundError):
        eggs.delete("shop", "1")


def test_a_project_goes_with_its_last_version(eggs: ProvenEggStorage) -> None:
    for version in ("1", "2"):
        eggs.put(io.BytesIO(b"x"), "shop", version)
    eggs.delete("shop", "1")
    assert eggs.list_projects() == ["shop"]
    eggs.delete("shop", "2")
    assert eggs.list_projects() == []


def test_a_staged_egg_is_in_no_list_and_survives_the_removal_of_the_last_version(eggs: ProvenEggStorage) -> None:
    eggs.put(io.BytesIO(b"x"), "shop", "1")
    staged = eggs.stage("shop")
    staged.write_bytes(b"new")
    eggs.delete("shop", "1")
    assert eggs.list_projects() == []
    assert list(eggs.list("shop")) == []
    eggs.publish(staged, "shop", "2")
    assert list(eggs.list("shop")) == ["2"]
    assert eggs.digest("shop", "2") == hashlib.sha256(b"new").hexdigest()


def test_a_staged_egg_can_be_run_as_any_version_can(eggs: ProvenEggStorage, config: Config) -> None:
    staged = eggs.stage("shop")
    staged.write_bytes(b"new")
    _, file = FilesystemEggStorage(config).get("shop", staged.stem)
    with file:
        assert file.read() == b"new"


def test_a_discarded_egg_leaves_no_project_behind(eggs: ProvenEggStorage, tmp_path: Path) -> None:
    staged = eggs.stage("shop")
    eggs.discard(staged)
    eggs.discard(staged)
    assert list((tmp_path / "eggs").iterdir()) == []


def test_what_a_crash_left_half_done_is_removed_when_it_is_old(eggs: ProvenEggStorage, tmp_path: Path) -> None:
    eggs.discard_old_staged(older_than_s=60)
    eggs.put(io.BytesIO(b"x"), "shop", "1")
    old, young = eggs.stage("news"), eggs.stage("shop")
    for path in (old, eggs.path("shop", "1")):
        os.utime(path, (1, 1))
    eggs.discard_old_staged(older_than_s=60)
    left = sorted(path.name for path in (tmp_path / "eggs").rglob("*"))
    assert left == ["1.egg", young.name, "shop"]


def test_a_put_that_fails_half_way_leaves_the_egg_that_was_there(eggs: ProvenEggStorage, tmp_path: Path) -> None:
    class Breaks(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell():
                raise OSError("the disk is gone")
            return super().read(size and 1)

    eggs.put(io.BytesIO(b"whole"), "shop", "1")
    with pytest.raises(OSError, match="gone"):
        eggs.put(Breaks(b"half"), "shop", "1")
    assert eggs.digest("shop", "1") == hashlib.sha256(b"whole").hexdigest()
    assert not list((tmp_path / "eggs").rglob(f"{STAGED_PREFIX}*"))


@pytest.mark.parametrize("project", ["..", "../x", "a/b", "/etc"])
def test_no_project_leads_out_of_the_folder(eggs: ProvenEggStorage, project: str) -> None:
    for act in (eggs.list, eggs.delete, eggs.stage, lambda name: eggs.put(io.BytesIO(b"x"), name, "1")):
        with pytest.raises(DirectoryTraversalError):
            act(project)


@pytest.mark.parametrize("project", [".", "", "./", "shop/..", ".//."])
def test_a_name_for_the_whole_folder_is_no_project(eggs: ProvenEggStorage, project: str) -> None:
    eggs.put(io.BytesIO(b"one"), "shop", "1")
    for attempt in (lambda: eggs.delete(project), lambda: eggs.stage(project), lambda: eggs.get(project, "1")):
        with pytest.raises(DirectoryTraversalError):
            attempt()
    assert eggs.list_projects() == ["shop"]
