"""From values to pages: one Jinja2 environment, everything escaped, and files named by the digest of their content.

Nothing here asks the cluster: a template gets values that were read before.
"""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from toolkit.model.accounts import Role
from toolkit.web import words
from toolkit.web.saying import taken_message

HERE = Path(__file__).parent
STATIC = HERE / "static"
THEMES = ("light", "dark")
DIGEST_CHARS = 12

SECTIONS = (
    ("o", "/", "Overview"),
    ("n", "/nodes", "Nodes"),
    ("j", "/jobs", "Jobs"),
    ("c", "/crawls", "Crawls"),
    ("r", "/releases", "Releases"),
    ("t", "/crons", "Crons"),
    ("e", "/events", "Events"),
    ("a", "/audit", "Audit"),
)
"""What the pages are called: the key after `g`, the path, the name."""


class Reader(Protocol):
    """For whom a page is made, as far as its looks depend on that."""

    @property
    def name(self) -> str:
        """Who it is."""

    @property
    def form_token(self) -> str:
        """What each form must bring."""

    def may(self, role: Role) -> bool:
        """Say whether the visitor has this right."""


def page(
    request: Request, name: str, *, visitor: Reader | None = None, status: int = 200, **values: Any
) -> HTMLResponse:
    """Render a template for somebody, or for nobody known; what was said by an act before is shown once."""
    message = taken_message(request)
    theme = request.cookies.get("theme")
    html = (
        environment()
        .get_template(name)
        .render(
            request=request,
            path=request.url.path,
            visitor=visitor,
            may_operate=visitor is not None and visitor.may(Role.OPERATE),
            may_administer=visitor is not None and visitor.may(Role.ADMINISTER),
            theme=theme if theme in THEMES else None,
            said=message,
            status=status,
            **values,
        )
    )
    response = HTMLResponse(html, status_code=status, headers={"Cache-Control": "no-store"})
    if message is not None:
        response.delete_cookie("said", path="/")
    return response


@cache
def environment() -> Environment:
    """Return the one environment; an unknown name in a template is an error, not a blank."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.globals |= {"static": static, "sections": SECTIONS, "query": query, "now": words.now}
    made.filters |= words.FILTERS
    return made


def static(name: str) -> str:
    """Return the address of a file below `static/`: it changes with the content, so browsers may keep it for good."""
    return f"/static/{name}?v={_digest(name, (STATIC / name).stat().st_mtime_ns)}"


def query(**values: object) -> str:
    """Return a query string without what is empty, with its `?`."""
    given = {name: value for name, value in values.items() if value not in (None, "", ())}
    return f"?{urlencode(given, doseq=True)}" if given else ""


@lru_cache(maxsize=64)
def _digest(name: str, _changed_ns: int) -> str:
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:DIGEST_CHARS]
