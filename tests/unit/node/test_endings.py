"""What is made of the end of a process."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.jobs import JobState
from toolkit.model.queue import Ending, Progress
from toolkit.node.endings import Cause, Evidence, judge, last_words_of, read_ending, write_ending
from toolkit.runs.report import Exit

CLEAN = Exit(exit_code=0)
RUNNING = Progress(JobState.RUNNING, pages=3, items=2)

EXITS = st.none() | st.builds(Exit, exit_code=st.integers(0, 255)) | st.builds(Exit, signal=st.just("SIGKILL"))
REPORTS = st.none() | st.builds(
    Progress,
    state=st.just(JobState.RUNNING),
    finish_reason=st.none() | st.sampled_from(["finished", "shutdown", "cancelled", "memusage_exceeded"]),
)
EVIDENCE = st.builds(
    Evidence,
    seen=EXITS,
    said=EXITS,
    report=REPORTS,
    stopped_for=st.none() | st.sampled_from(Cause),
    timeout_s=st.none() | st.floats(1, 100),
    is_node_going=st.booleans(),
)


def said(reason: str | None) -> Progress:
    return replace(RUNNING, finish_reason=reason)


@pytest.mark.parametrize(
    ("evidence", "state", "words"),
    [
        (Evidence(seen=CLEAN, report=said("finished")), JobState.FINISHED, "finished"),
        (Evidence(seen=CLEAN, report=said("closespider_timeout")), JobState.FINISHED, "closespider_timeout"),
        (Evidence(seen=CLEAN), JobState.FINISHED, "exit code 0"),
        (Evidence(seen=CLEAN, report=said("memusage_exceeded")), JobState.FAILED, "memusage_exceeded"),
        (Evidence(seen=CLEAN, report=RUNNING), JobState.FAILED, "without closing the spider"),
        (Evidence(seen=CLEAN, report=said("shutdown")), JobState.FAILED, "signal from outside"),
        (Evidence(seen=Exit(exit_code=1), last_words="KeyError: 'x'"), JobState.FAILED, "exit code 1: KeyError: 'x'"),
        (Evidence(seen=Exit(signal="SIGSEGV")), JobState.FAILED, "ended by SIGSEGV"),
        (Evidence(), JobState.FAILED, "without a word"),
        (Evidence(is_node_going=True), JobState.LOST, "gone when Scrapyd came back"),
        (Evidence(said=CLEAN, report=said("finished"), is_node_going=True), JobState.FINISHED, "finished"),
        (Evidence(said=CLEAN, report=said("shutdown"), is_node_going=True), JobState.LOST, "with its node"),
        (Evidence(seen=Exit(signal="SIGTERM"), is_node_going=True), JobState.LOST, "with its node"),
        (Evidence(said=Exit(exit_code=3), is_node_going=True), JobState.FAILED, "exit code 3"),
        (
            Evidence(said=Exit(exit_code=0, node_was_lost=True), report=said("shutdown")),
            JobState.LOST,
            "no sign of life",
        ),
        (
            Evidence(seen=CLEAN, report=said("shutdown"), stopped_for=Cause.TIMEOUT, timeout_s=90),
            JobState.FAILED,
            "time limit of 90 s",
        ),
        (Evidence(seen=CLEAN, report=said("finished"), stopped_for=Cause.TIMEOUT), JobState.FINISHED, "finished"),
        (Evidence(seen=Exit(signal="SIGKILL"), stopped_for=Cause.CANCEL), JobState.FAILED, "on request"),
        (Evidence(seen=CLEAN, report=said("shutdown"), stopped_for=Cause.NODE), JobState.LOST, "stopped with its node"),
        (Evidence(seen=Exit(signal="SIGKILL"), stopped_for=Cause.NODE), JobState.LOST, "stopped with its node"),
        (Evidence(seen=Exit(signal="SIGINT"), stopped_for=Cause.NODE, has_begun=False), JobState.LOST, "its node"),
        (Evidence(stopped_for=Cause.NODE, is_node_going=True), JobState.LOST, "stopped with its node"),
        (Evidence(seen=CLEAN, report=said("finished"), stopped_for=Cause.NODE), JobState.FINISHED, "finished"),
        (
            Evidence(seen=CLEAN, report=said("closespider_timeout"), stopped_for=Cause.NODE, is_node_going=True),
            JobState.FINISHED,
            "closespider_timeout",
        ),
        (
            Evidence(seen=Exit(signal="SIGKILL"), report=said("finished"), stopped_for=Cause.NODE, is_node_going=True),
            JobState.LOST,
            "with its node",
        ),
    ],
)
def test_the_ending_says_what_happened(evidence: Evidence, state: JobState, words: str) -> None:
    ending = judge(evidence)

    assert ending.state is state
    assert words in ending.reason


@given(EVIDENCE)
def test_every_end_is_finished_failed_or_lost_and_has_a_reason(evidence: Evidence) -> None:
    ending = judge(evidence)

    assert ending.state in {JobState.FINISHED, JobState.FAILED, JobState.LOST}
    assert ending.reason
    assert ending.progress == evidence.report


@given(EVIDENCE)
def test_only_what_exited_with_0_is_finished(evidence: Evidence) -> None:
    if judge(evidence).state is JobState.FINISHED:
        assert (evidence.seen or evidence.said) == CLEAN


@given(EVIDENCE)
def test_a_job_is_never_lost_while_its_node_stays(evidence: Evidence) -> None:
    stopped_for = None if evidence.stopped_for is Cause.NODE else evidence.stopped_for
    stays = replace(evidence, is_node_going=False, said=None, stopped_for=stopped_for)

    assert judge(stays).state is not JobState.LOST


@given(EVIDENCE, st.floats(0, 2e9))
def test_an_ending_survives_its_file(evidence: Evidence, ended_at: float) -> None:
    ending = judge(evidence)

    assert read_ending(write_ending(ending, ended_at=ended_at)) == (ending, ended_at)


@pytest.mark.parametrize("content", [None, {}, {"state": "odd"}, {"state": "failed", "reason": "x"}])
def test_a_broken_file_holds_no_ending(content: dict[str, str] | None) -> None:
    assert read_ending(content) is None


def test_the_last_words_are_the_last_line_that_says_anything() -> None:
    assert last_words_of("Traceback:\n  File x\nValueError: no\n\n") == "ValueError: no"
    assert last_words_of("") == ""
    assert len(last_words_of("x" * 5000)) == 300


def test_an_ending_without_progress_is_written_too() -> None:
    ending = Ending(JobState.FAILED, "why", signal="SIGKILL")

    assert read_ending(write_ending(ending, ended_at=1.0)) == (ending, 1.0)


@pytest.mark.parametrize(
    ("evidence", "is_counted"),
    [
        (Evidence(said=CLEAN, report=said("shutdown"), is_node_going=True), False),
        (Evidence(is_node_going=True), True),
        (Evidence(said=Exit(exit_code=0, node_was_lost=True), report=said("shutdown")), True),
        (Evidence(seen=CLEAN, report=said("shutdown")), True),
        (Evidence(seen=CLEAN, report=said("finished"), is_node_going=True), True),
        (Evidence(seen=CLEAN, report=said("shutdown"), stopped_for=Cause.NODE), False),
        (Evidence(seen=Exit(signal="SIGKILL"), report=RUNNING, stopped_for=Cause.NODE), False),
        (Evidence(seen=Exit(signal="SIGKILL"), report=said("finished"), stopped_for=Cause.NODE), True),
        (Evidence(stopped_for=Cause.NODE, is_node_going=True), False),
    ],
)
def test_only_a_spider_that_was_closed_or_killed_with_its_stopped_node_keeps_its_attempt(
    evidence: Evidence, *, is_counted: bool
) -> None:
    assert judge(evidence).is_counted is is_counted
