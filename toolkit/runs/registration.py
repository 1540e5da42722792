"""Who runs the job of a folder: settled once, between the processes that would run it and the node that would not.

`process.json` is the arbiter: it is created once and never replaced. A process that creates it runs the job; a node
that creates it instead has taken the job back, and no process can begin it any more.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from toolkit.runs.folder import CLAIM, PROCESS, RunFolder
from toolkit.runs.process import start_of

NOT_OURS = 75
"""The exit code of a process that found its job taken back, or run by another (`EX_TEMPFAIL`)."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The process that runs a folder's job, as `toolkit.runs.process` wants it named."""

    pid: int
    start: str


def register_this_process(folder: RunFolder) -> str | None:
    """Make this process the one that runs the folder's job; return `None`, or why it may not."""
    pid = os.getpid()
    return register(folder, pid, start_of(pid))


def register(folder: RunFolder, pid: int, start: str | None) -> str | None:
    """Make a process the one that runs the folder's job; return `None`, or why it may not.

    Safe against a node that takes the job back at the same moment, and against a second process for the same folder.
    """
    if start is None:
        return "the system does not tell when this process started"
    try:
        if not folder.create(PROCESS, {"pid": pid, "start": start}):
            return "it has a process already, or its node has taken the job back"
    except OSError as error:
        return f"its folder cannot be written: {error.strerror}"
    # After the registration: a node that removes the claim looks for a registration afterwards, so one of us sees it.
    return None if folder.read(CLAIM) is not None else "its claim is gone"


def registered(folder: RunFolder) -> Registered | None:
    """Return the process that runs, or ran, the folder's job; `None` when none has begun it."""
    content = folder.read(PROCESS) or {}
    pid, start = content.get("pid"), content.get("start")
    if isinstance(pid, int) and not isinstance(pid, bool) and pid > 0 and isinstance(start, str):
        return Registered(pid, start)
    return None


def withdraw(folder: RunFolder) -> bool:
    """Make sure that no process begins the folder's job any more; `False` when one already has.

    Raises:
        OSError: the folder is gone, or the disk is full: then nothing is settled.

    """
    return folder.create(PROCESS, {"withdrawn": True}) or registered(folder) is None
