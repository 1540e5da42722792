"""List an egg's spiders as a job would find them: in a process of its own, with a deadline, and nothing left of it.

Runs in Scrapyd's threads, never on its reactor. The process is `python -m <runner> list`, Scrapyd's own way, so every
runner that Scrapyd takes is good for it. It gets neither the node's credentials nor the address of the store.
"""

from __future__ import annotations

import os
import sys

from toolkit.model.errors import EggError
from toolkit.model.names import SpiderName
from toolkit.node.children import Children
from toolkit.node.environment import without_secrets

SHOWN_CHARS = 4_000


class SpiderLister:
    """Runs `runner list` for one egg at a time for each caller; `close` ends what is under way. Any thread may call."""

    def __init__(self, *, runner: str, timeout_s: float) -> None:
        self._runner = runner
        self.timeout_s = timeout_s
        self._children = Children()

    def spiders(self, project: str, version: str, *, python: str | None = None) -> tuple[SpiderName, ...]:
        """Return the spiders of an egg that lies in Scrapyd's folder of eggs, in the order that Scrapy lists them.

        `python` is that of the environment that the egg has of its own, if it has one.

        Raises:
            EggError: its process ended with an error (the end of what it said is in the message), or took longer than
                the deadline and was killed with everything that it had started.

        """
        ended = self._children.run(
            [python or sys.executable, "-m", self._runner, "list", "-s", "LOG_STDOUT=0"],
            {
                **without_secrets(os.environ),
                "PYTHONIOENCODING": "UTF-8",
                "SCRAPY_PROJECT": project,
                "SCRAPYD_EGG_VERSION": version,
            },
            timeout_s=self.timeout_s,
            doing="listing its spiders",
        )
        if ended.code != 0:
            said = (ended.errors or ended.output).decode(errors="replace").strip()
            raise EggError(said[-SHOWN_CHARS:] or f"listing its spiders ended with {ended.how} and said nothing")
        try:
            # Scrapy prints an empty line where there is no spider.
            return tuple(SpiderName(line) for line in ended.output.decode().splitlines() if line)
        except UnicodeDecodeError as error:
            raise EggError("listing its spiders gave bytes that are no text") from error

    def close(self) -> None:
        """End every listing that is under way, so that no thread outlives Scrapyd; its caller gets an `EggError`."""
        self._children.close()
