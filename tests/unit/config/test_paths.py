"""Where samples and state lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.config import paths
from toolkit.config.paths import sample_file, state_folder
from toolkit.model.errors import ConfigurationError


def test_the_samples_of_a_checkout_are_found() -> None:
    assert sample_file("inventory.yaml").is_file()
    assert sample_file("scrapyd.conf").is_file()
    assert sample_file("projects").is_dir()


def test_an_installed_sample_comes_before_one_beside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = tmp_path / "toolkit"
    (toolkit / "samples").mkdir(parents=True)
    (tmp_path / "inventory.yaml").touch()
    monkeypatch.setattr(paths, "_TOOLKIT", toolkit)
    assert sample_file("inventory.yaml") == tmp_path / "inventory.yaml"
    (toolkit / "samples" / "inventory.yaml").touch()
    assert sample_file("inventory.yaml") == toolkit / "samples" / "inventory.yaml"


def test_a_missing_sample_means_a_broken_installation() -> None:
    with pytest.raises(ConfigurationError, match="missing from this installation"):
        sample_file("no-such-sample")


def test_state_lies_beside_the_inventory_closed_to_others_and_to_git(tmp_path: Path) -> None:
    folder = state_folder(tmp_path / "inventory.yaml", {})
    assert folder == tmp_path / ".crawlctl"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / ".gitignore").read_text() == "*\n"
    assert state_folder(tmp_path / "inventory.yaml", {}) == folder


def test_the_environment_names_another_folder(tmp_path: Path) -> None:
    wanted = tmp_path / "a" / "state"
    assert state_folder(tmp_path / "inventory.yaml", {"CRAWLCTL_STATE": str(wanted)}) == wanted
    assert wanted.is_dir()
    assert not (tmp_path / ".crawlctl").exists()


def test_a_folder_that_is_there_already_is_left_as_it_is(tmp_path: Path) -> None:
    state_folder(tmp_path / "inventory.yaml", {"CRAWLCTL_STATE": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_its_place_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / ".crawlctl").touch()
    with pytest.raises(ConfigurationError, match="cannot be created") as caught:
        state_folder(tmp_path / "inventory.yaml", {})
    assert "CRAWLCTL_STATE" in (caught.value.hint or "")
