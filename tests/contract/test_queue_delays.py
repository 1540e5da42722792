"""Delayed jobs are taken when they are due, and nodes are woken when there is something to look at."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from support.queue_desk import SHORT_S, SOON_S, QueueDesk, a_pending_job, a_report, names, queue_desk
from support.redis_server import RedisServer
from support.stores import BEGIN
from support.waiting import wait_until

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.names import NodeName
from toolkit.model.queue import Claimed, NothingToClaim


def be_due(desk: QueueDesk, job_id: str) -> None:
    """Let a delayed job be due, as if its time had gone by."""
    facts = json.loads(str(desk.redis.hget(desk.keys.jobs, job_id)))
    due_ms = int(desk.store.now().timestamp() * 1000)
    desk.redis.hset(desk.keys.jobs, job_id, json.dumps({**facts, "due_ms": due_ms}))
    desk.redis.zadd(desk.keys.delayed, {job_id: due_ms}, xx=True)


def test_a_delayed_job_is_taken_when_it_is_due_and_at_its_place(desk: QueueDesk) -> None:
    report = desk.register(a_report())
    due_at = desk.store.now() + timedelta(seconds=60)
    desk.queue.add([a_pending_job("late", priority=5, due_at=due_at)])

    answer = desk.look(report)
    assert isinstance(answer, NothingToClaim)
    assert answer.again_s is not None
    assert 0 < answer.again_s <= 60.01
    desk.add("now")
    assert desk.claim(report).job.id == "now"

    desk.add("next")
    be_due(desk, "late")
    assert desk.take_all(report) == ["late", "next"]


def test_a_node_that_follows_answers_and_wakes_gets_a_delayed_job_soon_after_it_is_due(desk: QueueDesk) -> None:
    report = desk.register(a_report())
    due_at = desk.store.now() + timedelta(seconds=SHORT_S)
    desk.queue.add([a_pending_job("late", due_at=due_at)])
    wakes = desk.queue.wakes(timeout_s=0.02)
    assert next(wakes) == ""

    looks = 0
    while not isinstance(answer := desk.look(report), Claimed):
        looks += 1
        assert looks < 10
        again_at = desk.store.now() + timedelta(seconds=3600 if answer.again_s is None else answer.again_s)
        wait_until(
            lambda until=again_at: next(wakes) or desk.store.now() >= until,  # type: ignore[misc]
            deadline_s=SOON_S,
            what="a wake, or the time to look again",
        )
    # Whoever heeds neither would look again in an hour.
    assert desk.store.now() - due_at < timedelta(seconds=SOON_S)


def test_a_held_job_is_not_taken_when_it_is_due(desk: QueueDesk) -> None:
    report = desk.register(a_report())
    due_at = desk.store.now() + timedelta(seconds=SHORT_S / 2)
    desk.queue.add([a_pending_job("late", is_held=True, due_at=due_at)])
    wait_until(lambda: desk.store.now() >= due_at, deadline_s=SOON_S, what="the held job to be due")

    assert isinstance(desk.look(report), NothingToClaim)
    assert isinstance(desk.look(report), NothingToClaim)
    assert desk.queue.release(names("late")) == {"late"}
    assert desk.claim(report).job.id == "late"


def test_a_job_that_was_due_long_ago_is_taken_at_once(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a1", due_at=BEGIN - timedelta(days=400))])
    assert desk.claim(desk.register(a_report())).job.id == "a1"


def test_every_waker_hears_of_new_jobs(desk: QueueDesk) -> None:
    wakes = desk.queue.wakes(timeout_s=0.05)
    assert next(wakes) == ""
    desk.add("a1")
    heard = wait_until(lambda: next(wakes), deadline_s=SOON_S, what="a wake")
    assert heard == "queue"


def test_listening_ends_with_an_error_when_redis_goes(desk: QueueDesk, redis_server: RedisServer) -> None:
    wakes = desk.queue.wakes(timeout_s=0.05)
    assert next(wakes) == ""
    redis_server.stop()
    try:
        with pytest.raises(StoreUnreachableError):
            wait_until(lambda: next(wakes), deadline_s=SOON_S, what="an error")
    finally:
        redis_server.start()
    again = desk.queue.wakes(timeout_s=0.05)
    assert next(again) == ""
    desk.add("a1")
    assert wait_until(lambda: next(again), deadline_s=SOON_S, what="a wake") == "queue"


def test_whoever_stops_listening_leaves_no_subscription(desk: QueueDesk) -> None:
    wakes = desk.queue.wakes(timeout_s=0.05)
    assert next(wakes) == ""
    assert desk.redis.pubsub_numsub(desk.keys.wake) == [(desk.keys.wake, 1)]
    wakes.close()  # type: ignore[attr-defined]
    wait_until(
        lambda: desk.redis.pubsub_numsub(desk.keys.wake) == [(desk.keys.wake, 0)],
        deadline_s=SOON_S,
        what="the subscription to end",
    )


def test_clusters_of_one_redis_do_not_hear_or_see_each_other(desk: QueueDesk, redis_url: str, tmp_path: Path) -> None:
    with queue_desk(redis_url, tmp_path / "other", cluster="other") as other:
        wakes = other.queue.wakes(timeout_s=0.05)
        assert next(wakes) == ""
        desk.add("a1")
        assert next(wakes) == ""
        other.add("a1", "b1")
        assert wait_until(lambda: next(wakes), deadline_s=SOON_S, what="a wake") == "queue"
        assert desk.take_all(desk.register(a_report())) == ["a1"]
        assert other.take_all(other.register(a_report(home="another"))) == ["a1", "b1"]


def test_a_node_is_woken_by_name_when_its_job_is_cancelled(desk: QueueDesk) -> None:
    desk.add("a1")
    desk.run(desk.register(a_report()))
    wakes = desk.queue.wakes(timeout_s=0.05)
    assert next(wakes) == ""
    desk.queue.cancel(names("a1"), grace_s=1)
    assert wait_until(lambda: next(wakes), deadline_s=SOON_S, what="a wake") == NodeName("node-1")
