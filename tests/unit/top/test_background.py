"""What a thread brings is shown where there is something to show it on, and nowhere else."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from typing import cast

from support.screen_text import played, screen_of, until, until_shown
from textual.pilot import Pilot

from toolkit.cluster.acts import Acts
from toolkit.cluster.job_log import JobLogs
from toolkit.model.errors import StoreUnreachableError
from toolkit.model.names import JobId
from toolkit.top.app import Top
from toolkit.top.pages import PageScreen
from toolkit.top.seen import Seen


class Away:
    """Sees nothing, and says so as soon as it may."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.app: Top = Top(self, cast("Acts", None), name="main", every_s=0.05, logs=cast("JobLogs", object()))
        self.looks = 0

    def look(self, *, visible: Collection[JobId] = (), wants_crawls: bool = False) -> Seen:  # noqa: ARG002
        self.may_end.wait(60)
        self.looks += 1
        raise StoreUnreachableError("Redis is away")


def test_a_page_that_was_left_while_it_read_is_drawn_no_more() -> None:
    looker, may_end = Away(), threading.Event()
    looker.may_end.set()
    page = PageScreen("slow", read=lambda: ["too late"] if may_end.wait(60) else [])

    async def play(pilot: Pilot[object]) -> None:
        app = looker.app
        await app.push_screen(page)
        await pilot.press("escape")
        await until(pilot, lambda: not page.is_running and not page.children, what="the page to be gone")
        may_end.set()
        looks = looker.looks
        await until(pilot, lambda: looker.looks > looks + 2, what="it to go on")
        assert "too late" not in screen_of(app)

    played(looker.app, play)


def test_what_comes_while_everything_is_closed_is_shown_nowhere() -> None:
    looker = Away()
    app = looker.app

    def end_while_it_closes() -> None:
        while app.is_running:
            time.sleep(0.0005)
        looker.may_end.set()

    async def play(pilot: Pilot[object]) -> None:
        await until_shown(pilot, "main")
        threading.Thread(target=end_while_it_closes).start()

    played(app, play)
    assert app.return_value is None


def test_a_tick_that_comes_after_the_last_screen_has_gone_looks_at_nothing() -> None:
    looker = Away()
    app = looker.app
    played(app, lambda pilot: until_shown(pilot, "main"))
    assert not app.screen_stack
    app._looking_since_s = None
    app.look()
    assert app._looking_since_s is None
