"""How the users of the pages and the tokens of their programs are shown; a token's text only when it is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolkit.model.accounts import ApiToken, User
from toolkit.views.contract import time_text
from toolkit.views.view import View, plain_table


def user_row(user: User) -> dict[str, Any]:
    """Show who may sign in, and what that user may do."""
    return {"name": user.name, "role": user.role.value, "created_at": time_text(user.created_at)}


def token_row(token: ApiToken) -> dict[str, Any]:
    """Show what is known of a token."""
    return {
        "id": token.id,
        "user": token.user,
        "role": token.role.value,
        "label": token.label,
        "created_at": time_text(token.created_at),
        "expires_at": time_text(token.expires_at),
        "used_at": time_text(token.used_at),
    }


def accounts_view(users: Sequence[User]) -> View:
    """Show a list of users."""
    rows = [(user.name, user.role.value, time_text(user.created_at)) for user in users]
    return View([user_row(user) for user in users], lambda: plain_table("USER", "MAY", "SINCE", rows=rows))


def account_view(user: User) -> View:
    """Show one user."""
    return View(user_row(user), accounts_view([user]).table)


def tokens_view(tokens: Sequence[ApiToken]) -> View:
    """Show a list of tokens."""
    rows = [
        (each.id, each.user, each.role.value, each.label, *(time_text(at) for at in (each.expires_at, each.used_at)))
        for each in tokens
    ]
    columns = ("TOKEN", "USER", "MAY", "FOR", "UNTIL", "LAST USED")
    return View([token_row(each) for each in tokens], lambda: plain_table(*columns, rows=rows))


def made_token_view(token: ApiToken, secret: str) -> View:
    """Show a token that was just made, with its text: nobody can read it again."""
    return View(token_row(token) | {"token": secret}, lambda: secret)
