"""The queue counts its own doings in the step that does them, and all is read without looking at a job or an entry."""

from __future__ import annotations

import math
import re
import time
from importlib import resources

import pytest
from support.crawl_desk import CrawlDesk
from support.queue_desk import QueueDesk, a_pending_job, a_report, an_ending
from support.stores import SHOP

from toolkit.model.jobs import JobState
from toolkit.model.measures import CLAIM_BOUNDS_S
from toolkit.store.wire_measures import read_claims, read_ended


def test_a_fresh_cluster_has_counted_nothing(desk: QueueDesk) -> None:
    measures = desk.shared.measures.read()
    assert set(measures.claims) == {*CLAIM_BOUNDS_S, math.inf}
    assert not any(measures.claims.values())
    assert (measures.ended, measures.oldest_waiting_s, measures.sample, measures.crons) == ({}, None, None, 0)
    assert measures.redis is not None
    assert measures.redis.used_bytes
    assert measures.redis.latency_s > 0


def test_claims_starts_and_outcomes_are_counted(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a"), a_pending_job("b"), a_pending_job("c")])
    report = desk.register(a_report())
    desk.finish(desk.run(report))
    desk.finish(desk.run(report), an_ending(JobState.FAILED))
    desk.queue.cancel([desk.job("c").id], grace_s=1)
    measures = desk.shared.measures.read()
    assert (sum(measures.claims.values()), measures.started) == (2, 2)
    outcomes = (JobState.FINISHED, JobState.FAILED, JobState.CANCELLED)
    assert measures.ended == dict.fromkeys([(SHOP, outcome) for outcome in outcomes], 1)


def test_the_wait_of_a_claim_falls_to_its_bound(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("late"), a_pending_job("very-late")])
    for job_id, ago_s in (("late", 20), ("very-late", 100_000)):
        facts = str(desk.redis.hget(desk.keys.jobs, job_id))
        ready = f'"ready_ms":{int((time.time() - ago_s) * 1000)}'
        desk.redis.hset(desk.keys.jobs, job_id, re.sub(r'"ready_ms":\d+', ready, facts))
    oldest_s = desk.shared.measures.oldest_waiting_s()
    assert oldest_s is not None
    assert oldest_s >= 20
    report = desk.register(a_report())
    desk.claim(report)
    desk.claim(report)
    measures = desk.shared.measures.read()
    assert {bound_s for bound_s, count in measures.claims.items() if count} == {30.0, math.inf}
    assert 100_020 <= measures.claims_waited_s < 100_100
    assert measures.oldest_waiting_s is None


def test_a_count_that_is_full_keeps_no_job_from_ending(desk: QueueDesk) -> None:
    desk.add("j1")
    claim = desk.run(desk.register(a_report()))
    desk.redis.hset(desk.keys.measures, "pages", 2**63 - 1)
    assert desk.finish(claim) is JobState.FINISHED
    assert desk.shared.measures.read().pages == 2**63 - 1


def test_lost_leases_and_requeued_jobs_are_counted(desk: QueueDesk) -> None:
    desk.add("a", attempts=2)
    report = desk.register(a_report())
    for _ in range(2):
        desk.run(report)
        desk.end_leases("a")
        desk.queue.requeue_expired()
    measures = desk.shared.measures.read()
    assert (measures.leases_lost, measures.requeued, measures.started) == (2, 1, 2)
    assert measures.ended == {(SHOP, JobState.LOST): 1}


def test_crons_that_are_late_are_seen_without_reading_them(desk: QueueDesk) -> None:
    now_ms = time.time() * 1000
    desk.redis.zadd(desk.keys.crons_due, {"late": now_ms - 90_000, "soon": now_ms + 1000})
    measures = desk.shared.measures.read()
    assert (measures.crons, measures.crons_late) == (2, 1)
    assert measures.next_cron_at is not None
    assert 80 < (measures.at - measures.next_cron_at).total_seconds() < 100


def test_the_size_of_a_crawl_is_what_its_view_says(desk: QueueDesk, crawl: CrawlDesk) -> None:
    assert desk.shared.measures.read().crawls == ()
    worker = crawl.worker("w1")
    worker.push(*(f"https://example.com/{number}" for number in range(5)))
    worker.take(2)
    crawl.seed("https://example.com/seed")
    view = crawl.view()
    (sizes,) = desk.shared.measures.read().crawls
    assert (sizes.pending, sizes.in_flight, sizes.seeds, sizes.seen) == (
        view.pending,
        view.in_flight,
        view.seeds,
        view.seen,
    )
    assert (sizes.workers, sizes.commits, sizes.is_paused) == (1, worker.number, False)


def test_lua_and_python_count_claims_by_the_same_bounds() -> None:
    script = resources.files("toolkit.store").joinpath("lua", "claim.lua").read_text(encoding="utf-8")
    found = re.search(r"BOUNDS = \{ ([^}]+) \}", script)
    assert found is not None
    assert tuple(int(each) / 1000 for each in found[1].split(",")) == CLAIM_BOUNDS_S


@pytest.mark.parametrize("odd", ["ended:", "ended:exploded:shop", "endless", "claims:never"])
def test_a_count_of_a_newer_crawlctl_is_left_alone(odd: str) -> None:
    assert read_ended({odd: "3", "ended:lost:a:b": "2"}) == {("a:b", JobState.LOST): 2}
    assert not any(read_claims({odd: "3"}).values())
