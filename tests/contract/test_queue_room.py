"""A fresh job goes to the node with the most room; nobody waits for a node that is not there."""

from __future__ import annotations

import json

import pytest
from support.queue_desk import SHORT_S, SOON_S, QueueDesk, a_report
from support.waiting import wait_until

from toolkit.model.names import NodeName
from toolkit.model.queue import Claimed, NothingToClaim
from toolkit.store import redis_queue

PATIENCE_S = 60.0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job be new for a minute, however slow this machine is."""
    monkeypatch.setattr(redis_queue, "CLAIM_PATIENCE_S", PATIENCE_S)


@pytest.mark.usefixtures("patient")
def test_a_fresh_job_is_left_to_a_freer_node_for_a_moment(desk: QueueDesk) -> None:
    busy, free = desk.register(a_report("busy", running=3)), desk.register(a_report("free"))
    desk.add("a1")

    answer = desk.look(busy, running=3)
    assert isinstance(answer, NothingToClaim)
    assert answer.again_s is not None
    assert 0 < answer.again_s <= PATIENCE_S
    assert desk.claim(free).job.id == "a1"


def test_a_busy_node_takes_what_the_free_one_did_not(desk: QueueDesk) -> None:
    busy = desk.register(a_report("busy", running=3))
    desk.register(a_report("free"))
    desk.add("a1")
    assert desk.claim(busy, running=3).job.id == "a1"


def test_nodes_with_equal_room_do_not_wait_for_each_other(desk: QueueDesk) -> None:
    one, other = desk.register(a_report("one", running=2)), desk.register(a_report("other", running=2))
    desk.add("a1", "a2")
    assert isinstance(desk.look(one, running=2), Claimed)
    assert isinstance(desk.look(other, running=2), Claimed)


@pytest.mark.usefixtures("patient")
def test_jobs_spread_over_idle_nodes_one_each(desk: QueueDesk) -> None:
    reports = [desk.register(a_report(f"node-{number}")) for number in range(4)]
    desk.add("a", "b", "c", "d")
    running = dict.fromkeys((report.name for report in reports), 0)

    # The first node is the quickest: it always looks again at once.
    for report in (reports[0], reports[0], reports[1], reports[0], reports[2], reports[1], reports[3]):
        if isinstance(desk.look(report, running=running[report.name]), Claimed):
            running[report.name] += 1
    assert running == {"node-0": 1, "node-1": 1, "node-2": 1, "node-3": 1}


@pytest.mark.usefixtures("patient")
def test_a_clock_that_was_set_back_makes_no_job_wait(desk: QueueDesk) -> None:
    busy = desk.register(a_report("busy", running=3))
    desk.register(a_report("free"))
    desk.add("a1")
    facts = json.loads(str(desk.redis.hget(desk.keys.jobs, "a1")))
    desk.redis.hset(desk.keys.jobs, "a1", json.dumps({**facts, "ready_ms": facts["ready_ms"] + 3_600_000}))
    assert isinstance(desk.look(busy, running=3), Claimed)


@pytest.mark.usefixtures("patient")
def test_a_job_that_is_left_to_a_freer_node_keeps_no_other_from_being_taken(desk: QueueDesk) -> None:
    busy = desk.register(a_report("busy", running=3))
    desk.register(a_report("free"))
    desk.add("old", spider="lamps")
    facts = json.loads(str(desk.redis.hget(desk.keys.jobs, "old")))
    desk.redis.hset(desk.keys.jobs, "old", json.dumps({**facts, "ready_ms": facts["ready_ms"] - 60_000}))
    desk.add("new", priority=5)
    claim = desk.look(busy, running=3)
    assert isinstance(claim, Claimed)
    assert claim.job.id == "old"
    answer = desk.look(busy, running=3)
    assert isinstance(answer, NothingToClaim)
    assert answer.again_s is not None
    assert 0 < answer.again_s <= PATIENCE_S


@pytest.mark.parametrize("gone", ["drained", "left", "unfit", "full"])
def test_nobody_waits_for_a_node_that_takes_nothing(desk: QueueDesk, gone: str) -> None:
    busy = desk.register(a_report("busy", running=2))
    other = desk.register(
        a_report("other", running=4 if gone == "full" else 0, unfit="too little disk" if gone == "unfit" else None)
    )
    if gone == "drained":
        desk.nodes.drain([NodeName("other")], who="ann@desk")
    if gone == "left":
        desk.nodes.leave(other)
    desk.add("a1")

    assert isinstance(desk.look(busy, running=2), Claimed)


def test_nobody_waits_for_a_node_that_is_silent(desk: QueueDesk) -> None:
    desk.register(a_report("silent", lease_s=SHORT_S))
    wait_until(lambda: desk.nodes.all()[0].age_s > SHORT_S, deadline_s=SOON_S, what="the node to be lost")
    busy = desk.register(a_report("busy", running=2, lease_s=SHORT_S))
    desk.add("a1")
    assert isinstance(desk.look(busy, running=2), Claimed)


def test_a_full_node_is_no_reason_to_wait_once_it_took_its_last_job(desk: QueueDesk) -> None:
    small, big = desk.register(a_report("small", slots=1)), desk.register(a_report("big", running=2))
    desk.add("a", "b")
    assert isinstance(desk.look(small), Claimed)
    assert isinstance(desk.look(big, running=2), Claimed)


def test_a_node_without_slots_gets_nothing(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report(slots=0))
    assert isinstance(desk.look(report), NothingToClaim)
    assert isinstance(desk.look(desk.register(a_report("node-2", running=2)), running=2), Claimed)
