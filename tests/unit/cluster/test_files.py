"""Items as whole lines, what is said to be missing of them, and how long a file that is followed is waited for."""

from __future__ import annotations

import contextlib
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.waiting import wait_until

from toolkit.cluster import job_log
from toolkit.cluster.files import ItemLines
from toolkit.cluster.job_log import END_PATIENCE_S, patience_s
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import Excerpt
from toolkit.cluster.waiting import AWAY_PATIENCE_S
from toolkit.model.errors import (
    CrawlctlError,
    NodeUnreachableError,
    NotFoundError,
    StoreUnreachableError,
    StoreUnreadableError,
)
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, LineName, NodeName, ProjectName, SpiderName

NODE = NodeName("node-1")
AWAY = NodeUnreachableError(NODE, "items", "connection refused")
NO_FILE = NotFoundError("node-1 keeps no items of job")
STORE_AWAY = StoreUnreachableError("Redis does not answer")


def a_job(state: JobState = JobState.FINISHED, *, items: int | None = None, is_queued: bool = True) -> Job:
    return Job(
        id=JobId("job"),
        project=ProjectName("shop"),
        spider=SpiderName("finds"),
        state=state,
        node=NODE,
        items=items,
        line=LineName("line") if is_queued else None,
    )


def read(*parts: bytes) -> tuple[list[bytes], ItemLines]:
    """Return what is passed on of a file that is read in these parts."""
    lines, begins_at, excerpts = ItemLines(), 0, []
    for part in parts:
        excerpts.append(Excerpt(part, begins_at, begins_at + len(part)))
        begins_at += len(part)
    return list(lines.of(excerpts)), lines


@given(st.lists(st.binary(min_size=1, max_size=9).map(lambda data: data.replace(b"x", b"\n")), max_size=20))
def test_only_whole_lines_are_passed_on_and_counted_however_the_file_is_cut(parts: list[bytes]) -> None:
    passed, lines = read(*parts)
    whole, newline, rest = b"".join(parts).rpartition(b"\n")
    assert b"".join(passed) == whole + newline
    assert all(piece.endswith(b"\n") for piece in passed)
    assert lines.count == b"".join(parts).count(b"\n")
    assert bool(rest) == bool(lines.missing(a_job()))


def test_a_file_that_is_begun_at_another_node_begins_the_count_and_joins_no_half_line() -> None:
    lines = ItemLines()
    parts = [Excerpt(b"1\n2\n3", 0, 5), Excerpt(b"1\n", 0, 2), Excerpt(b"2\n", 2, 4)]
    assert b"".join(lines.of(parts)) == b"1\n2\n1\n2\n"
    assert lines.count == 2


@pytest.mark.parametrize("items", [None, 0, 1, 2])
@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.FINISHED])
def test_nothing_is_said_to_be_missing_of_as_many_items_as_were_counted(state: JobState, items: int | None) -> None:
    _, lines = read(b"1\n2\n")
    assert lines.missing(a_job(state, items=items)) == []


def test_fewer_lines_than_were_counted_are_told_with_both_numbers() -> None:
    _, lines = read(b"1\n2\n")
    assert lines.missing(a_job(items=1033)) == ["job counted 1,033 items, but its file on node-1 has 2"]
    stock = lines.missing(a_job(JobState.RUNNING, items=3, is_queued=False))
    assert [text.partition(" ")[0] for text in stock] == ["job", "a"]
    assert "blocks of 8 kB" in stock[1]


def test_a_line_that_is_cut_off_is_told_once_no_more_can_come() -> None:
    _, lines = read(b"1\n", b'{"number": ')
    assert lines.missing(a_job(JobState.RUNNING)) == []
    assert lines.missing(a_job(JobState.FAILED)) == [
        "the last line of the file is incomplete and was not printed (11 bytes)"
    ]


@pytest.mark.parametrize("error", [AWAY, NO_FILE, STORE_AWAY])
@pytest.mark.parametrize("has_answered", [True, False])
def test_any_error_is_borne_while_the_job_runs_or_goes_on_elsewhere(
    error: CrawlctlError, *, has_answered: bool
) -> None:
    moved = a_job()
    for job, node in ((a_job(JobState.RUNNING), NODE), (moved, NodeName("node-2"))):
        assert patience_s(error, job, node, has_answered=has_answered) == inf


@pytest.mark.parametrize(
    ("error", "job", "patience"),
    [
        (STORE_AWAY, None, AWAY_PATIENCE_S),
        (AWAY, None, AWAY_PATIENCE_S),
        (AWAY, a_job(), END_PATIENCE_S),
        (STORE_AWAY, a_job(), END_PATIENCE_S),
        (NO_FILE, a_job(), 0),
        (StoreUnreadableError("a newer record"), None, 0),
    ],
)
def test_what_has_answered_before_is_waited_for(error: CrawlctlError, job: Job | None, patience: float) -> None:
    assert patience_s(error, job, NODE, has_answered=True) == patience
    assert patience_s(error, job, NODE, has_answered=False) == 0


class Restarting:
    """The way to a node that does not answer the first time."""

    def __init__(self) -> None:
        self.asked = 0

    def items(self, job: Job, *, begin: int = 0) -> Excerpt:  # noqa: ARG002 - NodeFiles'
        self.asked += 1
        if self.asked == 1:
            raise AWAY
        return Excerpt(b"", 0, 0)


def test_a_node_that_is_left_alone_for_a_while_is_asked_again_however_often_one_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Restarting()
    monkeypatch.setattr(job_log, "AWAY_S", 0.3)
    monkeypatch.setattr(job_log, "reach", lambda *_, **__: node)
    there = job_log.JobLogs(Nodes([]), lambda: pytest.fail("the store is not needed")).files(a_job())
    looks = 0

    def answers() -> bool:
        nonlocal looks
        looks += 1
        with contextlib.suppress(NodeUnreachableError):
            return there.items(a_job()) is not None
        return False

    wait_until(answers, deadline_s=20, what="the node to be asked again", pause_s=0.02)
    assert node.asked == 2
    assert looks > 2
