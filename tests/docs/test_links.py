"""Every link within the documentation leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.documents import PAGES, prose

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(prose(page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(prose(page.read_text(encoding="utf-8"))):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        assert place.is_file(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors_of(place), f"{page.name}: {target}"
