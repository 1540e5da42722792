"""Small eggs made by hand, so that tests of nodes need no build."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence

_SPIDER = """
import asyncio
import scrapy


class {name_class}(scrapy.Spider):
    name = {name!r}

    async def start(self):
        await asyncio.sleep(float(getattr(self, "sleep_s", 0)))
        yield {{"spider": self.name, "note": getattr(self, "note", "")}}
"""


def small_egg(spiders: Sequence[str] = ("alpha", "beta"), *, package: str = "small", marker: str = "") -> bytes:
    """Return an egg whose spiders yield one item each, after the seconds given by their argument `sleep_s`.

    The same arguments give the same bytes; `marker` makes other bytes of the same spiders.
    """
    sources = {f"spiders/spider_{i}.py": _spider(name, i) for i, name in enumerate(spiders)}
    settings = f'BOT_NAME = "{package}"\nSPIDER_MODULES = ["{package}.spiders"]\nTELNETCONSOLE_ENABLED = False\n'
    settings += 'REMOTE_CONTROL_ENABLED = False\nMARKER = "{marker}"\n'.replace("{marker}", marker)
    return egg_of({"__init__.py": "", "settings.py": settings, "spiders/__init__.py": "", **sources}, package=package)


def broken_egg(*, package: str = "small") -> bytes:
    """Return an egg that Scrapyd stores, and whose spiders cannot be imported."""
    return egg_of(
        {
            "__init__.py": "",
            "settings.py": f'BOT_NAME = "{package}"\nSPIDER_MODULES = ["{package}.spiders"]\n',
            "spiders/__init__.py": "import a_module_that_is_not_there\n",
        },
        package=package,
    )


def egg_of(sources: Mapping[str, str], *, package: str) -> bytes:
    """Return an egg with these files in its one package, `settings.py` among them."""
    files = {f"{package}/{path}": text for path, text in sources.items()}
    files["EGG-INFO/PKG-INFO"] = f"Metadata-Version: 1.0\nName: {package}\nVersion: 1.0\n"
    files["EGG-INFO/entry_points.txt"] = f"[scrapy]\nsettings = {package}.settings\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as egg:
        for path, text in sorted(files.items()):
            egg.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), text)
    return buffer.getvalue()


def _spider(name: str, number: int) -> str:
    return _SPIDER.format(name=name, name_class=f"Spider{number}")
