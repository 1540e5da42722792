"""Reconcile: a node that has just started, or lost an answer, leaves no job behind that nobody runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.queue_desk import SOON_S, QueueDesk, a_report, names, queue_desk
from support.stores import SHOP, V1
from support.tcp_relay import TcpRelay
from support.waiting import wait_until

from toolkit.model.errors import ConflictError, StoreUnreachableError
from toolkit.model.jobs import JobState
from toolkit.model.names import SpiderName
from toolkit.model.queue import Line, NothingToClaim


def test_a_claim_whose_answer_was_lost_goes_back_uncounted(desk: QueueDesk) -> None:
    desk.add("a", "b", attempts=1)
    report = desk.register(a_report())
    desk.claim(report)

    assert desk.queue.reconcile(report, []) == {"a": JobState.PENDING}
    assert (desk.job("a").attempt, desk.job("a").node) == (0, None)
    assert desk.redis.zcard(desk.keys.leases) == 0
    assert desk.take_all(report) == ["a", "b"]


def test_what_an_earlier_life_left_is_requeued_at_once(desk: QueueDesk) -> None:
    desk.add("a1", attempts=2)
    old = desk.run(desk.register(a_report(session="life-1")))
    report = desk.register(a_report(session="life-2"))

    assert desk.queue.reconcile(report, []) == {"a1": JobState.PENDING}
    assert desk.job("a1").attempt == 1
    assert desk.finish(old) is None
    claim = desk.claim(report)
    assert (claim.job.id, claim.job.attempt) == ("a1", 2)


def test_what_an_earlier_life_left_at_its_last_attempt_is_lost(desk: QueueDesk) -> None:
    desk.add("a1", attempts=1)
    desk.run(desk.register(a_report(session="life-1")))
    report = desk.register(a_report(session="life-2"))

    assert desk.queue.reconcile(report, []) == {"a1": JobState.LOST}
    assert desk.job("a1").reason
    assert desk.left_behind() == set()


def test_what_the_node_knows_of_is_left_alone(desk: QueueDesk) -> None:
    desk.add("a", "b", "c")
    report = desk.register(a_report())
    known, adopted, unknown = desk.run(report), desk.run(report), desk.run(report)

    again = desk.register(a_report(session="life-2"))
    assert desk.queue.reconcile(again, [known.token, adopted.token]) == {unknown.job.id: JobState.PENDING}
    assert desk.queue.reconcile(again, [known.token, adopted.token]) == {}
    assert desk.states("a", "b", "c") == ["running", "running", "pending"]
    assert desk.finish(known) == JobState.FINISHED
    assert desk.beat(again, adopted).stale == ()


@pytest.mark.parametrize("other", ["node-10", "node", "Node-1", "node-1:6800", "node.1", ".*", "%d", "node-1 "])
def test_other_nodes_jobs_are_left_alone(desk: QueueDesk, other: str) -> None:
    desk.add("a1")
    claim = desk.run(desk.register(a_report(other)))

    assert desk.queue.reconcile(desk.register(a_report("node-1")), []) == {}
    assert desk.finish(claim) == JobState.FINISHED


@pytest.mark.parametrize("name", ["host.example:6800", "[::1]:6800", "a/b", "nöde", "%-.*"])
def test_a_node_of_any_name_finds_what_it_left(desk: QueueDesk, name: str) -> None:
    desk.add("a", "b")
    desk.run(desk.register(a_report(name, session="life:1")))
    assert desk.queue.reconcile(desk.register(a_report(name, session="life:2")), []) == {"a": JobState.PENDING}
    assert desk.job("a").attempt == 1

    report = a_report(name, session="life:2")
    desk.claim(report)
    assert desk.queue.reconcile(report, []) == {"a": JobState.PENDING}
    assert desk.job("a").attempt == 1


def test_nothing_is_read_of_what_other_nodes_have(desk: QueueDesk) -> None:
    # A thousand nodes that come back together would keep Redis busy with it; a record that nobody can read shows it.
    desk.add("theirs", "mine")
    desk.run(desk.register(a_report("node-2")))
    report = desk.register(a_report("node-1"))
    desk.claim(report)
    desk.redis.hset(desk.keys.jobs, "theirs", "no JSON")

    assert desk.queue.reconcile(report, []) == {"mine": JobState.PENDING}


def test_a_claim_that_was_cancelled_before_its_answer_came_is_cancelled(desk: QueueDesk) -> None:
    desk.add("a1")
    report = desk.register(a_report())
    desk.claim(report)
    desk.queue.cancel(names("a1"), grace_s=5)

    assert desk.queue.reconcile(report, []) == {"a1": JobState.CANCELLED}
    assert desk.left_behind() == set()


def test_a_cancelled_job_of_an_earlier_life_is_not_run_again(desk: QueueDesk) -> None:
    desk.add("a1", attempts=9)
    desk.run(desk.register(a_report(session="life-1")))
    desk.queue.cancel(names("a1"), grace_s=5)
    report = desk.register(a_report(session="life-2"))

    (state,) = desk.queue.reconcile(report, []).values()
    assert state in {JobState.CANCELLED, JobState.LOST}
    assert isinstance(desk.look(report), NothingToClaim)
    assert desk.left_behind() == set()


def test_whoever_has_anothers_name_settles_none_of_its_jobs(desk: QueueDesk) -> None:
    desk.add("a1")
    claim = desk.run(desk.register(a_report(home="the first")))
    intruder = a_report(home="another", session="life-9")
    with pytest.raises(ConflictError):
        desk.nodes.beat(intruder, [])

    assert desk.queue.reconcile(intruder, []) == {}
    assert desk.finish(claim) == JobState.FINISHED


def test_an_earlier_life_settles_nothing_of_the_present_one(desk: QueueDesk) -> None:
    desk.add("a1")
    old = desk.register(a_report(session="life-1"))
    new = desk.register(a_report(session="life-2"))
    claim = desk.run(new)

    assert desk.queue.reconcile(old, []) == {}
    assert desk.finish(claim) == JobState.FINISHED


def test_a_free_place_is_seen_by_caps_after_a_reconcile(desk: QueueDesk) -> None:
    desk.add("a", "b")
    report = desk.register(a_report())
    desk.claim(report)
    desk.claim(report)
    project = desk.job("a").project
    assert desk.queue.busy(project) == 2
    desk.queue.reconcile(report, [])
    assert desk.queue.busy(project) == 0
    assert desk.redis.exists(desk.keys.busy, desk.keys.owners, desk.keys.leases) == 0


@contextmanager
def stuck(desk: QueueDesk, folder: Path, call: Callable[[QueueDesk], object]) -> Iterator[None]:
    """Let a call get stuck on the way, and given up; behind the block it has arrived all the same."""
    port = int(desk.redis.info("server")["tcp_port"])

    def calls() -> int:
        return int(desk.redis.info("commandstats")["cmdstat_evalsha"]["calls"])

    with TcpRelay(port) as relay:
        url = f"redis://127.0.0.1:{relay.port}/0?socket_timeout=1"
        with queue_desk(url, folder) as other:
            call(other)
            relay.holds = True
            with pytest.raises(StoreUnreachableError):
                call(other)
            yield
            before = calls()
            relay.holds = False
            wait_until(lambda: calls() > before, deadline_s=SOON_S, what="the call to arrive")


def test_one_that_was_stuck_on_the_way_takes_no_job_that_was_claimed_since(desk: QueueDesk, tmp_path: Path) -> None:
    report = desk.register(a_report())
    with stuck(desk, tmp_path / "slow", lambda other: other.queue.reconcile(report, [])):
        assert desk.queue.reconcile(report, []) == {}
        desk.add("a1", attempts=1)
        claim = desk.run(report)
        # What is kept of the session stays with its signs of life.
        desk.beat(report, claim)

    assert desk.states("a1") == ["running"]
    assert desk.beat(report, claim).stale == ()


def test_a_claim_that_was_stuck_until_its_node_had_settled_all_takes_no_job(desk: QueueDesk, tmp_path: Path) -> None:
    report = desk.register(a_report())
    line = Line(SHOP, V1, SpiderName("books")).name
    with stuck(desk, tmp_path / "slow", lambda other: other.queue.claim(report, [line], running=0)):
        assert desk.queue.reconcile(report, []) == {}
        desk.add("a1", attempts=1)

    assert (desk.states("a1"), desk.job("a1").attempt) == (["pending"], 0)
    assert desk.claim(report).job.attempt == 1
