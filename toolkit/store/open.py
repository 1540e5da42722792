"""Which back end a cluster has: Redis when the inventory names one, else a file of this machine."""

from __future__ import annotations

from pathlib import Path

from toolkit.model.hosts import Secret
from toolkit.model.names import DEFAULT_CLUSTER
from toolkit.store.interfaces import Store


def open_store(redis: Secret | None, folder: Path, *, cluster: str = DEFAULT_CLUSTER) -> Store:
    """Return the cluster's shared memory, checked to answer; close it after use.

    Without a Redis it is `store-<cluster>.sqlite3` in `folder`, shared by the processes of this machine only; the
    folder is made if it is not there. The redis library is loaded only when there is a URL.

    Raises:
        ConfigurationError: the URL or the cluster's name cannot be used.
        StoreUnreachableError: it does not answer or refuses: not there, wrong password, no disk left, ...

    """
    if redis is None:
        from toolkit.store.local_store import LocalStore  # noqa: PLC0415 - SQLite is loaded only where it is used

        return LocalStore(folder, cluster=cluster)
    from toolkit.store.connect import RedisDoor  # noqa: PLC0415 - loading the redis library takes 0.1 s
    from toolkit.store.redis_store import RedisStore  # noqa: PLC0415 - likewise

    return RedisStore(RedisDoor(redis), cluster=cluster)
