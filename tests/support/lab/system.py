"""Commands and files of this machine, as the lab uses them: short, and with an error that says what went wrong."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

LAB_DIR = Path(os.environ.get("CRAWLCTL_LAB_DIR", "/var/tmp/crawlctl-lab"))  # noqa: S108 - not /tmp, which may be memory
"""Where the base and all labs have their folders."""


class LabError(RuntimeError):
    """The lab could not do what it was asked for."""


def run(*words: str | Path, stdin: str = "") -> str:
    """Run a command and return what it printed.

    Raises:
        LabError: it ended badly.

    """
    done = subprocess.run([str(word) for word in words], input=stdin, text=True, capture_output=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-800:]
        raise LabError(f"`{' '.join(map(str, words))}` ended with {done.returncode}: {said}")
    return done.stdout


def attempt(*words: str | Path) -> bool:
    """Run a command that may fail, and tell whether it did well."""
    command = [str(word) for word in words]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def text_of(path: Path) -> str:
    """Return what a file says, nothing where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def started_at(pid: int) -> str:
    """Return when a process was started, in the kernel's words; nothing when there is no such process."""
    fields = text_of(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields[19] if fields and fields[0] not in {"Z", "X"} else ""


def is_there(pid: int) -> bool:
    """Tell whether there is a process with that id, other than a dead one that waits for its parent."""
    return bool(started_at(pid))
