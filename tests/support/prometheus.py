"""A real Prometheus and its promtool, out of Debian's packages, and a reading of a cluster with something of all."""

from __future__ import annotations

import contextlib
import http.server
import json
import math
import shutil
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from support.debian import require_installed
from support.ports import free_port
from support.processes import end, quiet_environment, start
from support.waiting import wait_until

from toolkit.cluster.reading import ClusterReading
from toolkit.model.jobs import JobState
from toolkit.model.measures import CLAIM_BOUNDS_S, CrawlSizes, Measures
from toolkit.model.names import CrawlId, NodeName, ProjectName, Session, VersionName
from toolkit.model.nodes import NodeRecord, NodeReport
from toolkit.model.redis_health import RedisHealth, Replica
from toolkit.model.samples import ClusterSample
from toolkit.model.snapshot import Attention, NodeState, NodeStatus, Snapshot
from toolkit.views.metrics import CONTENT_TYPE

NOW = datetime(2026, 11, 21, 7, 2, 33, tzinfo=UTC)
SHOP = ProjectName("shop")
_TOOLS = {"prometheus": "prometheus", "promtool": "prometheus"}
_READY_WITHIN_S = 60.0


def a_reading(*, crawls: int = 2) -> ClusterReading:
    """Return a reading in which every number is known."""
    nodes = [
        NodeStatus(NodeName("node-1"), "10.0.0.1:6800", NodeState.LIVE, kind="node", slots=4, running=2),
        NodeStatus(NodeName("node-2"), "10.0.0.2:6800", NodeState.LOST, kind="node", slots=4, running=0),
    ]
    attention = (Attention("lost", "1 node is lost", (NodeName("node-2"),)),)
    snapshot = Snapshot(NOW, tuple(nodes), {SHOP: VersionName("v1")}, attention, queued=9, taken=2, ended=100)
    report = NodeReport(
        *(NodeName("node-1"), Session("life"), "home", "10.0.0.1:6800"),
        slots=4,
        running=2,
        load=0.5,
        memory_free_mb=2000,
        disk_free_mb=50_000,
        behind={"shop v2": "no disk"},
    )
    measures = Measures(
        at=NOW,
        claims=dict.fromkeys((*CLAIM_BOUNDS_S, math.inf), 2),
        claims_waited_s=123.4,
        started=30,
        requeued=1,
        leases_lost=1,
        ended={(SHOP, JobState.FINISHED): 25, (SHOP, JobState.FAILED): 3},
        pages=12_000,
        items=9000,
        errors=7,
        oldest_waiting_s=4.5,
        sample=ClusterSample(NOW - timedelta(seconds=4), 9, 2, 1, 4, 12.5, 9.5, 0.1),
        crons=3,
        crons_late=1,
        next_cron_at=NOW - timedelta(seconds=90),
        crawls=tuple(CrawlSizes(CrawlId(f"crawl-{n}"), pending=n, workers=1, commits=3) for n in range(crawls)),
        redis=RedisHealth(
            *("127.0.0.1:6379", 0.0002, 0.0, 0.0),
            is_append_only=True,
            is_last_append_ok=True,
            used_bytes=10**7,
            max_bytes=10**9,
            evicted=0,
            clients=12,
            max_clients=10_000,
            replicas=(Replica("10.0.0.9:6379", is_online=True, lag_s=0),),
        ),
    )
    counts = {"pending": 9, "held": 1, "delayed": 2, "active": 2, "ended": 100}
    return ClusterReading(snapshot, 0.05, [NodeRecord(report, NOW, 1.5)], counts, measures, firing=1)


def require_prometheus() -> None:
    """Have Prometheus and promtool; where they cannot be had, the test is skipped, or fails in CI."""
    require_installed(_TOOLS)


def promtool(*words: str, stdin: bytes = b"") -> str:
    """Run promtool and return what it says; it must find nothing wrong."""
    program = shutil.which("promtool")
    assert program
    ended = subprocess.run([program, *words], input=stdin, capture_output=True, timeout=60, check=False)
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 0, said
    return said


@contextlib.contextmanager
def served(text: Callable[[], bytes]) -> Iterator[int]:
    """Serve a text at every path, as `/metrics` is; give the port."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = text()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


class Prometheus:
    """A server that scrapes one target every second, and evaluates rules as often."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, **query: str) -> Any:
        """Ask its HTTP API and return the data of the answer."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return told["data"]

    def value(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Return what an expression is now: labels and values."""
        found = self.get("query", query=expression)["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]


@contextlib.contextmanager
def prometheus(folder: Path, *, target_port: int, rules: str) -> Iterator[Prometheus]:
    """Run a Prometheus until the block ends; it has scraped the target once when this begins."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rules.yml").write_text(rules)
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        "rule_files: [rules.yml]\n"
        f"scrape_configs: [{{job_name: crawlctl, static_configs: [{{targets: ['127.0.0.1:{target_port}']}}]}}]\n"
    )
    port = free_port()
    program = shutil.which("prometheus")
    assert program
    command = [
        *(program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'series'}"),
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = start(command, cwd=folder, env=quiet_environment(folder), output=log)
    running = Prometheus(port)

    def has_scraped() -> bool:
        with contextlib.suppress(OSError):
            return bool(running.value("up == 1"))
        return False

    try:
        wait_until(has_scraped, deadline_s=_READY_WITHIN_S, what="Prometheus to have scraped its target")
        yield running
    finally:
        end(process)
