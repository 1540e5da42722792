"""The real `crawlctl` command as a process of its own, and inventories for the nodes of a test."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from support.processes import Process, end, quiet_environment, start
from support.warm import IS_COLD, start_warm

DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended: its exit code, what it printed, and what it said."""

    args: tuple[str, ...]
    exit_code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return standard output as JSON."""
        try:
            return json.loads(self.out)
        except ValueError as error:
            raise AssertionError(f"no JSON on standard output: {self}") from error

    def jsonl(self) -> list[Any]:
        """Return the lines of standard output, each as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    def expect(self, exit_code: int = 0) -> Self:
        """Return the result itself if the command ended with that code, and showed no traceback."""
        assert self.exit_code == exit_code, f"expected exit code {exit_code}: {self}"
        assert "Traceback (most recent call last)" not in self.out + self.err, str(self)
        return self

    def __str__(self) -> str:
        return f"crawlctl {' '.join(self.args)}\nexit code {self.exit_code}\n--- out\n{self.out}\n--- err\n{self.err}"


class RunningCrawlctl:
    """A command that is under way: `with RunningCrawlctl("deploy", cwd=...) as command: ... command.interrupt()`.

    Its environment has PATH and the language of this process, a HOME of its own, and `env`; nothing else. It is ended
    on leaving the context if it has not ended by then. `answers` is what an operator types. A warm one has its modules
    loaded already; it is started from nothing all the same when `env` may matter to Python.
    """

    def __init__(
        self, *args: str, cwd: Path, env: Mapping[str, str] | None = None, answers: str = "", warm: bool = False
    ) -> None:
        self.args = args
        self._is_warm = warm and not IS_COLD and all(name.startswith("CRAWLCTL_") for name in env or {})
        self._cwd = cwd
        self._env = dict(env or {})
        self._answers = answers
        self._folder = tempfile.TemporaryDirectory(prefix="crawlctl-")
        self._process: Process | None = None

    def __enter__(self) -> Self:
        folder = Path(self._folder.name)
        (folder / "home").mkdir()
        (folder / "in").write_text(self._answers)
        # -P: the command sees no module of the folder it runs in, as the installed script does not.
        command = [sys.executable, "-P", "-m", "toolkit.cli.main", *self.args]
        env = {**quiet_environment(folder / "home"), **self._env}
        with (
            (folder / "out").open("wb") as out,
            (folder / "err").open("wb") as err,
            (folder / "in").open("rb") as typed,
        ):
            if self._is_warm:
                self._process = start_warm(self.args, cwd=self._cwd, env=env, stdin=typed, output=out, errors=err)
            else:
                self._process = start(command, cwd=self._cwd, env=env, output=out, errors=err, stdin=typed)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            end(self._process)
        self._folder.cleanup()

    @property
    def is_running(self) -> bool:
        """The command has not ended."""
        return self._started.poll() is None

    @property
    def out(self) -> str:
        """What it printed so far."""
        return (Path(self._folder.name) / "out").read_text()

    @property
    def err(self) -> str:
        """What it said so far."""
        return (Path(self._folder.name) / "err").read_text()

    def interrupt(self) -> None:
        """Press Ctrl-C: SIGINT to the command and all that it started in its terminal's foreground."""
        os.killpg(self._started.pid, signal.SIGINT)

    def wait(self, *, timeout_s: float = DEADLINE_S) -> Finished:
        """Return how the command ended.

        Raises:
            AssertionError: it had not ended after `timeout_s` seconds; the message shows what it said until then.

        """
        try:
            code = self._started.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            so_far = Finished(self.args, -1, self.out, self.err)
            raise AssertionError(f"still running after {timeout_s:g} s: {so_far}") from error
        return Finished(self.args, code, self.out, self.err)

    @property
    def _started(self) -> Process:
        assert self._process is not None, "the command is started by entering its context"
        return self._process


def run_crawlctl(
    *args: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    answers: str = "",
    timeout_s: float = DEADLINE_S,
    warm: bool = False,
) -> Finished:
    """Run the command to its end, and return how that was."""
    with RunningCrawlctl(*args, cwd=cwd, env=env, answers=answers, warm=warm) as command:
        return command.wait(timeout_s=timeout_s)


class InventoryNode(Protocol):
    """What an inventory needs to know of a node: a `ScrapydNode`, or a `NodeEntry`."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def credentials(self) -> tuple[str, str] | None: ...


class NodeEntry(NamedTuple):
    """A node that is no process of its own: one of a fleet, a faulty one, or a proxy before a real one."""

    name: str
    address: str
    port: int
    credentials: tuple[str, str] | None = None


def inventory_for(
    nodes: Iterable[InventoryNode],
    redis_url: str | None,
    path: Path,
    *,
    timeout_s: float | None = None,
    labels: Mapping[str, Mapping[str, str]] | None = None,
    groups: Mapping[str, Iterable[str]] | None = None,
) -> Path:
    """Write an inventory of these nodes, their passwords in files beside it (mode 0600), and return its path.

    `labels` maps a node's name to its labels, `groups` a group's name to the nodes in it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    hosts: dict[str, Any] = {}
    for node in nodes:
        host: dict[str, Any] = {"address": node.address, "port": node.port}
        if node.credentials is not None:
            username, password = node.credentials
            secret = path.parent / f"{re.sub(r'[^A-Za-z0-9_-]', '_', node.name)}.password"
            secret.touch(mode=0o600)
            secret.write_text(f"{password}\n")
            host |= {"username": username, "password": {"file": str(secret)}}
        if labels and node.name in labels:
            host["labels"] = dict(labels[node.name])
        hosts[node.name] = host
    inventory: dict[str, Any] = {"redis": redis_url} if redis_url else {}
    if timeout_s is not None:
        inventory["defaults"] = {"timeout_s": timeout_s}
    inventory["hosts"] = hosts
    if groups:
        inventory["groups"] = {group: {"hosts": list(names)} for group, names in groups.items()}
    # JSON is YAML.
    path.touch(mode=0o600)
    path.write_text(json.dumps(inventory, indent=2, ensure_ascii=False) + "\n")
    return path
