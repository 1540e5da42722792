"""A process whose address changes: its old connections to Redis are mute, and it pays for one of them, not for each."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.moving_link import MovingLink
from support.redis_server import RedisServer

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.hosts import Secret
from toolkit.store.connect import RedisDoor

AT_ONCE = 6
PATIENCE_S = 3.0


def test_after_a_change_of_address_the_second_call_is_answered(redis_server: RedisServer, tmp_path: Path) -> None:
    with MovingLink(redis_server.port, tmp_path / "address", address="127.0.0.31") as link:
        door = RedisDoor(Secret(f"redis://127.0.0.1:{link.port}/0"), patience_s=PATIENCE_S)
        together = threading.Barrier(AT_ONCE)

        def ask() -> None:
            together.wait()
            door.wait_for_bytes("nothing comes here", most=1, timeout_s=0.2)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            for asked in [pool.submit(ask) for _ in range(AT_ONCE)]:
                asked.result()
        assert door.whereabouts().outside == "127.0.0.31"
        link.address = "127.0.0.32"
        with pytest.raises(StoreUnreachableError):
            door.ask("PING")
        # One call has found out; none of the other idle connections is tried.
        assert door.ask_for_bytes("ECHO", "text") == b"text"
        assert door.ask("PING")
        assert door.whereabouts().outside == "127.0.0.32"
        door.close()
