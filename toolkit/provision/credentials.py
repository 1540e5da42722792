"""The one generated password of a state folder, for its nodes and its local Redis, and where it applies.

Cheap enough for every command: it reads two small files, and loads nothing.
"""

from __future__ import annotations

import json
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Host, Secret
from toolkit.provision import private_files

if TYPE_CHECKING:
    from toolkit.config.inventory import Inventory

USERNAME = "crawlctl"
PASSWORD_FILE = "password"  # noqa: S105 - a file's name
PROVISIONED_FILE = "provisioned.json"
REDIS_FOLDER = "redis"
NODES_FOLDER = "nodes"
ADDRESS_FILE = "address"
_LOOPBACK = {"localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1", "::1": "::1"}


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where a Redis of this machine listens; `password` is the one in the URL."""

    address: str
    port: int
    password: Secret | None

    @property
    def place(self) -> str:
        """Address and port as one text."""
        return f"{self.address}:{self.port}"


def local_password(folder: Path) -> Secret:
    """Return the folder's password, generated at the first call; of two first callers one generates it.

    Raises:
        ConfigurationError: the file cannot be written or read, or others could read it.

    """
    path = private_files.make_folder(folder) / PASSWORD_FILE
    if not path.exists():
        private_files.create(path, secrets.token_urlsafe(24) + "\n")
    password = read_local_password(folder)
    if password is None:
        raise ConfigurationError(f"{path} holds no password", hint=f"remove it, so that a new one is made: rm {path}")
    return password


def read_local_password(folder: Path) -> Secret | None:
    """Return the folder's password, or `None` if none was generated yet.

    Raises:
        ConfigurationError: the file cannot be read, or others than its owner may read or write it.

    """
    path = folder / PASSWORD_FILE
    text = (private_files.read(path) or "").strip()
    if not text:
        return None
    with private_files.disk_errors(path, "read"):
        mode = stat.S_IMODE(path.stat().st_mode)
    if mode & private_files.OTHERS:
        raise ConfigurationError(
            f"{path} can be read by others (mode {mode:04o})",
            hint=f"have a new password made: crawlctl down && rm {path} && crawlctl up",
        )
    return Secret(text)


def with_local_credentials(inventory: Inventory, folder: Path) -> Inventory:
    """Return the inventory as the folder's servers want it: passwords filled in where it names none.

    Local hosts without a password get the generated one, and user name `crawlctl` unless they name another; so do hosts
    that were provisioned with it, for the address that they had then. The Redis URL gets it only while `crawlctl up`
    keeps a Redis at that very address.
    """
    password = read_local_password(folder)
    if password is None:
        return inventory
    ours = provisioned_places(folder)
    hosts = tuple(
        with_password(host, password) if host.is_local or ours.get(host.name) == host.url else host
        for host in inventory.hosts
    )
    return replace(inventory, hosts=hosts, redis=_redis_url(inventory.redis, folder, password))


def redis_address(url: Secret | None) -> RedisAddress | None:
    """Return where a Redis would have to be started for this URL; `None` if it is not one of this machine.

    Only `redis://` with a loopback address, a port and no user name can be served by `crawlctl up`.
    """
    if url is None:
        return None
    try:
        parts = urlsplit(url.reveal())
        port = parts.port
    except ValueError:
        return None
    address = _LOOPBACK.get(parts.hostname or "")
    if parts.scheme != "redis" or address is None or port is None or parts.username not in {None, "", "default"}:
        return None
    return RedisAddress(address, port, Secret(unquote(parts.password)) if parts.password else None)


def with_redis_password(url: Secret, password: Secret) -> Secret:
    """Return the URL with this password in place of any credentials in it."""
    parts = urlsplit(url.reveal())
    place = parts.netloc.rpartition("@")[2]
    return Secret(urlunsplit(parts._replace(netloc=f":{quote(password.reveal(), safe='')}@{place}")))


def with_password(host: Host, password: Secret) -> Host:
    """Return the host with this password, unless it brings its own."""
    if host.password is not None:
        return host
    return replace(host, username=host.username or USERNAME, password=password)


def provisioned_places(folder: Path) -> Mapping[str, str]:
    """Return the URL of each host that was given the generated password; a file that cannot be read names none."""
    try:
        noted = json.loads(private_files.read(folder / PROVISIONED_FILE) or "{}")
    except ValueError:
        return {}
    return {str(name): str(url) for name, url in noted.items()} if isinstance(noted, dict) else {}


def note_provisioned(folder: Path, host: Host) -> None:
    """Remember that the host at this URL has the generated password, so that commands send it there.

    To no other address is it ever sent: one that is changed in the inventory has to be provisioned first. Of two runs
    at once neither forgets what the other notes.
    """
    with private_files.changing(folder):
        known = provisioned_places(folder)
        if known.get(host.name) != host.url:
            private_files.write(folder / PROVISIONED_FILE, json.dumps({**known, host.name: host.url}, indent=1) + "\n")


def forget_provisioned(folder: Path, name: str) -> None:
    """Send the generated password to this host no more."""
    with private_files.changing(folder):
        known = dict(provisioned_places(folder))
        if known.pop(name, None) is not None:
            private_files.write(folder / PROVISIONED_FILE, json.dumps(known, indent=1) + "\n")


def _redis_url(url: Secret | None, folder: Path, password: Secret) -> Secret | None:
    wanted = redis_address(url)
    if url is None or wanted is None or wanted.password is not None:
        return url
    if (private_files.read(folder / REDIS_FOLDER / ADDRESS_FILE) or "").strip() != wanted.place:
        return url
    return with_redis_password(url, password)
