"""Whatever a spider says of itself, or an operator types, one job's odd values never keep the others waiting."""

from __future__ import annotations

import json
import math

import pytest
from support.queue_desk import QueueDesk, a_pending_job, a_report, names

from toolkit.model.errors import UsageError
from toolkit.model.jobs import JobFilter, JobState
from toolkit.model.queue import Ending, NothingToClaim, Progress

HALF_A_CHARACTER = "half a character \ud83d and a byte \udcff"
ODD_PROGRESS = [
    Progress(JobState.RUNNING, pages=10**20, bytes=123_456_789_012_345_678),
    Progress(JobState.RUNNING, pages=-1, items=-(10**400)),
    Progress(JobState.RUNNING, pages_per_minute=math.nan, memory_mb=math.inf),
    Progress(JobState.RUNNING, pages_per_minute=1e300, memory_mb=-math.inf),
    Progress(JobState.RUNNING, finish_reason=HALF_A_CHARACTER),
    Progress(JobState.RUNNING, finish_reason="\0 \x1b[31m" + "x" * 100_000),
]


@pytest.mark.parametrize("progress", ODD_PROGRESS, ids=range(len(ODD_PROGRESS)))
def test_a_job_with_odd_counts_is_seen_cancelled_and_ended(desk: QueueDesk, progress: Progress) -> None:
    desk.add("odd", "other")
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.beat(report, claim, progress=progress)
    assert desk.job("odd").state == JobState.RUNNING
    assert desk.queue.cancel(names("odd"), grace_s=1) == {"odd": JobState.RUNNING}
    desk.queue.retry(names("odd"))

    ending = Ending(JobState.FAILED, "it failed", exit_code=1, progress=progress)
    assert desk.finish(claim, ending) == JobState.CANCELLED
    assert {job.id for job in desk.store.jobs.recent(JobFilter(), limit=5)} == {"odd", "other"}
    assert desk.queue.retry(names("odd")) == {"odd"}
    assert desk.take_all(report) == ["other", "odd"]


@pytest.mark.parametrize("reason", [HALF_A_CHARACTER, "", "x" * 1_000_000, "a\0b\r\n\x1b[0m", "名前 🕷"])
def test_any_reason_is_recorded(desk: QueueDesk, reason: str) -> None:
    desk.add("a", "b")
    report = desk.register(a_report())
    assert desk.finish(desk.run(report), Ending(JobState.FAILED, reason)) == JobState.FAILED
    claim = desk.claim(report)
    assert desk.queue.give_back(claim.job.id, claim.token, reason=reason)

    expected = reason.encode(errors="replace").decode()
    assert desk.job("a").reason == desk.job("b").reason == expected
    assert desk.queue.retry(names("a")) == {"a"}


def test_arguments_that_are_no_unicode_come_to_the_node(desk: QueueDesk) -> None:
    args = {"path": "M\udcfcnchen", "nul": "a\0b"}
    desk.queue.add([a_pending_job("a", args=args)])
    assert desk.claim(desk.register(a_report())).job.args == args


def test_a_name_that_is_no_unicode_is_refused_before_it_can_stop_the_queue(desk: QueueDesk) -> None:
    with pytest.raises(UsageError, match="bad"):
        desk.queue.add([a_pending_job("good"), a_pending_job("bad", spider="b\udcff")])
    desk.add("other")
    assert desk.take_all(desk.register(a_report())) == ["other"]


@pytest.mark.parametrize("order", ['{"v":1,"args":{"n":1}}', "no JSON", '{"v":999}'], ids=["number", "text", "newer"])
def test_a_job_that_a_node_cannot_read_fails_and_holds_up_nobody(desk: QueueDesk, order: str) -> None:
    desk.add("odd", "other")
    desk.redis.hset(desk.keys.orders, "odd", order)
    report = desk.register(a_report())

    assert isinstance(desk.look(report), NothingToClaim)
    assert desk.claim(report).job.id == "other"
    odd = json.loads(str(desk.redis.hget(desk.keys.jobs, "odd")))
    assert odd["state"] == JobState.FAILED
    assert "in the shared store" in odd["reason"]
    assert desk.queue.counts()["active"] == 1
