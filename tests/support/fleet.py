"""A simulated fleet: many stock Scrapyd nodes in one process, for what needs more nodes than a machine can carry.

In a test: `with Fleet(nodes=60, addversion_s=0.55) as fleet: ... fleet.hosts`. By hand, from the repository:
`PYTHONPATH=tests python -m support.fleet --nodes 60 --addversion-s 0.55`; it prints one line of JSON when it is ready.
Every node has a loopback address of its own (127.64.a.b), which Linux needs no set-up for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from support import http_calls
from support.fleet_node import Egg, SimulatedNode
from support.fleet_server import Seat, basic, listen, now
from support.ports import free_port
from support.processes import end, quiet_environment, start
from support.waiting import wait_until

NODES_A_ROW = 250
READY_WITHIN_S = 60.0


class FleetHost(NamedTuple):
    """Where one node of the fleet listens."""

    name: str
    address: str
    port: int

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        return f"http://{self.address}:{self.port}"


def address_of(index: int) -> str:
    """Return the address of the node with this number, from 0 on."""
    return f"127.64.{index // NODES_A_ROW}.{index % NODES_A_ROW + 1}"


def hosts_of(nodes: int, port: int) -> list[FleetHost]:
    """Return the fleet's address plan: `sim-001` at the first address, and so on, all on one port."""
    return [FleetHost(f"sim-{i + 1:03}", address_of(i), port) for i in range(nodes)]


@dataclass(slots=True)
class Fleet:
    """A fleet as a process of its own, up from entering the context to leaving it.

    `faults` puts a fault of `support.faulty_server` (or `slow`: `slow_s` later) on a node: `{"sim-003": "hang"}`, or on
    one endpoint of it: `{"sim-003:addversion.json": "500"}`. `project` and `versions` are held by every node from the
    start, with `spiders`; without `spiders` an uploaded egg's own are found in its sources. `finished` jobs are there
    from the start. Without `port` one is chosen that is free.
    """

    nodes: int
    addversion_s: float = 0.0
    answer_s: float = 0.0
    slow_s: float = 5.0
    job_s: float = 2.0
    slots: int = 4
    port: int | None = None
    username: str | None = None
    password: str | None = None
    spiders: Sequence[str] = ()
    project: str | None = None
    versions: Sequence[str] = ("v1",)
    finished: int = 0
    faults: Mapping[str, str] = field(default_factory=dict)
    hosts: list[FleetHost] = field(default_factory=list, init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _folder: tempfile.TemporaryDirectory[str] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        port = self.port or free_port("127.64.0.1")
        self._folder = tempfile.TemporaryDirectory(prefix="fleet-")
        folder = Path(self._folder.name)
        env = quiet_environment(folder, PYTHONPATH=str(Path(__file__).parents[1]))
        command = [sys.executable, "-m", "support.fleet", "--plan", json.dumps(self._plan(port))]
        with self._log.open("wb") as log:
            self._process = start(command, cwd=folder, env=env, output=log)
        try:
            wait_until(self._is_ready, deadline_s=READY_WITHIN_S, what="the fleet to be up")
        except BaseException:
            self._end()
            raise
        self.hosts = hosts_of(self.nodes, port)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        said = self._end()
        assert "Traceback" not in said, f"the fleet itself went wrong:\n{said}"

    @property
    def urls(self) -> list[str]:
        """The base URLs of all nodes, in their order."""
        return [host.url for host in self.hosts]

    @property
    def credentials(self) -> tuple[str, str] | None:
        """User name and password, if the nodes ask for them."""
        return (self.username, self.password) if self.username and self.password else None

    def report(self, name: str) -> dict[str, Any]:
        """Return a node's `calls` by endpoint, its `eggs` with digest and size, and its `faults`."""
        report: dict[str, Any] = http_calls.get(f"{self._url(name)}/fleet.json").json()
        return report

    def calls(self, endpoint: str) -> int:
        """Count the calls of one endpoint over all nodes."""
        return sum(self.report(host.name)["calls"].get(endpoint, 0) for host in self.hosts)

    def set_faults(self, name: str, faults: Mapping[str, str]) -> None:
        """Give a node these faults (endpoint or `*` → fault) and no others, from the next call on."""
        answer = http_calls.post_json(f"{self._url(name)}/fleet.json", dict(faults))
        assert answer.json()["faults"] == dict(faults)

    def _url(self, name: str) -> str:
        return next(host.url for host in self.hosts if host.name == name)

    @property
    def _log(self) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / "fleet.log"

    def _end(self) -> str:
        assert self._process is not None
        assert self._folder is not None
        end(self._process)
        said = self._log.read_text()
        self._folder.cleanup()
        return said

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the fleet ended with {self._process.returncode}:\n{self._log.read_text()}")
        return '"ready"' in self._log.read_text()

    def _plan(self, port: int) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "port": port,
            "service_s": {"addversion.json": self.addversion_s, "*": self.answer_s},
            "slow_s": self.slow_s,
            "job_s": self.job_s,
            "slots": self.slots,
            "username": self.username,
            "password": self.password,
            "spiders": list(self.spiders),
            "project": self.project,
            "versions": list(self.versions),
            "finished": self.finished,
            "faults": dict(self.faults),
        }


