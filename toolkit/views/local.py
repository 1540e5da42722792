"""How local servers, the inventory and its hosts are shown."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.config.inventory import Inventory
from toolkit.model.hosts import Host
from toolkit.model.outcomes import Outcomes
from toolkit.model.servers import LocalProcess
from toolkit.views.contract import host_row
from toolkit.views.view import Styled, View, plain_table


def servers_view(outcomes: Outcomes[LocalProcess]) -> View:
    """Show what was done about each local server."""
    data = [
        {
            "name": each.node,
            "ok": each.ok,
            "action": each.value.action if each.value else None,
            "address": each.value.address if each.value else None,
            "pid": each.value.pid if each.value else None,
            "note": each.value.note or None if each.value else None,
            "error": str(each.error) if each.error else None,
        }
        for each in outcomes
    ]
    rows = [
        (
            row["name"],
            Styled(str(row["action"]), "green") if row["ok"] else Styled("failed", "red"),
            row["address"],
            row["pid"],
            row["error"] or row["note"],
        )
        for row in data
    ]
    return View({"servers": data}, lambda: plain_table("SERVER", "ACTION", "ADDRESS", "PID", "NOTE", rows=rows))


def hosts_view(hosts: Sequence[Host]) -> View:
    """Show hosts, a line each."""
    rows = [
        (
            host.name,
            host.url,
            host.connection,
            ", ".join(sorted(host.groups)) or None,
            ", ".join(f"{key}={value}" for key, value in sorted(host.labels.items())) or None,
        )
        for host in hosts
    ]
    data = [host_row(host) for host in hosts]
    return View(data, lambda: plain_table("HOST", "URL", "CONNECTION", "GROUPS", "LABELS", rows=rows))


def host_details_view(hosts: Sequence[Host]) -> View:
    """Show every variable of each host, secrets masked."""
    data = [host_row(host) for host in hosts]
    rows = [
        (row["name"] if key == "address" else "", key, _written(value))
        for row in data
        for key, value in row.items()
        if key != "name"
    ]
    return View(data, lambda: plain_table("HOST", "VARIABLE", "VALUE", rows=rows))


def checked_view(inventory: Inventory) -> View:
    """Show that an inventory is right, and what is in it."""
    data = {
        "file": str(inventory.path),
        "hosts": len(inventory.hosts),
        "groups": {name: len(members) for name, members in inventory.groups.items()},
        "redis": inventory.redis is not None,
        "mistakes": [],
    }
    groups = ", ".join(f"{name} ({len(members)})" for name, members in inventory.groups.items())
    rows = [
        ("file", inventory.path),
        ("hosts", len(inventory.hosts)),
        ("groups", groups or None),
        ("redis", "yes" if inventory.redis else "none: releases and job records stay on this machine"),
    ]
    return View(data, lambda: plain_table("INVENTORY", "", rows=rows))


def _written(value: object) -> object:
    """Write what a host has several of as `key=value` pairs, or as a list."""
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items() if item is not None) or None
    return ", ".join(map(str, value)) or None if isinstance(value, list) else value
