"""A folder with what both tools work on: a copy of the sample project for each, and one list of nodes in both forms."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.cli import InventoryNode, inventory_for

SAMPLE = Path(__file__).parents[2] / "projects" / "shop"
_CACHES = shutil.ignore_patterns("__pycache__", "*.pyc", ".scrapy", "build", "*.egg-info", "setup.py")


class Workplace:
    """`ours` and `theirs` are equal copies of one project, each a repository with one commit.

    scrapyd-client writes into the tree that it builds from, hence two.
    """

    def __init__(self, folder: Path, nodes: Sequence[InventoryNode], *, timeout_s: float | None = None) -> None:
        self.folder = folder
        self.ours = folder / "ours"
        self.theirs = folder / "theirs"
        for copy in (self.ours, self.theirs):
            shutil.copytree(SAMPLE, copy, ignore=_CACHES)
        inventory_for(nodes, None, folder / "inventory.yaml", timeout_s=timeout_s)
        with (self.theirs / "scrapy.cfg").open("a", encoding="utf-8") as file:
            file.writelines(_target(node) for node in nodes)
        for copy in (self.ours, self.theirs):
            _commit(copy)
        self._numbers = itertools.count()

    def change_source(self) -> None:
        """Edit one line of both copies, so that the next deploy has something to bring."""
        number = next(self._numbers)
        for copy in (self.ours, self.theirs):
            with (copy / "shop" / "settings.py").open("a", encoding="utf-8") as file:
                file.write(f"# change {number}\n")


def _target(node: InventoryNode) -> str:
    lines = [f"[deploy:{node.name}]", f"url = http://{node.address}:{node.port}/", "project = shop"]
    if node.credentials is not None:
        lines += [f"username = {node.credentials[0]}", f"password = {node.credentials[1]}"]
    return "\n".join(["", *lines, ""])


def _commit(folder: Path) -> None:
    who = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "The project as it is"]):
        subprocess.run(["git", *words], cwd=folder, check=True, stdin=subprocess.DEVNULL)