def seats_of(plan: Mapping[str, Any]) -> dict[tuple[str, int], Seat]:
    """Return every node of the plan by the address that it listens on."""
    user, secret = plan["username"], plan["password"]
    seats = {}
    for host in hosts_of(plan["nodes"], plan["port"]):
        node = SimulatedNode(host.name, now, plan["slots"], plan["job_s"], spiders=tuple(plan["spiders"]))
        _settle(node, plan)
        seats[host.address, host.port] = Seat(
            node,
            service_s=plan["service_s"],
            slow_s=plan["slow_s"],
            authorization=basic(user, secret) if user and secret else None,
            faults=_faults_of(host.name, plan["faults"]),
        )
    return seats


def _settle(node: SimulatedNode, plan: Mapping[str, Any]) -> None:
    if plan["project"] is None:
        return
    spiders = tuple(plan["spiders"]) or ("products", "prices")
    for version in plan["versions"]:
        node.hold(plan["project"], version, Egg("0" * 64, 3_000, spiders))
    fields = {"project": [plan["project"].encode()], "spider": [spiders[0].encode()], "duration_s": [b"0"]}
    for _ in range(plan["finished"]):
        node.answer("POST", "schedule.json", fields)


def _faults_of(name: str, faults: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for place, fault in faults.items():
        node, _, endpoint = place.partition(":")
        if node == name:
            found[endpoint or "*"] = fault
    return found


async def _serve(plan: Mapping[str, Any]) -> None:
    await listen(seats_of(plan))
    ended = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, ended.set)
    ready = {"ready": True, "nodes": plan["nodes"], "first": address_of(0), "port": plan["port"]}
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    await ended.wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a fleet in this process until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description="A fleet of simulated Scrapyd nodes on 127.64.a.b.")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--port", type=int, default=6800)
    parser.add_argument("--addversion-s", type=float, default=0.0, help="seconds that an upload takes")
    parser.add_argument("--answer-s", type=float, default=0.0, help="seconds that any other call takes")
    parser.add_argument("--job-s", type=float, default=2.0, help="seconds that a job runs")
    parser.add_argument("--username")
    parser.add_argument("--password")
    parser.add_argument("--project", help="a project that every node holds")
    parser.add_argument("--spiders", default="", help="its spiders, with commas between them")
    parser.add_argument("--fault", action="append", default=[], metavar="NODE[:ENDPOINT]=FAULT")
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    given = vars(parser.parse_args(arguments))
    text, spiders, faults = given.pop("plan"), given.pop("spiders"), given.pop("fault")
    fleet = Fleet(**given, spiders=spiders.split(",") if spiders else (), faults=dict(f.split("=") for f in faults))
    plan = json.loads(text) if text else fleet._plan(given["port"])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(_serve(plan))


if __name__ == "__main__":
    main()
