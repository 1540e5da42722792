"""What an act says to whoever did it: a short text in a cookie, shown once by the page that the browser is sent to."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

from fastapi import Request
from fastapi.responses import RedirectResponse

from toolkit.model.errors import CrawlctlError
from toolkit.web.own_paths import see_other

COOKIE = "said"
KEPT_S = 20
MAX_CHARS = 600


@dataclass(frozen=True, slots=True)
class Message:
    """One text; a refusal is shown as such."""

    text: str
    is_refusal: bool = False


def go(path: str, text: str, *, is_refusal: bool = False) -> RedirectResponse:
    """Send the browser to one of our pages, which says this."""
    response = see_other(path)
    value = ("!" if is_refusal else "=") + quote(text[:MAX_CHARS], safe="")
    response.set_cookie(COOKIE, value, max_age=KEPT_S, path="/", httponly=True, samesite="strict")
    return response


def refused(path: str, error: CrawlctlError) -> RedirectResponse:
    """Send the browser to one of our pages, which says why nothing was done."""
    return go(path, error.message + (f" ({error.hint})" if error.hint else ""), is_refusal=True)


def taken_message(request: Request) -> Message | None:
    """Return what the act before wanted to be said."""
    value = request.cookies.get(COOKIE, "")
    if value[:1] not in {"!", "="}:
        return None
    return Message(unquote(value[1:])[:MAX_CHARS], is_refusal=value[0] == "!")
