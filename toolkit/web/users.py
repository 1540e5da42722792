"""The pages of one's own account, and of all users and their tokens for those who administer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Form, Path, Request, Response

from toolkit.model.accounts import ApiToken, Role, check_role
from toolkit.model.errors import NotFoundError, RefusedError, UsageError
from toolkit.web.limits import keys_of
from toolkit.web.own_paths import see_other
from toolkit.web.refusals import ForbiddenError, TooOftenError
from toolkit.web.rendering import page
from toolkit.web.saying import go, refused
from toolkit.web.sign_in import MAX_FIELD_CHARS, Field, address_of, set_session
from toolkit.web.trail import noted
from toolkit.web.visitor import Administering, Looking, Visitor

router = APIRouter(include_in_schema=False)
DAY_S = 86400.0
REFUSALS = (UsageError, RefusedError, NotFoundError)
UserName = Annotated[str, Path(max_length=100)]
TokenId = Annotated[str, Path(max_length=100)]


@router.get("/account")
def account(request: Request, visitor: Looking) -> Response:
    """Show who is signed in, and the form for another password."""
    return page(request, "account.html", visitor=visitor)


@router.post("/account/password")
def change_password(
    request: Request, visitor: Looking, password: Field = "", fresh: Field = "", again: Field = ""
) -> Response:
    """Change one's own password by the present one; every other session of the user ends."""
    served, address = visitor.served, address_of(request)
    keys = keys_of(visitor.name, address, device=visitor.session)
    if (wait_s := served.limits.try_(keys)) > 0:
        raise TooOftenError("too many tries", wait_s=wait_s)
    try:
        with noted(visitor, "web users password", visitor.name, address=address):
            if not served.accounts.is_right(visitor.name, password):
                raise ForbiddenError("the present password is wrong")
            served.limits.forgive(keys)
            _set_password(visitor, fresh, again)
    except UsageError as error:
        return refused("/account", error)
    response = go("/account", "Your password is changed; other browsers are signed out.")
    set_session(request, response, visitor.name)
    return response


@router.post("/account/sign-out-others")
def sign_out_others(request: Request, visitor: Looking) -> Response:
    """End the user's other sessions."""
    with noted(visitor, "web sign-out", visitor.name, address=address_of(request)):
        count = visitor.served.sessions.end_others(visitor.name, but=visitor.session or "")
    return go("/account", f"{count} other browser(s) are signed out.")


@router.get("/users")
def users(request: Request, visitor: Administering) -> Response:
    """Show all users and tokens."""
    return _users_page(request, visitor)


@router.post("/users")
def add_user(
    request: Request, visitor: Administering, name: Field = "", role: Field = Role.LOOK.value, password: Field = ""
) -> Response:
    """Add a user."""

    def act() -> str:
        user = visitor.served.accounts.add(name.strip().lower(), check_role(role), password)
        return f"{user.name} may sign in, and {user.role.value}."

    return _done(request, visitor, "web users add", name, act)


@router.post("/users/{name}/role")
def change_role(request: Request, visitor: Administering, name: UserName, role: Field = "") -> Response:
    """Give a user another role; the user is signed out."""

    def act() -> str:
        user = visitor.served.accounts.set_role(name, check_role(role))
        return f"{user.name} may {user.role.value} now, and has to sign in again."

    return _done(request, visitor, "web users role", name, act)


@router.post("/users/{name}/password")
def give_password(request: Request, visitor: Administering, name: UserName, password: Field = "") -> Response:
    """Give a user another password; the user is signed out."""

    def act() -> str:
        visitor.served.accounts.set_password(name, password)
        return f"{name} has another password, and is signed out."

    return _done(request, visitor, "web users password", name, act)


@router.post("/users/{name}/remove")
def remove_user(request: Request, visitor: Administering, name: UserName) -> Response:
    """Remove a user with all sessions and tokens."""

    def act() -> str:
        if name == visitor.name:
            raise UsageError("nobody removes himself here", hint=f"crawlctl web users remove {name}")
        visitor.served.accounts.remove(name)
        return f"{name} is removed."

    return _done(request, visitor, "web users remove", name, act)


@router.post("/users/{name}/tokens")
def make_token(
    request: Request,
    visitor: Administering,
    name: UserName,
    *,
    label: Field = "",
    role: Field = Role.LOOK.value,
    days: Annotated[str, Form(max_length=MAX_FIELD_CHARS)] = "",
) -> Response:
    """Make a token for a user's program, and show it this once."""
    try:
        with noted(visitor, "web tokens make", name, address=address_of(request)):
            token = visitor.served.sessions.make_token(name, check_role(role), label=label, ttl_s=_seconds(days))
    except REFUSALS as error:
        return refused("/users", error)
    return _users_page(request, visitor, made=token)


@router.post("/tokens/{token_id}/revoke")
def revoke_token(request: Request, visitor: Administering, token_id: TokenId) -> Response:
    """Take a token away; programs with it are refused at once."""

    def act() -> str:
        token = visitor.served.sessions.revoke(token_id)
        return f"The token {token.label} of {token.user} is revoked."

    return _done(request, visitor, "web tokens revoke", token_id, act)


@router.get("/tokens")
def tokens(_visitor: Administering) -> Response:
    """Tokens are shown beside their users."""
    return see_other("/users")


def _set_password(visitor: Visitor, fresh: str, again: str) -> None:
    if fresh != again:
        raise UsageError("the two new passwords are not the same")
    visitor.served.accounts.set_password(visitor.name, fresh)


def _done(request: Request, visitor: Visitor, action: str, subject: str, act: Callable[[], str]) -> Response:
    """Do what is noted in the audit, and let the page of users say how it went."""
    try:
        with noted(visitor, action, subject, address=address_of(request)):
            text = act()
    except REFUSALS as error:
        return refused("/users", error)
    return go("/users", text)


def _users_page(request: Request, visitor: Visitor, *, made: tuple[ApiToken, str] | None = None) -> Response:
    served = visitor.served
    return page(
        request,
        "users.html",
        visitor=visitor,
        made=None if made is None else {"token": made[0], "secret": made[1]},
        users=served.accounts.users(),
        tokens=served.sessions.tokens(),
        roles=list(Role),
    )


def _seconds(days: str) -> float | None:
    if not days.strip():
        return None
    try:
        return int(days) * DAY_S
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{days[:20]!r} is no number of days") from error
