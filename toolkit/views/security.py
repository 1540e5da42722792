"""How keys, signed releases, and the users and settings of Redis are shown. No secret is ever part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toolkit.views.view import Styled, View, plain_table

if TYPE_CHECKING:
    from pathlib import Path

    from toolkit.model.releases import Release
    from toolkit.store.acl import RedisUser
    from toolkit.store.redis_settings import ServerReport, Setting
    from toolkit.trust.keys import PublicKey
    from toolkit.views.view import FittedTable

ACTIONS = {"planned": "yellow", "changed": "green", "failed": "red"}
STATES = {"trusted": "green", "revoked": "red", "not trusted": "yellow"}


def key_row(key: PublicKey, *, state: str, is_own: bool) -> dict[str, Any]:
    """Show one public key: trusted, revoked, or neither, and whether releases are signed with it here."""
    return {"id": key.id, "name": key.name, "state": state, "own": is_own, "key": str(key)}


def keys_view(rows: Sequence[dict[str, Any]]) -> View:
    """Show a list of keys."""
    return View(list(rows), lambda: _keys_table(rows))


def key_view(row: dict[str, Any]) -> View:
    """Show one key in whole; as a table it is the line that somebody else's list needs."""
    return View(row, lambda: row["key"])


def signed_view(releases: Sequence[Release], signers: Sequence[Sequence[str]]) -> View:
    """Show which releases are signed, and by which keys."""
    rows = list(zip(releases, signers, strict=True))
    data = [
        {"project": each.project, "version": each.version, "digest": each.digest, "signed_by": list(ids)}
        for each, ids in rows
    ]
    shown = [(each.project, each.version, each.digest[:12], ", ".join(ids)) for each, ids in rows]
    return View(data, lambda: plain_table("PROJECT", "VERSION", "DIGEST", "SIGNED BY", rows=shown))


def users_view(users: Sequence[tuple[RedisUser, str, Path | None]]) -> View:
    """Show the users of Redis with their rules; what was done with each, and where its URL is, if it has one yet."""
    data = [
        {
            "name": user.name,
            "role": user.role.value,
            "action": action,
            "url_file": None if file is None else str(file),
            "commands": list(user.commands),
            "keys": list(user.keys),
            "channels": list(user.channels),
        }
        for user, action, file in users
    ]
    return View(data, lambda: _users_table(users))


def configured_view(reports: Sequence[ServerReport]) -> View:
    """Show each server's settings beside those that are wanted, and what was done about them."""
    return View([_server_row(each) for each in reports], lambda: _servers_table(reports))


def _server_row(report: ServerReport) -> dict[str, Any]:
    return {
        "server": report.place,
        "role": report.role,
        "settings": [
            {"name": each.name, "value": each.value, "wanted": each.wanted, "action": _action(report, each)}
            for each in report.settings
        ],
        "survives_restart": report.survives_restart,
        "notes": list(report.notes),
        "error": _why(report),
        "hint": None if report.error is None else report.error.hint,
    }


def _action(report: ServerReport, setting: Setting) -> str:
    if not setting.differs:
        return "none"
    return "failed" if report.error else "changed" if report.is_applied else "planned"


def _why(report: ServerReport) -> str | None:
    """Say why a server failed, without its address, which stands beside it."""
    return None if report.error is None else str(report.error).removeprefix(f"the shared store at {report.place}: ")


def _servers_table(reports: Sequence[ServerReport]) -> FittedTable:
    rows: list[tuple[object, ...]] = []
    for report in reports:
        for each in report.settings:
            action = _action(report, each)
            mark = Styled(action, ACTIONS[action]) if action in ACTIONS else ""
            rows.append((report.place, report.role, each.name, each.value, each.wanted, mark))
        if report.error is not None:
            told = " -> ".join(each for each in (_why(report), report.error.hint) if each)
            rows.append((report.place, report.role, None, None, None, Styled(told, "red")))
    return plain_table("SERVER", "ROLE", "SETTING", "VALUE", "WANTED", "", rows=rows)


def _keys_table(rows: Sequence[dict[str, Any]]) -> FittedTable:
    shown = [
        (row["id"], row["name"], Styled(row["state"], STATES[row["state"]]), "yours" if row["own"] else None)
        for row in rows
    ]
    return plain_table("KEY", "NAME", "STATE", "", rows=shown)


def _users_table(users: Sequence[tuple[RedisUser, str, Path | None]]) -> FittedTable:
    rows = [
        (user.name, action, len(user.commands), _reach(user), None if file is None else str(file))
        for user, action, file in users
    ]
    names = ("USER", "", "COMMANDS", "REACHES", "URL IN")
    return plain_table(*names, rows=rows, right=("COMMANDS",), optional=("URL IN",))


def _reach(user: RedisUser) -> str:
    words = {
        "operator": "the whole cluster, and all crawls",
        "node": "jobs, nodes and crawls; what is released it only reads",
        "spider": "crawls alone",
    }
    return words[user.role.value]
