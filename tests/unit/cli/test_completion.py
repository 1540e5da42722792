"""What the shell offers: right words, and never an error."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.cli import run_crawlctl
from support.crawl_desk import a_plan, crawl_desk
from support.ports import free_port
from support.queue_desk import a_report, queue_desk

from toolkit.cli import completion
from toolkit.config.paths import state_folder
from toolkit.model.alerts import Alerts, Rule, Sink, SinkKind
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.releases import NodeResult, Release, Rollout
from toolkit.store.interfaces import Store
from toolkit.store.open import open_store

NOW = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
SHOP, V1 = ProjectName("shop"), VersionName("v1")
OFFERS: dict[str, Callable[[str], list[str]]] = {
    "hosts": completion.hosts,
    "projects": completion.projects,
    "spiders": completion.spiders,
    "versions": completion.versions,
    "jobs": completion.jobs,
    "crawls": completion.crawls,
    "crons": completion.crons,
    "sinks": completion.sinks,
    "rules": completion.rules,
}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sit in a folder with an inventory of three hosts and two groups."""
    hosts = "{node-1: {address: 10.0.0.1}, node-2: {address: 10.0.0.2}, other: {address: 10.0.0.3}}"
    (tmp_path / "inventory.yaml").write_text(f"hosts: {hosts}\ngroups: {{eu: {{hosts: [node-1]}}}}\n")
    monkeypatch.chdir(tmp_path)
    for name in ("CRAWLCTL_INVENTORY", "CRAWLCTL_STATE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def stored(desk: Path) -> None:
    store = open_store(None, state_folder(desk / "inventory.yaml", {}))
    fill(store)
    store.close()


def fill(store: Store) -> None:
    releases = store.releases
    lock = releases.lock(SHOP, who="ann", why="test", ttl_s=60)
    spiders = (SpiderName("books"), SpiderName("prices"))
    releases.record(Release(SHOP, V1, "aa", spiders, 1, None, NOW, "ann"), lock)
    results = (NodeResult(NodeName("node-1"), ok=True, step="done", seconds=0.1),)
    releases.activate(Rollout(SHOP, V1, "deploy", NOW, "ann", True, results), lock, held_by=[NodeName("node-1")])  # noqa: FBT003 - field
    store.jobs.add([Job(JobId("3f2a91c0"), SHOP, SpiderName("books"), JobState.PENDING, scheduled_at=NOW)])


@pytest.mark.usefixtures("stored")
def test_each_offers_what_begins_so() -> None:
    assert completion.projects("s") == ["shop"]
    assert completion.projects("x") == []
    assert completion.spiders("") == ["books", "prices"]
    assert completion.versions("v") == ["v1"]
    assert completion.jobs("3f") == ["3f2a91c0"]
    assert completion.nodes("node") == ["node-1", "node-2"]


def test_registered_nodes_are_offered_beside_the_hosts(desk: Path, redis_url: str) -> None:
    inventory = desk / "inventory.yaml"
    inventory.write_text(f"redis: {redis_url}\n{inventory.read_text()}")
    with queue_desk(redis_url, desk / "store") as queue:
        queue.register(a_report("behind-nat"))
        assert completion.nodes("") == ["behind-nat", "node-1", "node-2", "other"]


def test_crawls_are_offered_once_a_worker_has_joined_them(desk: Path, redis_url: str) -> None:
    inventory = desk / "inventory.yaml"
    inventory.write_text(f"redis: {redis_url}\n{inventory.read_text()}")
    with crawl_desk(redis_url, desk / "store") as crawls:
        crawls.worker(plan=a_plan("books"))
        crawls.worker(plan=a_plan("autumn"))
        assert completion.crawls("") == ["autumn", "books"]
        assert completion.crawls("b") == ["books"]


def test_sinks_and_rules_of_the_alerts_are_offered(desk: Path, redis_url: str) -> None:
    inventory = desk / "inventory.yaml"
    inventory.write_text(f"redis: {redis_url}\n{inventory.read_text()}")
    with queue_desk(redis_url, desk / "store") as queue:
        sinks = {name: Sink(name, SinkKind.COMMAND) for name in ("pager", "log")}
        queue.shared.alerts.put(Alerts(sinks, {"slow": Rule("slow", ("pager",))}), by="ann")
        assert sorted(completion.sinks("")) == ["log", "pager"]
        assert (completion.rules("s"), completion.rules("x")) == (["slow"], [])


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", ["eu", "node-1", "node-2", "other"]),
        ("no", ["node-1", "node-2"]),
        ("eu:&no", ["eu:&node-1", "eu:&node-2"]),
        ("eu,oth", ["eu,other"]),
        ("all:!node-2", ["all:!node-2"]),
    ],
)
def test_the_last_term_of_a_pattern_is_completed(typed: str, offered: list[str]) -> None:
    assert completion.hosts(typed) == offered


@pytest.mark.parametrize("offer", OFFERS)
def test_without_an_inventory_nothing_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offer: str) -> None:
    monkeypatch.setenv("CRAWLCTL_INVENTORY", str(tmp_path / "none.yaml"))
    assert OFFERS[offer]("") == []


@pytest.mark.parametrize("offer", OFFERS)
def test_with_a_wrong_inventory_nothing_is_offered(desk: Path, offer: str) -> None:
    (desk / "inventory.yaml").write_text("hosts: [nonsense\n")
    assert OFFERS[offer]("") == []


@pytest.mark.parametrize("offer", [name for name in OFFERS if name != "hosts"])
def test_with_a_redis_that_is_away_nothing_is_offered(desk: Path, offer: str) -> None:
    text = (desk / "inventory.yaml").read_text()
    (desk / "inventory.yaml").write_text(f"redis: redis://127.0.0.1:{free_port()}/0\n{text}")
    assert OFFERS[offer]("") == []


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("offer", [name for name in OFFERS if name != "hosts"])
def test_with_a_store_that_cannot_be_read_nothing_is_offered(desk: Path, offer: str) -> None:
    (path,) = state_folder(desk / "inventory.yaml", {}).glob("store-*.sqlite3")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    assert OFFERS[offer]("") == []


@pytest.mark.usefixtures("stored")
def test_the_shell_gets_the_words_and_nothing_else(desk: Path) -> None:
    env = {"_CRAWLCTL_COMPLETE": "complete_bash", "COMP_WORDS": "crawlctl cancel ", "COMP_CWORD": "2"}
    ended = run_crawlctl(cwd=desk, env=env)
    assert ended.out.split() == ["3f2a91c0"]
    assert ended.err == ""
