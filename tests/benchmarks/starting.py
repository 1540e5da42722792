"""How long it takes from handing over a job until its process' first line runs: stock Scrapyd, and the shared queue.

Both start their own, unmodified runners. The time is taken by a `sitecustomize` in the nodes' environment, which every
Python of theirs runs before anything else. The next job is handed over after the process has come to its end.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

import psutil
from support.node_spiders import node_egg
from support.plugin_node import PluginNode, hold_everywhere, running_plugin_nodes, shared_of, shared_store
from support.redis_server import RedisServer
from support.scrapyd_node import ScrapydNode
from support.waiting import wait_until

from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, ProjectName, SpiderName, VersionName
from toolkit.model.nodes import DEFAULT_LEASE_S

PROJECT, VERSION, SPIDER = ProjectName("shop"), VersionName("v1"), SpiderName("quick")
STOCK_POLL_S = 5.0
PAUSES_UP_TO_S = 0.7
START_WITHIN_S = 30.0
END_WITHIN_S = 60.0
SETTLE_S = 3.0
_STAMP = """\
import os, sys, time
now = time.time()
words = sys.orig_argv
if "crawl" in words:
    job = next(word[5:] for word in words if word.startswith("_job="))
    path = os.path.join({folder!r}, job)
    with open(path + ".draft", "w") as file:
        file.write(f"{{now!r}} {{os.getpid()}}")
    os.replace(path + ".draft", path)
"""

Hand = Callable[[str], object]


def stock(folder: Path, *, jobs: int) -> list[float]:
    """Return the seconds for each job on one stock node as it is delivered, handed over by its own API."""
    stamps = _stamps(folder)
    options = {"poll_interval": f"{STOCK_POLL_S:g}", "max_proc": "4"}
    node = ScrapydNode(folder / "node", options=options, environ=_environment(stamps))
    with node:
        node.post("addversion.json", files={"egg": node_egg()}, project=PROJECT, version=VERSION)

        def hand_over(job_id: str) -> None:
            node.post("schedule.json", project=PROJECT, spider=SPIDER, _version=VERSION, jobid=job_id)

        return _timed(stamps, hand_over, jobs=jobs, pauses_up_to_s=STOCK_POLL_S)


def shared_queue(folder: Path, *, nodes: int, jobs: int, through_api: bool = False) -> list[float]:
    """Return the seconds for each job on idle plug-in nodes: put into the queue, or posted to one node's API."""
    stamps = _stamps(folder)
    with _cluster(folder, nodes=nodes, stamps=stamps) as (members, server), shared_store(server.url, folder) as store:
        hold_everywhere(members, VERSION, egg=node_egg())
        for member in members:
            member.wait_registered(shared_of(store))

        def put(job_id: str) -> None:
            shared_of(store).queue.add([_job(job_id, store.now())])

        def post(job_id: str) -> None:
            members[0].post("schedule.json", project=PROJECT, spider=SPIDER, _version=VERSION, jobid=job_id)

        return _timed(stamps, post if through_api else put, jobs=jobs, pauses_up_to_s=PAUSES_UP_TO_S)


def extra_memory_mb(folder: Path) -> float:
    """Return how much more resident memory an idle plug-in node takes than a stock one, both holding one egg."""
    sizes = []
    with ScrapydNode(folder / "stock") as node:
        node.post("addversion.json", files={"egg": node_egg()}, project=PROJECT, version=VERSION)
        sizes.append(_settled_rss(node))
    with _cluster(folder, nodes=1, stamps=None) as (members, _):
        hold_everywhere(members, VERSION, egg=node_egg())
        sizes.append(_settled_rss(members[0]))
    return (sizes[1] - sizes[0]) / 1e6


@contextmanager
def _cluster(folder: Path, *, nodes: int, stamps: Path | None) -> Iterator[tuple[Sequence[PluginNode], RedisServer]]:
    environ = {} if stamps is None else _environment(stamps)
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer(folder / "redis"))
        members = stack.enter_context(
            running_plugin_nodes(
                nodes, redis_url=server.url, folder=folder, slots=4, lease_s=DEFAULT_LEASE_S, environ=environ
            )
        )
        yield members, server


def _timed(stamps: Path, hand_over: Hand, *, jobs: int, pauses_up_to_s: float) -> list[float]:
    """Hand over one job after the other, at moments that no rhythm of the node's own can favour."""
    times = []
    chance = random.Random(7)  # noqa: S311 - the same pauses in every run
    for number in range(jobs + 1):
        job_id = f"bench-{number}"
        began = time.time()
        hand_over(job_id)
        stamp = stamps / job_id
        wait_until(stamp.exists, deadline_s=START_WITHIN_S, what=f"{job_id} to start")
        started, pid = stamp.read_text().split()
        times.append(float(started) - began)
        wait_until(partial(_is_gone, int(pid)), deadline_s=END_WITHIN_S, what=f"{job_id} to end")
        time.sleep(chance.uniform(0, pauses_up_to_s))
    # The first is a warming up: spiders are listed, connections made.
    return times[1:]


def _is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid)


def _stamps(folder: Path) -> Path:
    stamps = folder / "stamps"
    stamps.mkdir(parents=True)
    (stamps / "sitecustomize.py").write_text(_STAMP.format(folder=str(stamps)))
    return stamps


def _environment(stamps: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(stamps)}


def _job(job_id: str, now: datetime) -> Job:
    return Job(
        id=JobId(job_id),
        project=PROJECT,
        spider=SPIDER,
        state=JobState.PENDING,
        version=VERSION,
        args={},
        settings={},
        attempts=1,
        scheduled_at=now,
    )


def _settled_rss(node: ScrapydNode) -> int:
    time.sleep(SETTLE_S)
    return int(psutil.Process(node.pid).memory_info().rss)
