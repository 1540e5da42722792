"""The operator's side of the shared queue, on a real Redis: nothing here asks a plug-in node by HTTP.

Plug-in nodes are reduced to their words in the registry (`support.plugged_node`); the stock ones are a fleet's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from support.doors import nodes_of
from support.fleet import Fleet
from support.plugged_node import PluggedNode
from support.ports import free_port
from support.queue_desk import SHORT_S, QueueDesk, a_pending_job, a_report, queue_desk
from support.registry import names
from support.stores import SHOP, V1, V2, a_lock, a_release, a_rollout
from support.waiting import wait_until

from toolkit.cluster.cancel import Cancelled
from toolkit.cluster.choice import choose_queued
from toolkit.cluster.enqueue import enqueue
from toolkit.cluster.everywhere import cancel_everywhere, find_everywhere, list_everywhere, wait_everywhere
from toolkit.cluster.membership import registered
from toolkit.cluster.node_life import drain, forget, list_nodes, resume, show_node
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.schedule import schedule
from toolkit.cluster.snapshot import recall, take_snapshot
from toolkit.cluster.why import why
from toolkit.model.errors import (
    ConflictError,
    NotFoundError,
    NothingReachableError,
    RefusedError,
    StoreUnreachableError,
    UsageError,
)
from toolkit.model.hosts import Host
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import JobId, NodeName, SpiderName, VersionName
from toolkit.model.nodes import NodeReport
from toolkit.model.orders import Order
from toolkit.model.queue import Cap
from toolkit.model.snapshot import NodeState
from toolkit.store.interfaces import Store

BOOKS = Order(SHOP, SpiderName("books"), V1)
EVERY = JobFilter()
VERSION = VersionName("v1")
Plug = Callable[..., PluggedNode]


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[QueueDesk]:
    with queue_desk(redis_url, tmp_path) as desk:
        yield desk


@pytest.fixture
def plug(desk: QueueDesk) -> Iterator[Plug]:
    """Give what starts a plug-in node; it claims and beats until the test is over."""
    with ExitStack() as ending:

        def start(name: str, *, claims: bool = True, **more: object) -> PluggedNode:
            return ending.enter_context(PluggedNode(desk.store, name, claims=claims, **more))  # type: ignore[arg-type]

        yield start


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet(nodes=2, project="shop", versions=("v1",), spiders=("books",), job_s=60) as fleet:
        yield fleet


@pytest.fixture
def stock(fleet: Fleet) -> Iterator[Nodes]:
    nodes = nodes_of(fleet.hosts, timeout_s=5)
    yield nodes
    nodes.close()


def unreachable(*hosts: str) -> Nodes:
    """Return nodes of the inventory on which nothing listens: whoever asks them fails."""
    return Nodes.of([Host(NodeName(name), port=free_port(), timeout_s=1) for name in hosts])


def send(desk: QueueDesk, *orders: Order, on: list[NodeName] | None = None, is_unique: bool = False) -> list[Job]:
    now = desk.store.now()
    return enqueue(desk.store, orders or [BOOKS], on=on, is_unique=is_unique, now=now, who="ann@desk")


def mixed(stock: Nodes, *plugged: str) -> Nodes:
    return Nodes([*stock, *unreachable(*plugged)])


# --- scheduling


def test_jobs_are_in_the_queue_as_they_were_ordered(desk: QueueDesk) -> None:
    (job,) = send(desk, replace(BOOKS, priority=2, attempts=3, timeout_s=60), on=names("b", "a"))
    record = desk.job(job.id)
    assert (record.state, record.priority, record.attempts, record.timeout_s) == (JobState.PENDING, 2, 3, 60)
    assert (record.scheduled_by, record.on, record.line) == ("ann@desk", ("a", "b"), job.line)
    (line,) = desk.queue.lines()
    assert line.name == job.line
    assert sorted(line.on or ()) == ["a", "b"]


def test_ten_thousand_jobs_go_in_by_the_thousand_in_their_order(desk: QueueDesk) -> None:
    jobs = send(desk, *(replace(BOOKS, args={"n": str(number)}) for number in range(10_000)))
    assert desk.queue.counts()["pending"] == 10_000
    assert desk.queue.position(jobs[-1].id) == 9_999


def test_a_refusal_in_the_middle_says_how_many_are_in_the_queue(desk: QueueDesk) -> None:
    send(desk, replace(BOOKS, job_id=JobId("known")))
    orders = [replace(BOOKS, args={"n": str(number)}) for number in range(1000)]
    with pytest.raises(ConflictError, match=r"known.*; the 1000 jobs before are in the queue"):
        send(desk, *orders, replace(BOOKS, job_id=JobId("known")))
    assert desk.queue.counts()["pending"] == 1001


def test_a_unique_job_is_not_added_twice(desk: QueueDesk) -> None:
    send(desk, replace(BOOKS, args={"n": "1"}), is_unique=True)
    with pytest.raises(ConflictError):
        send(desk, replace(BOOKS, args={"n": "1"}), is_unique=True)
    send(desk, replace(BOOKS, args={"n": "2"}), is_unique=True)


def test_the_active_release_is_chosen_without_asking_any_node(desk: QueueDesk) -> None:
    lock = a_lock(desk.store)
    desk.store.releases.record(a_release(), lock)
    desk.store.releases.activate(a_rollout(), lock, held_by=[])
    order = choose_queued(desk.store.releases, [], "books", project=None, version=None)
    assert (order.project, order.spider, order.version) == (SHOP, "books", V1)
    with pytest.raises(NotFoundError, match="no plug-in node holds"):
        choose_queued(desk.store.releases, registered(desk.store), "books", project=SHOP, version=V2)
    desk.register(a_report(versions={SHOP: (V2,)}))
    found = choose_queued(desk.store.releases, registered(desk.store), "books", project=SHOP, version=V2)
    assert found.version == V2
    with pytest.raises(UsageError):
        choose_queued(desk.store.releases, [], "books", project=None, version=V2)


# --- listing, finding, waiting


def test_queued_jobs_are_listed_from_their_records_while_no_node_answers(desk: QueueDesk, plug: Plug) -> None:
    nodes = unreachable("a")
    (job,) = send(desk)
    node = plug("a")
    node.wait_for_jobs(job.id)
    wait_until(lambda: desk.job(job.id).pages == 7, deadline_s=60, what="the progress to be told")
    found = list_everywhere(nodes, lambda: desk.store, EVERY)
    assert [(each.id, each.state, each.node, each.pages) for each in found.jobs] == [(job.id, JobState.RUNNING, "a", 7)]
    assert (found.unseen, found.note) == ({}, None)
    assert find_everywhere(nodes, lambda: desk.store, job.id[:8]).job.state is JobState.RUNNING


def test_the_list_is_paged(desk: QueueDesk) -> None:
    now = desk.store.now()
    for number in range(5):
        order = replace(BOOKS, job_id=JobId(f"j{number}"))
        enqueue(desk.store, [order], now=now + timedelta(seconds=number), who="ann")
    pages = [list_everywhere(Nodes([]), lambda: desk.store, EVERY, limit=2, offset=at).jobs for at in (0, 2, 4)]
    assert [[job.id for job in page] for page in pages] == [["j4", "j3"], ["j2", "j1"], ["j0"]]


def test_lost_jobs_are_found_however_many_are_newer(desk: QueueDesk, stock: Nodes) -> None:
    claim = None
    report = desk.register(a_report("a", lease_s=SHORT_S))
    send(desk, replace(BOOKS, job_id=JobId("old"), attempts=1))
    claim = desk.run(report)
    assert claim.job.id == "old"
    desk.lose("old")
    send(desk, *(replace(BOOKS, args={"n": str(number)}) for number in range(60)))
    lost = JobFilter(states=frozenset({JobState.LOST}))
    for nodes in (mixed(stock, "a"), unreachable("a")):
        assert [job.id for job in list_everywhere(nodes, lambda: desk.store, lost).jobs] == ["old"]


def test_one_list_shows_queued_jobs_and_those_of_stock_nodes(desk: QueueDesk, stock: Nodes, plug: Plug) -> None:
    plug("a", claims=False)
    (queued,) = send(desk)
    (placed,) = schedule(stock, desk.store.jobs, replace(BOOKS, version=VERSION), now=desk.store.now())
    listed = list_everywhere(mixed(stock, "a"), lambda: desk.store, EVERY)
    states = {job.id: job.is_queued for job in listed.jobs}
    assert (states[queued.id], states[placed.job.id]) == (True, False)
    assert listed.unseen == {}
    assert desk.job(queued.id).state is JobState.PENDING


def test_waiting_ends_when_the_queue_has_the_outcome(desk: QueueDesk, plug: Plug) -> None:
    jobs = send(desk, BOOKS, BOOKS)
    node = plug("a")
    seen: list[set[JobState]] = []

    def on_change(current: object) -> None:
        assert isinstance(current, list)
        seen.append({job.state for job in current})
        for job_id in [*node.held]:
            node.end(job_id)

    ended = wait_everywhere(unreachable("a"), desk.store, jobs, on_change=on_change)
    assert {job.state for job in ended} == {JobState.FINISHED}
    assert [job.id for job in ended] == [job.id for job in jobs]


# --- cancelling


def cancel_all(desk: QueueDesk, nodes: Nodes, jobs: list[Job], *, grace_s: float = 1.0) -> list[Cancelled]:
    return cancel_everywhere(nodes, lambda: desk.store, jobs, grace_s=grace_s)


def test_a_pending_job_is_cancelled_at_once(desk: QueueDesk) -> None:
    (job,) = send(desk)
    (done,) = cancel_all(desk, Nodes([]), [job])
    assert (done.before, done.after, done.error) == (JobState.PENDING, JobState.CANCELLED, None)


def test_a_running_job_is_cancelled_through_the_store_and_only_when_it_is_gone(desk: QueueDesk, plug: Plug) -> None:
    (job,) = send(desk)
    plug("a").wait_for_jobs(job.id)
    (done,) = cancel_all(desk, unreachable("a"), [job])
    assert (done.before, done.after, done.error) == (JobState.RUNNING, JobState.CANCELLED, None)
    assert desk.job(job.id).state is JobState.CANCELLED


def test_an_ended_job_is_left_as_it_is(desk: QueueDesk, plug: Plug) -> None:
    (job,) = send(desk)
    node = plug("a")
    node.wait_for_jobs(job.id)
    node.end(job.id)
    (done,) = cancel_all(desk, unreachable("a"), [job])
    assert (done.after, done.error) == (JobState.FINISHED, None)


def test_a_job_whose_node_does_not_end_it_is_told_with_its_node(
    desk: QueueDesk, plug: Plug, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.cluster.cancel_queued.FORCED_GRACE_S", 0.1)
    (job,) = send(desk)
    plug("a", lease_s=5.0, is_deaf=True).wait_for_jobs(job.id)
    (done,) = cancel_all(desk, unreachable("a"), [job], grace_s=0.1)
    assert done.after is JobState.RUNNING
    assert done.error is not None
    assert "is running on a after every deadline" in done.error.message


def test_a_job_of_a_node_that_went_silent_is_not_called_cancelled(
    desk: QueueDesk, plug: Plug, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.cluster.cancel_queued.FORCED_GRACE_S", 0.1)
    (job,) = send(desk)
    node = plug("a", lease_s=1.0)
    node.wait_for_jobs(job.id)
    node.fall_silent()
    (done,) = cancel_all(desk, unreachable("a"), [job], grace_s=0.0)
    assert not done.after.is_final or done.after is JobState.LOST
    assert done.error is not None
    assert job.id in done.error.message


def test_queued_and_stock_jobs_are_cancelled_in_one_go(desk: QueueDesk, stock: Nodes, plug: Plug) -> None:
    plug("a")
    (queued,) = send(desk)
    (placed,) = schedule(stock, desk.store.jobs, replace(BOOKS, version=VERSION), now=desk.store.now())
    done = cancel_all(desk, mixed(stock, "a"), [placed.job, queued])
    assert [(each.job.id, each.after, each.error) for each in done] == [
        (placed.job.id, JobState.CANCELLED, None),
        (queued.id, JobState.CANCELLED, None),
    ]


# --- without the store


@pytest.fixture
def away() -> Callable[[], Store]:
    def refuse() -> Store:
        raise StoreUnreachableError("redis at 10.0.0.7:6379 does not answer")

    return refuse


def test_without_the_store_the_nodes_are_asked_and_it_is_said(
    desk: QueueDesk, stock: Nodes, away: Callable[[], Store]
) -> None:
    (placed,) = schedule(stock, desk.store.jobs, replace(BOOKS, version=VERSION), now=desk.store.now())
    listed = list_everywhere(stock, away, EVERY)
    assert placed.job.id in {job.id for job in listed.jobs}
    assert listed.note is not None
    assert "10.0.0.7:6379" in listed.note.message
    found = find_everywhere(stock, away, placed.job.id[:10])
    assert (found.job.id, found.job.node) == (placed.job.id, placed.job.node)
    assert str(found.note) == str(listed.note)
    (done,) = cancel_everywhere(stock, away, [found.job], grace_s=5)
    assert (done.after, done.error) == (JobState.CANCELLED, None)
    assert stock[NodeName(str(placed.job.node))].state_of(placed.job.id) is JobState.FINISHED


def test_without_the_store_and_any_node_it_is_the_store_that_is_told(away: Callable[[], Store]) -> None:
    with pytest.raises(StoreUnreachableError, match=r"10\.0\.0\.7"):
        list_everywhere(unreachable("a"), away, EVERY)
    with pytest.raises(StoreUnreachableError):
        find_everywhere(unreachable("a"), away, "j1")


def test_without_the_store_a_job_that_nobody_has_cannot_be_cancelled(stock: Nodes, away: Callable[[], Store]) -> None:
    (done,) = cancel_everywhere(stock, away, [a_pending_job("j1")], grace_s=1)
    assert isinstance(done.error, NothingReachableError)
    with pytest.raises(NotFoundError):
        find_everywhere(stock, away, "nothing-like-it")


# --- why


def test_a_pending_job_names_the_cap_that_it_waits_for(desk: QueueDesk) -> None:
    desk.queue.set_cap(Cap(SHOP, SpiderName("books"), cluster=1))
    report = desk.register(a_report("a"))
    first, second = send(desk, BOOKS, BOOKS)
    desk.run(report)
    told = why(desk.store, desk.job(second.id))
    assert told.summary == "it waits for the cap of spider books: 1 job(s) at once in the cluster"
    assert told.position == 0
    assert why(desk.store, desk.job(first.id)).summary.startswith("it is running on a, since")


def test_a_pending_job_names_what_each_node_lacks(desk: QueueDesk) -> None:
    desk.queue.set_cap(Cap(SHOP, per_node=1))
    desk.register(a_report("full", slots=1, running=1))
    desk.register(a_report("other", versions={SHOP: (V2,)}))
    desk.register(a_report("away"))
    capped = desk.register(a_report("capped"))
    (first,) = send(desk, on=names("capped"))
    desk.run(capped)
    desk.nodes.drain(names("away"), who="ann@desk")
    (job,) = send(desk)
    verdicts = {each.node: each.reason for each in why(desk.store, desk.job(job.id)).nodes}
    assert verdicts == {
        "away": "takes no new job: drained by ann@desk",
        "capped": "the cap of project shop: 1 job(s) at once here",
        "full": "has no free slot: 1 of 1 are taken",
        "other": f"does not hold {SHOP} {V1}",
    }
    assert first.id != job.id


def test_a_failed_job_says_so_and_why_its_log_cannot_be_read(
    desk: QueueDesk, plug: Plug, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.cluster.why.LOG_PATIENCE_S", 0.2)
    (job,) = send(desk)
    node = plug("a")
    node.wait_for_jobs(job.id)
    node.end(job.id, JobState.FAILED)
    told = why(desk.store, desk.job(job.id), unreachable("b"))
    assert told.summary.startswith("it failed on a at ")
    assert told.log == ()
    assert told.log_error == "a: log: no answer within 0.2 s, asked through Redis"


# --- the nodes


def test_the_snapshot_shows_plug_in_nodes_without_asking_them(desk: QueueDesk, stock: Nodes, plug: Plug) -> None:
    plug("a")
    desk.register(a_report("behind-nat", running=2, unfit="20 MB of disk are left"))
    send(desk, replace(BOOKS, version=V2))
    known = recall(lambda: desk.store)
    snapshot = take_snapshot(mixed(stock, "a"), known)
    assert [(node.name, node.kind, node.state) for node in snapshot.nodes] == [
        *((name, "stock", NodeState.LIVE) for name in stock.names),
        ("a", "node", NodeState.LIVE),
        ("behind-nat", "node", NodeState.LIVE),
    ]
    assert (snapshot.queued, snapshot.total("pending") >= 1, snapshot.nodes[-1].running) == (1, True, 2)
    told = {each.kind for each in snapshot.attention}
    assert {"unfit", "waiting"} <= told
    assert not {"unreachable", "open"} & {each.kind for each in take_snapshot(unreachable("a"), known).attention}
    picked = take_snapshot(unreachable("a"), known, is_whole=False)
    assert [node.name for node in picked.nodes] == ["a"]


def test_nodes_of_both_kinds_are_listed(desk: QueueDesk, stock: Nodes) -> None:
    desk.register(a_report("a", slots=8, running=3))
    rows = list_nodes(desk.store, mixed(stock, "a"))
    assert [(row.name, row.kind, row.slots, row.running) for row in rows if row.name == "a"] == [("a", "node", 8, 3)]
    assert {row.kind for row in rows if row.name != "a"} == {"stock"}
    assert len(rows) == 3
    assert show_node(desk.store, stock, "a").versions == {SHOP: (V1,)}
    assert show_node(desk.store, stock, stock.names[0]).kind == "stock"
    with pytest.raises(NotFoundError, match="did you mean"):
        show_node(desk.store, stock, "sim-0001")


def test_a_drained_node_ends_what_it_has_and_takes_nothing_more(desk: QueueDesk, plug: Plug) -> None:
    (job,) = send(desk)
    node = plug("a")
    node.wait_for_jobs(job.id)
    looks = 0

    def on_look(_records: object) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            node.end(job.id)

    (drained,) = drain(desk.store, names("a"), who="ann@desk", wait_s=60, on_look=on_look)
    assert (drained.name, drained.running, drained.error) == ("a", 0, None)
    (waiting,) = send(desk)
    assert desk.job(waiting.id).state is JobState.PENDING
    assert show_node(desk.store, Nodes([]), "a").drained_by == "ann@desk"
    assert resume(desk.store, names("a")) == ["a"]
    node.wait_for_jobs(waiting.id)


def test_a_drain_that_takes_too_long_says_what_still_runs(desk: QueueDesk, plug: Plug) -> None:
    (job,) = send(desk)
    plug("a").wait_for_jobs(job.id)
    (drained,) = drain(desk.store, names("a"), who="ann@desk", wait_s=0.3)
    assert drained.running == 1
    assert drained.error is not None
    (again,) = drain(desk.store, names("a"), who="ann@desk")
    assert (again.running, again.error) == (1, None)


def test_a_node_that_has_told_nothing_since_its_drain_is_not_called_empty(desk: QueueDesk) -> None:
    desk.register(a_report("silent"))
    send(desk)
    desk.run(a_report("silent"))
    (drained,) = drain(desk.store, names("silent"), who="ann@desk", wait_s=0.3)
    assert drained.running == 0
    assert "has not told yet" in str(drained.error)


def test_a_lost_node_is_empty_and_may_be_forgotten(desk: QueueDesk) -> None:
    report: NodeReport = desk.register(a_report("gone", lease_s=SHORT_S, running=2))
    wait_until(lambda: registered(desk.store)[0].state is NodeState.LOST, deadline_s=60, what="the node to be lost")
    (drained,) = drain(desk.store, [report.name], who="ann@desk", wait_s=60)
    assert (drained.running, drained.error) == (0, None)
    assert forget(desk.store, [report.name]) == ["gone"]
    assert registered(desk.store) == ()


def test_a_living_node_is_not_forgotten_and_a_wrong_name_is_told(desk: QueueDesk) -> None:
    desk.register(a_report("node-1"))
    with pytest.raises(RefusedError, match="signs of life"):
        forget(desk.store, names("node-1"))
    for act in (lambda: drain(desk.store, names("node-2"), who="ann"), lambda: resume(desk.store, names("node-2"))):
        with pytest.raises(NotFoundError, match="did you mean 'node-1'"):
            act()
