"""The everyday path with an inventory that names no Redis: releases and jobs are remembered in a file beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.desk import Desk, alive, process_of
from support.market import Market
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode, running_nodes

pytestmark = pytest.mark.xdist_group("stories-without-redis")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ScrapydNode]]:
    with running_nodes(2, folder=tmp_path_factory.mktemp("nodes")) as nodes:
        yield nodes


@pytest.fixture
def desk(nodes: list[ScrapydNode], tmp_path: Path) -> Iterator[Desk]:
    desk = Desk.of(nodes, None, tmp_path / "desk", secrets=[TEST_CREDENTIALS[1]])
    yield desk
    for node in nodes:
        node.post("delproject.json", project="market")


@pytest.fixture
def market(tmp_path: Path) -> Market:
    return Market(tmp_path / "market")


def test_everything_from_deploy_to_prune_works_without_redis(
    desk: Desk, market: Market, nodes: list[ScrapydNode]
) -> None:
    assert desk.json("inventory", "check")["redis"] is False
    first = desk.json("deploy", str(market.change("one")))
    assert (first["active"], first["changed"]) == (True, True)
    assert desk.json("deploy", str(market))["changed"] is False

    job = desk.json("schedule", "quick", "-a", "note=by file", "--wait")[0]
    assert (job["state"], job["version"], job["items"]) == ("finished", first["version"], 1)
    assert desk.items(job["id"]) == [{"release": "one", "note": "by file"}]
    assert "Spider closed (finished)" in desk.run("logs", job["id"]).out
    assert desk.json("jobs") == [job]

    second = desk.json("deploy", str(market.change("two")))
    assert desk.marks("quick", "--workers", "2") == {"two"}
    assert desk.json("rollback")["version"] == first["version"]
    assert desk.marks("quick") == {"one"}

    status = desk.json("status")
    assert status["active"] == {"market": first["version"]}
    assert [node["state"] for node in status["nodes"]] == ["live", "live"]
    assert status["attention"] == []

    assert desk.json("prune", "--keep", "1")["removed"] == []
    assert desk.json("rollback")["version"] == second["version"]
    assert desk.json("prune", "--keep", "1")["removed"] == [first["version"]]
    assert [node.get("listversions.json", project="market")["versions"] for node in nodes] == [[second["version"]]] * 2
    assert [entry["kind"] for entry in desk.json("releases", "--history")][-1] == "deploy"


def test_a_job_is_cancelled_and_its_id_stays_taken_without_redis(desk: Desk, market: Market) -> None:
    desk.json("deploy", str(market))
    job = desk.start_sleeper("--id", "only-once")
    process = process_of(job["id"])
    assert process is not None
    cancelled = desk.json("cancel", "only-once", "--grace", "5")["jobs"][0]
    assert (cancelled["before"], cancelled["after"]) == ("running", "cancelled")
    assert alive([process.pid]) == []
    assert "only-once" in desk.error("schedule", "quick", "--id", "only-once", exit_code=6)


def test_a_broken_deploy_is_undone_without_redis(desk: Desk, market: Market, nodes: list[ScrapydNode]) -> None:
    first = desk.json("deploy", str(market.change("one")))
    flag = nodes[1].folder / "lacks-a-module"
    flag.touch()
    try:
        failed = desk.json("deploy", str(market.change("two")), exit_code=4)
    finally:
        flag.unlink()
    assert (failed["active"], failed["changed"]) == (False, False)
    assert desk.active() == first["version"]
    for node in nodes:
        assert node.get("listversions.json", project="market")["versions"] == [first["version"]]
    assert desk.marks("quick", "--workers", "2") == {"one"}


def test_what_is_remembered_lies_where_only_its_owner_reads(desk: Desk, market: Market) -> None:
    desk.json("deploy", str(market))
    store = desk.folder / ".crawlctl" / "store-main.sqlite3"
    assert oct(store.stat().st_mode & 0o777) == "0o600"
    assert oct(store.parent.stat().st_mode & 0o777) == "0o700"
