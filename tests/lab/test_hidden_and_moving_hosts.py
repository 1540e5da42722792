"""A host behind NAT, one on a dial-up line, and one without systemd serve one queue, each in its own way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.lab.lab import BringUp, Lab
from support.lab.operating import LabOperator
from support.lab.wishes import HostWish
from support.market import Market
from support.shop_site import SHOP_PROJECT, ShopSite
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

NODE = 6800
PAGE_MS = 150
# What was under way over the former address is not answered any more: give it up soon, and ask again.
PATIENCE = ("-s", "DOWNLOAD_TIMEOUT=4", "-s", "RETRY_TIMES=6")


@pytest.fixture(scope="module")
def lab(bring_up: BringUp, redis_host: HostWish) -> Lab:
    return bring_up(
        HostWish("hidden", behind="nat1"),
        HostWish("dialling", dials_up=True),
        HostWish("plain", systemd=False),
        redis_host,
    )


@pytest.fixture(scope="module")
def operator(lab: Lab, wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> LabOperator:
    operator = LabOperator(lab, tmp_path_factory.mktemp("operator"))
    dialling = {"provision.bind": "0.0.0.0", "node.redial_command": "sudo -n /usr/local/sbin/redial"}
    operator.has_inventory(
        everywhere={"provision.wheelhouse": str(wheelhouse)},
        variables={"dialling": dialling},
    )
    operator.expects("nodes", "provision", "--yes")
    operator.expects("deploy", str(Market(tmp_path_factory.mktemp("market"))))
    return operator


@pytest.fixture
def shop(lab: Lab) -> Iterator[ShopSite]:
    with lab.inside(), ShopSite(pages=60, latency_ms=PAGE_MS, address=lab.address("ops")) as shop:
        yield shop


def test_a_node_behind_nat_gets_eggs_jobs_and_cancels_and_gives_logs_and_items(operator: LabOperator, lab: Lab) -> None:
    assert not lab.is_open("hidden", NODE)
    assert "market" in shown(operator, "hidden")["versions"]
    job = operator.expects("schedule", "quick", "--on", "hidden", "--wait", "--output", "json").json()[0]
    assert (job["state"], job["node"]) == ("finished", "hidden")
    assert "Spider closed (finished)" in operator.expects("logs", job["id"]).out
    assert [item["release"] for item in operator.expects("items", job["id"]).jsonl()] == ["first"]
    asleep = operator.expects("schedule", "quick", "--on", "hidden", "-a", "sleep_s=600", "--output", "json").json()
    (job_id,) = [job["id"] for job in asleep["jobs"]]
    wait_until(lambda: is_running(lab, "hidden", job_id), deadline_s=30, what="the job to run behind the router")
    operator.expects("cancel", job_id)
    assert not is_running(lab, "hidden", job_id)


def test_a_node_whose_address_changes_while_it_crawls_loses_no_item(
    operator: LabOperator, lab: Lab, shop: ShopSite
) -> None:
    operator.expects("deploy", str(SHOP_PROJECT))
    before = lab.address("dialling")
    words = ("schedule", "products", "--on", "dialling", "-a", f"site={shop.url}", *PATIENCE, "--output", "json")
    job_id = operator.expects(*words).json()["jobs"][0]["id"]
    wait_until(lambda: is_running(lab, "dialling", job_id), deadline_s=30, what="the crawl to begin")
    operator.expects("nodes", "redial", "--on", "dialling")
    after = lab.address("dialling")
    assert after != before
    wait_until(lambda: state_of(operator, job_id) == "finished", deadline_s=90, what="the crawl to end", pause_s=0.5)
    items = operator.expects("items", job_id).jsonl()
    assert sorted(item["sku"] for item in items) == sorted(shop.expected_products())
    wait_until(
        lambda: shown(operator, "dialling")["outside"] == after, deadline_s=30, what="the new address", pause_s=0.5
    )


def test_a_node_without_systemd_is_back_after_a_kill_and_after_a_crash(operator: LabOperator, lab: Lab) -> None:
    first = scrapyd_of(lab, "plain")
    lab.execute("plain", "kill", "-9", str(first))
    wait_until(lambda: scrapyd_of(lab, "plain") not in {None, first}, deadline_s=70, what="another", pause_s=0.2)
    wait_until(lambda: lab.is_open("plain", NODE), deadline_s=70, what="the node to be back", pause_s=0.2)
    lab.crash("plain")
    lab.boot("plain")
    wait_until(lambda: lab.is_open("plain", NODE), deadline_s=70, what="the node to be back", pause_s=0.2)
    job = operator.expects("schedule", "quick", "--on", "plain", "--wait", "--output", "json").json()[0]
    assert (job["state"], job["node"]) == ("finished", "plain")


def shown(operator: LabOperator, host: str) -> dict[str, Any]:
    """Return what is known of a node."""
    told: dict[str, Any] = operator.expects("nodes", "show", host, "--output", "json").json()
    return told


def state_of(operator: LabOperator, job_id: str) -> str:
    """Return how a job stands."""
    return str(operator.expects("jobs", "show", job_id, "--output", "json").json()["state"])


def is_running(lab: Lab, host: str, job_id: str) -> bool:
    """Tell whether a job's process is on the host."""
    return f"_job={job_id}" in lab.execute(host, "ps", "-A", "-ww", "-o", "args=")


def scrapyd_of(lab: Lab, host: str) -> int | None:
    """Return the process id of a host's Scrapyd, if it has one now."""
    found = lab.execute(host, "pgrep", "-o", "-f", "--", "-m scrapyd", check=False).split()
    return int(found[0]) if found else None
