"""A version made from time and digest, and the commit of the source."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scrapy_projects import write_files

from toolkit.model.names import check_version
from toolkit.rollout.version import make_version, source_revision

DIGEST = "9f3c2a1" + "0" * 57


def git(folder: Path, *args: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    done = subprocess.run(["git", "-C", str(folder), *who, *args], env=env, capture_output=True, check=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    write_files(tmp_path, {"shop/__init__.py": "", "other/file.txt": ""})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "First")
    return tmp_path


def test_a_version_is_utc_time_and_the_head_of_the_digest() -> None:
    now = datetime(2026, 11, 20, 12, 15, 0, tzinfo=timezone(timedelta(hours=2)))
    assert make_version(DIGEST, now) == "20261120-101500-9f3c2a1"


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        make_version(DIGEST, datetime(2026, 11, 20))  # noqa: DTZ001 - that is the point


@given(st.lists(st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1)), min_size=2, max_size=2))  # noqa: DTZ001 - bounds
def test_versions_sort_as_text_in_the_order_of_their_times(times: list[datetime]) -> None:
    early, late = sorted(time.replace(tzinfo=UTC, microsecond=0) for time in times)
    first, second = make_version(DIGEST, early), make_version(DIGEST, late)
    assert first <= second
    assert (first == second) == (early == late)
    assert check_version(first) == first


def test_the_revision_of_a_clean_checkout_is_its_commit(repository: Path) -> None:
    assert source_revision(repository / "shop") == git(repository, "rev-parse", "HEAD")


def test_a_changed_or_new_file_of_the_project_makes_it_dirty(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    write_files(repository, {"shop/new.py": ""})
    assert source_revision(repository / "shop") == f"{commit}-dirty"


def test_a_change_elsewhere_in_the_repository_does_not_make_it_dirty(repository: Path) -> None:
    write_files(repository, {"other/file.txt": "changed"})
    assert source_revision(repository / "shop") == git(repository, "rev-parse", "HEAD")


def test_there_is_no_revision_outside_a_repository_or_before_the_first_commit(tmp_path: Path) -> None:
    assert source_revision(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert source_revision(tmp_path) is None


def test_asking_for_the_revision_does_not_touch_the_repository(repository: Path) -> None:
    write_files(
        repository, {"shop/__init__.py": ""}
    )  # a newer time, which a plain `git status` would note in the index
    before = (repository / ".git/index").stat().st_mtime_ns, sorted((repository / ".git").rglob("*"))
    source_revision(repository)
    assert ((repository / ".git/index").stat().st_mtime_ns, sorted((repository / ".git").rglob("*"))) == before


def test_a_git_hooks_environment_does_not_lead_astray(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert source_revision(repository) is not None


def test_without_git_there_is_no_revision(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert source_revision(repository) is None
