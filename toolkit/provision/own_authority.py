"""Which hosts trust crawlctl's own authority, where it lies. Cheap enough for every command: it loads nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolkit.config.inventory import Inventory
    from toolkit.model.hosts import Host

FOLDER, CERTIFICATE, KEY, HOSTS = "authority", "ca.pem", "ca.key", "hosts"


def authority_file(state_folder: Path) -> Path:
    """Return where the certificate of a state folder's authority lies, or would."""
    return state_folder / FOLDER / CERTIFICATE


def with_own_authority(inventory: Inventory, state_folder: Path) -> Inventory:
    """Return the inventory with the authority laid in for the hosts whose certificates it makes, and for no others."""
    if not any(_is_concerned(host) for host in inventory.hosts):
        return inventory
    ca_file = str(authority_file(state_folder))
    hosts = tuple(replace(host, ca_file=ca_file) if _is_concerned(host) else host for host in inventory.hosts)
    return replace(inventory, hosts=hosts)


def _is_concerned(host: Host) -> bool:
    return host.provision.tls == "generated" and host.ca_file is None
