"""The screens of `crawlctl top` at 80 by 24, as they were looked at: `UPDATE_SCREENS=1` writes them anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.screen_text import check_screen, played, screen_of, until_shown
from support.still_cluster import StillLooker, a_still_job, still_jobs, still_seen
from textual.pilot import Pilot

from toolkit.cluster.acts import Acts
from toolkit.cluster.desk import Desk
from toolkit.cluster.nodes import Nodes
from toolkit.model.names import SpiderName
from toolkit.store.open import open_store
from toolkit.top.app import Top


def a_still_top(folder: Path, looker: StillLooker | None = None) -> Top:
    desk = Desk(Nodes.of([]), lambda: open_store(None, folder))
    return Top(looker or StillLooker(still_seen()), Acts(desk, who="ann@desk"), name="main", every_s=60)


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("jobs", ()),
        ("nodes", ("1",)),
        ("crawls", ("3",)),
        ("queue", ("4",)),
        ("events", ("5",)),
        ("jobs-by-pages", ("s",) * 5),
        ("jobs-filtered", ("slash", *"books", "enter")),
        ("confirm-cancel", ("down", "space", "space", "c")),
        ("tune", ("t",)),
        ("node", ("1", "end", "enter")),
        ("event", ("5", "end", "enter")),
        ("attention", ("exclamation_mark",)),
        ("help", ("question_mark",)),
    ],
)
def test_a_screen_looks_as_it_did(tmp_path: Path, name: str, typed: tuple[str, ...]) -> None:
    app = a_still_top(tmp_path)

    async def play(pilot: Pilot[Any]) -> None:
        await until_shown(pilot, "12:00:00 UTC")
        await pilot.press(*typed)
        if name == "crawls":
            await until_shown(pilot, "12,345")
        await pilot.pause()
        check_screen(name, app)

    played(app, play)


def test_a_job_s_screen_looks_as_it_did(tmp_path: Path) -> None:
    app = a_still_top(tmp_path)

    async def play(pilot: Pilot[Any]) -> None:
        await until_shown(pilot, "12:00:00 UTC")
        await pilot.press("enter")
        await until_shown(pilot, "is not in the inventory")
        check_screen("job", app)

    played(app, play)


def test_a_wide_screen_shows_more_columns_and_a_narrow_one_keeps_what_matters(tmp_path: Path) -> None:
    for width, shown in ((140, True), (60, False)):
        app = a_still_top(tmp_path)

        async def play(pilot: Pilot[Any], *, shown: bool = shown) -> None:
            await until_shown(pilot, "running")
            text = screen_of(pilot.app)
            assert ("WHY" in text) is shown
            assert "JOB" in text
            assert "STATE" in text

        played(app, play, size=(width, 20))


def test_what_a_spider_calls_itself_is_neither_markup_nor_a_command_to_the_terminal(tmp_path: Path) -> None:
    nasty = SpiderName("[red]x[/]\x1b[2J\x07")
    app = a_still_top(tmp_path, StillLooker(still_seen([a_still_job(1, spider=nasty), *still_jobs()[1:]])))

    async def play(pilot: Pilot[Any]) -> None:
        await until_shown(pilot, "[red]x[/]\\x1b")
        await pilot.press("c")
        await until_shown(pilot, "[red]x[/]\\x1b[2J\\x07 running")
        assert "\x1b" not in screen_of(app)

    played(app, play)
