"""What is asked before an act, which rows it is for, and what is said of it afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.still_cluster import a_still_crawl, a_still_job, a_still_node

from toolkit.cluster.acts import Acts
from toolkit.cluster.cancel import Cancelled
from toolkit.model.errors import NodesFailedError, RefusedError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import NodeName, VersionName
from toolkit.model.snapshot import NodeState
from toolkit.top import acting
from toolkit.top.acting import Act, Told
from toolkit.top.deeds import deed
from toolkit.top.dialogs import read_concurrency, read_delay
from toolkit.top.jobs_tab import JobRow
from toolkit.top.queue_tab import why_waiting

RUNNING, PENDING, FAILED = a_still_job(1), a_still_job(2, JobState.PENDING), a_still_job(3, JobState.FAILED)


def meant(verb: str, *rows: Any) -> Act:
    act = deed(verb, rows)
    assert isinstance(act, Act), act
    return act


def refused(verb: str, *rows: Any) -> str:
    act = deed(verb, rows)
    assert isinstance(act, str), act
    return act


def test_a_cancel_names_each_job_that_it_is_for_and_leaves_out_what_has_ended() -> None:
    act = meant("cancel", *map(JobRow, (RUNNING, PENDING, FAILED)))
    assert act.question == "Cancel 2 jobs?"
    assert act.subjects == ("00000001 prices running on node-2", "00000002 reviews pending")
    assert "1 of them are with a node" in act.note


@pytest.mark.parametrize(
    ("verb", "row", "words"),
    [
        ("cancel", JobRow(FAILED), "has ended already"),
        ("retry", JobRow(RUNNING), "only a failed, lost or cancelled job"),
        ("pause", JobRow(PENDING), "only a running job"),
        ("resume", JobRow(RUNNING), "only a paused job"),
        ("pause", JobRow(replace(RUNNING, line=None)), "of the shared queue"),
        ("drain", replace(a_still_node(1), kind="stock"), "a stock node cannot be drained"),
        ("drain", a_still_node(1, state=NodeState.DRAINING), "takes no new job already"),
        ("resume", a_still_node(1), "not drained"),
        ("pause", a_still_crawl(is_paused=True), "paused already"),
        ("resume", a_still_crawl(), "not paused"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(verb: str, row: object, words: str) -> None:
    assert words in refused(verb, row)


def test_nothing_under_the_cursor_is_nothing_to_act_on() -> None:
    assert "nothing under the cursor" in refused("cancel")


def test_thousands_of_jobs_are_not_for_one_key() -> None:
    assert "crawlctl cancel --spider" in refused("cancel", *(JobRow(a_still_job(number)) for number in range(600)))


@pytest.mark.parametrize(
    ("cancelled", "told"),
    [
        (Cancelled(RUNNING, JobState.RUNNING, JobState.CANCELLED), Told("00000001: gone (its process is gone)")),
        (Cancelled(PENDING, JobState.PENDING, JobState.CANCELLED), Told("00000002: gone (it never ran)")),
        (
            Cancelled(RUNNING, JobState.RUNNING, JobState.FINISHED),
            Told("00000001: gone (it finished by itself before)"),
        ),
        (Cancelled(FAILED, JobState.FAILED, JobState.FAILED), Told("00000003: it was failed already")),
        (
            Cancelled(
                RUNNING,
                JobState.RUNNING,
                JobState.RUNNING,
                NodesFailedError("x is not proven to be gone: its node is lost", hint="look on the host"),
            ),
            Told("x is not proven to be gone: its node is lost (look on the host)", is_bad=True),
        ),
    ],
)
def test_gone_is_said_only_of_what_is_gone(cancelled: Cancelled, told: Told) -> None:
    assert acting.cancelled_words(cancelled) == told


class Refusing(Acts):
    """Refuses everything, as a cluster may."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def pause_job(self, prefix: str) -> Job:
        self.asked.append(prefix)
        if prefix == RUNNING.id:
            raise RefusedError(f"{prefix} is finished by now, and so was not paused")
        return replace(a_still_job(4), state=JobState.PAUSED)


def test_one_job_that_refuses_keeps_no_other_from_being_paused() -> None:
    acts = Refusing()
    told = acting.performed(meant("pause", JobRow(RUNNING), JobRow(a_still_job(4))), acts)
    assert [each.is_bad for each in told] == [True, False]
    assert acts.asked == [RUNNING.id, a_still_job(4).id]


@pytest.mark.parametrize(
    ("text", "number"), [("", None), (" ", None), ("8", 8), ("0", str), ("-3", str), ("9999999", str), ("x", str)]
)
def test_a_concurrency_is_a_whole_number_that_makes_sense(text: str, number: object) -> None:
    found = read_concurrency(text)
    assert isinstance(found, str) if number is str else found == number


@pytest.mark.parametrize(
    ("text", "number"), [("", None), ("0", 0.0), ("1.5", 1.5), ("-1", str), ("nan", str), ("inf", str), ("x", str)]
)
def test_a_delay_is_a_number_that_makes_sense(text: str, number: object) -> None:
    found = read_delay(text)
    assert isinstance(found, str) if number is str else found == number


@pytest.mark.parametrize(
    ("job", "nodes", "why", "is_stuck"),
    [
        (PENDING, [], "no node is there", True),
        (PENDING, [a_still_node(1, state=NodeState.LOST)], "no node is there", True),
        (replace(PENDING, on=(NodeName("node-9"),)), [a_still_node(1)], "none of the nodes of --on", True),
        (replace(PENDING, version=VersionName("v9")), [a_still_node(1)], "no node holds shop v9", True),
        (PENDING, [a_still_node(1, running=4)], "1 node(s) may take it, all are full", False),
        (PENDING, [a_still_node(1, running=1)], "3 slot(s) are free", False),
    ],
)
def test_a_line_says_why_it_waits(job: Job, nodes: list[Any], why: str, *, is_stuck: bool) -> None:
    told, stuck = why_waiting(job, nodes)
    assert told.startswith(why)
    assert stuck is is_stuck
