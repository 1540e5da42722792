"""Four bare hosts and a Redis on another become a cluster: from the plan to crawls, and what nobody else may read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.cli import Finished
from support.lab.lab import BringUp, Lab
from support.lab.operating import LabOperator
from support.lab.secrets_search import ProcessWords, files_with_any, open_files_with_any
from support.lab.wishes import HostWish, several
from support.market import Market
from support.shop_site import SHOP_PROJECT, ShopSite
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

HOSTS = ["h1", "h2", "h3", "h4"]


@dataclass(frozen=True, slots=True)
class Begun:
    """What was said and seen while the hosts became nodes."""

    planned: Finished
    untouched: bool
    made: Finished
    words: ProcessWords


@pytest.fixture(scope="module")
def lab(bring_up: BringUp, redis_host: HostWish) -> Lab:
    return bring_up(*several(4), redis_host)


@pytest.fixture(scope="module")
def operator(lab: Lab, wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> LabOperator:
    operator = LabOperator(lab, tmp_path_factory.mktemp("operator"))
    operator.has_inventory(everywhere={"provision.wheelhouse": str(wheelhouse)})
    return operator


@pytest.fixture(scope="module")
def begun(operator: LabOperator, lab: Lab) -> Begun:
    planned = operator.expects("nodes", "provision", "--dry-run", "--on", "h1")
    untouched = "No such file" in lab.execute("h1", "ls", "/opt/crawlctl", check=False)
    with ProcessWords() as words:
        made = operator.expects("nodes", "provision", "--yes", "--output", "json")
    return Begun(planned, untouched, made, words)


@pytest.fixture(scope="module")
def secrets(operator: LabOperator, begun: Begun, lab: Lab) -> list[str]:
    del begun
    return [lab.redis_password, (operator.folder / ".crawlctl" / "password").read_text().strip()]


@pytest.fixture(scope="module")
def market(begun: Begun, operator: LabOperator, tmp_path_factory: pytest.TempPathFactory) -> Market:
    """Give a project that is deployed on all four."""
    del begun
    market = Market(tmp_path_factory.mktemp("market"))
    operator.expects("deploy", str(market))
    return market


@pytest.fixture
def mended(lab: Lab) -> Iterator[Lab]:
    """Give the lab to a test that breaks links; they are whole again afterwards."""
    yield lab
    for host in HOSTS:
        lab.heal(host)
        lab.delay(host)


def test_a_plan_is_shown_and_nothing_is_done(begun: Begun) -> None:
    assert "+node_name         = h1" in begun.planned.out
    assert begun.untouched


def test_bare_hosts_become_nodes_of_one_queue(begun: Begun, operator: LabOperator) -> None:
    assert {row["name"]: row["changed"] for row in begun.made.json()} == dict.fromkeys(HOSTS, True)
    nodes = operator.expects("nodes", "--output", "json").json()
    assert {node["name"]: node["state"] for node in nodes} == dict.fromkeys(HOSTS, "live")


def test_a_second_run_changes_nothing_and_says_so(begun: Begun, operator: LabOperator) -> None:
    del begun
    again = operator.expects("nodes", "provision", "--yes", "--output", "json").json()
    assert {row["name"]: (row["changed"], row["steps"]) for row in again} == dict.fromkeys(HOSTS, (False, []))


def test_a_crawl_runs_on_the_new_nodes(begun: Begun, operator: LabOperator, lab: Lab) -> None:
    del begun
    operator.expects("deploy", str(SHOP_PROJECT))
    with lab.inside(), ShopSite(pages=40, address=lab.address("ops")) as site:
        jobs = operator.expects("schedule", "products", "--wait", "-a", f"site={site.url}", "--output", "json").json()
    assert [job["state"] for job in jobs] == ["finished"]
    items = operator.expects("items", jobs[0]["id"]).jsonl()
    assert {item["sku"] for item in items} == site.expected_products()
    assert "Spider closed (finished)" in operator.expects("logs", jobs[0]["id"]).out


def test_no_secret_is_in_words_of_processes_in_logs_or_in_files_that_others_may_read(
    begun: Begun, operator: LabOperator, lab: Lab, secrets: list[str], market: Market
) -> None:
    del market
    assert begun.words.with_any(["pip\0install"]) != []
    assert begun.words.with_any(secrets) == []
    said = begun.planned.out + begun.planned.err + begun.made.out + begun.made.err
    for host in HOSTS:
        said += lab.execute(host, "journalctl", "--all", "--no-pager", "--quiet")
        assert open_files_with_any(lab, host, secrets) == []
        assert files_with_any(lab.host(host).root / "opt/crawlctl/node/logs", secrets) == []
    assert [secret for secret in secrets if secret in said] == []
    assert all(path.stat().st_mode & 0o077 == 0 for path in map(Path, files_with_any(operator.folder, secrets)))


def test_a_node_that_was_away_catches_up(market: Market, operator: LabOperator, mended: Lab) -> None:
    mended.cut("h4")
    wait_until(lambda: state(operator, "h4") == "lost", deadline_s=40, what="h4 to be lost", pause_s=0.5)
    market.change("while away")
    version = operator.expects("deploy", str(market), "--output", "json").json()["version"]
    mended.heal("h4")
    wait_until(lambda: version in held(operator, "h4"), deadline_s=40, what="h4 to fetch what it missed", pause_s=0.5)


def test_a_lossy_slow_line_costs_time_and_nothing_else(market: Market, operator: LabOperator, mended: Lab) -> None:
    mended.delay("h2", delay_ms=50, loss_percent=5)
    operator.expects("deploy", str(market.change("over a bad line")))
    job = operator.expects("schedule", "quick", "--on", "h2", "--wait", "--output", "json").json()[0]
    assert (job["state"], job["node"]) == ("finished", "h2")
    assert operator.expects("items", job["id"]).jsonl()[0]["release"] == "over a bad line"
    again = operator.expects("nodes", "provision", "--on", "h2", "--yes", "--output", "json").json()
    assert [row["steps"] for row in again] == [[]]


def test_a_canary_that_fails_is_undone_and_nobody_else_is_touched(market: Market, operator: LabOperator) -> None:
    before = active(operator)
    market.change("a bad one")
    wishes = ("--canary", "1", "--waves", "50%,100%", "--check", "quick", "--check-items", "5")
    told = operator.expects("deploy", str(market), *wishes, "--output", "json", exit_code=4)
    rollout = operator.expects("rollouts", "list", "--all", "--output", "json").json()[0]
    assert (rollout["state"], rollout["tried"], rollout["wave"]) == ("undone", 1, 1)
    assert "brought 1 items, fewer than 5" in told.err + told.out
    assert active(operator) == before != rollout["version"]
    for host in HOSTS:
        assert rollout["version"] not in held(operator, host)


def test_a_rollout_whose_operator_was_killed_in_wave_2_is_resumed(market: Market, operator: LabOperator) -> None:
    before = active(operator)
    market.change("finished by another")
    with operator.begins("deploy", str(market), "--canary", "1", "--waves", "50%,100%") as command:
        wait_until(lambda: "wave 2 of 3" in command.err, deadline_s=60, what="wave 2 to begin")
        # Leaving kills it with SIGKILL.
    left = operator.expects("rollouts", "--output", "json").json()
    assert [(rollout["wave"], rollout["waves"]) for rollout in left] == [(2, 3)]
    assert active(operator) == before
    # Their lock may still be there, until it runs out; we know that they are gone.
    operator.expects("rollouts", "resume", "--steal")
    assert active(operator) == left[0]["version"]
    for host in HOSTS:
        assert left[0]["version"] in held(operator, host)
    assert operator.expects("rollouts", "--output", "json").json() == []


def test_a_changed_host_key_is_refused_and_nothing_is_done(begun: Begun, operator: LabOperator, lab: Lab) -> None:
    del begun
    lab.host("h3").make_host_key()
    lab.execute("h3", "systemctl", "restart", "ssh")
    lab.execute("h3", "rm", "/etc/systemd/system/crawlctl-node.service")
    refused = operator.crawlctl("nodes", "provision", "--on", "h3", "--yes")
    assert refused.exit_code != 0
    assert "h3" in refused.err
    assert "has changed" in refused.err
    assert not (lab.host("h3").root / "etc/systemd/system/crawlctl-node.service").exists()
    operator.knows_hosts()
    mended = operator.expects("nodes", "provision", "--on", "@failed", "--yes", "--output", "json").json()
    assert {row["name"]: row["changed"] for row in mended} == {"h3": True}


def active(operator: LabOperator) -> str:
    """Return the version of the market that schedules use."""
    rows = operator.expects("releases", "market", "--output", "json").json()
    return next(str(row["version"]) for row in rows if row["active"])


def state(operator: LabOperator, host: str) -> str:
    """Return how a node is seen now."""
    return str(operator.expects("nodes", "show", host, "--output", "json").json()["state"])


def held(operator: LabOperator, host: str) -> list[str]:
    """Return the versions of the market that a host's node says it holds."""
    node = operator.expects("nodes", "show", host, "--output", "json").json()
    return list(node["versions"].get("market", ()))
