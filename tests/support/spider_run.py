"""A job's process as a node starts it, without the node: an egg in a folder, a run folder, and the runner on both."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.eggs import egg_of
from support.processes import end, quiet_environment, start
from support.waiting import wait_until

from toolkit.model.queue import Progress, Wish
from toolkit.runs.control import control_of
from toolkit.runs.folder import CLAIM, CONTROL, EXIT, REPORT, RUN_VARIABLE, RunFolder
from toolkit.runs.report import Exit, read_exit, read_report

RUNNER = "toolkit.node.runner"
LONG_LEASE_S = 300.0

SETTINGS = """
BOT_NAME = "runs"
SPIDER_MODULES = ["runs.spiders"]
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
CONCURRENT_REQUESTS = 8
CONCURRENT_REQUESTS_PER_DOMAIN = 8
DOWNLOAD_DELAY = 0
"""

SPIDERS = """
import subprocess
import sys
from pathlib import Path

import scrapy


class Pages(scrapy.Spider):
    name = "pages"

    async def start(self):
        Path("started").touch()
        self.count = int(getattr(self, "count", 3))
        for number in range(min(self.count, 20)):
            yield self.page(number)

    def page(self, number):
        return scrapy.Request(f"{self.site}/{number}", cb_kwargs={"number": number})

    def parse(self, response, number):
        yield {"url": response.url}
        if number + 20 < self.count:
            yield self.page(number + 20)


class Raises(Pages):
    name = "raises"

    def parse(self, response, number):
        raise ValueError("no such thing")


class Exits(Pages):
    name = "exits"

    def parse(self, response, number):
        sys.exit(7)


class ExitsAtOnce(scrapy.Spider):
    name = "exits_at_once"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        sys.exit(7)


class Busy(Pages):
    name = "busy"

    def parse(self, response, number):
        Path("busy").touch()
        while True:
            pass


class Parent(Pages):
    name = "parent"

    def parse(self, response, number):
        child = subprocess.Popen(["sleep", "300"])
        Path("child").write_text(str(child.pid))
        child.wait()
"""


def runs_egg(files: Mapping[str, str] | None = None, *, settings: str = "") -> bytes:
    """Return an egg of the package `runs` with the spiders above; `files` adds to it, `settings` to its settings."""
    own = {"__init__.py": "", "settings.py": SETTINGS + settings, "spiders/__init__.py": SPIDERS}
    return egg_of({**own, **(files or {})}, package="runs")


class SpiderRun:
    """One job's process and its folder; the process and all that it started are gone after the context."""

    def __init__(self, home: Path, *, egg: bytes | None = None, claim: Mapping[str, Any] | None = None) -> None:
        self.home = home
        self.folder = RunFolder(home / "run")
        self._process: subprocess.Popen[bytes] | None = None
        (home / "eggs" / "runs").mkdir(parents=True)
        (home / "eggs" / "runs" / "1.egg").write_bytes(egg or runs_egg())
        (home / "scrapyd.conf").write_text("[scrapyd]\neggs_dir = eggs\n")
        self.folder.path.mkdir()
        self.folder.write(CLAIM, {"job_id": "job-1", "lease_s": LONG_LEASE_S, **(claim or {})})
        self.folder.touch_alive()

    def start(
        self,
        spider: str,
        *,
        settings: Mapping[str, str] | None = None,
        runner: str = RUNNER,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = (),
        **arguments: str,
    ) -> Self:
        """Start the process: `crawl SPIDER` with these settings and spider arguments, or the command given."""
        words = list(command) or ["crawl", spider]
        words += [part for name, value in (settings or {}).items() for part in ("-s", f"{name}={value}")]
        words += [part for name, value in arguments.items() for part in ("-a", f"{name}={value}")]
        with self.folder.output.open("ab") as output:
            self._process = start(
                [sys.executable, "-m", runner, *words], cwd=self.home, env=self.environment(env), output=output
            )
        return self

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment in which the process is started."""
        own = {"SCRAPY_PROJECT": "runs", "SCRAPYD_EGG_VERSION": "1", RUN_VARIABLE: str(self.folder.path)}
        return quiet_environment(self.home, **{**own, **(more or {})})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            end(self._process)

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None, "it was never started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """The process has not ended."""
        return self._process is not None and self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone."""
        assert self._process is not None, "it was never started"
        self._process.send_signal(number)

    def wait(self, *, deadline_s: float = 60) -> int:
        """Wait for the process to end; return its exit code, negative for a signal."""
        assert self._process is not None, "it was never started"
        try:
            return self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {deadline_s:g} s:\n{self.output()}") from None

    def output(self) -> str:
        """Return what the process printed, its log included."""
        return self.folder.output.read_text(errors="replace")

    def wish(self, wish: Wish) -> None:
        """Wish something of the spider, as its node does for an operator."""
        self.folder.write(CONTROL, control_of(wish))

    @property
    def progress(self) -> Progress | None:
        """What the spider reported last."""
        return read_report(self.folder.read(REPORT))

    @property
    def exit(self) -> Exit | None:
        """How the process says that it ended."""
        return read_exit(self.folder.read(EXIT))

    def wait_for_file(self, name: str) -> str:
        """Wait until the spider has written this file, and return its text."""
        path = self.home / name
        wait_until(path.exists, deadline_s=60, what=f"the spider to write {name}")
        return path.read_text()
