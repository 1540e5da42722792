"""Caps: never more than allowed, in the cluster and on one node, and nobody else waits because of them."""

from __future__ import annotations

import threading

import pytest
from support.queue_desk import SOON_S, QueueDesk, a_pending_job, a_report, an_ending, names
from support.stores import NEWS, SHOP, V1
from support.waiting import wait_until

from toolkit.model.jobs import JobState
from toolkit.model.names import NodeName, SpiderName
from toolkit.model.queue import Cap, NothingToClaim

BOOKS, PRICES = SpiderName("books"), SpiderName("prices")


def test_a_project_has_no_more_active_jobs_than_its_cap(desk: QueueDesk) -> None:
    desk.queue.set_cap(Cap(SHOP, cluster=2))
    desk.add("a", "b")
    desk.add("c", spider="prices")
    one, other = desk.register(a_report("node-1")), desk.register(a_report("node-2"))
    first, _ = desk.claim(one), desk.claim(other)
    assert isinstance(desk.look(one), NothingToClaim)
    assert isinstance(desk.look(other), NothingToClaim)

    desk.finish(first)
    assert desk.claim(other).job.id == "c"
    assert isinstance(desk.look(one), NothingToClaim)


def test_a_spider_has_no_more_active_jobs_than_its_cap_and_others_go_on(desk: QueueDesk) -> None:
    desk.queue.set_cap(Cap(SHOP, BOOKS, cluster=1))
    desk.add("a", "b", "c", priority=9)
    desk.add("d", "e", spider="prices")
    assert desk.take_all(desk.register(a_report())) == ["a", "d", "e"]
    assert desk.states("b", "c") == ["pending", "pending"]


def test_a_cap_for_each_node_counts_the_jobs_of_that_node(desk: QueueDesk) -> None:
    desk.queue.set_cap(Cap(SHOP, BOOKS, per_node=1))
    desk.add("a", "b", "c", "d")
    desk.add("x", spider="prices")
    one, other = desk.register(a_report("node-1")), desk.register(a_report("node-2"))
    assert desk.take_all(one) == ["a", "x"]
    assert desk.take_all(other) == ["b"]
    assert desk.queue.busy(SHOP, BOOKS) == 2
    assert desk.queue.busy(SHOP, BOOKS, NodeName("node-1")) == 1
    assert desk.queue.busy(SHOP) == 3
    assert desk.queue.busy(SHOP, node=NodeName("node-1")) == 2


def test_the_narrowest_of_several_caps_counts(desk: QueueDesk) -> None:
    desk.queue.set_cap(Cap(SHOP, cluster=3, per_node=2))
    desk.queue.set_cap(Cap(SHOP, BOOKS, cluster=5))
    desk.add("a", "b", "c", "d")
    one, other = desk.register(a_report("node-1")), desk.register(a_report("node-2"))
    assert desk.take_all(one) == ["a", "b"]
    assert desk.take_all(other) == ["c"]


def test_a_cap_of_one_project_is_nothing_to_another(desk: QueueDesk) -> None:
    desk.queue.set_cap(Cap(SHOP, cluster=0))
    desk.queue.add([a_pending_job("a"), a_pending_job("b", project=NEWS)])
    report = desk.register(a_report(versions={SHOP: (V1,), NEWS: (V1,)}))
    assert desk.take_all(report) == ["b"]


def test_caps_count_what_is_active_already(desk: QueueDesk) -> None:
    desk.add("a", "b", "c")
    report = desk.register(a_report())
    claim = desk.claim(report)
    desk.claim(report)
    desk.queue.set_cap(Cap(SHOP, cluster=1))
    assert isinstance(desk.look(report), NothingToClaim)
    desk.finish(claim)
    assert isinstance(desk.look(report), NothingToClaim)
    desk.queue.set_cap(Cap(SHOP, cluster=2))
    assert desk.claim(report).job.id == "c"


def test_caps_are_listed_sorted_and_taken_away(desk: QueueDesk) -> None:
    caps = [Cap(NEWS, per_node=0), Cap(SHOP, cluster=3), Cap(SHOP, BOOKS, cluster=1, per_node=2)]
    for cap in reversed(caps):
        desk.queue.set_cap(cap)
    assert sorted(desk.queue.caps(), key=str) == sorted(caps, key=str)

    desk.queue.set_cap(Cap(SHOP, BOOKS, per_node=7))
    assert Cap(SHOP, BOOKS, per_node=7) in desk.queue.caps()
    for cap in caps:
        desk.queue.set_cap(Cap(cap.project, cap.spider))
    assert list(desk.queue.caps()) == []
    assert desk.redis.exists(desk.keys.caps) == 0


