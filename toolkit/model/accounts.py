"""Who may use the pages and the HTTP API: users, their roles, and the tokens of their programs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from toolkit.model.errors import UsageError


class Role(StrEnum):
    """A user's role, and the right that a page or an act asks for; each includes the ones before it."""

    LOOK = "look"
    """Read everything, logs included."""
    OPERATE = "operate"
    """Schedule, cancel, pause, tune and retry jobs; steer crawls; run and pause crons; drain and resume nodes."""
    ADMINISTER = "administer"
    """Roll back releases, define crons, change users and their tokens."""

    def allows(self, needed: Role) -> bool:
        """Say whether who has this role may do what needs that one."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may sign in."""

    name: str
    role: Role
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ApiToken:
    """What is known of a program's token; never the token itself. It allows no more than its user's present role."""

    id: str
    user: str
    role: Role
    label: str
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None


def least(one: Role, other: Role) -> Role:
    """Return the role of the two that allows less."""
    return other if one.allows(other) else one


def check_role(text: str) -> Role:
    """Return the role of this name.

    Raises:
        UsageError: there is none.

    """
    try:
        return Role(text)
    except ValueError as error:
        raise UsageError(f"there is no role {text[:40]!r}", hint=f"one of: {', '.join(Role)}") from error
