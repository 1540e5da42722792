"""Scrapy projects written into a folder, so that a test shows only what is special about its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolkit.config.project import ScrapyProject, find_project

SPIDER = "import scrapy\n\n\nclass {cls}(scrapy.Spider):\n    name = {name!r}\n"


def spider(name: str, *, cls: str = "Books") -> str:
    """Return the source of a module with one spider."""
    return SPIDER.format(cls=cls, name=name)


def write_project(
    root: Path, files: Mapping[str, str | bytes] | None = None, *, package: str = "shop", base: str = ""
) -> ScrapyProject:
    """Write a project of one package with one spider, `books`; `files` adds to it or takes the place of its own.

    `base` is the folder of the package below the project's, such as `src/`.
    """
    inside = f"{base}{package}"
    ordinary = {
        "scrapy.cfg": f"[settings]\ndefault = {package}.settings\n",
        f"{inside}/__init__.py": "",
        f"{inside}/settings.py": f'BOT_NAME = "{package}"\nSPIDER_MODULES = ["{package}.spiders"]\n',
        f"{inside}/spiders/__init__.py": "",
        f"{inside}/spiders/books.py": spider("books"),
    }
    write_files(root, {**ordinary, **(files or {})})
    return find_project(root)


def write_files(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Write each file with the folders above it."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
