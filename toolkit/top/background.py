"""Work beside the screen: what waits for a node or for Redis is done in a thread, and its result comes as a message."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from textual.app import App
from textual.message import Message
from textual.screen import Screen

from toolkit.model.errors import CrawlctlError

T = TypeVar("T")


class Came(Message):
    """Something that was done in a thread has come to its end; `then` is to be called where the screen is drawn."""

    def __init__(self, then: Callable[[], object]) -> None:
        super().__init__()
        self.then = then


def in_thread(
    app: App[Any],
    call: Callable[[], T],
    *,
    then: Callable[[T], object],
    failed: Callable[[CrawlctlError], object],
) -> None:
    """Call in a thread of its own, and hand the result, or the error, to the screen. The end of the app waits for none.

    An error that nobody foresees ends the app, whose result it is then.
    """

    def run() -> None:
        outcome: Callable[[], object]
        try:
            outcome = partial(then, call())
        except CrawlctlError as error:
            outcome = partial(failed, error)
        except Exception as error:  # noqa: BLE001 - told at the command line's front door, as any bug is
            outcome = partial(app.exit, error)
        app.post_message(Came(outcome))

    threading.Thread(target=run, name="crawlctl-top", daemon=True).start()


def is_there(screen: Screen[Any]) -> bool:
    """Say whether a screen can be drawn on: its parts are laid out, and it is not being closed.

    What comes from a thread may come earlier and later than that. `is_mounted` stays true for ever, once it is.
    """
    return screen.is_running and bool(screen.children)
