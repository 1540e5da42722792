"""The pages of one's own account, and of all users and their tokens for those who administer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Path, Request, Response

from toolkit.model.accounts import ApiToken, Role, check_role
from toolkit.model.errors import UsageError
from toolkit.web.limits import keys_of
from toolkit.web.own_paths import see_other
from toolkit.web.refusals import ForbiddenError, TooOftenError
from toolkit.web.rendering import page
from toolkit.web.saying import go
from toolkit.web.sign_in import MAX_FIELD_CHARS, Field, address_of, set_session
from toolkit.web.trail import noted
from toolkit.web.visitor import Administering, Looking, Visitor

router = APIRouter(include_in_schema=False)
DAY_S = 86400.0
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
    with noted(visitor, "web users password", visitor.name, address=address):
        if not served.accounts.is_right(visitor.name, password):
            raise ForbiddenError("the present password is wrong")
        served.limits.forgive(keys)
        if fresh != again:
            raise UsageError("the two new passwords are not the same")
        served.accounts.set_password(visitor.name, fresh)
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
    with noted(visitor, "web users add", name, address=address_of(request)):
        user = visitor.served.accounts.add(name.strip().lower(), check_role(role), password)
    return go("/users", f"{user.name} may sign in, and {user.role.value}.")


@router.post("/users/{name}/role")
def change_role(request: Request, visitor: Administering, name: UserName, role: Field = "") -> Response:
    """Give a user another role; the user is signed out."""
    with noted(visitor, "web users role", name, address=address_of(request)):
        user = visitor.served.accounts.set_role(name, check_role(role))
    return go("/users", f"{user.name} may {user.role.value} now, and has to sign in again.")


@router.post("/users/{name}/password")
def give_password(request: Request, visitor: Administering, name: UserName, password: Field = "") -> Response:
    """Give a user another password; the user is signed out."""
    with noted(visitor, "web users password", name, address=address_of(request)):
        visitor.served.accounts.set_password(name, password)
    return go("/users", f"{name} has another password, and is signed out.")


@router.post("/users/{name}/remove")
def remove_user(request: Request, visitor: Administering, name: UserName) -> Response:
    """Remove a user with all sessions and tokens."""
    with noted(visitor, "web users remove", name, address=address_of(request)):
        if name == visitor.name:
            raise UsageError("nobody removes himself here", hint=f"crawlctl web users remove {name}")
        visitor.served.accounts.remove(name)
    return go("/users", f"{name} is removed.")


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
    with noted(visitor, "web tokens make", name, address=address_of(request)):
        token = visitor.served.sessions.make_token(name, check_role(role), label=label, ttl_s=_seconds(days))
    return _users_page(request, visitor, made=token)


@router.post("/tokens/{token_id}/revoke")
def revoke_token(request: Request, visitor: Administering, token_id: TokenId) -> Response:
    """Take a token away; programs with it are refused at once."""
    with noted(visitor, "web tokens revoke", token_id, address=address_of(request)):
        token = visitor.served.sessions.revoke(token_id)
    return go("/users", f"The token {token.label} of {token.user} is revoked.")


@router.get("/tokens")
def tokens(_visitor: Administering) -> Response:
    """Tokens are shown beside their users."""
    return see_other("/users")


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
    except ValueError as error:
        raise UsageError(f"{days[:20]!r} is no number of days") from error
