"""Bringing one server of this machine to the desired state: started, left alone, started anew, or gone.

What to run is described by a `LocalServer`; nothing here knows whether that is a node or a Redis.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from toolkit.model.errors import ConfigurationError, CrawlctlError, RefusedError
from toolkit.model.servers import LocalProcess
from toolkit.provision import ports, private_files, processes

RECORD = "process.json"
ADDRESS = "address"
READY_WITHIN_S = 60.0
GRACE_S = 10.0
_PAUSE_S = 0.03


class Answer(Enum):
    """Who answers at an address."""

    OURS = auto()
    NOBODY_YET = auto()
    UNAUTHORIZED = auto()
    SOMEBODY_ELSE = auto()


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server as it should be: its folder, the files there with their text, its command, and how to tell it is up.

    `override_hint` helps when it answers as another; `death_hints` maps words of its log to what to do about them. Its
    processes that have the variable `adopts` in their environment outlive a restart, since its successor adopts them.
    """

    name: str
    address: str
    port: int
    home: Path
    files: Mapping[str, str]
    argv: tuple[str, ...]
    env: Mapping[str, str]
    ask: Callable[[], Answer]
    log_name: str
    override_hint: str
    death_hints: Mapping[str, str] = field(default_factory=dict)
    adopts: str | None = None

    @property
    def place(self) -> str:
        """Address and port as one text."""
        return f"{self.address}:{self.port}"


def start(server: LocalServer, *, cancelled: threading.Event | None = None) -> LocalProcess:
    """Start the server unless it runs as described; idempotent. One that runs with other files is started anew.

    What does not come up is ended again. `cancelled`, once set, ends the wait.

    Raises:
        ConfigurationError: the port is taken, the folder not writable, or the server died (its last words are told).
        RefusedError: it runs and does not answer, or an earlier process of it cannot be ended.

    """
    stop_waiting = cancelled or threading.Event()
    private_files.make_folder(server.home)
    record = server.home / RECORD
    kept = processes.find(record)
    if kept and _is_described(server):
        _wait_for_old(server, kept, stop_waiting)
        return LocalProcess(server.name, server.place, "unchanged", kept.pid)
    if private_files.read(server.home / ADDRESS) != f"{server.place}\n":
        # Before anything is ended: a node that is to move keeps its place if the new one is taken.
        ports.check_free(server.address, server.port, who=server.name)
    ended = _end(kept, record, grace_s=GRACE_S, spared=server.adopts)
    _check_gone(server.name, ended)
    ports.check_free(server.address, server.port, who=server.name)
    fresh = _launch(server, record, stop_waiting)
    if kept:
        return LocalProcess(server.name, server.place, "restarted", fresh.pid, "its configuration changed")
    note = f"ended {len(ended.gone)} that its predecessor left behind" if ended.gone else ""
    return LocalProcess(server.name, server.place, "started", fresh.pid, note)


def stop(name: str, home: Path, *, grace_s: float = GRACE_S) -> LocalProcess:
    """End the server of this folder and everything that came of it; idempotent.

    Raises:
        RefusedError: some process is still there, SIGKILL notwithstanding; its id is told.

    """
    record = home / RECORD
    place = (private_files.read(home / ADDRESS) or "").strip()
    kept = processes.find(record)
    ended = _end(kept, record, grace_s=grace_s, spared=None)
    _check_gone(name, ended)
    private_files.remove(home / ADDRESS)
    note = f"{len(ended.killed)} had to be killed" if ended.killed else ""
    if kept:
        return LocalProcess(name, place, "stopped", kept.pid, note)
    if ended.gone:
        return LocalProcess(name, place, "stopped", None, f"had died; ended {len(ended.gone)} that it left behind")
    return LocalProcess(name, place, "not running")


def _end(kept: processes.Kept | None, record: Path, *, grace_s: float, spared: str | None) -> processes.StopResult:
    if kept is None:
        return processes.end_orphans(record, grace_s=grace_s, spared=spared)
    return processes.stop(kept, grace_s=grace_s, spared=spared)


def _is_described(server: LocalServer) -> bool:
    return all(private_files.read(server.home / name) == text for name, text in _files(server).items())


def _files(server: LocalServer) -> dict[str, str]:
    return {**server.files, ADDRESS: f"{server.place}\n"}


def _launch(server: LocalServer, record: Path, cancelled: threading.Event) -> processes.Kept:
    for name, text in _files(server).items():
        private_files.write(server.home / name, text)
    log = server.home / server.log_name
    since = processes.log_size(log)
    kept = processes.start(server.argv, cwd=server.home, log=log, env=server.env, record=record)
    try:
        _wait_for_new(server, kept, cancelled, time.monotonic() + READY_WITHIN_S, since)
    except BaseException:
        processes.stop(kept, grace_s=GRACE_S, spared=server.adopts)
        private_files.remove(server.home / ADDRESS)
        raise
    return kept


def _wait_for_new(
    server: LocalServer, kept: processes.Kept, cancelled: threading.Event, deadline: float, since: int
) -> None:
    while True:
        answer = server.ask()
        if processes.find(kept.record) is None:
            raise _death(server, since)
        if answer is Answer.OURS:
            return
        if answer is not Answer.NOBODY_YET:
            raise ConfigurationError(
                f"{server.name} answers on {server.place} with other settings than it was given",
                hint=server.override_hint,
            )
        _check_time(server, cancelled, deadline)
        cancelled.wait(_PAUSE_S)


def _wait_for_old(server: LocalServer, kept: processes.Kept, cancelled: threading.Event) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while server.ask() is not Answer.OURS:
        try:
            _check_time(server, cancelled, deadline)
        except ConfigurationError as error:
            raise RefusedError(
                f"{server.name} runs (pid {kept.pid}) but does not answer on {server.place}",
                hint="crawlctl down, then crawlctl up; its log: " + str(server.home / server.log_name),
            ) from error
        cancelled.wait(_PAUSE_S)


def _check_time(server: LocalServer, cancelled: threading.Event, deadline: float) -> None:
    if cancelled.is_set():
        raise CrawlctlError(f"{server.name}: interrupted before it was up")
    if time.monotonic() >= deadline:
        raise ConfigurationError(
            f"{server.name} did not answer on {server.place} in time",
            hint=f"its log: {server.home / server.log_name}",
        )


def _death(server: LocalServer, since: int) -> ConfigurationError:
    log = server.home / server.log_name
    words = processes.last_lines(log, since=since)
    if "Address already in use" in words or "CannotListenError" in words:
        holder = ports.listener(server.address, server.port) or "another process"
        return ConfigurationError(
            f"{server.name} cannot listen on {server.place}: {holder} has that port",
            hint=f"end that process, or give {server.name} another port in the inventory",
        )
    hint = next((text for sign, text in server.death_hints.items() if sign in words), f"its log: {log}")
    return ConfigurationError(f"{server.name} died at start:\n{words}", hint=hint)


def _check_gone(name: str, ended: processes.StopResult) -> None:
    if ended.alive:
        pids = ", ".join(map(str, ended.alive))
        raise RefusedError(f"{name}: still running after SIGKILL: {pids}", hint=f"ps -fp {pids.replace(' ', '')}")
