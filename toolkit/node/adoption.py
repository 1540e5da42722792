"""What an earlier Scrapyd of this node has left: which of its runs go on, which have ended, which were never begun.

Decided from the run folders alone, before Redis is asked. When to act on it is the launcher's.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from twisted.logger import Logger

from toolkit.node.claims import Claim, read_claim
from toolkit.node.delivery import Parcel
from toolkit.node.endings import Cause, Evidence, judge, last_words_of, read_ending
from toolkit.node.machine import Machine
from toolkit.runs.folder import CLAIM, ENDING, EXIT, PROCESS, REPORT, STOP, RunFolder
from toolkit.runs.registration import NOT_OURS, Registered, registered, withdraw
from toolkit.runs.report import Exit, read_exit, read_report

_TAIL_BYTES = 4_000
_log = Logger()


@dataclass(frozen=True, slots=True)
class Living:
    """A run that goes on."""

    claim: Claim
    folder: RunFolder
    process: Registered
    stopped_for: Cause | None


def survey(runs: Path, machine: Machine) -> Iterator[Living | Parcel]:
    """Yield each run that goes on, and the outcome of each that does not. A folder that says nothing is removed."""
    for path in sorted(runs.iterdir()):
        folder = RunFolder(path)
        claim = read_claim(folder.read(CLAIM))
        if claim is None:
            # The claim is written before anything else: nothing was begun, and the queue gives the job back by itself.
            _log.warn("The run folder {name} names no claim: removed", name=path.name)
            folder.remove()
            continue
        yield _look(folder, claim, machine)


def _look(folder: RunFolder, claim: Claim, machine: Machine) -> Living | Parcel:
    ended = read_ending(folder.read(ENDING))
    if ended is not None:
        return Parcel(claim, ended_at=ended[1], ending=ended[0], folder=folder)
    with contextlib.suppress(OSError):
        # A full disk keeps a process from registering as well as us from preventing it.
        withdraw(folder)
    its_process = registered(folder)
    if its_process is None:
        return Parcel(claim, ended_at=machine.time(), folder=folder)
    if machine.processes.is_alive(its_process.pid, its_process.start):
        return Living(claim, folder, its_process, stop_cause(folder))
    gathered = gather(folder, claim, seen=None, is_node_going=True)
    return Parcel(claim, ended_at=_ended_at(folder, machine.time()), ending=judge(gathered), folder=folder)


def end_rest(folder: RunFolder, machine: Machine) -> None:
    """Kill what a process that is gone has left of its group: no Scrapyd was there to do it at its end."""
    its_process, processes = registered(folder), machine.processes
    if its_process is not None and not processes.is_alive(its_process.pid, its_process.start):
        processes.signal_group(its_process.pid, its_process.start, signal.SIGKILL)


def gather(folder: RunFolder, claim: Claim, *, seen: Exit | None, is_node_going: bool) -> Evidence:
    """Return all that is known of a run whose process is gone."""
    return Evidence(
        seen=seen,
        said=read_exit(folder.read(EXIT)),
        report=read_report(folder.read(REPORT)),
        stopped_for=stop_cause(folder),
        timeout_s=claim.timeout_s,
        is_node_going=is_node_going,
        # Without its claim the folder was taken away, and tells nothing.
        has_begun=registered(folder) is not None or folder.read(CLAIM) is None,
        last_words=last_words_of(_tail(folder)),
    )


def was_never_begun(folder: RunFolder, pid: int | None, seen: Exit | None) -> bool:
    """Tell whether a process that is gone could not register as the one that runs the job, and so did nothing."""
    its_process = registered(folder)
    return seen is not None and seen.exit_code == NOT_OURS and (its_process is None or its_process.pid != pid)


def stop_cause(folder: RunFolder) -> Cause | None:
    """Return why the process was being stopped, if it was."""
    with contextlib.suppress(ValueError):
        return Cause(str((folder.read(STOP) or {}).get("cause")))
    return None


def _ended_at(folder: RunFolder, now: float) -> float:
    """Return when the process wrote last, which is the nearest to its end that is known."""
    times = []
    for name in (EXIT, REPORT, PROCESS):
        with contextlib.suppress(OSError):
            times.append((folder.path / name).stat().st_mtime)
    return min(now, max(times, default=now))


def _tail(folder: RunFolder) -> str:
    try:
        with folder.output.open("rb") as output:
            size = output.seek(0, 2)
            output.seek(max(0, size - _TAIL_BYTES))
            return output.read().decode("utf-8", "replace")
    except OSError:
        return ""
