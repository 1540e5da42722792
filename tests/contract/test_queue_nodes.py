"""The registry: who lives, who is drained, and a name that two would have."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from support.queue_desk import SHORT_S, SOON_S, QueueDesk, a_report, names
from support.stores import NEWS, SHOP, V1, V2
from support.waiting import wait_until

from toolkit.model.errors import ConflictError
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.model.queue import NothingToClaim
from toolkit.model.snapshot import NodeState


def record_of(desk: QueueDesk, name: str) -> NodeRecord:
    return next(record for record in desk.nodes.all() if record.name == name)


def pass_by(desk: QueueDesk, name: str, *, seconds: float) -> None:
    """Let so much time have gone by since the node's last sign of life."""
    desk.redis.zincrby(desk.keys.beats, -seconds * 1000, name)


def nodes(*wanted: str) -> list[NodeName]:
    return [NodeName(name) for name in wanted]


def test_a_nodes_report_comes_back_as_it_was(desk: QueueDesk) -> None:
    report = replace(
        a_report("nöde-1", slots=8, running=3, unfit="50 MB of disk left, 500 wanted"),
        load=0.75,
        memory_free_mb=512,
        disk_free_mb=2048,
        versions={SHOP: (V1, V2), NEWS: ()},
        software={"python": "3.11.7", "scrapy": "2.13"},
        labels={"zone": "eu", "größe": "groß"},
        behind={"shop v3": "no answer"},
        started_at=datetime(2026, 11, 20, 10, 15, tzinfo=UTC),
    )
    desk.register(report)
    bare = desk.register(a_report("bare", versions={}))

    found = desk.nodes.all()
    assert [record.name for record in found] == ["bare", "nöde-1"]
    assert [record.report for record in found] == [bare, report]
    assert [record.state for record in found] == [NodeState.LIVE, NodeState.LIVE]
    assert all(0 <= record.age_s < SOON_S for record in found)
    assert all(abs((desk.store.now() - record.beat_at).total_seconds()) < SOON_S for record in found)


def test_no_node_is_no_trouble(desk: QueueDesk) -> None:
    assert list(desk.nodes.all()) == []
    assert desk.nodes.drain([], who="ann@desk") == frozenset()
    assert desk.nodes.drain(nodes("missing"), who="ann@desk") == frozenset()
    assert desk.nodes.resume(nodes("missing")) == frozenset()
    assert desk.nodes.forget(nodes("missing")) == frozenset()
    assert desk.nodes.forget([]) == frozenset()


def test_a_beat_tells_the_time_and_who_is_there(desk: QueueDesk) -> None:
    desk.register(a_report("node-1"))
    answer = desk.beat(a_report("node-2"))
    assert abs((desk.store.now() - answer.now).total_seconds()) < SOON_S
    assert answer.live_nodes == 2
    assert not answer.is_draining
    assert (answer.stale, answer.unheard, answer.wishes) == ((), (), {})


def test_a_silent_node_is_stale_then_lost_and_no_more_counted(desk: QueueDesk) -> None:
    report = desk.register(a_report(lease_s=60))
    states = [record_of(desk, "node-1").state]
    for _ in range(2):
        pass_by(desk, "node-1", seconds=50)
        states.append(record_of(desk, "node-1").state)
    assert states == [NodeState.LIVE, NodeState.STALE, NodeState.LOST]
    assert desk.beat(a_report("node-2", lease_s=60)).live_nodes == 1
    desk.beat(report)
    assert record_of(desk, "node-1").state == NodeState.LIVE


def test_a_drained_node_takes_no_new_job_and_keeps_what_it_has(desk: QueueDesk) -> None:
    desk.add("a", "b")
    report = desk.register(a_report())
    claim = desk.run(report)
    assert desk.nodes.drain(nodes("node-1", "missing"), who="ann@desk") == {"node-1"}

    record = record_of(desk, "node-1")
    assert (record.state, record.is_draining, record.drained_by) == (NodeState.DRAINING, True, "ann@desk")
    assert desk.beat(report, claim).is_draining
    assert desk.beat(report, claim).stale == ()
    assert isinstance(desk.look(report), NothingToClaim)
    assert desk.finish(claim) is not None
    assert isinstance(desk.look(report), NothingToClaim)


