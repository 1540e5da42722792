"""The local store on files and folders that are in the way, damaged, full, locked or not this user's."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.require import require

from toolkit.model.errors import StoreUnreachableError, StoreUnreadableError, UsageError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, ProjectName, SpiderName
from toolkit.store.local_file import FORMAT, LocalFile
from toolkit.store.local_store import LocalStore
from toolkit.store.open import open_store

OPEN_AND_ADD = """
import sys
from pathlib import Path
from toolkit.model.errors import StoreUnreachableError
from toolkit.model.jobs import Job, JobState
from toolkit.store.open import open_store
try:
    store = open_store(None, Path(sys.argv[1]))
    store.jobs.add([Job("a", "shop", "books", JobState.PENDING)])
except StoreUnreachableError as error:
    print(error, "|", error.hint)
"""


def a_job(job_id: str) -> Job:
    at = datetime(2026, 11, 20, tzinfo=UTC)
    return Job(
        id=JobId(job_id),
        project=ProjectName("shop"),
        spider=SpiderName("b" * 500),
        state=JobState.PENDING,
        scheduled_at=at,
    )


def unprivileged(folder: Path) -> str:
    """Open the store in the folder as a user whom file modes bind, and return what is said."""
    command = [sys.executable, "-c", OPEN_AND_ADD, str(folder)]
    if os.geteuid() == 0:
        require(shutil.which("setpriv"), "file modes do not bind root, and there is no setpriv to give that up")
        command = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.stdout


def test_file_and_folder_are_its_users_alone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "a" / "state")
    store.jobs.add([a_job("a")])

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.path.parent.iterdir()}
    assert modes
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    store.close()


def test_what_is_stored_outlives_the_process(tmp_path: Path) -> None:
    assert unprivileged(tmp_path) == ""
    store = open_store(None, tmp_path)
    assert [job.id for job in store.jobs.unfinished()] == ["a"]
    store.close()


def test_a_closed_store_opens_again_by_itself(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.close()
    store.jobs.add([a_job("a")])
    store.close()


def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o500)
    said = unprivileged(folder)
    assert "store-main.sqlite3" in said
    assert f"can this user write to {folder}?" in said


def test_a_file_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    LocalStore(tmp_path).close()
    (tmp_path / "store-main.sqlite3").chmod(0o400)
    assert "this user may not write to it" in unprivileged(tmp_path)


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(StoreUnreachableError, match="cannot be made") as caught:
        open_store(None, tmp_path / "state")
    assert caught.value.hint


def test_a_folder_in_place_of_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "store-main.sqlite3").mkdir()
    with pytest.raises(StoreUnreachableError, match="cannot be opened"):
        open_store(None, tmp_path)


def test_a_file_that_is_no_store_is_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store-main.sqlite3"
    path.write_text("some other file " * 100)
    with pytest.raises(StoreUnreachableError, match="it is no store") as caught:
        open_store(None, tmp_path)
    assert f"mv {path} {path}.broken" in str(caught.value.hint)
    assert path.read_text().startswith("some other file")


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.jobs.add([a_job(f"j{number}") for number in range(500)])
    store.close()
    size = store.path.stat().st_size
    with store.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xde\xad" * ((size - 8192) // 2))
    with pytest.raises(StoreUnreachableError, match=r"is damaged"):
        LocalStore(tmp_path).jobs.unfinished()


def test_a_record_that_is_no_job_is_named(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.jobs.add([a_job("a")])
    with sqlite3.connect(store.path) as rows:
        rows.execute("UPDATE jobs SET body = 'not JSON'")
    rows.close()
    with pytest.raises(StoreUnreadableError, match="a job in the shared store is not JSON"):
        store.jobs.get(JobId("a"))
    store.close()


def test_a_file_of_a_newer_crawlctl_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.close()
    rows = sqlite3.connect(store.path)
    rows.execute(f"PRAGMA user_version = {FORMAT + 1}")
    rows.close()
    with pytest.raises(StoreUnreadableError, match="newer crawlctl") as caught:
        open_store(None, tmp_path)
    assert caught.value.hint == "pip install --upgrade crawlctl"


def test_a_file_of_an_older_crawlctl_gains_what_it_lacks_and_keeps_the_rest(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.jobs.add([a_job("a")])
    store.close()
    with sqlite3.connect(store.path) as rows:
        rows.execute("DROP TABLE audit")
        rows.execute("DROP TABLE rollouts")
        rows.execute("PRAGMA user_version = 1")
    rows.close()

    again = LocalStore(tmp_path)
    assert again.audit.entries() == ()
    assert [job.id for job in again.jobs.unfinished()] == ["a"]
    again.close()


def test_a_file_held_by_another_process_is_told_after_the_timeout(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = LocalFile(store.path, busy_timeout_s=0.3)

    began = time.monotonic()
    with pytest.raises(StoreUnreachableError, match=r"another process has held it for 0\.3 s"), waiting.writing():
        pass
    assert 0.2 < time.monotonic() - began < 30
    assert store.jobs.unfinished() == ()

    other.execute("ROLLBACK")
    with waiting.writing():
        pass
    other.close()
    waiting.close()
    store.close()


def test_a_full_disk_is_told_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.jobs.add([a_job("a")])
    with store._file.reading() as rows:
        pages = rows.execute("PRAGMA page_count").fetchone()[0]
    with store._file.reading() as rows:
        rows.execute(f"PRAGMA max_page_count = {pages + 2}")

    with pytest.raises(StoreUnreachableError, match="its disk is full"):
        store.jobs.add([a_job(f"b{number}") for number in range(200)])
    assert [job.id for job in store.jobs.unfinished()] == ["a"]
    store.close()


def test_text_that_is_no_text_is_refused_without_a_traceback(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with pytest.raises(UsageError, match="is not text"):
        store.jobs.matching("\udc80")
    with pytest.raises(UsageError, match="is not text"):
        store.jobs.get(JobId("\udc80"))
    store.close()


def test_many_processes_may_make_the_file_at_once(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN_AND_ADD.replace('"a"', f'"j{number}"'), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(6)
    ]
    said = [racer.communicate(timeout=60)[0] for racer in racers]
    assert said == [""] * 6
    store = open_store(None, tmp_path)
    assert [job.id for job in store.jobs.matching("")] == [f"j{number}" for number in range(6)]
    store.close()


def test_a_disk_quota_is_told(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.jobs.add([a_job("a")])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(StoreUnreachableError, match="disk"):
            store.jobs.add([a_job(f"b{number}") for number in range(2000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [job.id for job in store.jobs.unfinished()] == ["a"]
    store.close()
