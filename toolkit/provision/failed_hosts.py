"""The hosts on which the last work over SSH failed, kept in the state folder: `--on @failed` picks them."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.model.errors import NotFoundError
from toolkit.model.names import NodeName
from toolkit.provision import private_files

if TYPE_CHECKING:
    from toolkit.config.inventory import Inventory

FAILED = "@failed"
_FILE = "failed-hosts.json"


def failed_hosts(state_folder: Path) -> tuple[NodeName, ...]:
    """Return the names, in the order in which they failed; a file that cannot be read has none."""
    try:
        noted = json.loads(private_files.read(state_folder / _FILE) or "[]")
    except ValueError:
        return ()
    return tuple(NodeName(name) for name in noted if isinstance(name, str)) if isinstance(noted, list) else ()


def remember_failed(state_folder: Path, *, tried: Collection[NodeName], failed: Collection[NodeName]) -> None:
    """Note which of the tried hosts failed now; what is known of others stays."""
    with private_files.changing(state_folder):
        before = failed_hosts(state_folder)
        after = [name for name in before if name not in set(tried)] + list(failed)
        if list(before) != after:
            private_files.write(state_folder / _FILE, json.dumps(after) + "\n")


def with_failed(inventory: Inventory, pattern: str | None, state_folder: Path) -> Inventory:
    """Return the inventory with the group `@failed` where the pattern asks for it; hosts that have left it are not in.

    Raises:
        NotFoundError: none has failed.

    """
    if pattern is None or FAILED not in pattern:
        return inventory
    names = {host.name for host in inventory.hosts}
    failed = tuple(name for name in failed_hosts(state_folder) if name in names)
    if not failed:
        raise NotFoundError(f"{FAILED}: no host failed when hosts were last provisioned")
    return replace(inventory, groups={**inventory.groups, FAILED: failed})
