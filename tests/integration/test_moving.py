"""A node that nobody reaches by HTTP and whose address changes: its files come through Redis, and it is soon back."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
from support.cli import NodeEntry, RunningCrawlctl, inventory_for
from support.eggs import egg_of
from support.moving_link import MovingLink
from support.node_spiders import VERSION, a_node_job, ended
from support.plugin_node import PluginNode, shared_of, shared_store
from support.redis_server import RedisServer
from support.waiting import wait_until

from toolkit.model.jobs import JobState
from toolkit.model.names import JobId
from toolkit.model.snapshot import NodeState
from toolkit.store.interfaces import Store

pytestmark = pytest.mark.timeout(120)
SOON_S = 40.0
LEASE_S = 6.0
NEVER_ROUTED = "192.0.2.1"
HOME, AWAY, FURTHER = "127.0.0.21", "127.0.0.22", "127.0.0.23"

_REDIAL = """
import pathlib, sys, time
file = pathlib.Path(sys.argv[1])
before = file.read_text()
file.write_text("")
time.sleep(0.3)
file.write_text(next(each for each in sys.argv[2:] if each != before))
"""

_SPIDERS = """
import asyncio
import os

import scrapy


class Waits(scrapy.Spider):
    name = "waits"

    async def start(self):
        while hasattr(self, "until") and not os.path.exists(self.until):
            await asyncio.sleep(0.05)
        yield scrapy.Request("data:,hello")

    def parse(self, response):
        yield {"text": response.text}


class Visits(scrapy.Spider):
    name = "visits"

    async def start(self):
        for number in range(12):
            yield scrapy.Request(f"{self.site}/{number}")

    def parse(self, response):
        yield {"url": response.url}
