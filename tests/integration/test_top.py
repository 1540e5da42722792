"""`crawlctl top` on a real Redis, by its keys: what is seen follows the cluster, and what is done is proven."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.busy_cluster import BusyCluster
from support.doors import nodes_of
from support.fleet import Fleet
from support.queue_desk import QueueDesk, queue_desk
from support.redis_server import RedisServer
from support.screen_text import played, screen_of, until, until_shown
from support.waiting import wait_until
from textual.pilot import Pilot

from toolkit.cluster.acts import Acts
from toolkit.cluster.desk import Desk
from toolkit.model.jobs import Job, JobState
from toolkit.model.queue import Claimed
from toolkit.store.open import open_store
from toolkit.top.app import Top
from toolkit.top.jobs_tab import JobRow
from toolkit.top.watcher import Watcher


@pytest.fixture
def queue(redis_url: str, tmp_path: Path) -> Iterator[QueueDesk]:
    with queue_desk(redis_url, tmp_path) as desk:
        yield desk


@pytest.fixture
def cluster(queue: QueueDesk) -> BusyCluster:
    busy = BusyCluster(queue, nodes=2, slots=2)
    busy.schedule(6)
    busy.start()
    busy.beat(pages=10)
    return busy


def a_top(cluster: BusyCluster) -> Top:
    return Top(Watcher(cluster.desk), Acts(cluster.desk, who="ann@desk"), name="main", every_s=0.1)


async def go_to(pilot: Pilot[Any], job_id: str) -> None:
    """Put the cursor on a job, by its keys."""
    app = pilot.app
    assert isinstance(app, Top)
    await until(pilot, lambda: app.seen is not None and app._main.table.rows, what="the first look")
    rows = [row.job.id for row in app._main.table.rows if isinstance(row, JobRow)]
    await pilot.press("home", *("down",) * rows.index(job_id))  # type: ignore[arg-type]
    assert app._main.table.current.job.id == job_id  # type: ignore[union-attr]


def of_state(queue: QueueDesk, state: JobState) -> list[Job]:
    return [job for job in queue.store.jobs.unfinished() if job.state is state]


def test_the_table_follows_what_happens(cluster: BusyCluster) -> None:
    app = a_top(cluster)

    async def play(pilot: Pilot[Any]) -> None:
        await until_shown(pilot, "[2 jobs 6]")
        await until_shown(pilot, "running 4  pending 2  ended 0")
        cluster.end(1, JobState.FAILED)
        cluster.schedule(1)
        await until_shown(pilot, "running 3  pending 3  ended 1")
        await until_shown(pilot, "[2 jobs 7]")
        await pilot.press("5")
        await until_shown(pilot, "job.failed")

    played(app, play)


def test_a_waiting_job_is_cancelled_once_somebody_has_said_yes(cluster: BusyCluster, queue: QueueDesk) -> None:
    (job, other) = of_state(queue, JobState.PENDING)
    app = a_top(cluster)

    async def play(pilot: Pilot[Any]) -> None:
        await go_to(pilot, job.id)
        await pilot.press("c")
        await until_shown(pilot, f"{job.id[:8]} {job.spider} pending")
        await pilot.press("n")
        await pilot.press("c", "y")
        await until_shown(pilot, "gone (it never ran)")
        assert queue.states(job.id, other.id) == ["cancelled", "pending"]
        await until_shown(pilot, "ended 1")
        await pilot.press("a")
        await until_shown(pilot, "Cancel 1 job?")

    played(app, play)
    (entry,) = queue.store.audit.entries()
    assert (entry.who, entry.action, entry.subject, entry.result) == ("ann@desk", "cancel", job.id, "done")


def test_a_running_job_is_gone_only_when_its_node_says_so(cluster: BusyCluster, queue: QueueDesk) -> None:
    claim = cluster.running["node-001"][0]
    app = a_top(cluster)

    def obey() -> None:
        wait_until(
            lambda: queue.job(claim.job.id).cancel_requested_at, deadline_s=60, what="the wish to reach the node"
        )
        assert "gone" not in screen_of(app)
        _finish(queue, claim)

    node = threading.Thread(target=obey)

    async def play(pilot: Pilot[Any]) -> None:
        await go_to(pilot, claim.job.id)
        node.start()
        await pilot.press("c", "y")
        await until_shown(pilot, "gone (its process is gone)")

    played(app, play)
    node.join()


def test_what_cannot_be_done_is_said_and_nothing_is_asked(cluster: BusyCluster, queue: QueueDesk) -> None:
    app = a_top(cluster)

    async def play(pilot: Pilot[Any]) -> None:
        await go_to(pilot, cluster.running["node-001"][0].job.id)
        await pilot.press("r")
        await until_shown(pilot, "only a failed, lost or cancelled job")
        await pilot.press("u")
        await until_shown(pilot, "only a paused job")

    played(app, play)
    assert queue.store.audit.entries() == ()


def test_failed_jobs_are_marked_and_retried_together(cluster: BusyCluster, queue: QueueDesk) -> None:
    failed = cluster.end(2, JobState.FAILED)
    app = a_top(cluster)

    async def play(pilot: Pilot[Any]) -> None:
        await until_shown(pilot, "ended 2")
        await pilot.press("slash", *"failed", "enter")
        await until(pilot, lambda: len(app._main.table.rows) == 2, what="the two that failed")
        await pilot.press("home", "space", "space")
        await until_shown(pilot, "2 marked")
        await pilot.press("r")
        await until_shown(pilot, "Retry 2 jobs?")
        await pilot.press("y")
        await until_shown(pilot, "is pending again")

    played(app, play)
    assert queue.states(*failed) == ["pending", "pending"]


def test_a_node_is_drained_and_taken_up_again(cluster: BusyCluster, queue: QueueDesk) -> None:
    app = a_top(cluster)

    async def play(pilot: Pilot[Any]) -> None:
        await until_shown(pilot, "ended 0")
        await pilot.press("1", "home", "d")
        await until_shown(pilot, "Drain 1 node?")
        await pilot.press("y")
        await until_shown(pilot, "takes no new job; it still runs 2")
        await until_shown(pilot, "drained by ann@desk")
        (drained,) = (record.name for record in queue.nodes.all() if record.is_draining)
        assert app._main.table.go_to(drained)
        await pilot.press("u", "y")
        await until_shown(pilot, f"{drained} takes jobs again")

    played(app, play)


def test_a_spider_is_wished_slower(cluster: BusyCluster, queue: QueueDesk) -> None:
    claim = cluster.running["node-002"][0]
    app = a_top(cluster)

    async def play(pilot: Pilot[Any]) -> None:
        await go_to(pilot, claim.job.id)
        await pilot.press("t", *"0", "enter")
        await until_shown(pilot, "requests at once: 1 to")
        await pilot.press("backspace", "4", "tab", *"1.5", "enter")
        await until_shown(pilot, "Tune this job: concurrency 4, delay 1.5 s?")
        await pilot.press("y")
        await until_shown(pilot, "told: concurrency 4, delay 1.5 s")

    played(app, play)
    report = next(each for each in cluster.reports if each.name == "node-002")
    wish = queue.beat(report, *cluster.running["node-002"]).wishes[claim.token]
    assert (wish.concurrency, wish.delay_s) == (4, 1.5)


def test_a_redis_that_goes_away_is_told_of_and_comes_back_by_itself(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server, queue_desk(server.url, tmp_path) as queue:
        cluster = BusyCluster(queue, nodes=1, slots=1)
        cluster.schedule(1)
        app = a_top(cluster)

        async def play(pilot: Pilot[Any]) -> None:
            await until_shown(pilot, "[2 jobs 1]")
            server.stop()
            await until_shown(pilot, "waiting for an answer")
            assert "[2 jobs 1]" in screen_of(app)
            server.start()
            await until(pilot, lambda: "waiting for an answer" not in screen_of(app), what="Redis to be heard again")
            cluster.schedule(1)
            await until_shown(pilot, "[2 jobs 2]")

        played(app, play)


def test_a_log_grows_on_the_job_s_screen_and_says_why_there_is_none(cluster: BusyCluster) -> None:
    app = a_top(cluster)

    async def play(pilot: Pilot[Any]) -> None:
        claim = cluster.running["node-001"][0]
        await go_to(pilot, claim.job.id)
        await pilot.press("enter")
        await until_shown(pilot, f"{claim.job.id}  running")
        await pilot.press("w")
        await until_shown(pilot, "it is running on")
        await pilot.press("escape", "escape")
        await until_shown(pilot, "[2 jobs 6]")

    played(app, play)


def test_stock_nodes_without_a_redis_are_shown_and_their_jobs_cancelled(tmp_path: Path) -> None:
    with Fleet(nodes=3, job_s=60, slots=1, project="shop", spiders=("books",)) as fleet:
        store = open_store(None, tmp_path)
        desk = Desk(nodes_of(fleet.hosts), lambda: store)
        (placed,) = Acts(desk, who="ann@desk").schedule("books", project="shop", version="v1")
        app = Top(Watcher(desk), Acts(desk, who="ann@desk"), name="main", every_s=0.1)

        async def play(pilot: Pilot[Any]) -> None:
            await until_shown(pilot, "nodes 3")
            await until_shown(pilot, placed.job.id[:8])
            await pilot.press("4")
            await until_shown(pilot, "jobs wait on the stock nodes themselves")
            await pilot.press("1", "d")
            await until_shown(pilot, "a stock node cannot be drained")
            await pilot.press("2", "c", "y")
            await until_shown(pilot, f"{placed.job.id[:8]}: gone")

        played(app, play)
        desk.nodes.close()
        store.close()


def _finish(queue: QueueDesk, claim: Claimed) -> None:
    assert queue.finish(claim) is JobState.CANCELLED
