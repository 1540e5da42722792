"""One running job's folder: the files through which its node (Scrapyd) and its spider process speak.

Files and not sockets, because either side may be restarted at any moment: what is written stays true, and is read again
by whoever comes next. Each file has one writer and is replaced whole. Nothing here needs Redis, Scrapyd or Scrapy.

| file | writer | holds |
|---|---|---|
| `claim.json` | launcher, before the process is started | job id, token, project, spider, version |
| `process.json` | runner, first thing, and only if the claim is still there | pid and its start time |
| `report.json` | reporter | state, counts, finish reason |
| `control.json` | launcher | what is wished: paused, concurrency, delay |
| `exit.json` | runner, last thing | exit code |
| `alive` | node, touched as long as it lives | nothing: its time is the message |
| `output.txt` | the process | what it printed |
| `ending.json` | launcher | the outcome, until the queue has taken it |
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RUN_VARIABLE = "CRAWLCTL_RUN"
"""The environment variable by which a spider process finds its folder."""

CLAIM, PROCESS, REPORT, CONTROL, EXIT, ENDING = (
    "claim.json",
    "process.json",
    "report.json",
    "control.json",
    "exit.json",
    "ending.json",
)
ALIVE, OUTPUT = "alive", "output.txt"


class RunFolder:
    """The folder of one claim of one job. Reading what is not there, or is no JSON object, gives `None`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_this_process(cls) -> RunFolder | None:
        """Return the folder of the job that this process runs; `None` in a process that no node started."""
        path = os.environ.get(RUN_VARIABLE)
        return cls(Path(path)) if path else None

    @property
    def output(self) -> Path:
        """Where the process' standard output and error go."""
        return self.path / OUTPUT

    def read(self, name: str) -> dict[str, Any] | None:
        """Return one file's content."""
        try:
            content = json.loads((self.path / name).read_bytes())
        except (OSError, ValueError):
            return None
        return content if isinstance(content, dict) else None

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Replace one file, whole or not at all.

        Raises:
            OSError: the folder is gone, or the disk is full; the file is as it was.

        """
        draft = self.path / f".{name}.{os.getpid()}"
        try:
            draft.write_text(json.dumps(content), encoding="utf-8")
            draft.replace(self.path / name)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise

    def touch_alive(self) -> None:
        """Say that the node lives; needs no free disk space once the file is there.

        Raises:
            OSError: the folder is gone.

        """
        alive = self.path / ALIVE
        try:
            os.utime(alive)
        except FileNotFoundError:
            alive.touch()

    def alive_at(self) -> float | None:
        """Return when the node last said that it lives, by the file system's clock; only a change means anything."""
        try:
            return (self.path / ALIVE).stat().st_mtime
        except OSError:
            return None

    def remove(self) -> None:
        """Remove the folder; one that is gone is as good as removed."""
        shutil.rmtree(self.path, ignore_errors=True)
