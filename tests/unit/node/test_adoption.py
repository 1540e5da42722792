"""What a later Scrapyd makes of the run folders of an earlier one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, ProjectName, SpiderName, Token, VersionName
from toolkit.model.queue import Ending, Progress
from toolkit.node.adoption import Living, survey, was_never_begun
from toolkit.node.claims import Claim, read_claim
from toolkit.node.delivery import Parcel
from toolkit.node.endings import Cause, write_ending
from toolkit.node.machine import Machine
from toolkit.runs.folder import CLAIM, ENDING, EXIT, PROCESS, REPORT, STOP, RunFolder
from toolkit.runs.process import start_of
from toolkit.runs.registration import register_this_process
from toolkit.runs.report import Exit, exit_of, report_of

NOW = 2_000_000_000.0


class Later(Machine):
    """This machine, at a time to come."""

    def time(self) -> float:
        return NOW


def claim_of(job_id: str = "job-1") -> Claim:
    return Claim(
        job_id=JobId(job_id),
        token=Token("7:node-1:life"),
        project=ProjectName("shop"),
        spider=SpiderName("books"),
        version=VersionName("v1"),
        attempt=1,
        begun_at=1_000.0,
        lease_s=15.0,
        timeout_s=60.0,
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    path = tmp_path / "runs" / "job-1~1"
    path.mkdir(parents=True)
    made = RunFolder(path)
    made.write(CLAIM, claim_of().written())
    return made


def only(folder: RunFolder) -> Living | Parcel:
    (found,) = survey(folder.path.parent, Later())
    return found


def dead_process(folder: RunFolder) -> None:
    folder.write(PROCESS, {"pid": os.getpid(), "start": "before"})


def test_a_claim_survives_its_file(folder: RunFolder) -> None:
    assert read_claim(folder.read(CLAIM)) == claim_of()


@pytest.mark.parametrize("content", [None, {}, {"job_id": "x"}, {**claim_of().written(), "attempt": "many"}])
def test_a_broken_claim_is_none(content: dict[str, object] | None) -> None:
    assert read_claim(content) is None


def test_a_job_that_was_never_begun_goes_back_and_no_late_process_begins_it(folder: RunFolder) -> None:
    found = only(folder)

    assert isinstance(found, Parcel)
    assert found.ending is None
    assert register_this_process(folder) is not None


def test_one_that_was_killed_while_it_was_stopped_with_its_node_keeps_its_attempt(folder: RunFolder) -> None:
    dead_process(folder)
    folder.write(STOP, {"cause": "node"})

    found = only(folder)

    assert isinstance(found, Parcel)
    assert found.ending is not None
    assert (found.ending.state, found.ending.is_counted) == (JobState.LOST, False)


def test_a_process_that_lives_is_adopted(folder: RunFolder) -> None:
    folder.write(PROCESS, {"pid": os.getpid(), "start": start_of(os.getpid())})
    folder.write(STOP, {"cause": "cancel"})

    found = only(folder)

    assert isinstance(found, Living)
    assert (found.process.pid, found.stopped_for) == (os.getpid(), Cause.CANCEL)


def test_a_zombie_does_not_live(folder: RunFolder) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    folder.write(PROCESS, {"pid": process.pid, "start": start_of(process.pid)})
    assert isinstance(only(folder), Living)
    process.communicate(b"\n")

    assert isinstance(only(folder), Parcel)


def test_what_a_process_said_before_it_ended_unseen_is_its_ending(folder: RunFolder) -> None:
    dead_process(folder)
    folder.write(REPORT, report_of(Progress(JobState.RUNNING, items=4, finish_reason="finished")))
    folder.write(EXIT, exit_of(Exit(exit_code=0)))

    found = only(folder)

    assert isinstance(found, Parcel)
    assert found.ending is not None
    assert (found.ending.state, found.ending.exit_code) == (JobState.FINISHED, 0)
    assert found.ended_at < NOW


def test_a_process_that_vanished_without_a_word_is_lost(folder: RunFolder) -> None:
    dead_process(folder)

    found = only(folder)

    assert isinstance(found, Parcel)
    assert found.ending is not None
    assert found.ending.state is JobState.LOST


def test_an_ending_that_was_not_heard_is_told_as_it_was(folder: RunFolder) -> None:
    ending = Ending(JobState.FAILED, "its process was ended by SIGSEGV", signal="SIGSEGV")
    folder.write(ENDING, write_ending(ending, ended_at=1234.5))

    found = only(folder)

    assert isinstance(found, Parcel)
    assert (found.claim, found.ended_at, found.ending) == (claim_of(), 1234.5, ending)


def test_a_folder_that_names_no_claim_is_removed(folder: RunFolder) -> None:
    (folder.path / CLAIM).write_text("{")

    assert list(survey(folder.path.parent, Later())) == []
    assert not folder.path.exists()


def test_only_a_process_that_did_not_register_was_never_begun(folder: RunFolder) -> None:
    refused = Exit(exit_code=75)

    assert was_never_begun(folder, 4711, refused)
    folder.write(PROCESS, {"pid": 4711, "start": "then"})
    assert not was_never_begun(folder, 4711, refused)
    assert was_never_begun(folder, 4712, refused)
    assert not was_never_begun(folder, 4712, Exit(exit_code=1))
    assert not was_never_begun(folder, 4712, None)
