"""What a user of the pages may do: look, operate, administer; each includes the ones before it."""

from __future__ import annotations

from enum import StrEnum

from toolkit.model.errors import UsageError


class Role(StrEnum):
    """A user's role, and the right that a page or an act of the API asks for."""

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
        raise UsageError(f"there is no role {text!r}", hint=f"one of: {', '.join(Role)}") from error
