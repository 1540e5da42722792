"""What requests of the HTTP API may hold, in one place: ids and names, places in a list, ages; and how it answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Path, Query, Request
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

MAX_LIMIT, MAX_OFFSET = 1000, 10_000_000
MAX_TEXT_CHARS = 200
FIRST_YEAR, LAST_YEAR = 1970, 9998
SAFE_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
NAME = r"^[^/\\\x00-\x1f\x7f\s-][^/\\\x00-\x1f\x7f]*$"
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:")
CRAWL_NAME = r"^[^\s{}/%\x00-\x1f\x7f-][^\s{}/%\x00-\x1f\x7f]*$"


def _text(value: str | None) -> str | None:
    try:
        (value or "").encode()
    except UnicodeEncodeError as error:
        raise ValueError("it is not text") from error
    return value


def _written(value: object) -> object:
    # A bare number would be taken for seconds since 1970.
    if value is not None and not (isinstance(value, str) and _MOMENT.match(value)):
        raise ValueError("write it as 2026-11-21T07:02:33Z, with its time zone")
    return value


def _kept(value: datetime) -> datetime:
    try:
        is_known = FIRST_YEAR <= value.astimezone(UTC).year <= LAST_YEAR
    except OverflowError:
        is_known = False
    if not is_known:
        raise ValueError(f"only moments from {FIRST_YEAR} to {LAST_YEAR} are known here")
    return value


Text = AfterValidator(_text)
JobRef = Annotated[
    str, Path(max_length=MAX_TEXT_CHARS, pattern=SAFE_NAME, description="The job's id, or its first characters.")
]
JobName = Annotated[str, Field(max_length=MAX_TEXT_CHARS, pattern=SAFE_NAME)]
NodeRef = Annotated[str, Path(max_length=MAX_TEXT_CHARS, pattern=NAME, description="The node's name."), Text]
CrawlRef = Annotated[str, Path(max_length=MAX_TEXT_CHARS, pattern=CRAWL_NAME, description="The crawl's id."), Text]
ProjectRef = Annotated[str, Path(max_length=MAX_TEXT_CHARS, pattern=SAFE_NAME, description="The project's name.")]
ProjectQuery = Annotated[str | None, Query(max_length=MAX_TEXT_CHARS, pattern=SAFE_NAME)]
SpiderQuery = Annotated[str | None, Query(max_length=MAX_TEXT_CHARS, pattern=NAME), Text]
LimitQuery = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many, newest first.")]
OffsetQuery = Annotated[int, Query(ge=0, le=MAX_OFFSET, description="How many to leave out before.")]
Moment = Annotated[AwareDatetime, BeforeValidator(_written), AfterValidator(_kept)]
SinceQuery = Annotated[Moment | None, Query(description="Not older than this moment (ISO 8601, with its zone).")]
EventQuery = Annotated[str | None, Query(max_length=50, pattern=r"^[0-9]{1,19}-[0-9]{1,19}$")]
EntryQuery = Annotated[
    str | None, Query(max_length=50, pattern=r"^[0-9]{1,20}(-[0-9]{1,20})?$", description="Older than the one with it.")
]
Count = Annotated[int, Field(ge=1, le=10_000, strict=True)]
Seconds = Annotated[float, Field(ge=0, le=10 * 365 * 86400, allow_inf_nan=False, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Pairs = Annotated[
    Mapping[Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS), Text], Annotated[str, Text]],
    Field(max_length=1000),
]


class Wish(BaseModel):
    """The body of a request: these fields and no others."""

    model_config = ConfigDict(extra="forbid")


def answer(result: Any, status: int = 200, *, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Answer with what the contract made of a result."""
    return JSONResponse(result, status, headers=dict(headers or {}))


def page_of(request: Request, rows: list[Any], *, limit: int, offset: int, unseen: Sequence[str]) -> JSONResponse:
    """Answer with a part of a list; headers say where the next part is, and which nodes could not be asked."""
    headers = {}
    if len(rows) == limit:
        following = request.url.include_query_params(offset=offset + limit)
        headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
    if unseen:
        headers["Unseen-Nodes"] = ", ".join(quote(name) for name in unseen)
    return answer(rows, headers=headers)
