"""Why a job waits, where it runs, how it ended: decided on what was read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from support.queue_desk import a_pending_job
from support.registry import a_record, names
from support.stores import BEGIN, SHOP, V1, V2

from toolkit.cluster.why import Waiting, explain_active, explain_ended, explain_pending, judge_node
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeRecord

JOB = a_pending_job("j1")
NOW = BEGIN + timedelta(seconds=10)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (a_record("a", age_s=100), "is lost: its last sign of life is 100 s old"),
        (a_record("a", age_s=12), "is stale"),
        (a_record("a", versions=[V2]), f"does not hold {SHOP} {V1}"),
        (a_record("a", versions=[], behind={f"{SHOP} {V1}": "too large"}), f"does not hold {SHOP} {V1}: too large"),
        (a_record("a", is_draining=True), "takes no new job: drained by ann@desk"),
        (a_record("a", unfit="20 MB of disk are left"), "20 MB of disk are left"),
        (a_record("a", clash="10.0.0.9"), "another node claims its name"),
        (a_record("a", running=4), "has no free slot: 4 of 4 are taken"),
    ],
)
def test_a_node_says_why_it_cannot_take_a_job(record: NodeRecord, reason: str) -> None:
    verdict = judge_node(JOB, record)
    assert not verdict.could
    assert (verdict.reason or "").startswith(reason)


def test_a_node_that_was_not_picked_says_so() -> None:
    job = replace(JOB, on=tuple(names("b")))
    assert judge_node(job, a_record("a")).reason == "was not picked by --on"
    assert judge_node(job, a_record("b")).could


def test_a_cap_on_the_node_is_told() -> None:
    verdict = judge_node(JOB, a_record("a"), "the cap of spider books: 1 job(s) at once here")
    assert (verdict.could, verdict.reason) == (False, "the cap of spider books: 1 job(s) at once here")


def summary(job: Job, *records: NodeRecord, position: int | None = 0, full_caps: tuple[str, ...] = ()) -> str:
    return explain_pending(job, Waiting(position, records, full_caps), now=NOW).summary


def test_a_held_job_waits_to_be_released() -> None:
    assert summary(replace(JOB, is_held=True), a_record("a")) == "it is held: crawlctl jobs release j1 lets it go"


def test_a_delayed_job_says_when_it_is_due() -> None:
    assert "in 50 s" in summary(replace(JOB, due_at=BEGIN + timedelta(seconds=60)), a_record("a"))
    assert "in 1 day, 0:00:00" in summary(replace(JOB, due_at=NOW + timedelta(days=1)), a_record("a"))
    assert "could take it" in summary(replace(JOB, due_at=BEGIN), a_record("a"))


def test_a_full_cluster_is_told_with_the_place_in_the_queue() -> None:
    told = summary(JOB, a_record("a", running=4), a_record("b", running=4), position=7)
    assert told == "it waits: none of the 2 node(s) can take it now; 7 job(s) go before it"


def test_a_cap_in_the_cluster_goes_before_all_nodes() -> None:
    assert summary(JOB, a_record("a"), full_caps=("the cap of spider books",)) == "it waits for the cap of spider books"


def test_a_queue_without_nodes_says_so() -> None:
    assert summary(JOB) == "it waits for a node: no plug-in node is registered"


def test_freer_nodes_are_preferred_and_named() -> None:
    records = [a_record("a", running=3), a_record("b"), a_record("c", running=4)]
    verdicts = explain_pending(JOB, Waiting(0, records), now=NOW).nodes
    assert [(each.node, each.could) for each in verdicts] == [("a", True), ("b", True), ("c", False)]
    assert verdicts[0].reason == "leaves it to b first, which has more room"
    assert verdicts[1].reason is None


def test_a_job_that_came_back_says_what_happened_to_it() -> None:
    job = replace(JOB, attempt=1, reason="node-3 was lost")
    assert explain_pending(job, Waiting(0, []), now=NOW).details == ("it was begun 1 time(s) of 2; node-3 was lost",)


def test_a_running_job_says_where_it_is_and_whether_that_node_lives() -> None:
    job = replace(JOB, state=JobState.RUNNING, node=NodeName("a"), started_at=BEGIN, attempt=1)
    assert explain_active(job, a_record("a"), now=NOW).summary == "it is running on a, since 2026-11-20 10:15:00 UTC"
    assert explain_active(job, a_record("a"), now=NOW).details == ()
    stale = explain_active(job, a_record("a", age_s=12), now=NOW)
    assert "a is stale: its last sign of life is 12 s old" in stale.details[0]


def test_a_job_that_is_being_cancelled_says_since_when() -> None:
    job = replace(JOB, state=JobState.RUNNING, node=NodeName("a"), cancel_requested_at=BEGIN)
    assert explain_active(job, now=NOW).details == ("it was asked to end 10 s ago",)


def test_a_failed_job_tells_reason_code_and_signal() -> None:
    job = replace(
        JOB,
        state=JobState.FAILED,
        node=NodeName("a"),
        ended_at=BEGIN,
        reason="it was killed",
        exit_code=None,
        signal="SIGKILL",
        attempt=2,
    )
    told = explain_ended(job, log=["last line"])
    assert told.summary == "it failed on a at 2026-11-20 10:15:00 UTC: it was killed"
    assert told.details == ("signal SIGKILL", "it was begun 2 time(s) of 2")
    assert told.log == ("last line",)
