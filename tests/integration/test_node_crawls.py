"""What a spider held of a crawl goes back when its process is gone, however it went, long before its lease is over."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.crawl_desk import LONG_S, CrawlDesk, Worker, crawl_desk
from support.node_spiders import a_node_job, ended
from support.plugin_node import PluginNode, shared_of
from support.redis_server import RedisServer
from support.spider_cluster import revived, spider_nodes, store_of
from support.waiting import wait_until

from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, worker_of
from toolkit.runs.folder import CLAIM
from toolkit.store.interfaces import Store

pytestmark = pytest.mark.timeout(180)
SOON_S = 40.0
LEASE_S = 3.0


class Stage(NamedTuple):
    nodes: list[PluginNode]
    store: Store
    crawls: CrawlDesk

    def worker_of(self, job_id: str) -> tuple[PluginNode, Worker]:
        """Run a job that sleeps; return its node, and a worker in its name that holds an entry under a long lease."""
        shared_of(self.store).queue.add([a_node_job(job_id, args={"sleep_s": "300"}, attempts=1)])
        node = wait_until(lambda: self._runs(job_id), deadline_s=SOON_S, what=f"the process of {job_id}")
        job = self.store.jobs.get(JobId(job_id))
        assert job is not None
        assert job.token is not None
        worker = self.crawls.worker(worker_of(job.id, job.token), ttl_s=LONG_S)
        worker.push(job_id)
        worker.take_one()
        return node, worker

    def wait_given_back(self, worker: Worker) -> None:
        """Wait until the frontier knows the worker no more, and has back what it held."""
        wait_until(
            lambda: self.crawls.view_of(worker) is None and self.crawls.view().pending,
            deadline_s=SOON_S,
            what=f"what {worker.name} held to be back",
        )
        assert self.crawls.view().in_flight == 0

    def _runs(self, job_id: str) -> PluginNode | None:
        return next((node for node in self.nodes if node.process_of(job_id) is not None), None)


@pytest.fixture(scope="module")
def cluster(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[PluginNode]]:
    with spider_nodes(2, redis_server, tmp_path_factory.mktemp("nodes"), lease_s=LEASE_S) as nodes:
        yield nodes


@pytest.fixture
def stage(cluster: list[PluginNode], redis_server: RedisServer, tmp_path: Path) -> Iterator[Stage]:
    nodes = revived(cluster, redis_server)
    with (
        store_of(nodes, redis_server, tmp_path / "store") as store,
        crawl_desk(redis_server.url, tmp_path / "crawls") as crawls,
    ):
        crawls.crawls.clear(crawls.plan.crawl, force=True)
        yield Stage(nodes, store, crawls)


def test_a_killed_spider_gives_back_what_it_held_at_once(stage: Stage) -> None:
    node, worker = stage.worker_of("killed")
    process = node.process_of("killed")
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)

    stage.wait_given_back(worker)
    assert ended(stage.store, "killed").state is JobState.FAILED


def test_a_cancelled_spider_gives_back_what_it_held(stage: Stage) -> None:
    _, worker = stage.worker_of("cancelled")
    shared_of(stage.store).queue.cancel([JobId("cancelled")], grace_s=0)

    stage.wait_given_back(worker)
    assert ended(stage.store, "cancelled").state is JobState.CANCELLED


def test_what_a_spider_held_that_died_while_scrapyd_was_away_goes_back_at_its_next_start(stage: Stage) -> None:
    node, worker = stage.worker_of("unseen")
    node.kill()
    node.start()

    stage.wait_given_back(worker)


def test_the_spiders_of_a_lost_node_give_back_what_they_held_with_their_jobs(stage: Stage) -> None:
    node, worker = stage.worker_of("lost")
    node.kill()

    stage.wait_given_back(worker)
    assert ended(stage.store, "lost").state is JobState.LOST


def test_a_redis_that_is_away_is_told_when_it_is_back(stage: Stage, redis_server: RedisServer) -> None:
    node, worker = stage.worker_of("unheard")
    process = node.process_of("unheard")
    assert process is not None
    redis_server.stop()
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not node.spider_pids(), deadline_s=SOON_S, what="the spider to be gone")
    redis_server.start()

    stage.wait_given_back(worker)


def test_a_spider_finds_where_redis_is_in_a_file_of_its_owner_s(stage: Stage, redis_server: RedisServer) -> None:
    node, _ = stage.worker_of("asks")
    folder = node.run_folder("asks")
    assert folder is not None
    file = Path((folder.read(CLAIM) or {})["redis_file"])

    assert file.read_text().strip() == redis_server.url
    assert file.stat().st_mode & 0o777 == 0o600
    process = node.process_of("asks")
    assert process is not None
    for name in ("environ", "cmdline"):
        assert redis_server.url.encode() not in Path(f"/proc/{process.pid}/{name}").read_bytes()
    shared_of(stage.store).queue.cancel([JobId("asks")], grace_s=0)
    assert ended(stage.store, "asks").state is JobState.CANCELLED