@pytest.mark.parametrize("spider", ["books@", "books@node-1", "a/b", "bücher@"])
def test_spiders_with_odd_names_are_counted_apart(desk: QueueDesk, spider: str) -> None:
    odd = SpiderName(spider)
    desk.queue.set_cap(Cap(SHOP, odd, cluster=1))
    desk.add("o1", "o2", spider=spider)
    desk.add("b1", "b2")
    report = desk.register(a_report())

    assert list(desk.queue.caps()) == [Cap(SHOP, odd, cluster=1)]
    assert desk.take_all(report) == ["o1", "b1", "b2"]
    assert desk.queue.busy(SHOP, odd) == 1
    assert desk.queue.busy(SHOP, BOOKS) == 2
    assert desk.queue.busy(SHOP, BOOKS, NodeName("node-1")) == 2


def odd_paths(desk: QueueDesk) -> None:
    """Let jobs leave their nodes in every way there is."""
    report = desk.register(a_report(slots=100))
    desk.queue.add([a_pending_job(f"j{number}", attempts=2, retries_failed=True) for number in range(8)])
    claims = [desk.run(report) for _ in range(8)]
    assert desk.queue.busy(SHOP) == 8
    desk.finish(claims[0])
    desk.finish(claims[0])
    desk.finish(claims[1], an_ending(JobState.FAILED))
    desk.finish(claims[2], an_ending(JobState.LOST))
    desk.queue.give_back(claims[3].job.id, claims[3].token, reason="no memory")
    desk.queue.give_back(claims[3].job.id, claims[3].token, reason="no memory")
    desk.end_leases("j4")
    desk.queue.requeue_expired()
    desk.finish(claims[4])
    desk.queue.cancel(names("j5"), grace_s=1)
    desk.finish(claims[5], an_ending(JobState.FAILED))
    desk.queue.cancel(names("j6"), grace_s=1)
    desk.end_leases("j6")
    desk.queue.requeue_expired()
    desk.queue.reconcile(report, [])


def test_the_counts_of_busy_jobs_stay_right_after_odd_paths(desk: QueueDesk) -> None:
    odd_paths(desk)
    assert desk.queue.busy(SHOP) == 0
    assert desk.queue.busy(SHOP, BOOKS) == 0
    assert desk.queue.busy(SHOP, BOOKS, NodeName("node-1")) == 0
    assert desk.redis.exists(desk.keys.busy) == 0


def test_a_freed_place_under_a_cap_wakes_the_nodes(desk: QueueDesk) -> None:
    desk.queue.set_cap(Cap(SHOP, cluster=1))
    desk.add("a", "b")
    claim = desk.claim(desk.register(a_report()))
    wakes = desk.queue.wakes(timeout_s=0.05)
    assert next(wakes) == ""
    desk.finish(claim)
    assert wait_until(lambda: next(wakes), deadline_s=SOON_S, what="a wake") == "queue"


def test_a_place_that_a_lost_job_frees_wakes_the_nodes(desk: QueueDesk) -> None:
    desk.queue.set_cap(Cap(SHOP, cluster=1))
    desk.queue.add([a_pending_job("a", attempts=1), a_pending_job("b")])
    report = desk.register(a_report())
    desk.claim(report)
    wakes = desk.queue.wakes(timeout_s=0.05)
    assert next(wakes) == ""
    desk.end_leases("a")
    desk.queue.requeue_expired()
    assert wait_until(lambda: next(wakes), deadline_s=SOON_S, what="a wake") == "queue"
    assert desk.claim(report).job.id == "b"


def test_many_that_claim_at_once_keep_a_cap(desk: QueueDesk) -> None:
    desk.queue.set_cap(Cap(SHOP, cluster=5, per_node=2))
    desk.add(*(f"j{number}" for number in range(40)))
    reports = [desk.register(a_report(f"node-{number}", slots=50)) for number in range(6)]
    taken: list[str] = []
    claimers = [
        threading.Thread(target=lambda report=report: taken.extend(desk.take_all(report)), daemon=True)
        for report in reports
    ]
    for claimer in claimers:
        claimer.start()
    for claimer in claimers:
        claimer.join(SOON_S)

    assert len(set(taken)) == len(taken) <= 5
    assert desk.queue.busy(SHOP) == len(taken)
    assert max(desk.queue.busy(SHOP, node=report.name) for report in reports) <= 2
    taken += [job_id for report in reports for _ in range(3) for job_id in desk.take_all(report)]
    assert len(set(taken)) == len(taken) == 5
