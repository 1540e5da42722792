"""A small Scrapy project whose spiders need no site: quick ones, ones that raise, and ones that hear no signal."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.eggs import egg_of
from support.scrapy_projects import write_files, write_project

_SETTINGS = """\
BOT_NAME = "{package}"
SPIDER_MODULES = ["{package}.spiders"]
TELNETCONSOLE_ENABLED = False
RELEASE = "{release}"
"""
_QUICK = '''\
import asyncio
from pathlib import Path

import scrapy


class QuickSpider(scrapy.Spider):
    """One item, after `sleep_s` seconds, and once the file `until` is there; it says which release it belongs to."""

    name = "quick"

    async def start(self):
        self.logger.info("asleep")
        await asyncio.sleep(float(getattr(self, "sleep_s", 0)))
        while (until := getattr(self, "until", None)) and not Path(until).exists():
            await asyncio.sleep(0.05)
        # By way of a request: a spider whose start gives items only is seen to be idle five seconds later.
        yield scrapy.Request("data:,")

    def parse(self, response):
        yield {"release": self.settings["RELEASE"], "note": getattr(self, "note", None)}
'''
_RAISING = '''\
import scrapy


class RaisingSpider(scrapy.Spider):
    """Its callback raises, and it goes on to its end."""

    name = "raising"
    start_urls = ["data:,a", "data:,b"]

    def parse(self, response):
        raise ValueError("a page as nobody expected it")
'''
_DEAF = '''\
import time

import scrapy


class DeafSpider(scrapy.Spider):
    """Its callback keeps the process busy, so that no signal is heard before it ends."""

    name = "deaf"
    start_urls = ["data:,a"]

    def parse(self, response):
        self.logger.info("deaf from now on")
        time.sleep(600)
'''
_TOUCHY = """\
from pathlib import Path

import scrapy

# A node whose folder holds these files is one where a module is missing, or where another spider is found.
if Path("lacks-a-module").exists():
    import a_module_that_is_missing_only_here

if not Path("lacks-a-spider").exists():

    class TouchySpider(scrapy.Spider):
        name = "touchy"
"""


class Market:
    """The project as a folder; each release is another text in its settings."""

    def __init__(self, root: Path, *, package: str = "market") -> None:
        self.root = root
        self.package = package
        files = {"quick": _QUICK, "raising": _RAISING, "deaf": _DEAF, "touchy": _TOUCHY}
        write_project(
            root,
            {f"{package}/spiders/{name}.py": text for name, text in files.items()} | self._settings("first"),
            package=package,
        )
        (root / package / "spiders" / "books.py").unlink()

    def __str__(self) -> str:
        return str(self.root)

    @property
    def spiders(self) -> int:
        """How many spiders there are."""
        return 4

    def change(self, release: str) -> Market:
        """Make the tree another one; its jobs' items say so. Return itself."""
        write_files(self.root, self._settings(release))
        return self

    def copy(self, folder: Path, release: str) -> Market:
        """Return a copy elsewhere, at another release."""
        shutil.copytree(self.root, folder)
        copy = object.__new__(Market)
        copy.root, copy.package = folder, self.package
        return copy.change(release)

    def _settings(self, release: str) -> dict[str, str]:
        return {f"{self.package}/settings.py": _SETTINGS.format(package=self.package, release=release)}


def market_egg(release: str, *, package: str = "market") -> bytes:
    """Return an egg of the project's quick spider alone, as somebody else may have uploaded it."""
    sources = {
        "__init__.py": "",
        "settings.py": _SETTINGS.format(package=package, release=release),
        "spiders/__init__.py": "",
        "spiders/quick.py": _QUICK,
    }
    return egg_of(sources, package=package)