"""
_SETTINGS = """
BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
TELNETCONSOLE_ENABLED = False
DOWNLOADER_MIDDLEWARES = {"toolkit.spider.RedialMiddleware": 555}
REDIAL_MIN_RESPONSES = 4
CONCURRENT_REQUESTS = 4
"""


class Stage(NamedTuple):
    node: PluginNode
    store: Store
    link: MovingLink
    folder: Path
    redis_url: str

    def crawlctl(self, *words: str, hidden: bool = True) -> RunningCrawlctl:
        """Run a command whose inventory has the node at an address that leads nowhere, or lacks it."""
        name = "node-1" if hidden else "another"
        where = NodeEntry(name, NEVER_ROUTED, self.node.port, self.node.credentials)
        inventory_for([where], self.redis_url, self.folder / "inventory.yaml", timeout_s=20)
        return RunningCrawlctl(*words, cwd=self.folder)

    def schedule(self, job_id: str, spider: str = "waits", **args: object) -> None:
        """Put a job into the queue, which this node takes."""
        texts = {name: str(value) for name, value in args.items()}
        shared_of(self.store).queue.add([a_node_job(job_id, spider, args=texts)])

    def runs(self, job_id: str) -> bool:
        job = self.store.jobs.get(JobId(job_id))
        return job is not None and job.state is JobState.RUNNING

    def outside(self) -> str | None:
        record = self.node.record(shared_of(self.store))
        return record.report.outside if record else None


@pytest.fixture(scope="module")
def stage(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    redis_server.flush()
    folder = tmp_path_factory.mktemp("moving")
    (folder / "redial.py").write_text(_REDIAL)
    file = folder / "address"
    with MovingLink(redis_server.port, file, address=HOME) as link:
        node = PluginNode(
            folder / "node-1",
            redis_url=f"redis://127.0.0.1:{link.port}/0?socket_timeout=1",
            lease_s=LEASE_S,
            own={
                "redial_command": f"{sys.executable} {folder / 'redial.py'} {file} {HOME} {AWAY}",
                "redial_min_interval_s": "0",
            },
            options={"items_dir": "items"},
        )
        try:
            node.start()
            with shared_store(redis_server.url, folder / "operator") as store:
                node.wait_registered(shared_of(store))
                files = {"__init__.py": "", "settings.py": _SETTINGS, "spiders.py": _SPIDERS}
                node.hold(VERSION, egg=egg_of(files, package="shop"))
                node.wait_ready(store, VERSION)
                yield Stage(node, store, link, folder, redis_server.url)
        finally:
            node.kill()


def test_files_of_a_node_that_http_does_not_reach_come_through_redis(stage: Stage) -> None:
    stage.schedule("job-files")
    ended(stage.store, "job-files")
    log = stage.node.folder / "logs" / "shop" / "waits" / "job-files.log"

    with stage.crawlctl("logs", "job-files") as command:
        told = command.wait().expect()
    assert told.out == log.read_text()
    assert told.err.count("node-1 is not reached by HTTP; through Redis") == 1
    with stage.crawlctl("logs", "job-files", "-n", "2") as command:
        assert command.wait().expect().out.splitlines() == log.read_text().splitlines()[-2:]
    with stage.crawlctl("items", "job-files", hidden=False) as command:
        told = command.wait().expect()
    assert json.loads(told.out) == {"text": "hello"}
    assert told.err == ""


def test_a_log_is_followed_through_redis_until_the_job_has_ended(stage: Stage) -> None:
    until = stage.folder / "followed"
    stage.schedule("job-followed", until=until)
    with stage.crawlctl("logs", "job-followed", "-f", "-n", "1000", hidden=False) as command:
        wait_until(lambda: "Spider opened" in command.out, deadline_s=SOON_S, what="the log's first lines")
        assert command.is_running
        until.touch()
        assert "Spider closed (finished)" in command.wait().expect().out


def test_items_are_followed_through_redis_from_before_the_first_to_the_end_of_the_job(stage: Stage) -> None:
    until = stage.folder / "found"
    stage.schedule("job-finds", until=until)
    with stage.crawlctl("items", "job-finds", "-f", hidden=False) as command:
        wait_until(lambda: stage.runs("job-finds"), deadline_s=SOON_S, what="the job to run")
        assert command.is_running
        until.touch()
        told = command.wait().expect()
    assert told.jsonl() == [{"text": "hello"}]
    assert "error" not in told.err


def test_a_node_that_was_dialled_anew_is_back_within_its_lease(stage: Stage) -> None:
    assert stage.outside() == HOME
    seen = set[NodeState]()

    def is_seen_elsewhere() -> bool:
        record = stage.node.record(shared_of(stage.store))
        assert record is not None
        seen.add(record.state)
        return record.report.outside == FURTHER

    stage.link.address = FURTHER
    wait_until(is_seen_elsewhere, deadline_s=SOON_S, what="the node to be seen at its new address")
    assert NodeState.LOST not in seen
    assert "address has changed" in stage.node.log_text()


def test_a_node_is_dialled_anew_by_an_operator_while_its_spiders_go_on(stage: Stage) -> None:
    before = stage.outside()
    until = stage.folder / "runs on"
    stage.schedule("job-runs-on", until=until)
    wait_until(lambda: stage.runs("job-runs-on"), deadline_s=SOON_S, what="the spider to run")

    with stage.crawlctl("nodes", "redial", "--on", "node-1", "--output", "json", hidden=False) as command:
        (row,) = command.wait().expect().json()["nodes"]

    after = stage.link.address
    assert after != before
    assert (row["node"], row["old"], row["new"], row["error"]) == ("node-1", before, after, None)
    wait_until(lambda: stage.outside() == after, deadline_s=SOON_S, what="the registry to know the new address")
    record = stage.node.wait_registered(shared_of(stage.store))
    assert record.report.unfit is None
    until.touch()
    assert ended(stage.store, "job-runs-on").state is JobState.FINISHED


def test_a_spider_that_is_banned_gets_another_address_and_every_page(stage: Stage) -> None:
    before = stage.link.address
    with banning_site(lambda: stage.link.address not in {before, ""}) as site:
        stage.schedule("job-banned", "visits", site=site)
        done = ended(stage.store, "job-banned")

    assert done.state is JobState.FINISHED
    # Of the first bans, before there are enough to tell, one less than the threshold is the spider's.
    assert 9 <= (done.items or 0) <= 12
    assert stage.link.address != before


@contextmanager
def banning_site(is_welcome: Callable[[], bool]) -> Iterator[str]:
    """Serve pages to whoever is welcome, and 403 to all others; give the address."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if is_welcome() else 403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - theirs
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
