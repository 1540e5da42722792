"""Signing in and out, and making the first user: what anybody may ask, so each step bounds what can be tried."""

from __future__ import annotations

import hmac
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query, Request, Response

from toolkit.model.accounts import Role
from toolkit.model.errors import CrawlctlError, UsageError
from toolkit.web.limits import Allowance, Key, keys_of
from toolkit.web.own_paths import own_path, see_other
from toolkit.web.refusals import ForbiddenError, TooOftenError
from toolkit.web.rendering import page
from toolkit.web.served import Served
from toolkit.web.sessions import ABSOLUTE_S, DEVICE_S
from toolkit.web.trail import note
from toolkit.web.visitor import Looking, anyone, cookie_name, is_secure, served_by, visitor_of

router = APIRouter(include_in_schema=False)
open_router = APIRouter(include_in_schema=False, dependencies=[Depends(anyone)])
UNKNOWN = "unknown"
WRONG = "The name or the password is wrong."
MAX_FIELD_CHARS = 600
Field = Annotated[str, Form(max_length=MAX_FIELD_CHARS)]


@open_router.get("/sign-in")
def sign_in_page(request: Request, next_: Annotated[str, Query(alias="next", max_length=2000)] = "/") -> Response:
    """Show the form; whoever is signed in goes on."""
    if visitor_of(request) is not None:
        return see_other(next_)
    return _form(request, next_)


@open_router.post("/sign-in")
def sign_in(
    request: Request,
    name: Field = "",
    password: Field = "",
    next_: Annotated[str, Form(alias="next", max_length=2000)] = "/",
) -> Response:
    """Begin a session; an unknown user and a wrong password get the same answer in the same time."""
    served, account, address = served_by(request), name.strip().lower()[:MAX_FIELD_CHARS], address_of(request)
    device = request.cookies.get(_device_cookie(request), "")
    is_known_device = served.sessions.is_device_of(account, device)
    keys = keys_of(account, address, device=device if is_known_device else None)
    wait_s = served.limits.try_(keys)
    if wait_s > 0:
        _note_failure(served, account, "limited", address=address)
        too_often = TooOftenError("Too many tries.", wait_s=wait_s)
        return _form(request, next_, account, f"{too_often.message} {too_often.hint}.", error=too_often)
    if not served.accounts.is_right(account, password):
        _note_failure(served, account, "refused", address=address)
        return _form(request, next_, account, WRONG, status=401)
    return _welcome(request, account, next_, keys=keys, is_known_device=is_known_device)


@router.post("/sign-out")
def sign_out(request: Request, visitor: Looking) -> Response:
    """End the session."""
    if visitor.session is not None:
        visitor.served.sessions.end(visitor.session)
    note(visitor.served, "sign-out", visitor.name, "done", address=address_of(request), who=visitor.who)
    response = see_other("/sign-in")
    response.delete_cookie(cookie_name(request), **_cookie_rules(request))
    response.headers["Clear-Site-Data"] = '"cache"'
    return response


@open_router.get("/setup")
def setup_page(request: Request, key: Annotated[str, Query(max_length=MAX_FIELD_CHARS)] = "") -> Response:
    """Show the form that makes the first user, to who has the key from the terminal."""
    _check_setup(served_by(request), key)
    return page(request, "setup.html", key=key, problem=None, account="")


@open_router.post("/setup")
def setup(request: Request, key: Field = "", name: Field = "", password: Field = "", again: Field = "") -> Response:
    """Make the first user, who may administer, and sign in; it works once."""
    served, account = served_by(request), name.strip().lower()
    _check_setup(served, key)
    problem = None if password == again else "The two passwords are not the same."
    try:
        if problem is None:
            served.accounts.add(account, Role.ADMINISTER, password, must_be_first=True)
    except UsageError as error:
        problem = told(error)
    if problem is not None:
        return page(request, "setup.html", status=422, key=key, problem=problem, account=account)
    note(served, "web setup", account, "done", address=address_of(request))
    return _welcome(request, account, "/", keys=[], is_known_device=False)


@open_router.api_route("/healthz", methods=["GET", "HEAD"])
async def health(request: Request) -> Response:
    """Say that this process serves; it asks nothing else."""
    return Response("stopping\n" if served_by(request).stopping.is_set() else "ok\n", media_type="text/plain")


def address_of(request: Request) -> str:
    """Return where a request came from, by the connection or by a proxy that is trusted."""
    return "" if request.client is None else request.client.host


def _welcome(
    request: Request, account: str, to: str, *, keys: list[tuple[Key, Allowance]], is_known_device: bool
) -> Response:
    """Begin a session of its own, whatever the browser had before, and remember the browser."""
    served = served_by(request)
    served.limits.forgive(keys)
    served.sessions.end(request.cookies.get(cookie_name(request), ""))
    note(served, "sign-in", account, "done", address=address_of(request))
    response = see_other(own_path(to))
    set_session(request, response, account, remembers=not is_known_device)
    return response


def set_session(request: Request, response: Response, account: str, *, remembers: bool = True) -> None:
    """Begin a session and give it to the browser; with `remembers` it is known as one of the user's from now on."""
    served, rules = served_by(request), _cookie_rules(request)
    secret = served.sessions.begin(account, address=address_of(request))
    response.set_cookie(cookie_name(request), secret, max_age=int(ABSOLUTE_S), **rules)
    if remembers:
        device = served.sessions.remember_device(account)
        response.set_cookie(_device_cookie(request), device, max_age=int(DEVICE_S), **rules)


def _form(
    request: Request,
    next_: str,
    account: str = "",
    problem: str | None = None,
    *,
    status: int = 200,
    error: TooOftenError | None = None,
) -> Response:
    status = status if error is None else error.status
    shown = page(
        request,
        "sign_in.html",
        status=status,
        next=own_path(next_),
        account=account,
        problem=problem,
        nobody_may=not served_by(request).accounts.users(),
    )
    if error is not None:
        shown.headers["Retry-After"] = str(max(1, round(error.wait_s)))
    return shown


def _note_failure(served: Served, account: str, result: str, *, address: str) -> None:
    """Note a failure under its user's name; a word that is no user's name may be somebody's password."""
    is_known = served.accounts.get(account) is not None
    if served.noted_failures.admits():
        note(served, "sign-in", account if is_known else UNKNOWN, result, address=address)


def _check_setup(served: Served, key: str) -> None:
    is_key = served.setup_key is not None and hmac.compare_digest(key.encode(), served.setup_key.encode())
    if not is_key or served.accounts.users():
        raise ForbiddenError(
            "the first user is made by the link that `crawlctl web` prints, once",
            hint="or on the server: crawlctl web users add NAME --role administer",
        )


def _device_cookie(request: Request) -> str:
    return f"{cookie_name(request)}_device"


def _cookie_rules(request: Request) -> dict[str, Any]:
    return {"path": "/", "secure": is_secure(request), "httponly": True, "samesite": "strict"}


def told(error: CrawlctlError) -> str:
    """Tell a refusal in one line, for the form that it belongs to."""
    return error.message + (f" ({error.hint})" if error.hint else "")
