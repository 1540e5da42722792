"""How a page's act is answered: it is done, and the browser goes to a page that says what was done, or why not."""

from __future__ import annotations

from collections.abc import Callable, Collection

from fastapi import Request
from fastapi.responses import RedirectResponse

from toolkit.model.errors import CrawlctlError, UsageError
from toolkit.web.lookout import lookout_of
from toolkit.web.saying import go, refused
from toolkit.web.visitor import Visitor

MAX_PICKED = 200
"""So many jobs or nodes are changed by one form at most."""


def acted(request: Request, visitor: Visitor, back: str, act: Callable[[], str | tuple[str, str]]) -> RedirectResponse:
    """Do it, and send the browser to `back`, which shows what the act returned, or why it was not done.

    An act may return another path too, to go there.
    """
    try:
        said = act()
    except CrawlctlError as error:
        return refused(back, error)
    finally:
        lookout_of(request, visitor.desk).glances.forget()
    text, path = (said, back) if isinstance(said, str) else said
    return go(path, text)


def counted(count: int, one: str) -> str:
    """Say how many of something there are."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def picked(names: Collection[str], what: str) -> list[str]:
    """Return what was picked in a form, each once.

    Raises:
        UsageError: nothing was, or too much.

    """
    chosen = list(dict.fromkeys(names))
    if not chosen:
        raise UsageError(f"no {what} was picked")
    if len(chosen) > MAX_PICKED:
        raise UsageError(f"{len(chosen)} {what}s are too many at once: {MAX_PICKED} are the most")
    return chosen
