"""The site's pages and their links, the same for whoever asks: the server, the spiders, and who judges them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from zlib import crc32

BRANCHES = 4
MORE_LINKS = 6
"""A dense page has so many links besides those to its branches."""
_PAGE_OF_PATH = re.compile(r"/(?:pages|moved)/(\d+)$")


class Shape(StrEnum):
    """How pages are linked."""

    TREE = "tree"
    """Each page from one other only: a lost one takes all below it along."""
    DENSE = "dense"


@dataclass(frozen=True, slots=True)
class Graph:
    """`pages` pages, numbered from 0; nothing links to the first `roots`. Without roots, all begins at page 0.

    The first `starts` are those that `start()` yields; the other roots are seeds.
    """

    pages: int
    roots: int = 0
    shape: Shape = Shape.TREE
    seed: int = 0
    starts: int = 0

    @property
    def seeds(self) -> range:
        """The pages that are seeds."""
        return range(self.starts, self.roots)

    def links(self, page: int) -> Sequence[int]:
        """Return the pages that a page links to, in their order there."""
        first = max(1, self.roots) + BRANCHES * page
        branches = range(first, min(first + BRANCHES, self.pages))
        if self.shape is Shape.TREE:
            return tuple(branches)
        # A link to a seed would be fetched once more, rightly, when it is followed before the seed is read.
        among = self.pages - self.roots
        others = (self.roots + self._number(page, f"link {each}") % among for each in range(MORE_LINKS))
        return tuple(dict.fromkeys((*branches, *others)))

    def path(self, page: int) -> str:
        """Return the path under which a page is linked; some have moved, and only their new place has a page."""
        return f"/moved/{page}" if self._number(page, "moved") % 20 == 0 else f"/pages/{page}"

    def is_shy(self, page: int) -> bool:
        """Return whether a page's first answer is an error that passes."""
        return self._number(page, "shy") % 20 == 0

    def delay_share(self, page: int) -> float:
        """Return how long a page takes, as a share of the average."""
        return 0.5 + (self._number(page, "delay") % 1000) / 1000

    def _number(self, page: int, what: str) -> int:
        return crc32(f"{self.seed} {page} {what}".encode())


def page_of(url: str) -> int:
    """Return the page that a URL or path leads to."""
    found = _PAGE_OF_PATH.search(url)
    if found is None:
        raise ValueError(f"no page: {url}")
    return int(found[1])


def needs_patience(page: int) -> bool:
    """Return whether the spider takes its time over a page, having brought only half of what it finds."""
    return page % 30 == 3
