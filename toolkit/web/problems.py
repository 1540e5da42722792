"""How a failure is answered: a page for people, problem JSON (RFC 9457) for programs, each with message and hint."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from toolkit.model.errors import CrawlctlError
from toolkit.views.errors import described
from toolkit.web.own_paths import see_other
from toolkit.web.refusals import TooOftenError, UnknownVisitorError, VisitorError
from toolkit.web.rendering import page
from toolkit.web.rights import declared
from toolkit.web.visitor import Visitor, visitor_of

PROBLEM_TYPE = "application/problem+json"
# By the kinds of views/errors.py. What is wrong with a node or the Redis is no fault of this server, nor of who asks.
STATUSES: Mapping[str, int] = {
    "usage": 422,
    "inventory": 409,
    "project": 409,
    "egg": 409,
    "configuration": 409,
    "unauthorized": 502,
    "unreachable": 502,
    "timeout": 504,
    "node": 502,
    "host_key": 502,
    "host_unreachable": 502,
    "host_unauthorized": 502,
    "host": 502,
    "nodes_failed": 502,
    "store_unreachable": 503,
    "database_unreachable": 503,
    "nothing_reachable": 503,
    "locked": 409,
    "conflict": 409,
    "refused": 409,
    "not_found": 404,
    "job_failed": 409,
    "error": 500,
}
TITLES: Mapping[int, str] = {
    400: "That was no request we know",
    401: "Sign in first",
    403: "Not allowed",
    404: "Nothing there",
    405: "That cannot be done here",
    409: "Not now",
    413: "Too much at once",
    415: "We cannot read that",
    422: "Something in it is wrong",
    429: "Too often",
    502: "A node is in the way",
    503: "The cluster cannot be asked",
    504: "A node took too long",
}


def add_to(app: FastAPI) -> None:
    """Let the app answer every failure."""
    app.add_exception_handler(CrawlctlError, _told)
    app.add_exception_handler(HTTPException, _told_by_framework)
    app.add_exception_handler(RequestValidationError, _told_of_input)


def answer(request: Request, error: CrawlctlError) -> Response:
    """Return the answer for an error that crawlctl foresees."""
    if isinstance(error, VisitorError):
        return _of_visitor(request, error)
    told = described(error)[1]
    kind = told["kind"] or "error"
    # The hint to all errors of usage is about the command line.
    hint = error.hint if kind == "usage" else told["hint"]
    return _answer(request, STATUSES.get(kind, 500), kind, error.message, hint)


def wants_json(request: Request) -> bool:
    """Say whether a program asks: by the path, or by what it accepts."""
    path, accepts = request.url.path, request.headers.get("accept", "")
    return path.startswith(("/api/", "/metrics")) or ("json" in accepts and "html" not in accepts)


def _told(request: Request, error: Exception) -> Response:
    if not isinstance(error, CrawlctlError):
        raise error
    return answer(request, error)


def _of_visitor(request: Request, error: VisitorError) -> Response:
    if isinstance(error, UnknownVisitorError) and not wants_json(request):
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        wanted = "" if request.method != "GET" or asked == "/" else f"?next={quote(asked, safe='/')}"
        return see_other(f"/sign-in{wanted}")
    headers = {"WWW-Authenticate": 'Bearer realm="crawlctl"'} if error.status == UnknownVisitorError.status else {}
    if isinstance(error, TooOftenError):
        headers["Retry-After"] = str(max(1, round(error.wait_s)))
    return _answer(request, error.status, error.kind, error.message, error.hint, headers=headers)


def _told_by_framework(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    kind = {404: "not_found", 405: "method"}.get(error.status_code, "usage")
    headers, message = dict(error.headers or {}), str(error.detail)
    if kind == "not_found":
        message = f"there is nothing at {request.url.path[:200]}"
    elif kind == "method":
        headers["Allow"] = ", ".join(allowed := _allowed(request))
        message = f"{request.method} means nothing here, only {', '.join(allowed)}"
    return _answer(request, error.status_code, kind, message, None, headers=headers)


def _allowed(request: Request) -> list[str]:
    """Return the methods that a path knows: the framework tells only those of the first route that it finds."""
    routes = (route for route, _ in declared(request.app) if route.path_regex.match(request.url.path))
    return sorted({method for route in routes for method in route.methods or ()})


def _told_of_input(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    wrong = [(".".join(str(each) for each in one["loc"]), str(one["msg"])) for one in error.errors()]
    return _answer(request, 422, "usage", "; ".join(f"{place}: {why}" for place, why in wrong[:10]), None)


def answer_of_bug(request: Request) -> Response:
    """Return the answer where the app failed in a way that nobody foresaw; what it was is for the log only."""
    return _answer(request, 500, "bug", "this is a bug in crawlctl; the server's log has the details", None)


def _answer(
    request: Request,
    status: int,
    kind: str,
    message: str,
    hint: str | None,
    *,
    headers: Mapping[str, str] | None = None,
) -> Response:
    title = TITLES.get(status, "That went wrong")
    if wants_json(request):
        body = {"type": "about:blank", "title": title, "status": status, "detail": message}
        return JSONResponse(
            body | {"error": {"kind": kind, "message": message, "hint": hint}},
            status,
            headers=dict(headers or {}),
            media_type=PROBLEM_TYPE,
        )
    visitor = _visitor(request)
    shown = page(request, "error.html", visitor=visitor, status=status, title=title, message=message, hint=hint)
    shown.headers.update(headers or {})
    return shown


def _visitor(request: Request) -> Visitor | None:
    """Return who is to see an error's page, for what stands around it."""
    try:
        return visitor_of(request)
    except CrawlctlError:
        return None