def test_a_drain_outlives_a_restart_and_is_undone_by_a_resume(desk: QueueDesk) -> None:
    desk.add("a")
    desk.register(a_report())
    desk.nodes.drain(nodes("node-1"), who="ann@desk")
    again = a_report(session="life-2")
    assert desk.beat(again).is_draining
    assert isinstance(desk.look(again), NothingToClaim)

    assert desk.nodes.resume(nodes("node-1")) == {"node-1"}
    assert not desk.beat(again).is_draining
    assert desk.claim(again).job.id == "a"


@pytest.mark.parametrize("change", ["drain", "resume"])
def test_a_drain_and_a_resume_wake_the_node(desk: QueueDesk, change: str) -> None:
    desk.register(a_report())
    wakes = desk.queue.wakes(timeout_s=0.05)
    assert next(wakes) == ""
    if change == "drain":
        desk.nodes.drain(nodes("node-1"), who="ann@desk")
    else:
        desk.nodes.resume(nodes("node-1"))
    assert wait_until(lambda: next(wakes), deadline_s=SOON_S, what="a wake") in {"node-1", "queue"}


def test_a_second_node_of_a_live_name_is_refused_and_changes_nothing(desk: QueueDesk) -> None:
    desk.add("a", "b")
    report = desk.register(a_report(home="the first"))
    claim = desk.run(report)
    ends_ms = desk.lease_ends_ms("a")
    intruder = replace(a_report(home="another", session="life-9"), address="elsewhere.example:6800")

    for _ in range(2):
        with pytest.raises(ConflictError, match="node-1"):
            desk.beat(intruder, claim)
    assert record_of(desk, "node-1").report == report
    assert record_of(desk, "node-1").clash is not None
    assert "elsewhere" in (record_of(desk, "node-1").clash or "")
    assert desk.lease_ends_ms("a") == ends_ms
    assert isinstance(desk.look(intruder), NothingToClaim)
    assert desk.beat(report, claim).stale == ()
    assert desk.claim(report).job.id == "b"


def test_a_goodbye_of_anothers_name_changes_nothing(desk: QueueDesk) -> None:
    desk.add("a")
    report = desk.register(a_report(home="the first"))
    desk.nodes.leave(a_report(home="another", session="life-9"))
    assert record_of(desk, "node-1").state == NodeState.LIVE
    assert desk.claim(report).job.id == "a"


def test_a_name_whose_node_is_lost_may_have_another_home(desk: QueueDesk) -> None:
    desk.register(a_report(home="the first", lease_s=SHORT_S))
    heir = a_report(home="another", session="life-9")

    def is_let_in() -> bool:
        try:
            desk.beat(heir)
        except ConflictError:
            return False
        return True

    wait_until(is_let_in, deadline_s=SOON_S, what="the name to be free")
    desk.add("a")
    assert desk.claim(heir).job.id == "a"
    with pytest.raises(ConflictError):
        desk.beat(a_report(home="the first", lease_s=SHORT_S))


def test_a_name_is_not_taken_sooner_by_a_node_with_a_shorter_lease(desk: QueueDesk) -> None:
    desk.register(a_report(home="the first", lease_s=60))
    shorter = a_report(home="another", session="life-9", lease_s=0.05)
    began = desk.store.now()
    wait_until(lambda: (desk.store.now() - began).total_seconds() > 0.2, deadline_s=SOON_S, what="its own lease")
    with pytest.raises(ConflictError):
        desk.beat(shorter)


def test_the_next_life_of_a_node_has_the_name_at_once(desk: QueueDesk) -> None:
    desk.add("a", "b")
    old = desk.register(a_report(session="life-1"))
    new = desk.register(a_report(session="life-2"))
    assert isinstance(desk.look(old), NothingToClaim)
    assert desk.claim(new).job.id == "a"


def test_nobody_claims_under_a_name_that_is_not_registered(desk: QueueDesk) -> None:
    desk.add("a")
    assert isinstance(desk.look(a_report()), NothingToClaim)
    assert desk.states("a") == ["pending"]


