"""An egg of spiders that behave as tests of a node need it: quick, slow, deaf to signals, broken, curious."""

from __future__ import annotations

from datetime import UTC, datetime

from support.eggs import egg_of
from support.waiting import wait_until

from toolkit.model.jobs import DEFAULT_ATTEMPTS, Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.queue import line_name, place_of
from toolkit.store.interfaces import Store

SOON_S = 40.0
PROJECT, VERSION = ProjectName("shop"), VersionName("v1")

_SPIDERS = """
import asyncio
import os
import signal
import subprocess
import sys

import scrapy


class Quick(scrapy.Spider):
    '''Makes the file `begun` and waits for the file `until` if they are given, sleeps `sleep_s`, fetches one page,
    yields one item.'''

    name = "quick"

    async def start(self):
        if hasattr(self, "begun"):
            open(self.begun, "w").close()
        while hasattr(self, "until") and not os.path.exists(self.until):
            await asyncio.sleep(0.1)
        await asyncio.sleep(float(getattr(self, "sleep_s", 0)))
        yield scrapy.Request("data:,hello")

    def parse(self, response):
        yield {"environment": sorted(os.environ), "args": sys.argv}


class Finds(scrapy.Spider):
    '''Finds as many items as `found` says, makes the file `begun` if it is given, waits for the file `until` if it is,
    and finds as many again.'''

    name = "finds"

    async def start(self):
        yield scrapy.Request("data:,hello")

    async def parse(self, response):
        found = int(self.found)
        for number in range(found):
            yield {"number": number}
        if hasattr(self, "begun"):
            open(self.begun, "w").close()
        while hasattr(self, "until") and not os.path.exists(self.until):
            await asyncio.sleep(0.05)
        for number in range(found, 2 * found):
            yield {"number": number}


class Deaf(scrapy.Spider):
    '''Ignores SIGINT and SIGTERM, and has a child that does so too; both write their process ids to `pids`.'''

    name = "deaf"

    async def start(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "600"])
        with open(self.pids, "w") as file:
            file.write(f"{os.getpid()} {child.pid}")
        await asyncio.sleep(600)
        yield {}


class Dies(scrapy.Spider):
    '''Ends its process with an exit code, at once.'''

    name = "dies"

    async def start(self):
        print("the reason why it dies", flush=True)
        os._exit(int(getattr(self, "code", 3)))
        yield {}


class Leaves(scrapy.Spider):
    '''Finishes, and leaves a child behind.'''

    name = "leaves"

    async def start(self):
        child = subprocess.Popen(["sleep", "600"])
        with open(self.pids, "w") as file:
            file.write(str(child.pid))
        yield scrapy.Request("data:,hello")

    def parse(self, response):
        yield {}
"""

_SETTINGS = """
BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
TELNETCONSOLE_ENABLED = False
"""


def node_egg() -> bytes:
    """Return the egg; its spiders are quick, finds, deaf, dies and leaves."""
    return egg_of({"__init__.py": "", "settings.py": _SETTINGS, "spiders.py": _SPIDERS}, package="shop")


def a_node_job(
    job_id: str,
    spider: str = "quick",
    *,
    args: dict[str, str] | None = None,
    on: tuple[NodeName, ...] | None = None,
    attempts: int = DEFAULT_ATTEMPTS,
    timeout_s: float | None = None,
    version: VersionName = VERSION,
    settings: dict[str, str] | None = None,
) -> Job:
    """Return a pending job of the egg's, as an operator's command puts it into the queue."""
    name = SpiderName(spider)
    return Job(
        id=JobId(job_id),
        project=PROJECT,
        spider=name,
        version=version,
        state=JobState.PENDING,
        args=args or {},
        settings=settings or {},
        priority=0.0,
        scheduled_at=datetime.now(UTC),
        line=line_name(PROJECT, version, name, place_of(on)),
        on=on,
        attempt=0,
        attempts=attempts,
        timeout_s=timeout_s,
    )


def ended(store: Store, job_id: str, *, within_s: float = SOON_S) -> Job:
    """Wait for a job's outcome."""

    def final() -> Job | None:
        job = store.jobs.get(JobId(job_id))
        return job if job is not None and job.state.is_final else None

    return wait_until(final, deadline_s=within_s, what=f"{job_id} to end")
