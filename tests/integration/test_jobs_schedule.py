"""Scheduling on real nodes, with faults between them and us: a job is rather reported than doubled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from support.cli import NodeEntry
from support.doors import nodes_of
from support.eggs import small_egg
from support.faulty_server import Fault, FaultProxy, FaultyNode
from support.fleet import Fleet
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode
from support.waiting import wait_until

from toolkit.cluster.jobs import find_job, list_jobs
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.schedule import Order, Placed, schedule
from toolkit.cluster.verdict import SENDING
from toolkit.model.errors import ConflictError, NodeError, NodeTimeoutError, NothingReachableError, UsageError
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName
from toolkit.store.interfaces import JobStore, Store
from toolkit.store.open import open_store

SMALL, ALPHA, V1 = ProjectName("small"), SpiderName("alpha"), VersionName("v1")
TIMEOUT_S = 3.0
"""Long for a real node that is only slow, and what one that hangs costs."""
ORDER = Order(SMALL, ALPHA, V1, args={"sleep_s": "600"})


@pytest.fixture(scope="module")
def holding(three_nodes: list[ScrapydNode]) -> list[ScrapydNode]:
    for node in three_nodes:
        answer = node.post("addversion.json", project="small", version="v1", files={"egg": small_egg()})
        assert answer["status"] == "ok", answer
    return three_nodes


@pytest.fixture
def proxies(holding: list[ScrapydNode]) -> Iterator[list[FaultProxy]]:
    with ExitStack() as stack:
        yield [stack.enter_context(FaultProxy(node.url)) for node in holding]
    for node in holding:
        _end_all(node)


@pytest.fixture
def nodes(holding: list[ScrapydNode], proxies: list[FaultProxy]) -> Iterator[Nodes]:
    entries = [NodeEntry(node.name, "127.0.0.1", proxy.port) for node, proxy in zip(holding, proxies, strict=True)]
    found = nodes_of(entries, credentials=TEST_CREDENTIALS, timeout_s=TIMEOUT_S)
    yield found
    found.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(None, tmp_path)
    yield opened
    opened.close()


def start(nodes: Nodes, store: Store, order: Order = ORDER) -> list[Placed]:
    return schedule(nodes, store.jobs, order, now=store.now())


def where(holding: list[ScrapydNode], job_id: str) -> list[str]:
    """Name the nodes that have the job, once for each time that they have it."""
    return [
        node.name
        for node in holding
        for rows in _jobs(node).values()
        for row in rows
        if row["id"] == job_id and not row["is_over"]
    ]


def test_three_jobs_land_on_three_idle_nodes(holding: list[ScrapydNode], nodes: Nodes, store: Store) -> None:
    placed = start(nodes, store, Order(SMALL, ALPHA, V1, args={"sleep_s": "600"}, count=3))
    assert [(each.job.node, each.error) for each in placed] == [(node.name, None) for node in holding]
    for each in placed:
        assert where(holding, each.job.id) == [each.job.node]
        assert store.jobs.get(each.job.id) == each.job


@pytest.mark.parametrize("fault", ["reset", "half", "500", "hang", "empty", "html"])
def test_a_node_that_took_the_job_and_lost_the_answer_has_it_once(
    holding: list[ScrapydNode], proxies: list[FaultProxy], nodes: Nodes, store: Store, fault: Fault
) -> None:
    proxies[0].break_endpoint("schedule.json", fault, forwards=True)
    (placed,) = start(nodes, store)
    assert placed.error is None
    assert placed.job.node == "node-1"
    assert where(holding, placed.job.id) == ["node-1"]
    assert proxies[0].calls["schedule.json"] == 1
    assert proxies[1].calls["schedule.json"] == proxies[2].calls["schedule.json"] == 0


@pytest.mark.parametrize("fault", ["error", "401"])
def test_a_node_that_refuses_is_passed_over_for_the_next(
    holding: list[ScrapydNode], proxies: list[FaultProxy], nodes: Nodes, store: Store, fault: Fault
) -> None:
    proxies[0].break_endpoint("schedule.json", fault, forwards=False)
    (placed,) = start(nodes, store)
    assert (placed.job.node, placed.error) == ("node-2", None)
    assert where(holding, placed.job.id) == ["node-2"]
    record = store.jobs.get(placed.job.id)
    assert record is not None
    assert record.node == "node-2"


def test_a_node_that_refuses_one_job_is_not_asked_for_the_others(
    holding: list[ScrapydNode], proxies: list[FaultProxy], nodes: Nodes, store: Store
) -> None:
    proxies[0].break_endpoint("schedule.json", "error", forwards=False)
    placed = start(nodes, store, Order(SMALL, ALPHA, V1, args={"sleep_s": "600"}, count=30))
    assert all(each.error is None for each in placed)
    assert {each.job.node for each in placed} == {"node-2", "node-3"}
    assert all(where(holding, each.job.id) == [each.job.node] for each in placed)
    assert proxies[0].calls["schedule.json"] == 1


def test_where_every_node_refuses_the_job_failed_with_the_reason(
    proxies: list[FaultProxy], nodes: Nodes, store: Store
) -> None:
    for proxy in proxies:
        proxy.break_endpoint("schedule.json", "error", forwards=False)
    placed = start(nodes, store, Order(SMALL, ALPHA, V1, count=5))
    assert all("this node says no" in str(each.error) for each in placed)
    assert {each.job.state for each in placed} == {JobState.FAILED}
    assert sum(proxy.calls["schedule.json"] for proxy in proxies) <= 9
    assert store.jobs.unfinished() == ()


@pytest.mark.parametrize("fault", ["hang", "reset"])
def test_a_node_of_which_nothing_can_be_told_is_reported_and_no_other_tried(
    holding: list[ScrapydNode], proxies: list[FaultProxy], nodes: Nodes, store: Store, fault: Fault
) -> None:
    for endpoint in ("schedule.json", "status.json"):
        proxies[0].break_endpoint(endpoint, fault, forwards=False)
    (placed,) = start(nodes, store)
    assert isinstance(placed.error, NodeError)
    assert placed.error.doing == "schedule.json"
    assert (placed.job.node, placed.job.state) == ("node-1", JobState.PENDING)
    assert proxies[1].calls["schedule.json"] == proxies[2].calls["schedule.json"] == 0
    assert where(holding, placed.job.id) == []
    assert proxies[0].calls["schedule.json"] == 1


def test_a_node_that_never_heard_of_the_job_says_so_and_no_other_is_tried(
    holding: list[ScrapydNode], proxies: list[FaultProxy], nodes: Nodes, store: Store
) -> None:
    proxies[0].break_endpoint("schedule.json", "hang", forwards=False)
    (placed,) = start(nodes, store)
    assert isinstance(placed.error, NodeTimeoutError)
    assert where(holding, placed.job.id) == []


def test_a_node_that_hangs_at_the_first_question_is_left_out(
    holding: list[ScrapydNode], proxies: list[FaultProxy], nodes: Nodes, store: Store
) -> None:
    proxies[0].break_endpoint("*", "hang", forwards=False)
    began = time.monotonic()
    (placed,) = start(nodes, store)
    assert (placed.job.node, placed.error) == ("node-2", None)
    assert time.monotonic() - began < 4 * TIMEOUT_S
    assert where(holding, placed.job.id) == ["node-2"]


def test_nothing_reachable_records_nothing(store: Store) -> None:
    with FaultyNode("refuse") as node, pytest.raises(NothingReachableError, match="scheduling alpha"):
        start(nodes_of([NodeEntry("a", "127.0.0.1", node.port)]), store)
    assert store.jobs.unfinished() == ()


def test_an_id_of_ones_own_runs_once(holding: list[ScrapydNode], nodes: Nodes, store: Store) -> None:
    order = Order(SMALL, ALPHA, V1, args={"sleep_s": "600"}, job_id=JobId("mine"))
    (placed,) = start(nodes, store, order)
    with pytest.raises(ConflictError, match="mine"):
        start(nodes, store, order)
    assert where(holding, "mine") == [placed.job.node]


def test_an_id_that_somebody_else_gave_is_refused_too(holding: list[ScrapydNode], nodes: Nodes, store: Store) -> None:
    holding[2].post("schedule.json", project="small", spider="alpha", jobid="theirs", sleep_s="600")
    with pytest.raises(ConflictError, match="theirs is known on node-3"):
        start(nodes, store, Order(SMALL, ALPHA, V1, job_id=JobId("theirs")))
    assert store.jobs.get(JobId("theirs")) is None


def test_what_cannot_run_is_refused_before_any_node_is_asked(
    proxies: list[FaultProxy], nodes: Nodes, store: Store
) -> None:
    with pytest.raises(UsageError):
        start(nodes, store, Order(SMALL, ALPHA, V1, count=0))
    assert not any(proxy.calls for proxy in proxies)


class Watched:
    """A store that lets a test look at the cluster at one moment of a schedule."""

    def __init__(self, records: JobStore, look: Callable[[], None]) -> None:
        self._records = records
        self._look = look

    def add(self, jobs: list[Job]) -> None:
        """Record the jobs, and look before they are sent."""
        self._records.add(jobs)
        self._look()

    def __getattr__(self, name: str) -> object:
        return getattr(self._records, name)


def test_a_look_between_recording_and_sending_takes_no_job_for_lost(
    holding: list[ScrapydNode], nodes: Nodes, store: Store
) -> None:
    seen: list[Job] = []

    def look() -> None:
        seen.extend(list_jobs(nodes, store.jobs, JobFilter(), now=store.now()).jobs)

    records: JobStore = Watched(store.jobs, look)  # type: ignore[assignment] # it passes the rest on
    (placed,) = schedule(nodes, records, ORDER, now=store.now())
    assert [job.state for job in seen if job.id == placed.job.id] == [JobState.PENDING]
    record = store.jobs.get(placed.job.id)
    assert record is not None
    assert record.state is JobState.PENDING
    assert where(holding, placed.job.id) == ["node-1"]


def test_a_job_that_never_arrived_is_lost_after_a_while(proxies: list[FaultProxy], nodes: Nodes, store: Store) -> None:
    proxies[0].break_endpoint("schedule.json", "hang", forwards=False)
    (placed,) = start(nodes, store)
    job = find_job(nodes, store.jobs, placed.job.id, now=store.now())
    assert job.state is JobState.PENDING
    later = store.now() + SENDING + timedelta(seconds=1)
    assert find_job(nodes, store.jobs, placed.job.id, now=later).state is JobState.LOST
    assert store.jobs.unfinished() == ()


def test_a_thousand_workers_on_a_thousand_nodes_land_one_each(store: Store) -> None:
    with Fleet(nodes=1_000, project="small", spiders=("alpha",), job_s=600) as fleet:
        nodes = nodes_of(fleet.hosts)
        placed = schedule(nodes, store.jobs, Order(SMALL, ALPHA, V1, count=1_000), now=store.now())
        nodes.close()
    assert [each.job.node for each in placed] == [host.name for host in fleet.hosts]
    assert not any(each.error for each in placed)


def _jobs(node: ScrapydNode) -> dict[str, list[dict[str, object]]]:
    listed = node.get("listjobs.json")
    return {
        state: [{**row, "is_over": state == "finished"} for row in listed[state]]
        for state in ("pending", "running", "finished")
    }


def _end_all(node: ScrapydNode) -> None:
    for state in ("pending", "running"):
        for row in _jobs(node)[state]:
            node.post("cancel.json", project="small", job=str(row["id"]), signal="KILL")

    def is_idle() -> bool:
        listed = _jobs(node)
        for row in listed["running"]:
            node.post("cancel.json", project="small", job=str(row["id"]), signal="KILL")
        return not listed["pending"] and not listed["running"]

    wait_until(is_idle, deadline_s=60, what=f"{node.name} to be idle")


def test_the_nodes_are_named_as_in_the_inventory(nodes: Nodes) -> None:
    assert nodes.names == (NodeName("node-1"), NodeName("node-2"), NodeName("node-3"))
