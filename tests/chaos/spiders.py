"""The egg that the chaos run deploys: spiders that behave as real ones do, well and badly, and keep a journal of it.

The journal is the truth to which the product is held. It is one file: each line is one JSON object, appended by one
write, so that no kill tears it. A run begins with `begin`; only one that did all of its work writes `end`.
"""

from __future__ import annotations

from support.eggs import egg_of

from toolkit.model.names import ProjectName, SpiderName, VersionName

PROJECT, VERSION = ProjectName("chaos"), VersionName("20261121-101500-c4a05c4")
PACKAGE = "chaos_project"

PLAIN, FAILING, DYING, STUBBORN, PARENT = (
    SpiderName("plain"),
    SpiderName("failing"),
    SpiderName("dying"),
    SpiderName("stubborn"),
    SpiderName("parent"),
)
SPIDERS = (DYING, FAILING, PARENT, PLAIN, STUBBORN)
"""plain works and ends. failing raises before it crawls. dying breaks off with an exit code of its own. stubborn
ignores SIGINT. parent has a child process, which it ends only when it comes to its own end."""

NEVER_FINISHING = frozenset({FAILING, DYING})
EXIT_CODE_OF_DYING = 3

_SETTINGS = f"""
BOT_NAME = "chaos"
SPIDER_MODULES = ["{PACKAGE}.spiders"]
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
LOG_LEVEL = "INFO"
"""

_JOURNAL = '''
import json
import os
import time


def token():
    """Return the token of this run's claim, where it can be seen."""
    try:
        with open(os.path.join(os.environ["CRAWLCTL_RUN"], "claim.json")) as file:
            return json.load(file).get("token")
    except (KeyError, OSError, ValueError):
        return None


class Journal:
    def __init__(self, path, job):
        self._path = path
        self._same = {"job": job, "token": token(), "pid": os.getpid()}

    def tell(self, what, **more):
        line = json.dumps({**self._same, "what": what, "at": time.time(), **more}) + "\\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(descriptor, line.encode())
        os.close(descriptor)
'''

_BASE = f'''
import asyncio
import os
import signal
import subprocess
import sys
import time

import scrapy
from {PACKAGE}.journal import Journal

STEPS = 5


class Working(scrapy.Spider):
    """Fetches a few pages that lie in their addresses, over the seconds of its argument `run_s`."""

    def __init__(self, *args, journal, run_s, **kwargs):
        super().__init__(*args, **kwargs)
        self.run_s = float(run_s)
        self.steps = 0
        self.journal = Journal(journal, self._job)
        self.journal.tell("begin")

    async def start(self):
        for step in range(STEPS):
            await asyncio.sleep(self.run_s / STEPS)
            self.work(step)
            yield scrapy.Request(f"data:,{{step}}", dont_filter=True)

    def work(self, step):
        pass

    def parse(self, response):
        self.steps += 1
        yield {{"step": response.text}}

    def closed(self, reason):
        is_end = reason == "finished" and self.steps == STEPS
        self.journal.tell("end" if is_end else "stopped", reason=reason)


class Plain(Working):
    name = "{PLAIN}"


class Failing(Working):
    name = "{FAILING}"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        time.sleep(self.run_s / 4)
        self.journal.tell("fails")
        raise RuntimeError("this spider always fails")


class Dying(Working):
    name = "{DYING}"

    def work(self, step):
        if step == 2:
            self.journal.tell("fails")
            os._exit({EXIT_CODE_OF_DYING})


class Stubborn(Working):
    name = "{STUBBORN}"

    def work(self, step):
        # Scrapy sets its own handler once the reactor runs.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Parent(Working):
    name = "{PARENT}"
    child = None

    def work(self, step):
        if self.child is None:
            self.child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(3600)"])
            self.journal.tell("child", child=self.child.pid)

    def closed(self, reason):
        if reason == "finished" and self.child is not None:
            self.child.kill()
            self.child.wait()
        super().closed(reason)
'''


def chaos_egg() -> bytes:
    """Return the egg; the same bytes each time."""
    sources = {
        "__init__.py": "",
        "settings.py": _SETTINGS,
        "journal.py": _JOURNAL,
        "spiders/__init__.py": "",
        "spiders/working.py": _BASE,
    }
    return egg_of(sources, package=PACKAGE)
