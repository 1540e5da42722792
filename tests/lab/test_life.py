"""The life of provisioned nodes: restarted, upgraded, stopped, started, kept without systemd, and removed again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.lab.lab import BringUp, Lab
from support.lab.operating import LabOperator
from support.lab.wishes import HostWish
from support.market import Market
from support.package_index import PackageIndex
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

WITH_SYSTEMD, WITHOUT = "h1", "h2"
HOSTS = [WITH_SYSTEMD, WITHOUT]


@pytest.fixture(scope="module")
def lab(bring_up: BringUp, redis_host: HostWish) -> Lab:
    return bring_up(HostWish(WITH_SYSTEMD), HostWish(WITHOUT, systemd=False), redis_host)


@pytest.fixture(scope="module")
def index(lab: Lab, wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageIndex]:
    """Give the hosts a package index on their own network."""
    with lab.inside():
        index = PackageIndex(wheelhouse, tmp_path_factory.mktemp("index"), address=lab.address("ops"))
        index.__enter__()
    try:
        yield index
    finally:
        index.__exit__(None, None, None)


@pytest.fixture(scope="module")
def operator(lab: Lab, index: PackageIndex, tmp_path_factory: pytest.TempPathFactory) -> LabOperator:
    operator = LabOperator(lab, tmp_path_factory.mktemp("operator"))
    operator.has_inventory(everywhere={"provision.index": index.url, "node.lease_s": 6})
    operator.expects("nodes", "provision", "--yes")
    operator.expects("deploy", str(Market(tmp_path_factory.mktemp("market"))))
    return operator


def test_packages_come_from_the_index_in_the_same_versions(
    operator: LabOperator, index: PackageIndex, lab: Lab
) -> None:
    del operator
    assert any("scrapyd-" in path for path in index.asked)
    listed = [
        sorted(lab.execute(name, "ls", "/opt/crawlctl/env/lib/python3.11/site-packages").split()) for name in HOSTS
    ]
    assert listed[0] == listed[1]


def node(operator: LabOperator, name: str) -> dict[str, Any]:
    found: dict[str, Any] = operator.expects("nodes", "show", name, "--output", "json").json()
    return found


def rolled(operator: LabOperator, *words: str, exit_code: int = 0) -> dict[str, str]:
    """Roll through hosts and return each one's last step."""
    asked = () if words[0] == "start" else ("--yes",)
    rows = operator.expects("nodes", *words, *asked, "--output", "json", exit_code=exit_code).json()
    return {row["host"]: row["step"] for row in rows}


def test_spiders_live_through_a_restart_of_their_nodes(operator: LabOperator) -> None:
    jobs = operator.expects("schedule", "quick", "-a", "sleep_s=600", "--workers", "2", "--output", "json").json()[
        "jobs"
    ]
    ids = [job["id"] for job in jobs]

    def running() -> dict[str, tuple[str, int]]:
        shown = [operator.expects("jobs", "show", each, "--output", "json").json() for each in ids]
        return {job["id"]: (job["state"], job["pid"]) for job in shown if job["state"] == "running" and job["pid"]}

    before = wait_until(
        lambda: len(found := running()) == 2 and found, deadline_s=40, what="both jobs to run", pause_s=0.5
    )
    begun = {name: node(operator, name)["started_at"] for name in HOSTS}

    assert rolled(operator, "restart", "--batch", "2") == dict.fromkeys(HOSTS, "done")
    assert running() == before
    assert all(node(operator, name)["started_at"] != begun[name] for name in HOSTS)

    # They would end with their nodes, so a stop waits for them, and gives up.
    assert rolled(operator, "stop", "--drain-timeout", "1s", exit_code=4) == dict.fromkeys(HOSTS, "drain")
    assert [node(operator, name)["draining"] for name in HOSTS] == [False, False]
    operator.expects("cancel", *ids, "--yes")


def test_a_stopped_node_takes_no_job_until_it_is_started(operator: LabOperator, lab: Lab) -> None:
    assert rolled(operator, "stop", "--on", WITHOUT) == {WITHOUT: "done"}
    assert "scrapyd" not in lab.execute(WITHOUT, "ps", "-eo", "args")
    assert node(operator, WITHOUT)["draining"] is True

    assert rolled(operator, "start", "--on", WITHOUT) == {WITHOUT: "done"}
    assert node(operator, WITHOUT)["draining"] is False


@pytest.mark.parametrize("name", HOSTS)
def test_a_scrapyd_that_is_killed_comes_back(operator: LabOperator, lab: Lab, name: str) -> None:
    begun = node(operator, name)["started_at"]
    lab.execute(name, "pkill", "-9", "-f", "scrapyd .*pidfile")
    wait_until(lambda: node(operator, name)["started_at"] != begun, deadline_s=40, what="another Scrapyd", pause_s=0.5)


def test_an_upgrade_without_anything_newer_starts_nothing_anew(operator: LabOperator) -> None:
    begun = {name: node(operator, name)["started_at"] for name in HOSTS}
    rows = operator.expects("nodes", "upgrade", "--batch", "2", "--yes", "--output", "json").json()
    assert {row["host"]: (row["step"], row["note"]) for row in rows} == dict.fromkeys(
        HOSTS, ("done", "nothing is newer")
    )
    assert {name: node(operator, name)["started_at"] for name in HOSTS} == begun


def test_a_removed_node_leaves_nothing_behind(operator: LabOperator, lab: Lab) -> None:
    assert rolled(operator, "remove", "--on", "all") == dict.fromkeys(HOSTS, "done")
    for name in HOSTS:
        assert (
            lab.execute(name, "sh", "-c", "ls -d /opt/crawlctl 2>&1; crontab -l -u crawlctl 2>&1", check=False).count(
                "crawlctl-node"
            )
            == 0
        )
        assert "No such file" in lab.execute(name, "sh", "-c", "ls -d /opt/crawlctl 2>&1", check=False)
        assert "scrapyd" not in lab.execute(name, "ps", "-eo", "args")
    assert "crawlctl-node" not in lab.execute(WITH_SYSTEMD, "systemctl", "list-unit-files")
    nodes = operator.expects("nodes", "--output", "json").json()
    assert {row["name"]: row["kind"] for row in nodes} == dict.fromkeys(HOSTS, "stock"), (
        "the cluster has forgotten them"
    )
    listed = operator.expects("inventory", "list", "--output", "json").json()
    assert [host["password"] for host in listed] == [None, None], "the generated password is theirs no more"
    told = operator.expects("nodes", "restart", "--yes", exit_code=4)
    assert "it was not provisioned" in told.out + told.err
