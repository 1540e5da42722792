"""Nodes whose jobs talk: a spider that logs numbered lines, a traceback and what a terminal would obey."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.eggs import egg_of
from support.plugin_node import PluginNode, hold_everywhere, shared_of, shared_store
from support.redis_server import RedisServer

from toolkit.model.jobs import CRAWL_SETTING, Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.queue import line_name, place_of

VERSION = VersionName("v1")
CRAWL = "gossip"

_SPIDER = """
import asyncio
import os

import scrapy


class Talker(scrapy.Spider):
    '''Says `ticks` lines, one each `pause_s` seconds, waits for the file `until` if it is given, then raises something,
    and says goodbye in red.'''

    name = "talker"

    async def start(self):
        for number in range(int(getattr(self, "ticks", 5))):
            self.logger.info("tick %d", number)
            await asyncio.sleep(float(getattr(self, "pause_s", 0.2)))
        while hasattr(self, "until") and not os.path.exists(self.until):
            await asyncio.sleep(0.1)
        try:
            raise ValueError("nobody listens")
        except ValueError:
            self.logger.exception("it could not be said")
        self.logger.warning("\\x1b[31mgoodbye\\x1b[0m")
        yield scrapy.Request("data:,")

    def parse(self, response):
        yield {}
"""
_SETTINGS = 'BOT_NAME = "talk"\nSPIDER_MODULES = ["talk.spiders"]\nTELNETCONSOLE_ENABLED = False\n'


def talker_egg() -> bytes:
    """Return the egg of the one spider, `talker`."""
    return egg_of({"__init__.py": "", "settings.py": _SETTINGS, "spiders.py": _SPIDER}, package="talk")


def a_talk(job_id: str, *, on: str | None = None, crawl: str = CRAWL, **args: object) -> Job:
    """Return a job that talks, for a node if one is named."""
    names = None if on is None else (NodeName(on),)
    project, spider = ProjectName("talk"), SpiderName("talker")
    return Job(
        id=JobId(job_id),
        project=project,
        spider=spider,
        state=JobState.PENDING,
        version=VERSION,
        args={name: str(value) for name, value in args.items()} | {"number": job_id},
        settings={CRAWL_SETTING: crawl},
        priority=0.0,
        on=names,
        attempts=2,
        line=line_name(project, VERSION, spider, place_of(names)),
    )


@contextmanager
def talking_nodes(
    server: RedisServer, folder: Path, *, zones: Mapping[str, str], own: Mapping[str, str], lease_s: float = 3.0
) -> Iterator[list[PluginNode]]:
    """Start a node in each of these time zones, by name; all of them hold the egg."""
    server.flush()
    with ExitStack() as stack:
        nodes = [
            PluginNode(
                folder / name,
                redis_url=server.url,
                name=name,
                slots=4,
                lease_s=lease_s,
                own=own,
                options={"jobs_to_keep": "2"},
                environ={"TZ": zone},
            )
            for name, zone in zones.items()
        ]
        for node in nodes:
            stack.callback(node.kill)
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(lambda node: node.start(), nodes))
        hold_everywhere(nodes, VERSION, project="talk", egg=talker_egg())
        with shared_store(server.url, folder) as store:
            for node in nodes:
                node.wait_registered(shared_of(store))
                node.wait_ready(store, VERSION)
        yield nodes
