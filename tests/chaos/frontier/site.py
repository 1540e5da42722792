"""The site of a run, seen from the run: opened, asked how far the spiders are, closed."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Self

from chaos.frontier.graph import Graph
from chaos.frontier.server import IS_OPEN
from support.ports import free_port
from support.processes import end, quiet_environment, start
from support.waiting import wait_until

_PROGRAM = "chaos.frontier.server"
_TESTS = Path(__file__).parents[2]
_ASK_S = 20.0


@dataclass(frozen=True, slots=True)
class Fetch:
    """One good answer of the site, by its clock (this machine's), to the worker of that name."""

    page: int
    at: float
    worker: str


class Site:
    """A process that serves the graph's pages, open from entering the context to leaving it."""

    def __init__(self, folder: Path, graph: Graph, *, latency_ms: float) -> None:
        self.graph = graph
        self.port = free_port()
        self._folder = folder
        self._latency_ms = latency_ms
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The site's address, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        graph = self.graph
        options = {
            "port": self.port,
            "pages": graph.pages,
            "roots": graph.roots,
            "seed": graph.seed,
            "shape": graph.shape.value,
            "latency-ms": self._latency_ms,
        }
        command = [sys.executable, "-m", _PROGRAM]
        command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
        said = self._folder / "site.log"
        search = {"PYTHONPATH": str(_TESTS), "PYTHONDONTWRITEBYTECODE": "1"}
        with said.open("wb") as log:
            self._process = start(command, cwd=self._folder, env=quiet_environment(self._folder, **search), output=log)
        wait_until(lambda: IS_OPEN in said.read_text(), deadline_s=20, what="the site to open")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            end(self._process)

    def fetched(self) -> int:
        """Return how many pages were fetched at least once."""
        return int(self._ask("/progress"))

    def fetches(self) -> list[Fetch]:
        """Return every fetch of a page, in the order of time."""
        told = json.loads(self._ask("/fetches"))
        found = [Fetch(int(page), at, worker) for page, all_of_it in told.items() for at, worker in all_of_it]
        return sorted(found, key=lambda fetch: fetch.at)

    def _ask(self, path: str) -> bytes:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=_ASK_S)
        with closing(connection):
            connection.request("GET", path)
            return connection.getresponse().read()
