"""Which process is meant, whether it lives, and how to end it with all that it started.

A process is named by its id and its start: ids are given again, a pair of both is not. Starts are compared, never read.
Needs nothing but Python and `/proc`, or `ps` where there is none (macOS).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_DEAD = frozenset("ZXx")
_PAUSE_S = 0.02
_PS_WITHIN_S = 10.0
_PS_COLUMNS = "pid=,pgid=,stat=,lstart="


@dataclass(frozen=True, slots=True)
class _Seen:
    """A process as the system shows it now."""

    pid: int
    group: int
    start: str
    is_alive: bool


def start_of(pid: int) -> str | None:
    """Return what, together with its id, names this process and no other, also after a reboot; `None` without one.

    Linux: the boot and the clock ticks from there to the process' start. Elsewhere: its start to the second.
    """
    seen = _look(pid)
    return seen.start if seen else None


def is_alive(pid: int, start: str) -> bool:
    """Tell whether that very process still runs; a zombie, which only waits to be reaped, does not."""
    seen = _look(pid)
    return seen is not None and seen.start == start and seen.is_alive


def age_of(start: str) -> float | None:
    """Return for how many seconds a process has run that started then, by a clock that nobody sets.

    `None` where the system does not tell (macOS), or for a process of an earlier boot.
    """
    boot, _, ticks = start.partition(":")
    if not ticks.isdecimal() or boot != _boot() or not hasattr(time, "CLOCK_BOOTTIME"):
        return None
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK"))


def watch(pid: int, start: str) -> int | None:
    """Return a descriptor that becomes readable when that process ends, also when it is no child of ours.

    `None` when it has ended already, or where the system has no such descriptors (macOS, Linux before 5.3): then
    `is_alive` must be asked again and again. The caller closes the descriptor.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    # Looked at after it was opened: the descriptor cannot have come to mean another process since.
    if is_alive(pid, start):
        return descriptor
    os.close(descriptor)
    return None


def wait_gone(pid: int, start: str, *, deadline_s: float) -> bool:
    """Wait, at most so long, for that process to end; tell whether it has. Blocks: for threads and tests."""
    ends_at = time.monotonic() + deadline_s
    while is_alive(pid, start):
        if time.monotonic() >= ends_at:
            return False
        time.sleep(_PAUSE_S)
    return True


def signal_group(pid: int, start: str, number: int) -> bool:
    """Send a signal to that process and, when it leads a process group, to all of the group; tell whether any got it.

    A process that was given the same id later gets nothing. When the process itself has ended, what is left of its
    group still gets it.
    """
    seen = _look(pid)
    if seen is None:
        return bool(group_members_left(pid, start)) and _send_group(pid, number)
    if seen.start != start:
        return False
    # Our own group is ours until the process has made its own.
    if seen.group == pid and pid != os.getpgrp():
        return _send_group(pid, number)
    return seen.is_alive and signal_one(pid, start, number)


def kill_rest_of_own_group() -> None:
    """Send SIGKILL to what this process has started, as far as it stayed in the group that this process leads."""
    me = os.getpid()
    if os.getpgrp() != me:
        return
    for pid in group_members_left(me, start_of(me) or ""):
        if pid != me:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def group_members_left(pid: int, start: str) -> tuple[int, ...]:
    """Return the living processes of the group that this process leads or led, itself included; empty proves it gone.

    The kernel gives an id to no new process as long as a group of that number has members, so whoever has the id with
    another start proves that the group is gone. A child that made a session of its own has left the group.
    """
    if not _group_exists(pid):
        return ()
    leader = _look(pid)
    if leader is not None and leader.start != start:
        return ()
    members = [seen for seen in _everyone() if seen.group == pid and seen.is_alive]
    return tuple(sorted(seen.pid for seen in members if not _is_older(seen.start, start)))


def _send_group(group: int, number: int) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False


def signal_one(pid: int, start: str, number: int) -> bool:
    """Send a signal to that process alone; tell whether it got it."""
    descriptor = watch(pid, start)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if descriptor is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
        return True
    return False


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_older(start: str, than: str) -> bool:
    """Tell whether one process started before another, as far as that can be told: then it never was its child."""
    boot, _, ticks = start.partition(":")
    other_boot, _, other_ticks = than.partition(":")
    if ticks.isdecimal() and other_ticks.isdecimal():
        return boot != other_boot or int(ticks) < int(other_ticks)
    return False


def _look(pid: int) -> _Seen | None:
    if pid <= 0:
        return None
    if not _has_proc():
        return next(_ps("-p", str(pid)), None)
    return _read_stat(pid)


def _everyone() -> Iterator[_Seen]:
    if not _has_proc():
        yield from _ps("-A")
        return
    for entry in os.scandir(_PROC):
        if entry.name.isdecimal() and (seen := _read_stat(int(entry.name))):
            yield seen


@cache
def _has_proc() -> bool:
    return (_PROC / "self" / "stat").exists()


@cache
def _boot() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _read_stat(pid: int) -> _Seen | None:
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # proc(5): the second field is the program's name in parentheses, which may hold anything, parentheses too.
    fields = text.rpartition(b")")[2].decode("ascii", "replace").split()
    return _Seen(pid, int(fields[2]), f"{_boot()}:{fields[19]}", fields[0] not in _DEAD)


def _ps(*which: str) -> Iterator[_Seen]:
    command = ["ps", *which, "-o", _PS_COLUMNS]
    # The start is printed in words, and in the time of a zone: always in the same, or it would change with the season.
    env = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    try:
        said = subprocess.run(command, env=env, capture_output=True, timeout=_PS_WITHIN_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in said.decode("ascii", "replace").splitlines():
        fields = line.split(maxsplit=3)
        if len(fields) == 4 and fields[0].isdecimal() and fields[1].isdecimal():  # noqa: PLR2004 - the columns
            yield _Seen(int(fields[0]), int(fields[1]), " ".join(fields[3].split()), fields[2][0] not in _DEAD)
