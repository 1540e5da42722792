"""Makes the users of a cluster in Redis. The server gets the digests of their passwords, never the passwords."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from toolkit.model.errors import RefusedError, StoreUnreachableError
from toolkit.model.hosts import Secret
from toolkit.store.acl import RedisUser
from toolkit.store.connect import RedisDoor
from toolkit.store.redis_errors import LACKS

NEWER = frozenset({"+client|setinfo"})
"""Rules about commands that came with Redis 7.2. A client's library sends them and lives without."""
_ADMIN_HINT = "redis_admin in the inventory names the Redis as its administrator reaches it"


class RedisUsers:
    """One Redis, as its administrator reaches it.

    Raises:
        ConfigurationError: the URL cannot be understood.
        StoreUnreachableError: from every method.

    """

    def __init__(self, url: Secret) -> None:
        self._door = RedisDoor(url)
        self.place = str(self._door.address)

    def names(self) -> frozenset[str]:
        """Return the names of the users that there are.

        Raises:
            RefusedError: we may not ask.

        """
        with _as_admin():
            return frozenset(str(name) for name in self._door.ask("ACL", "USERS"))

    def put(self, user: RedisUser, *passwords: Secret) -> None:
        """Let the user be just so, with these passwords and no others. Connections that it has stay open.

        Raises:
            RefusedError: we may not do that.

        """
        digests = [hashlib.sha256(each.reveal().encode()).hexdigest() for each in passwords]
        rules = user.rules(*digests)
        with _as_admin():
            try:
                self._door.ask("ACL", "SETUSER", user.name, *rules)
            except StoreUnreachableError as error:
                if LACKS not in error.message:
                    raise
                # Redis 7.0 refuses rules about commands that only later ones have; nothing was changed.
                self._door.ask("ACL", "SETUSER", user.name, *(rule for rule in rules if rule not in NEWER))

    def keep(self) -> str | None:
        """Let the users survive a restart of the server, by its ACL file or its configuration; say why not, if so."""
        problems = []
        for command in (("ACL", "SAVE"), ("CONFIG", "REWRITE")):
            try:
                self._door.ask(*command)
            except StoreUnreachableError as error:
                problems.append(error.message.rpartition(": ")[2])
            else:
                return None
        return problems[-1]

    def dry_run(self, user: RedisUser, *command: str) -> bool:
        """Tell whether the user may send this command (ACL DRYRUN)."""
        with _as_admin():
            return str(self._door.ask("ACL", "DRYRUN", user.name, *command)) == "OK"

    def close(self) -> None:
        """Let go of the connection."""
        self._door.close()


@contextmanager
def _as_admin() -> Iterator[None]:
    try:
        yield
    except StoreUnreachableError as error:
        if "may not do that" in error.message:
            raise RefusedError(f"{error.message}: it may not administer users", hint=_ADMIN_HINT) from error
        raise
