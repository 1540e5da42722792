"""Redirects go to paths of our own only, whatever a request says."""

from __future__ import annotations

from urllib.parse import quote

from fastapi.responses import RedirectResponse

MAX_CHARS = 2000


def own_path(text: str | None, *, default: str = "/") -> str:
    """Return the text if it is a path of these pages, with its query; else the default."""
    if not text or len(text) > MAX_CHARS or not text.startswith("/") or text.startswith("//"):
        return default
    # Browsers read a backslash as a slash, and drop tabs and line ends before they look.
    if "\\" in text or not text.isprintable() or any(char.isspace() for char in text):
        return default
    return quote(text, safe="/?&=%:,;+@!$'()*~.-_")


def see_other(path: str) -> RedirectResponse:
    """Answer an act by sending the browser to a page of ours."""
    return RedirectResponse(own_path(path), status_code=303)
