"""The Redis users of one inventory: made in Redis, their passwords and URLs kept in the state folder, private (0600).

Passwords are generated, and never shown. After a rotation the former ones count too, until the users are put again: so
the nodes can be provisioned with the new ones while they work.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlunsplit

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret
from toolkit.provision import private_files
from toolkit.provision.credentials import ADDRESS_FILE, REDIS_FOLDER, redis_address
from toolkit.store.acl import RedisUser, Role, user_name, users_of
from toolkit.store.address import split_url

if TYPE_CHECKING:
    from toolkit.config.inventory import Inventory

FOLDER = "redis-users"
_WILL_BE_WRITTEN_ANEW = "crawlctl up writes that Redis' configuration anew; put the users again after each crawlctl up"


@dataclass(frozen=True, slots=True)
class PutUser:
    """What was done with one user (`made`, `changed`), and the private file with the URL that has its password."""

    user: RedisUser
    action: str
    url_file: Path


@dataclass(frozen=True, slots=True)
class PutUsers:
    """What was done where; `unkept` says why a restart of the server forgets the users, if it does."""

    place: str
    users: tuple[PutUser, ...]
    unkept: str | None = None


def put_users(
    inventory: Inventory, state_folder: Path, *, rotate: bool = False, crawl_keys: tuple[str, ...] = ()
) -> PutUsers:
    """Make the users of the inventory's cluster in its Redis, or bring them to what they should be. Idempotent.

    With `rotate` each gets a new password, beside which the former one counts until the next call without it.

    Raises:
        ConfigurationError: the inventory names no Redis, or the state folder cannot be written.
        RefusedError: the URL's user may not administer users.
        StoreUnreachableError: Redis does not answer.

    """
    from toolkit.store.redis_users import RedisUsers  # noqa: PLC0415 - loading the redis library takes 0.1 s

    url = admin_url(inventory)
    folder = private_files.make_folder(state_folder / FOLDER)
    users = users_of(inventory.cluster, crawl_keys=crawl_keys)
    door = RedisUsers(url)
    try:
        there = door.names()
        for user in users:
            # On disk first: a password that nobody knows would lock the nodes out.
            valid = _renewed(folder, user.role) if rotate else _current(folder, user.role)
            door.put(user, *valid)
        unkept = _WILL_BE_WRITTEN_ANEW if _is_kept_by_us(url, state_folder) else door.keep()
        files = {user.role: _write_url(folder, user, inventory.redis or url) for user in users}
        done = tuple(PutUser(user, "changed" if user.name in there else "made", files[user.role]) for user in users)
        return PutUsers(door.place, done, unkept)
    finally:
        door.close()


def admin_url(inventory: Inventory) -> Secret:
    """Return the URL by which the Redis is administered: its users and its settings.

    Raises:
        ConfigurationError: the inventory names no Redis.

    """
    url = inventory.redis_admin or inventory.redis
    if url is None:
        raise ConfigurationError("the inventory names no redis, so there is none to administer")
    return url


def with_user(url: Secret, role: Role, state_folder: Path, *, cluster: str) -> Secret:
    """Return a URL with the role's user in place of any other; as it is where none was made yet.

    Raises:
        ConfigurationError: the password cannot be read.

    """
    password = private_files.read(state_folder / FOLDER / f"{role}.password")
    return url if password is None else _with_credentials(url, user_name(cluster, role), password.strip())


def known_roles(state_folder: Path) -> Mapping[Role, bool]:
    """Tell for which roles a user was put into Redis; a password alone may be left from a try that failed."""
    return {role: (state_folder / FOLDER / f"{role}.url").exists() for role in Role}


def has_credentials(url: Secret) -> bool:
    """Tell whether a URL names a user or a password."""
    return "@" in split_url(url.reveal()).netloc


def _current(folder: Path, role: Role) -> list[Secret]:
    path = folder / f"{role}.password"
    if not path.exists():
        private_files.create(path, f"{secrets.token_urlsafe(32)}\n")
    private_files.remove(folder / f"{role}.former")
    return [Secret((private_files.read(path) or "").strip())]


def _renewed(folder: Path, role: Role) -> list[Secret]:
    path = folder / f"{role}.password"
    former = private_files.read(path)
    if former is None:
        return _current(folder, role)
    private_files.write(folder / f"{role}.former", former)
    fresh = secrets.token_urlsafe(32)
    private_files.write(path, f"{fresh}\n")
    return [Secret(fresh), Secret(former.strip())]


def _write_url(folder: Path, user: RedisUser, base: Secret) -> Path:
    path = folder / f"{user.role}.url"
    password = (private_files.read(folder / f"{user.role}.password") or "").strip()
    private_files.write(path, f"{_with_credentials(base, user.name, password).reveal()}\n")
    return path


def _with_credentials(url: Secret, username: str, password: str) -> Secret:
    parts = split_url(url.reveal())
    place = parts.netloc.rpartition("@")[2]
    return Secret(urlunsplit(parts._replace(netloc=f"{quote(username, safe='')}:{quote(password, safe='')}@{place}")))


def _is_kept_by_us(url: Secret, state_folder: Path) -> bool:
    """Tell whether `crawlctl up` keeps that Redis."""
    address = redis_address(url)
    kept = private_files.read(state_folder / REDIS_FOLDER / ADDRESS_FILE)
    return address is not None and kept is not None and kept.strip() == address.place