def test_lost_nodes_are_forgotten_and_live_ones_stay(desk: QueueDesk) -> None:
    desk.register(a_report("gone", lease_s=SHORT_S))
    desk.nodes.drain(nodes("gone"), who="ann@desk")
    desk.register(a_report("live"))
    wait_until(lambda: record_of(desk, "gone").state == NodeState.LOST, deadline_s=SOON_S, what="a lost node")

    assert desk.nodes.forget(nodes("gone", "live", "missing")) == {"gone"}
    assert [record.name for record in desk.nodes.all()] == ["live"]
    assert not desk.beat(a_report("gone")).is_draining


def test_forgetting_a_lost_node_does_not_lose_its_jobs(desk: QueueDesk) -> None:
    desk.add("a")
    desk.run(desk.register(a_report("gone", lease_s=SHORT_S)))
    wait_until(lambda: record_of(desk, "gone").state == NodeState.LOST, deadline_s=SOON_S, what="a lost node")
    desk.nodes.forget(nodes("gone"))
    assert desk.lose("a")
    assert desk.claim(desk.register(a_report("node-2"))).job.id == "a"


def test_a_node_that_left_in_order_is_not_waited_for_and_comes_back(desk: QueueDesk) -> None:
    desk.add("a")
    report = desk.register(a_report())
    desk.nodes.leave(report)
    desk.nodes.leave(report)
    again = desk.register(a_report(session="life-2"))
    assert record_of(desk, "node-1").state == NodeState.LIVE
    assert desk.claim(again).job.id == "a"


def test_a_wish_reaches_a_node_only_for_what_it_holds(desk: QueueDesk) -> None:
    desk.add("a", "b")
    one, other = desk.register(a_report("node-1")), desk.register(a_report("node-2"))
    first, second = desk.run(one), desk.run(other)
    desk.queue.cancel(names("a", "b"), grace_s=1)
    assert set(desk.beat(one, first).wishes) == {first.token}
    assert set(desk.beat(other, second).wishes) == {second.token}


def test_of_two_nodes_with_copies_of_one_home_the_one_whose_place_was_taken_is_told(desk: QueueDesk) -> None:
    original, copy = a_report(session="life-1"), a_report(session="life-2")
    desk.nodes.beat(original, [])
    desk.nodes.beat(copy, [])
    with pytest.raises(ConflictError, match="is live already"):
        desk.nodes.beat(original, [], was_registered=True)

    assert record_of(desk, "node-1").report.session == "life-2"
    desk.nodes.beat(copy, [], was_registered=True)


def test_a_session_whose_place_was_taken_has_it_again_when_the_other_is_silent(desk: QueueDesk) -> None:
    original, copy = a_report(session="life-1", lease_s=SHORT_S), a_report(session="life-2", lease_s=SHORT_S)
    desk.nodes.beat(original, [])
    desk.nodes.beat(copy, [])

    def is_let_in() -> bool:
        try:
            desk.nodes.beat(original, [], was_registered=True)
        except ConflictError:
            return False
        return True

    wait_until(is_let_in, deadline_s=SOON_S, what="the name to be free")


def test_a_restarted_node_is_let_in_by_a_redis_that_knows_only_its_session_before(desk: QueueDesk) -> None:
    before, restarted = a_report(session="life-1"), a_report(session="life-2")
    desk.nodes.beat(before, [])
    dump = desk.dump()
    desk.nodes.beat(restarted, [])
    desk.come_back(dump)
    assert desk.nodes.beat(restarted, [], was_registered=True).live_nodes == 1
    assert record_of(desk, "node-1").report.session == "life-2"
    # What was replaced finds the other alive.
    with pytest.raises(ConflictError):
        desk.nodes.beat(before, [], was_registered=True)


def test_a_store_that_came_back_older_still_knows_a_registered_session(desk: QueueDesk) -> None:
    desk.nodes.beat(a_report(session="life-1", lease_s=SHORT_S), [])
    wait_until(lambda: record_of(desk, "node-1").state is NodeState.LOST, deadline_s=SOON_S, what="silence")

    assert desk.nodes.beat(a_report(session="life-2"), [], was_registered=True).live_nodes == 1
