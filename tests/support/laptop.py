"""A machine with a state folder, and the nodes and the Redis that `up` starts there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from support import http_calls
from support.eggs import small_egg
from support.ports import free_port
from support.processes import quiet_environment
from support.waiting import wait_until

from toolkit.config.inventory import Inventory
from toolkit.model.hosts import Host, Secret
from toolkit.model.names import NodeName
from toolkit.model.outcomes import Outcomes
from toolkit.model.servers import LocalProcess
from toolkit.provision import local_cluster, processes
from toolkit.provision.credentials import with_local_credentials
from toolkit.provision.local_servers import RECORD

FOREVER_S = "300"


class Laptop:
    """A state folder, the nodes of it that a test wants, and the environment of the operator's shell."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / "project" / ".crawlctl"
        self.environ = quiet_environment(home)
        self.inventory = Inventory(home / "inventory.yaml", None, (), {})

    def has_nodes(self, count: int) -> Laptop:
        hosts = (Host(NodeName(f"node-{i}"), port=free_port(), connection="local") for i in range(1, count + 1))
        self.inventory = replace(self.inventory, hosts=tuple(hosts))
        return self

    def has_redis(self) -> Laptop:
        self.inventory = replace(self.inventory, redis=Secret(f"redis://127.0.0.1:{free_port()}/0"))
        return self

    def up(self, **options: Any) -> Outcomes[LocalProcess]:
        return local_cluster.up(self.inventory, self.state, environ=self.environ, **options)

    def down(self, **options: Any) -> Outcomes[LocalProcess]:
        return local_cluster.down(self.state, **options)

    def end_all(self) -> None:
        """End whatever was started in the folder and still runs."""
        for folder in (*(self.state / "nodes").glob("*"), self.state / "redis"):
            processes.end_orphans(folder / RECORD, grace_s=0)

    def record(self, name: str) -> Path:
        return self.state / "nodes" / name / RECORD

    def pid(self, name: str) -> int:
        kept = processes.find(self.record(name))
        assert kept is not None, f"{name} is not running"
        return kept.pid

    def host(self, number: int) -> Host:
        return with_local_credentials(self.inventory, self.state).hosts[number - 1]

    def ask(self, number: int, endpoint: str, **fields: str) -> Any:
        host = self.host(number)
        return http_calls.get(f"{host.url}/{endpoint}", fields, credentials=credentials_of(host)).json()

    def runs_a_spider(self, number: int) -> psutil.Process:
        """Deploy a small project to the node, start its spider for a long time, and return the spider's process."""
        host = self.host(number)
        form = {"project": "small", "version": "1"}
        added = http_calls.post(
            f"{host.url}/addversion.json", form, files={"egg": small_egg(["alpha"])}, credentials=credentials_of(host)
        )
        assert added.json()["status"] == "ok", added.body
        form = {"project": "small", "spider": "alpha", "sleep_s": FOREVER_S, "jobid": "job-1"}
        http_calls.post(f"{host.url}/schedule.json", form, credentials=credentials_of(host))
        log = self.state / "nodes" / host.name / "logs" / "small" / "alpha" / "job-1.log"
        wait_until(
            lambda: log.exists() and "Spider opened" in log.read_text(), deadline_s=60, what="the spider to be at work"
        )
        (spider,) = psutil.Process(self.pid(host.name)).children()
        return spider


def credentials_of(host: Host) -> tuple[str, str]:
    assert host.username is not None
    assert host.password is not None
    return host.username, host.password.reveal()


def actions(outcomes: Outcomes[LocalProcess]) -> dict[str, str]:
    return {outcome.node: outcome.value.action if outcome.value else str(outcome.error) for outcome in outcomes}


def is_there(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
