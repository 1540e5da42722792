"""The workers of a run: real Scrapy processes, each with its own link to the one Redis that they share."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pprint import pformat

from chaos.frontier.rigs import CRAWL
from chaos.links import Link, Links
from support.processes import end, quiet_environment, start

SETTINGS = "run_settings"
_TESTS = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Place:
    """What every worker is started with: the folder, its journal, the site, how many start URLs, and all settings."""

    folder: Path
    journal: Path
    site_url: str
    starts: int

    def prepare(self, settings: Mapping[str, object], *, concurrency: int) -> None:
        """Write the settings that all workers read."""
        whole = {
            "BOT_NAME": "chaos",
            "FRONTIER_CRAWL": CRAWL,
            "CONCURRENT_REQUESTS": concurrency,
            "CONCURRENT_REQUESTS_PER_DOMAIN": concurrency,
            "DOWNLOAD_DELAY": 0,
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
            "ROBOTSTXT_OBEY": False,
            "LOG_LEVEL": "INFO",
            "DOWNLOADER_MIDDLEWARES": {"chaos.frontier.spiders.parsing.Signing": 900},
            **settings,
        }
        lines = [f"{name} = {pformat(value)}" for name, value in whole.items()]
        (self.folder / f"{SETTINGS}.py").write_text("\n".join(lines) + "\n")


class Worker:
    """One life of one worker."""

    def __init__(self, place: Place, name: str, link: Link) -> None:
        self.name = name
        self.started_at = time.time()
        command = [sys.executable, "-m", "scrapy", "crawl", CRAWL]
        command += ["-a", f"site={place.site_url}", "-a", f"journal={place.journal}"]
        command += ["-a", f"starts={place.starts}"]
        command += ["-s", f"REDIS_URL=redis://127.0.0.1:{link.port}/0", "-s", f"CHAOS_WORKER={name}"]
        search = {"PYTHONPATH": f"{_TESTS}:{place.folder}", "SCRAPY_SETTINGS_MODULE": SETTINGS}
        with (place.folder / f"{name}.log").open("ab") as log:
            self._process = start(command, cwd=place.folder, env=quiet_environment(place.folder, **search), output=log)

    @property
    def code(self) -> int | None:
        """The exit code, or nothing while it runs."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it is still there."""
        self._process.send_signal(number)

    def wait(self, seconds: float) -> bool:
        """Wait for its end; return whether it came."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End it with SIGKILL, also while it is frozen."""
        end(self._process)


class Slot:
    """A place for one worker at a time, and its link. `is_sound` while nothing is being done to it."""

    def __init__(self, place: Place, number: int, link: Link) -> None:
        self.number = number
        self.link = link
        self.is_sound = True
        self.lives: list[Worker] = []
        self._place = place

    @property
    def worker(self) -> Worker:
        """The worker that was started last."""
        return self.lives[-1]

    def start(self) -> Worker:
        """Start a new worker, whatever became of the one before."""
        worker = Worker(self._place, f"worker-{self.number}.{len(self.lives) + 1}", self.link)
        self.lives.append(worker)
        return worker


class Workers:
    """All slots. A worker that ended by itself is left; `ended` tells whether all have."""

    def __init__(self, place: Place, links: Links, *, count: int, redis_port: int) -> None:
        self.slots = [Slot(place, number, links.lay(redis_port)) for number in range(1, count + 1)]
        self.links = links
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start one in each slot."""
        for slot in self.slots:
            slot.start()

    def take(self, which: float) -> Slot | None:
        """Return a sound slot whose worker runs, and note that something is done to it; none if there is none."""
        with self._lock:
            running = [slot for slot in self.slots if slot.is_sound and slot.worker.code is None]
            if not running:
                return None
            slot = running[min(int(which * len(running)), len(running) - 1)]
            slot.is_sound = False
            return slot

    def have_ended(self) -> bool:
        """Return whether every slot's worker has ended with nothing being done to it."""
        return all(slot.is_sound and slot.worker.code is not None for slot in self.slots)

    def end(self) -> None:
        """End all that still run, at once."""
        for slot in self.slots:
            for worker in slot.lives[-1:]:
                worker.kill()

    def names(self) -> list[str]:
        """Return the names of those that run now."""
        return [slot.worker.name for slot in self.slots if slot.worker.code is None]
