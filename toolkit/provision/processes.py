"""Processes of this machine that outlive the command that started them, and the proof that they are gone again.

A record on disk names the process by its id and its start; a mark in the environment, which children inherit, names
everything that came of it. psutil has its door here and in `ports`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.model.errors import ConfigurationError, MissingExtraError
from toolkit.provision import private_files

if TYPE_CHECKING:
    from types import ModuleType

    from psutil import Process

MARK = "KEPT_BY_CRAWLCTL_AS"
MAX_LOG_BYTES = 10_000_000
KILL_GRACE_S = 5.0
_PAUSE_S = 0.02
_SAME_START_S = 1.0

# What this very process started: only it can reap them, and an unreaped process looks alive.
_own_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class Kept:
    """A process kept across commands; `started_at` is its start in seconds since the epoch, as the system tells it."""

    pid: int
    started_at: float
    record: Path


@dataclass(frozen=True, slots=True)
class StopResult:
    """Which process ids are gone, which of them had to be killed, and which are still there."""

    gone: tuple[int, ...] = ()
    killed: tuple[int, ...] = ()
    alive: tuple[int, ...] = ()


def load_psutil() -> ModuleType:
    """Return psutil.

    Raises:
        MissingExtraError: it is not installed.

    """
    try:
        import psutil  # noqa: PLC0415 - optional, and slow to load
    except ImportError as error:
        raise MissingExtraError("psutil, which watches over local processes,", "local") from error
    return psutil


def start(argv: Sequence[str], *, cwd: Path, log: Path, env: Mapping[str, str], record: Path) -> Kept:
    """Start a process that outlives us: a session of its own, no input, its output appended to `log` (0600).

    If the record cannot be written, the process is ended again.

    Raises:
        ConfigurationError: the program cannot be run, or the log or the record cannot be written.

    """
    psutil = load_psutil()
    marked = {**env, MARK: str(record)}
    with _appending(log) as output:
        try:
            child = subprocess.Popen(
                argv,
                cwd=cwd,
                env=marked,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigurationError(f"cannot run {argv[0]}: {error.strerror}") from error
    _own_children[child.pid] = child
    kept = Kept(child.pid, psutil.Process(child.pid).create_time(), record)
    try:
        private_files.write(record, json.dumps({"pid": kept.pid, "started_at": kept.started_at}))
    except BaseException:
        stop(kept, grace_s=0)
        raise
    return kept


def find(record: Path) -> Kept | None:
    """Return the recorded process if it is alive and still the same one, not another that was given its id."""
    try:
        fields = json.loads(private_files.read(record) or "null")
        kept = Kept(int(fields["pid"]), float(fields["started_at"]), record)
    except (ValueError, TypeError, KeyError):
        return None
    return kept if _process_of(kept) else None


def stop(kept: Kept, *, grace_s: float, spared: str | None = None) -> StopResult:
    """End the process and everything that came of it: SIGTERM, `grace_s` seconds to end by itself, SIGKILL.

    Children get their SIGTERM once their parent is gone, so that a parent can end its own first. Who has a variable of
    the name `spared` in its environment is left alone. The record is removed when nothing is left. Safe for a process
    that is gone already: what it left behind is ended.
    """
    main = _process_of(kept)
    return _end([main] if main else [], kept.record, grace_s=grace_s, spared=spared)


def end_orphans(record: Path, *, grace_s: float, spared: str | None = None) -> StopResult:
    """End what an earlier process of this record left behind when it died, but for who is `spared`, as in `stop`."""
    return _end([], record, grace_s=grace_s, spared=spared)


def log_size(log: Path) -> int:
    """Return how many bytes the log holds; a log past `MAX_LOG_BYTES` is put aside first, as `<name>.1`."""
    try:
        size = log.stat().st_size
    except FileNotFoundError:
        return 0
    if size <= MAX_LOG_BYTES:
        return size
    log.replace(log.with_name(log.name + ".1"))
    return 0


def last_lines(log: Path, *, since: int = 0, count: int = 8) -> str:
    """Return the last lines that were written after the first `since` bytes."""
    try:
        with log.open("rb") as file:
            file.seek(max(since, log.stat().st_size - 20_000))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return "\n".join([line for line in lines if line.strip()][-count:])


@contextlib.contextmanager
def _appending(log: Path) -> Iterator[int]:
    with private_files.disk_errors(log, "write"):
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _process_of(kept: Kept) -> Process | None:
    psutil = load_psutil()
    with contextlib.suppress(psutil.NoSuchProcess):
        process: Process = psutil.Process(kept.pid)
        # The system derives a start from its clock: when that is set anew, only the mark tells that it is the same.
        is_same_start = abs(process.create_time() - kept.started_at) <= _SAME_START_S
        is_same = is_same_start or _environ_of(process).get(MARK) == str(kept.record)
        if is_same and not _is_gone(process):
            return process
    return None


def _is_gone(process: Process) -> bool:
    psutil = load_psutil()
    child = _own_children.get(process.pid)
    if child is not None and child.poll() is not None:
        _own_children.pop(process.pid, None)
        return True
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _environ_of(process: Process) -> Mapping[str, str]:
    """Return the environment with which a process was started; none of one that is not ours to look into."""
    psutil = load_psutil()
    try:
        environ: dict[str, str] = process.environ()
    except (psutil.Error, OSError):
        return {}
    return environ


def _end(family: list[Process], record: Path, *, grace_s: float, spared: str | None) -> StopResult:
    alive = {process.pid: process for process in _grown(family, record, spared)}
    seen = set(alive)
    asked: set[int] = set()
    killed: set[int] = set()
    kill_at = time.monotonic() + grace_s
    while alive and time.monotonic() < kill_at + KILL_GRACE_S:
        if time.monotonic() >= kill_at:
            killed |= _send(signal.SIGKILL, list(alive.values()))
        else:
            firsts = [process for process in alive.values() if not _has_parent_in(process, alive)]
            asked |= _send(signal.SIGTERM, [process for process in firsts if process.pid not in asked])
        time.sleep(_PAUSE_S)
        left = {pid: process for pid, process in alive.items() if not _is_gone(process)}
        if len(left) < len(alive):
            # A process may have started another just before its end.
            left = {process.pid: process for process in _grown(list(left.values()), record, spared)}
        alive = left
        seen |= set(alive)
    if not alive:
        private_files.remove(record)
    gone = seen - set(alive)
    return StopResult(tuple(sorted(gone)), tuple(sorted(killed & gone)), tuple(sorted(alive)))


def _grown(family: list[Process], record: Path, spared: str | None) -> list[Process]:
    """Return the family with all descendants, and with whoever carries the record's mark, however it was orphaned."""
    psutil = load_psutil()
    known = set(family)
    found: dict[int, Process] = {}
    parents: dict[Process, int] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid == os.getpid() or _is_gone(process):
                continue
            environ = _environ_of(process)
            # Looked at anew each time: a child has its parent's environment until its program is loaded.
            if spared is not None and spared in environ:
                continue
            parents[process] = process.ppid()
            if process in known or environ.get(MARK) == str(record):
                found[process.pid] = process
    while more := {p.pid: p for p, parent in parents.items() if parent in found and p.pid not in found}:
        found |= more
    return list(found.values())


def _has_parent_in(process: Process, alive: Mapping[int, Process]) -> bool:
    psutil = load_psutil()
    try:
        return process.ppid() in alive
    except psutil.NoSuchProcess:
        return False


def _send(number: signal.Signals, processes: list[Process]) -> set[int]:
    psutil = load_psutil()
    for process in processes:
        # Gone meanwhile, or not ours to end: then it is found alive at the end, and reported.
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.send_signal(number)
    return {process.pid for process in processes}
