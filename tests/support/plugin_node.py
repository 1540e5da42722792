"""Real Scrapyd processes with the plug-in, on a real Redis; gone after the test, and their spiders too."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import redis
from support.eggs import small_egg
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode
from support.waiting import wait_until

from toolkit.model.hosts import Secret
from toolkit.model.nodes import NodeRecord
from toolkit.model.snapshot import NodeState
from toolkit.node.application import COMPONENTS, SERVICES
from toolkit.runs.folder import RunFolder
from toolkit.runs.registration import Registered, registered
from toolkit.store.interfaces import Shared, Store
from toolkit.store.open import open_store

REGISTERED_WITHIN_S = 60.0


class PluginNode(ScrapydNode):
    """One Scrapyd process that is a member of a cluster.

    `lease_s` and `slots` are short and few for tests; `own` are further lines of its `[crawlctl]` section (`cluster`,
    `labels`, `min_memory_mb`, …), `options` of `[scrapyd]`. With `redis_url` `None` the node has no Redis named.
    """

    def __init__(
        self,
        folder: Path,
        *,
        redis_url: str | None,
        name: str = "node-1",
        address: str = "127.0.0.1",
        port: int | None = None,
        credentials: tuple[str, str] | None = TEST_CREDENTIALS,
        slots: int = 2,
        lease_s: float = 3.0,
        own: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        services: Mapping[str, str] | None = None,
    ) -> None:
        user, secret = credentials or (None, None)
        redis = {} if redis_url is None else {"redis": redis_url}
        section = {**redis, "lease_s": f"{lease_s:g}", "min_disk_mb": "0", "min_memory_mb": "0", **(own or {})}
        application = {"application": "toolkit.node.application.application", "max_proc": str(slots)}
        super().__init__(
            folder,
            name=name,
            address=address,
            port=port,
            username=user,
            password=secret,
            options={**application, **COMPONENTS, **(options or {})},
            sections={
                "crawlctl": section,
                "services": {**SERVICES, **(services or {})},
            },
            environ=environ,
        )
        self.lease_s = lease_s

    @property
    def runs(self) -> Path:
        """Where the node's running jobs have their folders."""
        return self.folder / "dbs" / "node" / "runs"

    def run_folder(self, job_id: str) -> RunFolder | None:
        """Return the folder of a job that this node has now."""
        latest = max(self.runs.glob(f"{job_id}~*"), key=lambda path: path.stat().st_mtime, default=None)
        return None if latest is None else RunFolder(latest)

    def process_of(self, job_id: str) -> Registered | None:
        """Return the process that runs a job, as it registered itself."""
        folder = self.run_folder(job_id)
        return registered(folder) if folder else None

    def spider_pids(self) -> list[int]:
        """Return the spider processes of this node that live, adopted ones and orphans included."""
        pids = set(super().spider_pids())
        for path in self.runs.glob("*"):
            found = registered(RunFolder(path))
            if found is not None and psutil.pid_exists(found.pid):
                pids.add(found.pid)
        return sorted(pids)

    def kill(self, *, spiders: bool = True) -> None:
        """End Scrapyd with SIGKILL; its spiders die with it as when a machine goes, or live on as orphans."""
        ours = self.spider_pids() if spiders else []
        super().kill(spiders=spiders)
        for pid in ours:
            _kill_group(pid)

    def stop(self, *, spiders: bool = True) -> None:
        """End Scrapyd as an operator does (SIGTERM); its spiders are ended too, or go on to be adopted."""
        ours = self.spider_pids() if spiders else []
        if spiders:
            super().stop()
        elif self._process is not None:
            self._process.terminate()
            self._process.wait(30)
        for pid in ours:
            _kill_group(pid)

    def freeze(self) -> None:
        """Stop Scrapyd's process where it is (SIGSTOP), as if its machine were cut off; `thaw` lets it go on."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen Scrapyd go on."""
        os.kill(self.pid, signal.SIGCONT)

    def hold(self, version: str, *, project: str = "shop", egg: bytes | None = None) -> None:
        """Upload an egg (by default the small one with the spiders alpha and beta) and return when it is proven."""
        answer = self.post("addversion.json", files={"egg": egg or small_egg()}, project=project, version=version)
        assert answer["status"] == "ok", json.dumps(answer)

    def record(self, shared: Shared) -> NodeRecord | None:
        """Return what the registry holds of this node."""
        return next((each for each in shared.nodes.all() if each.name == self.name), None)

    def wait_registered(self, shared: Shared) -> NodeRecord:
        """Wait until the node is live in the registry and fit to take jobs."""

        def is_there() -> NodeRecord | None:
            found = self.record(shared)
            return found if found and found.state is NodeState.LIVE and found.report.unfit is None else None

        return wait_until(is_there, deadline_s=REGISTERED_WITHIN_S, what=f"{self.name} to register")

    def wait_ready(self, store: Store, version: str) -> None:
        """Wait until the node is live, fit, idle, and known to hold the version of any project."""

        def is_ready() -> bool:
            record = self.record(shared_of(store))
            if record is None or record.state is not NodeState.LIVE or record.report.unfit is not None:
                return False
            return any(version in held for held in record.report.versions.values()) and not record.report.running

        wait_until(is_ready, deadline_s=REGISTERED_WITHIN_S, what=f"{self.name} to be ready")


