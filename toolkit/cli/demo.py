"""The demo, told as a story: a whole cluster on one machine, a real crawl on it, and nothing left behind."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.cli.session import Session
from toolkit.model.jobs import JobState

if TYPE_CHECKING:
    from toolkit.cluster.nodes import Nodes
    from toolkit.config.inventory import Inventory
    from toolkit.model.jobs import Job
    from toolkit.model.releases import DeployResult

# The sample shop's categories: one job each, so that the nodes share the shop between them.
CATEGORIES = ("lamps", "chairs", "tables", "rugs", "clocks", "vases", "shelves", "mirrors")
RUNS: tuple[tuple[str, dict[str, str]], ...] = (
    ("prices", {}),
    *(("products", {"category": name}) for name in CATEGORIES),
)
PROGRESS_EVERY_S = 1
STOP_GRACE_S = 10.0


def run_demo(session: Session, *, pages: int) -> None:
    """Start everything, deploy the sample project, crawl, show the result; stop everything, whatever happens."""
    from toolkit.provision.sample_site import sample_shop
    from toolkit.views.demo import demo_view

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crawlctl-demo-") as name:
        folder = Path(name)
        with local_cluster(session, folder), sample_shop(folder / "shop", pages=pages) as site:
            nodes = session.nodes()
            _tell(session, "deploy", "the sample project, as one egg, to every node, read back from each")
            deployed = _deploy(session, nodes)
            _tell(
                session, "schedule", f"{len(RUNS)} jobs for {site} into one queue, out of which each node takes its own"
            )
            jobs = _crawl(session, nodes, deployed, site)
            _tell(session, "ended", _spread(jobs))
        _tell(session, "down", "everything is stopped again, and nothing is left running")
    seconds = time.monotonic() - began
    session.printer.show(demo_view(deployed, jobs, seconds=seconds))
    _conclude(session, jobs)


@contextmanager
def local_cluster(session: Session, folder: Path) -> Iterator[None]:
    """Run the sample inventory's Redis and nodes within the block, on other ports where its own are taken."""
    from toolkit.config.inventory import load
    from toolkit.config.paths import sample_file
    from toolkit.model.errors import NodesFailedError
    from toolkit.provision.credentials import with_local_credentials
    from toolkit.provision.local_cluster import down, up

    inventory = _on_free_ports(load(sample_file("inventory.yaml")))
    _tell(
        session,
        "up",
        f"a Redis with the job queue and {len(inventory.hosts)} nodes on this machine, with passwords of their own",
    )
    try:
        started = up(inventory, folder, environ=os.environ)
        if started.failed:
            raise NodesFailedError(f"the demo's servers did not come up: {started.failed[0].error}")
        session.use(with_local_credentials(inventory, folder), folder)
        yield
    finally:
        stopped = down(folder, grace_s=STOP_GRACE_S)
    if stopped.failed:
        raise NodesFailedError(f"not everything could be stopped: {stopped.failed[0].error}")


def _on_free_ports(inventory: Inventory) -> Inventory:
    from urllib.parse import urlsplit

    from toolkit.model.hosts import Secret
    from toolkit.provision.ports import is_free
    from toolkit.provision.sample_site import free_port

    def usable(port: int) -> int:
        return port if is_free("127.0.0.1", port) else free_port()

    redis = urlsplit(inventory.redis.reveal() if inventory.redis else "redis://127.0.0.1:6390/0")
    hosts = tuple(replace(host, port=usable(host.port)) for host in inventory.hosts)
    return replace(inventory, redis=Secret(f"redis://127.0.0.1:{usable(redis.port or 6390)}/0"), hosts=hosts)


def _deploy(session: Session, nodes: Nodes) -> DeployResult:
    from toolkit.config.paths import sample_file
    from toolkit.config.project import find_project
    from toolkit.model.errors import NodesFailedError
    from toolkit.rollout.deploy import choose_version, deploy
    from toolkit.rollout.egg import build_egg
    from toolkit.rollout.preflight import preflight
    from toolkit.rollout.push import Cargo

    project = find_project(sample_file("projects") / "shop")
    egg = build_egg(project)
    spiders = preflight(project.root, egg, environ=os.environ)
    version = choose_version(session.store, project.name, egg.digest, wanted=None)
    cargo = Cargo(project.name, version, egg.content, egg.digest, spiders)
    result = deploy(nodes, session.store, cargo, on_step=_ignore, on_done=_ignore)
    if result.failed:
        raise NodesFailedError(f"the sample project could not be deployed: {result.failed[0].error}")
    return result


def _crawl(session: Session, nodes: Nodes, deployed: DeployResult, site: str) -> list[Job]:
    from toolkit.cluster.enqueue import enqueue
    from toolkit.cluster.waiting import wait_for
    from toolkit.model.names import SpiderName
    from toolkit.model.orders import Order
    from toolkit.rollout.lock import operator
    from toolkit.views.jobs import jobs_table, utc_now

    orders = [
        Order(
            deployed.project,
            SpiderName(spider),
            deployed.version,
            args={"site": site, **args},
            settings={"LOGSTATS_INTERVAL": str(PROGRESS_EVERY_S)},
        )
        for spider, args in RUNS
    ]
    current = enqueue(session.store, orders, now=session.store.now(), who=operator())
    with session.printer.live(lambda: jobs_table(current, now=utc_now())):
        return wait_for(nodes, session.store.jobs, current, clock=session.store.now, on_change=_replace_in(current))


def _spread(jobs: Sequence[Job]) -> str:
    """Say how many jobs each node took, and how their processes ended."""
    taken = Counter(str(job.node) for job in jobs if job.node is not None)
    codes = sorted({str(job.signal or job.exit_code) for job in jobs})
    shares = ", ".join(f"{name} took {taken[name]}" for name in sorted(taken))
    return f"{shares}; exit {'code' if len(codes) == 1 else 'codes'} {', '.join(codes)}"


def _replace_in(current: list[Job]) -> Callable[[Sequence[Job]], None]:
    def on_change(jobs: Sequence[Job]) -> None:
        current[:] = jobs

    return on_change


def _conclude(session: Session, jobs: Sequence[Job]) -> None:
    from toolkit.model.errors import JobFailedError

    if bad := [job for job in jobs if job.state is not JobState.FINISHED]:
        raise session.failed(JobFailedError(f"{len(bad)} of the demo's jobs did not finish well"))
    session.printer.say("next: crawlctl init, crawlctl up, crawlctl deploy YOUR_PROJECT, crawlctl schedule SPIDER")


def _tell(session: Session, step: str, text: str) -> None:
    session.printer.say(f"{step:<9} {text}")


def _ignore(*_: object) -> None:
    """Take no notice of a step: the demo tells its own."""
