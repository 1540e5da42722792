"""What a full-screen program shows, as text: played by keys, and compared with screens that were looked at before.

With `UPDATE_SCREENS=1` the stored screens in `support/screens` are written anew; look at the difference before you keep
it.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from textual.app import App
from textual.pilot import Pilot

SCREENS = Path(__file__).parent / "screens"
DEADLINE_S = 60.0

T = TypeVar("T")
Play = Callable[[Pilot[Any]], Awaitable[None]]


def played(app: App[Any], play: Play, *, size: tuple[int, int] = (80, 24)) -> None:
    """Run the app on a terminal of this size while the play goes on."""

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await play(pilot)

    asyncio.run(run())


def screen_of(app: App[Any]) -> str:
    """Return what is on the screen, without the spaces at the ends of lines."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips) + "\n"


async def until(pilot: Pilot[Any], is_so: Callable[[], T], *, what: str) -> T:
    """Wait until something is so, while the app goes on."""
    ends_at = time.monotonic() + DEADLINE_S
    while not (value := is_so()):
        assert time.monotonic() < ends_at, f"waited in vain for {what}:\n{screen_of(pilot.app)}"
        await pilot.pause(0.02)
    return value


async def until_shown(pilot: Pilot[Any], text: str) -> None:
    """Wait until the screen shows a text."""
    await until(pilot, lambda: text in screen_of(pilot.app), what=f"{text!r} on the screen")


def check_screen(name: str, app: App[Any]) -> None:
    """Compare the screen with the stored one of this name."""
    path, shown = SCREENS / f"{name}.txt", screen_of(app)
    if os.environ.get("UPDATE_SCREENS"):
        path.write_text(shown)
        return
    stored = path.read_text() if path.exists() else ""
    difference = difflib.unified_diff(stored.splitlines(), shown.splitlines(), "stored", "shown", lineterm="")
    assert shown == stored, "\n".join([f"the screen {name} has changed:", *difference])
