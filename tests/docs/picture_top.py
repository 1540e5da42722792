"""Draw the picture of `crawlctl top` in the documentation: a cluster that stands still, as dark terminals show it.

Run by hand from the repository: `PYTHONPATH=tests .venv/bin/python tests/docs/picture_top.py`.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME, TerminalTheme
from support.screen_text import played, until_shown
from support.still_cluster import StillLooker, still_seen
from textual.app import App
from textual.pilot import Pilot

from toolkit.cluster.acts import Acts
from toolkit.cluster.desk import Desk
from toolkit.cluster.nodes import Nodes
from toolkit.store.open import open_store
from toolkit.top.app import Top

PICTURE = Path(__file__).parents[2] / "toolkit" / "docs" / "pictures" / "top.svg"
SIZE = (100, 26)
LIGHT = TerminalTheme(
    (255, 255, 255),
    (40, 40, 40),
    [(0, 0, 0), (180, 20, 20), (0, 110, 0), (150, 95, 0), (0, 70, 180), (140, 0, 140), (0, 110, 130), (200, 200, 200)],
)


def drawn(typed: tuple[str, ...] = (), *, size: tuple[int, int] = SIZE, theme: TerminalTheme = SVG_EXPORT_THEME) -> str:
    """Return the screen after some keys as a picture; fonts are those of whoever looks, nothing is fetched."""
    found: list[str] = []

    async def play(pilot: Pilot[Any]) -> None:
        await until_shown(pilot, "12:00:00 UTC")
        await pilot.press(*typed)
        await pilot.pause()
        found.append(_svg(pilot.app, size, theme))

    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Nodes.of([]), lambda: open_store(None, Path(folder)))
        played(Top(StillLooker(still_seen()), Acts(desk, who="ann@desk"), name="main", every_s=60), play, size=size)
    return found[0]


def _svg(app: App[Any], size: tuple[int, int], theme: TerminalTheme) -> str:
    width, height = size
    console = Console(
        width=width, height=height, file=io.StringIO(), force_terminal=True, record=True, legacy_windows=False
    )
    console.print(app.screen._compositor.render_update(full=True))
    picture = console.export_svg(title="crawlctl top", theme=theme, unique_id="top")
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(("down", "down")))
    sys.stdout.write(f"{PICTURE}: {PICTURE.stat().st_size} bytes\n")
