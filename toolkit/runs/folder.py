"""One running job's folder: the files through which its node (Scrapyd) and its spider process speak.

Files and not sockets, because either side may be restarted at any moment: what is written stays true, and is read again
by whoever comes next. Each file has one writer and is replaced whole. Nothing here needs Redis, Scrapyd or Scrapy.

| file | writer | holds |
|---|---|---|
| `claim.json` | launcher, before the process is started | job id, token, project, spider, version, Redis' file |
| `process.json` | runner, first thing; created once (`registration.py`) | pid and its start time |
| `report.json` | reporter | state, counts, finish reason |
| `control.json` | launcher | what is wished: paused, concurrency, delay |
| `stop.json` | launcher, before the first signal | why the process is being stopped |
| `exit.json` | runner, last thing | exit code |
| `redial.json` | middleware | which redial the spider asks for, when and why |
| `redialled.json` | node | what became of it |
| `alive` | node, touched as long as it lives | nothing: its time is the message |
| `output.txt` | the process | what it printed, the end of it |
| `ending.json` | launcher | the outcome, until the queue has taken it |
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

RUN_VARIABLE = "CRAWLCTL_RUN"
"""The environment variable by which a spider process finds its folder."""

CLAIM, PROCESS, REPORT, CONTROL, STOP, EXIT, ENDING, REDIAL, REDIALLED = (
    "claim.json",
    "process.json",
    "report.json",
    "control.json",
    "stop.json",
    "exit.json",
    "ending.json",
    "redial.json",
    "redialled.json",
)
ALIVE, OUTPUT = "alive", "output.txt"
MAX_FILE_BYTES = 4_000_000
"""A larger file is not read: its writer may be a spider gone wrong, and its reader is the node of all others."""

MAX_OUTPUT_BYTES = 10_000_000
KEPT_OUTPUT_BYTES = 100_000
"""Of what a process printed, so much is kept of its end when it is more than that: it is looked at each heartbeat."""

_NO_LINKS_HERE = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP})


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
            with (self.path / name).open("rb") as file:
                text = file.read(MAX_FILE_BYTES + 1)
            content = json.loads(text) if len(text) <= MAX_FILE_BYTES else None
        except (OSError, ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) else None

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Replace one file, whole or not at all.

        Raises:
            OSError: the folder is gone, or the disk is full; the file is as it was.

        """
        with self._draft(name, content) as draft:
            draft.replace(self.path / name)

    def create(self, name: str, content: Mapping[str, Any]) -> bool:
        """Write a file that is not there yet; of several who try, in whatever processes, exactly one gets `True`.

        Raises:
            OSError: the folder is gone, or the disk is full; nothing was written.

        """
        with self._draft(name, content) as draft:
            try:
                _link(draft, self.path / name)
            except FileExistsError:
                return False
            finally:
                draft.unlink()
        return True

    def bound_output(self) -> None:
        """Cut what the process printed to its end, when it printed too much; it goes on behind that.

        Raises:
            OSError: there is nothing, or it cannot be written.

        """
        if self.output.stat().st_size <= MAX_OUTPUT_BYTES:
            return
        with self.output.open("rb") as output:
            output.seek(-KEPT_OUTPUT_BYTES, os.SEEK_END)
            end = output.read()
        # The process appends to this very file, so it writes behind what is there then.
        os.truncate(self.output, 0)
        with self.output.open("ab") as output:
            output.write(end)

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

    @contextlib.contextmanager
    def _draft(self, name: str, content: Mapping[str, Any]) -> Iterator[Path]:
        draft = self.path / f".{name}.{os.getpid()}"
        try:
            draft.write_text(json.dumps(content), encoding="utf-8")
            yield draft
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise

    def remove(self) -> None:
        """Remove the folder; one that is gone is as good as removed."""
        shutil.rmtree(self.path, ignore_errors=True)


def _link(draft: Path, path: Path) -> None:
    # A link is refused where the name is taken, and shows the file only once it is whole.
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in _NO_LINKS_HERE:
            raise
        with path.open("xb") as file:
            file.write(draft.read_bytes())