class ContainedNode(PluginNode):
    """A node in a pid namespace of its own, in which Scrapyd is process 1, or with `has_init` a child of such an init.

    All processes end with process 1, as in a container. Only root can make one.
    """

    def __init__(self, folder: Path, *, has_init: bool = False, **more: Any) -> None:
        super().__init__(folder, **more)
        self._init = self._made_init() if has_init else []

    def spider_pids(self) -> list[int]:
        """Return the spider processes by their ids here; their run folders name them by those of the namespace."""
        return ScrapydNode.spider_pids(self)

    def stop(self, *, spiders: bool = True, within_s: float = 10.0) -> None:
        """Stop it as `docker stop` does: SIGTERM to process 1, and SIGKILL to all when that has not ended in time."""
        assert spiders, "no spider outlives its container"
        assert self._process is not None
        (process_1,) = psutil.Process(self.pid).children()
        process_1.terminate()
        try:
            self._process.wait(within_s)
        finally:
            self.kill()

    def _command(self) -> list[str]:
        unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"]
        return [*unshare, *self._init, *super()._command()]

    def _made_init(self) -> list[str]:
        # What a program is called, as /proc shows it, is the name of its file.
        self.folder.mkdir(parents=True)
        init = shutil.copy("/bin/sh", self.folder / "docker-init")
        passing_on = 'trap "kill -TERM \\$child" TERM; "$@" & child=$!; wait $child; wait $child'
        return [str(init), "-c", passing_on, "init"]


@contextlib.contextmanager
def running_plugin_nodes(
    count: int,
    *,
    redis_url: str,
    folder: Path | None = None,
    slots: int = 2,
    lease_s: float = 3.0,
    own: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    at_once: int = 4,
) -> Iterator[list[PluginNode]]:
    """Start that many nodes of one cluster, `node-1` and so on, all registered; end all of them on every way out."""
    with contextlib.ExitStack() as stack:
        home = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nodes-")))
        nodes = [
            PluginNode(
                home / f"node-{i}",
                redis_url=redis_url,
                name=f"node-{i}",
                slots=slots,
                lease_s=lease_s,
                own=own,
                options=options,
                environ=environ,
            )
            for i in range(1, count + 1)
        ]
        for node in nodes:
            stack.callback(node.kill)
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda node: node.start(), nodes))
        with shared_store(redis_url, home, own=own) as store:
            for node in nodes:
                node.wait_registered(shared_of(store))
        yield nodes


@contextlib.contextmanager
def shared_store(redis_url: str, folder: Path, *, own: Mapping[str, str] | None = None) -> Iterator[Store]:
    """Open the cluster's store as an operator does; `own` names the cluster as for the nodes."""
    store = open_store(Secret(redis_url), folder, **_cluster(own))
    try:
        yield store
    finally:
        store.close()


def shared_of(store: Store) -> Shared:
    """Return the rooms that only a Redis has."""
    assert store.shared is not None
    return store.shared


def hold_everywhere(
    nodes: Sequence[PluginNode], version: str, *, project: str = "shop", egg: bytes | None = None
) -> None:
    """Upload an egg to every node."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda node: node.hold(version, project=project, egg=egg), nodes))


def away(server: RedisServer) -> contextlib.AbstractContextManager[None]:
    """Stop a Redis for the time of a `with`, and start it again with what it had."""

    @contextlib.contextmanager
    def gone() -> Iterator[None]:
        server.stop()
        try:
            yield
        finally:
            server.start()

    return gone()


@contextlib.contextmanager
def full(server: RedisServer) -> Iterator[None]:
    """Give a Redis no memory for any change, for the time of a `with`."""
    with redis.Redis.from_url(server.url) as client:
        client.config_set("maxmemory", "1mb")
        try:
            yield
        finally:
            client.config_set("maxmemory", "0")


def _cluster(own: Mapping[str, str] | None) -> dict[str, str]:
    return {"cluster": own["cluster"]} if own and "cluster" in own else {}


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
