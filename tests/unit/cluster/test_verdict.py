"""What becomes of a job in every combination of its record, its node's row, and its log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from toolkit.cluster.joblog import LogFacts
from toolkit.cluster.scrapyd import ListedJob
from toolkit.cluster.verdict import ENDED_UNCLOSED, GONE, SENDING, is_being_sent, judge, merge
from toolkit.model.errors import NodeUnreachableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.outcomes import Outcome, Outcomes

NOW = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
NODE, OTHER = NodeName("node-1"), NodeName("node-2")
ALIVE = (JobState.PENDING, JobState.RUNNING)
FINAL = tuple(state for state in JobState if state.is_final)
ROWS = (JobState.PENDING, JobState.RUNNING, JobState.FINISHED)

CLOSED = LogFacts(finish_reason="finished", pages=3)
SHUT = LogFacts(finish_reason="shutdown", pages=3)
OUT_OF_MEMORY = LogFacts(finish_reason="memusage_exceeded")
BROKEN_OFF = LogFacts(breaks_off=True, pages=3)
SILENT = LogFacts()
LOGS = (None, SILENT, BROKEN_OFF, CLOSED, SHUT, OUT_OF_MEMORY)


def every(*columns: Sequence[object]) -> list[tuple[object, ...]]:
    return list(product(*columns))


def a_job(state: JobState, *, job_id: str = "a", node: NodeName | None = NODE, is_cancelled: bool = False) -> Job:
    return Job(
        id=JobId(job_id),
        project=ProjectName("shop"),
        spider=SpiderName("books"),
        state=state,
        version=VersionName("v1"),
        node=node,
        args={"city": "Zürich"},
        settings={},
        scheduled_at=NOW,
        cancel_requested_at=NOW if is_cancelled else None,
    )


def a_row(state: JobState, *, job_id: str = "a", node: NodeName = NODE) -> ListedJob:
    job = replace(a_job(state, job_id=job_id, node=node), version=None, args=None, settings=None, scheduled_at=None)
    return ListedJob(job, "2026-11-21 08:00:00", None)


def answers(*rows: ListedJob, node: NodeName = NODE) -> Outcome[tuple[ListedJob, ...]]:
    return Outcome(node, rows)


def silence(node: NodeName = NODE) -> Outcome[tuple[ListedJob, ...]]:
    return Outcome(node, None, NodeUnreachableError(node, "listjobs.json", "nobody there"))


def merged(record: Job | None, *outcomes: Outcome[tuple[ListedJob, ...]]) -> Job:
    found = merge({} if record is None else {record.id: record}, Outcomes(outcomes))
    (job,) = found.values()
    return job


@pytest.mark.parametrize(("state", "row"), every(FINAL, [*ROWS, None]))
def test_a_final_state_is_never_turned_back_by_a_node(state: JobState, row: JobState | None) -> None:
    record = a_job(state)
    assert merged(record, answers(*([a_row(row)] if row else []))) == record
    assert merged(record, silence()) == record


@pytest.mark.parametrize(("state", "row"), every(ALIVE, ROWS))
def test_a_live_jobs_state_is_what_its_node_says_and_the_rest_what_was_recorded(state: JobState, row: JobState) -> None:
    record = a_job(state)
    assert merged(record, answers(a_row(row))) == replace(record, state=row)


@pytest.mark.parametrize("state", ALIVE)
def test_a_job_that_its_answering_node_has_forgotten_is_lost(state: JobState) -> None:
    job = merged(a_job(state), answers())
    assert (job.state, job.finish_reason) == (JobState.LOST, GONE)


@pytest.mark.parametrize("state", ALIVE)
@pytest.mark.parametrize("outcomes", [(silence(),), (answers(node=OTHER),), (silence(), answers(node=OTHER)), ()])
def test_a_job_whose_node_does_not_answer_is_as_last_known(
    state: JobState, outcomes: tuple[Outcome[tuple[ListedJob, ...]], ...]
) -> None:
    assert merged(a_job(state), *outcomes) == a_job(state)


def test_a_job_without_a_node_is_as_last_known() -> None:
    assert merged(a_job(JobState.PENDING, node=None), answers()) == a_job(JobState.PENDING, node=None)


@pytest.mark.parametrize("row", ROWS)
def test_somebody_elses_job_is_shown_as_its_node_tells_it(row: JobState) -> None:
    assert merged(None, answers(a_row(row))) == a_row(row).job


def test_a_job_that_another_node_took_is_where_it_is() -> None:
    job = merged(a_job(JobState.PENDING), answers(), answers(a_row(JobState.RUNNING, node=OTHER), node=OTHER))
    assert (job.state, job.node) == (JobState.RUNNING, OTHER)


def test_of_several_jobs_under_one_id_the_live_one_counts() -> None:
    ended, waiting, running = (a_row(state) for state in (JobState.FINISHED, JobState.PENDING, JobState.RUNNING))
    assert merged(None, answers(waiting, running, ended)).state is JobState.RUNNING
    assert merged(None, answers(waiting, ended)).state is JobState.PENDING
    elsewhere = answers(a_row(JobState.FINISHED, node=OTHER), node=OTHER)
    assert merged(None, answers(running), elsewhere).node == NODE


def expected(state: JobState, facts: LogFacts | None, *, is_cancelled: bool) -> tuple[JobState, str | None]:
    """Return the whole table of judgements, for a job that the node calls finished or has forgotten."""
    reason = facts.finish_reason if facts else None
    if reason is not None:
        if is_cancelled or facts == SHUT:
            return JobState.CANCELLED, reason
        return JobState.FAILED if facts == OUT_OF_MEMORY else JobState.FINISHED, reason
    if state is JobState.LOST:
        return JobState.LOST, None
    if is_cancelled:
        return JobState.CANCELLED, "killed"
    return (JobState.FAILED, ENDED_UNCLOSED) if facts == BROKEN_OFF else (JobState.FINISHED, None)


@pytest.mark.parametrize(
    ("state", "facts", "is_cancelled"), every((JobState.FINISHED, JobState.LOST), LOGS, (False, True))
)
def test_an_end_is_judged_by_log_and_wish(state: JobState, facts: LogFacts | None, is_cancelled: bool) -> None:  # noqa: FBT001 - a column of the table
    job = judge(a_job(state, is_cancelled=is_cancelled), facts)
    assert (job.state, job.finish_reason) == expected(state, facts, is_cancelled=is_cancelled)


@pytest.mark.parametrize(("facts", "state"), every(LOGS, (JobState.FINISHED,)))
def test_a_cancelled_job_is_never_called_finished(facts: LogFacts | None, state: JobState) -> None:
    assert judge(a_job(state, is_cancelled=True), facts).state is JobState.CANCELLED


@pytest.mark.parametrize(("state", "facts"), every((*ALIVE, JobState.CANCELLED, JobState.FAILED), LOGS))
def test_what_runs_or_was_judged_already_is_not_judged(state: JobState, facts: LogFacts | None) -> None:
    assert judge(a_job(state), facts) == a_job(state)


def test_a_killed_spider_failed() -> None:
    assert judge(a_job(JobState.FINISHED), BROKEN_OFF).state is JobState.FAILED


def test_a_cancelled_job_that_its_node_forgot_is_not_said_to_be_gone() -> None:
    assert judge(a_job(JobState.LOST, is_cancelled=True), BROKEN_OFF).state is JobState.LOST


@pytest.mark.parametrize(
    ("record", "job", "after", "is_on_its_way"),
    [
        (JobState.PENDING, {}, SENDING / 2, True),
        (JobState.PENDING, {}, SENDING, False),
        (JobState.RUNNING, {}, SENDING / 2, False),
        (JobState.PENDING, {"pages": 0}, SENDING / 2, False),
        (JobState.PENDING, {"started_at": NOW}, SENDING / 2, False),
        (JobState.PENDING, {"state": JobState.CANCELLED}, SENDING / 2, False),
    ],
)
def test_a_job_that_was_recorded_just_now_may_not_have_been_sent_yet(
    record: JobState,
    job: dict[str, object],
    after: timedelta,
    is_on_its_way: bool,  # noqa: FBT001 - a column of the table
) -> None:
    looked_at = replace(a_job(JobState.LOST), **job)  # type: ignore[arg-type] # columns of the table
    assert is_being_sent(a_job(record), looked_at, now=NOW + after) == is_on_its_way


def test_a_record_without_a_time_is_not_on_its_way() -> None:
    record = replace(a_job(JobState.PENDING), scheduled_at=None)
    assert not is_being_sent(record, a_job(JobState.LOST), now=NOW)
