"""Deploys that go wrong, each in its own way: nothing half done stays, and the release before goes on being used."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import redis
from support.cli import InventoryNode, NodeEntry, RunningCrawlctl
from support.desk import Desk
from support.faulty_server import Fault, FaultProxy
from support.market import Market
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode, running_nodes
from support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("stories-deploy-faults")

SECRET = TEST_CREDENTIALS[1]
TIMEOUT_S = 10.0
SHORT_S = 2.0
"""What the weak node gets for a call where it is to use all of it."""


@dataclass
class Stage:
    """Two real nodes, the second behind a proxy that can break its answers, and a project on both."""

    desk: Desk
    market: Market
    good: ScrapydNode
    weak: ScrapydNode
    proxy: FaultProxy
    redis: RedisServer
    code_of: dict[str, str] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=count)
    _is_holding: threading.Event = field(default_factory=threading.Event)
    _may_go_on: threading.Event = field(default_factory=threading.Event)

    def deploy(self, *words: str, exit_code: int = 0) -> Any:
        """Deploy another tree than before; return what was told."""
        return self.note(self.desk.json("deploy", self.change(), *words, exit_code=exit_code))

    def change(self) -> str:
        """Change the tree and return its folder."""
        self.release = f"release-{next(self._numbers)}"
        self.market.change(self.release)
        return str(self.market)

    def note(self, result: Any) -> Any:
        """Remember which code a version stands for."""
        self.code_of[result["version"]] = self.release
        return result

    def versions(self, node: ScrapydNode) -> list[str]:
        found: list[str] = node.get("listversions.json", project="market")["versions"]
        return found

    def hold_uploads(self) -> None:
        """Keep eggs from the weak node until they are let through."""
        self._is_holding.clear()
        self._may_go_on.clear()
        self.proxy.on_call = self._hold

    def _hold(self, endpoint: str) -> None:
        if endpoint == "addversion.json":
            self._is_holding.set()
            self._may_go_on.wait(100)

    def hold_no_more_uploads(self) -> None:
        """Let those through that come from now on."""
        self.proxy.on_call = None

    def let_uploads_through(self) -> None:
        """Let those through that are held, too."""
        self.hold_no_more_uploads()
        self._may_go_on.set()

    def uploads_begun(self) -> bool:
        return self._is_holding.is_set()

    def lock_ttl_s(self) -> float:
        """Return how long the lock would last without its owner."""
        with redis.Redis.from_url(self.redis.url) as client:
            keys = list(client.scan_iter("*lock*"))
            assert len(keys) == 1
            return float(client.pttl(keys[0])) / 1000

    def wait_until_half_done(self) -> None:
        """Wait until the good node took the egg that the weak one is about to get."""
        wait_until(
            lambda: self.uploads_begun() and set(self.versions(self.good)) - self.held,
            deadline_s=60,
            what="half a deploy",
        )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, story_redis: RedisServer) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("faults")
    with running_nodes(2, folder=folder / "nodes") as (good, weak), FaultProxy(weak.url) as proxy:
        entries: list[InventoryNode] = [good, NodeEntry("node-2", "127.0.0.1", proxy.port, TEST_CREDENTIALS)]
        secrets = (SECRET, str(story_redis.password))
        desk = Desk.of(entries, story_redis.url, folder / "desk", secrets=secrets, timeout_s=TIMEOUT_S)
        stage = Stage(desk, Market(folder / "market"), good, weak, proxy, story_redis)
        stage.deploy()
        yield stage


@pytest.fixture
def stage(built: Stage) -> Iterator[Stage]:
    """Give the stage with one release active and held by both; mend it afterwards."""
    built.proxy.calls.clear()
    built.held = set(built.versions(built.good))
    yield built
    built.let_uploads_through()
    built.desk.gives("node-2", TIMEOUT_S)
    for endpoint in ("*", "addversion.json", "delversion.json", "listversions.json", "listspiders.json"):
        built.proxy.mend(endpoint)
    for flag in ("lacks-a-module", "lacks-a-spider"):
        (built.weak.folder / flag).unlink(missing_ok=True)
    if not built.weak.is_running:
        built.weak.start()


def assert_undone(stage: Stage, former: str, result: Any, *, jobs: int = 1) -> None:
    """Show that a deploy left nothing: on no node, not active, not known, and not run by the next schedule."""
    for node in (stage.good, stage.weak):
        if node.is_running:
            assert result["version"] not in stage.versions(node), node.name
            assert former in stage.versions(node), node.name
    assert (result["active"], result["changed"]) == (False, False)
    assert_former_runs(stage, former, jobs=jobs, unknown=result["version"])


def assert_former_runs(stage: Stage, former: str, *, jobs: int = 1, unknown: str = "") -> None:
    """Show that the next jobs, on different nodes, run the former release's own code."""
    releases = stage.desk.json("releases", "market")
    assert [row["version"] for row in releases if row["active"]] == [former]
    assert unknown not in {row["version"] for row in releases}
    ended = stage.desk.json("schedule", "quick", "--workers", str(jobs), "--wait")
    assert {job["version"] for job in ended} == {former}
    assert len({job["node"] for job in ended}) == jobs
    assert {item["release"] for job in ended for item in stage.desk.items(job["id"])} == {stage.code_of[former]}


def signal_to(command: RunningCrawlctl, wish: signal.Signals) -> None:
    os.kill(command._started.pid, wish)


def is_over_after_ctrl_c(command: RunningCrawlctl) -> bool:
    """Press Ctrl-C unless the command has ended already."""
    if command.is_running:
        command.interrupt()
    return not command.is_running


def rows(result: Any) -> dict[str, dict[str, Any]]:
    """Return what a deploy told of each node, by name."""
    return {node["name"]: node for node in result["nodes"]}


UPLOAD_FAULTS: list[tuple[Fault, str]] = [
    ("500", "HTTP 500"),
    ("401", "wrong username or password"),
    ("html", "It works!"),
    ("half", "broke off half way"),
    ("reset", "broke"),
    ("error", "this node says no"),
]


@pytest.mark.parametrize(("fault", "why"), UPLOAD_FAULTS)
def test_a_node_that_breaks_the_upload_has_the_deploy_undone_everywhere(stage: Stage, fault: Fault, why: str) -> None:
    former = stage.desk.active()
    stage.proxy.break_endpoint("addversion.json", fault, forwards=False)
    result = stage.deploy(exit_code=4)
    good, weak = rows(result)["node-1"], rows(result)["node-2"]
    assert (good["ok"], good["step"]) == (False, "undone")
    assert (weak["ok"], weak["step"]) == (False, "upload")
    assert why in weak["error"]
    assert_undone(stage, former, result)


def test_a_node_that_takes_the_upload_and_never_answers_costs_its_own_timeout_once(stage: Stage) -> None:
    former = stage.desk.active()
    stage.desk.gives("node-2", SHORT_S)
    stage.proxy.break_endpoint("addversion.json", "hang", forwards=True)
    result = stage.deploy(exit_code=4)
    weak = rows(result)["node-2"]
    assert weak["step"] == "upload"
    assert "did not answer in time" in weak["error"]
    # An upload gets six times as long as other calls; twice would be twelve times.
    assert weak["seconds"] < 12 * SHORT_S
    assert stage.proxy.calls["addversion.json"] == 1
    stage.proxy.mend("addversion.json")
    stage.desk.gives("node-2", TIMEOUT_S)
    assert_undone(stage, former, result)


ALL_FAULTS: list[tuple[Fault, str]] = [
    ("hang", "did not answer in time"),
    ("html", "It works!"),
    ("half", "broke off half way"),
]


@pytest.mark.parametrize(("fault", "why"), ALL_FAULTS)
def test_a_node_of_which_every_answer_is_broken_has_the_deploy_undone_on_the_others(
    stage: Stage, fault: Fault, why: str
) -> None:
    former = stage.desk.active()
    stage.desk.gives("node-2", SHORT_S)
    stage.proxy.break_endpoint("*", fault, forwards=False)
    result = stage.deploy(exit_code=4)
    weak = rows(result)["node-2"]
    assert (weak["ok"], weak["step"]) == (False, "look")
    assert why in weak["error"]
    assert stage.proxy.calls["addversion.json"] == 0
    # The broken node is out of the game: the next job goes to the other one.
    assert_undone(stage, former, result)


def test_a_node_that_is_down_has_the_deploy_undone_on_the_others(stage: Stage, tmp_path: Path) -> None:
    former = stage.desk.active()
    stage.weak.kill()
    direct = Desk.of([stage.good, stage.weak], stage.redis.url, tmp_path, timeout_s=TIMEOUT_S)
    result = stage.note(direct.json("deploy", stage.change(), exit_code=4))
    weak = rows(result)["node-2"]
    assert (weak["ok"], weak["step"]) == (False, "look")
    assert "no connection" in weak["error"]
    assert "connection refused" in weak["error"]
    assert_undone(stage, former, result)


def test_a_deploy_that_reaches_no_node_at_all_ends_with_five(stage: Stage) -> None:
    former = stage.desk.active()
    stage.proxy.break_endpoint("*", "reset", forwards=False)
    result = stage.deploy("--on", "node-2", exit_code=5)
    assert list(rows(result)) == ["node-2"]
    assert_undone(stage, former, result)


def test_a_module_that_is_missing_on_one_node_only_is_told_and_the_egg_removed_again(stage: Stage) -> None:
    former = stage.desk.active()
    (stage.weak.folder / "lacks-a-module").touch()
    result = stage.deploy(exit_code=4)
    weak = rows(result)["node-2"]
    assert weak["ok"] is False
    assert "a_module_that_is_missing_only_here" in weak["error"]
    assert "\n" not in weak["error"]
    (stage.weak.folder / "lacks-a-module").unlink()
    assert_undone(stage, former, result)


def test_a_node_that_finds_other_spiders_does_not_count_as_deployed(stage: Stage) -> None:
    former = stage.desk.active()
    (stage.weak.folder / "lacks-a-spider").touch()
    result = stage.deploy(exit_code=4)
    weak = rows(result)["node-2"]
    assert weak["step"] == "read back"
    assert "its list of spiders lacks touchy" in weak["error"]
    (stage.weak.folder / "lacks-a-spider").unlink()
    assert_undone(stage, former, result)


@pytest.mark.parametrize("fault", ["reset", "half"])
def test_an_answer_that_is_lost_after_the_node_took_the_egg_is_made_up_by_reading_back(
    stage: Stage, fault: Fault
) -> None:
    stage.proxy.break_endpoint("addversion.json", fault, forwards=True, times=1)
    result = stage.deploy()
    assert (result["active"], result["changed"]) == (True, True)
    assert result["version"] in stage.versions(stage.weak)
    assert_former_runs(stage, result["version"])


def test_an_egg_whose_upload_and_read_back_both_fail_is_removed_again(stage: Stage) -> None:
    former = stage.desk.active()
    stage.proxy.break_endpoint("listspiders.json", "500", forwards=True)
    result = stage.deploy(exit_code=4)
    weak = rows(result)["node-2"]
    assert weak["step"] == "read back"
    assert "delversion.json" in stage.proxy.forwarded
    stage.proxy.mend("listspiders.json")
    assert_undone(stage, former, result)


def test_an_egg_that_cannot_be_removed_again_is_told_and_never_run(stage: Stage) -> None:
    former = stage.desk.active()
    stage.proxy.break_endpoint("listspiders.json", "500", forwards=True)
    stage.proxy.break_endpoint("delversion.json", "500", forwards=False)
    result = stage.deploy(exit_code=4)
    assert "the egg may still be there" in rows(result)["node-2"]["error"]
    assert result["version"] not in stage.versions(stage.good)
    assert_former_runs(stage, former)
    # Once the node is well again, the same tree is simply deployed again.
    stage.proxy.mend("listspiders.json")
    stage.proxy.mend("delversion.json")
    assert stage.note(stage.desk.json("deploy", str(stage.market)))["active"] is True


def test_a_wrong_password_is_told_and_nothing_is_left(stage: Stage, tmp_path: Path) -> None:
    former = stage.desk.active()
    wrong = NodeEntry("node-2", "127.0.0.1", stage.proxy.port, (TEST_CREDENTIALS[0], "not-the-password"))
    other = Desk.of([stage.good, wrong], stage.redis.url, tmp_path, secrets=[SECRET, "not-the-password"])
    result = stage.note(other.json("deploy", stage.change(), exit_code=4))
    weak = rows(result)["node-2"]
    assert (weak["ok"], weak["step"]) == (False, "look")
    assert "wrong username or password" in weak["error"]
    assert_undone(stage, former, result)
    # With that password the next job still finds the other node.
    assert {job["node"] for job in other.json("schedule", "quick", "--workers", "2", "--wait")} == {"node-1"}


def test_keep_going_activates_on_the_good_nodes_and_schedules_avoid_the_other(stage: Stage) -> None:
    stage.proxy.break_endpoint("addversion.json", "500", forwards=False)
    result = stage.deploy("--keep-going", exit_code=4)
    assert (result["active"], result["changed"]) == (True, True)
    assert [node["ok"] for node in result["nodes"]] == [True, False]
    assert result["version"] not in stage.versions(stage.weak)
    ended = stage.desk.json("schedule", "quick", "--workers", "2", "--wait")
    assert {(job["node"], job["version"]) for job in ended} == {("node-1", result["version"])}
    assert stage.proxy.calls["schedule.json"] == 0
    assert "no" in stage.desk.error("schedule", "quick", "--on", "node-2", exit_code=6)
    # Deploys that earlier stories killed have left strays, which the status names as well.
    assert {each["kind"] for each in stage.desk.json("status")["attention"]} - {"stray"} == {"behind"}
    # The node is mended: the same deploy brings it what it lacks, and then it gets jobs again.
    stage.proxy.mend("addversion.json")
    again = stage.desk.json("deploy", str(stage.market))
    assert [node["step"] for node in again["nodes"]] == ["held", "done"]
    assert_former_runs(stage, result["version"])


def test_a_second_deploy_at_the_same_moment_is_refused_and_told_who_is_at_it(stage: Stage) -> None:
    stage.hold_uploads()
    with stage.desk.begin("deploy", stage.change(), "--output", "json") as first:
        wait_until(stage.uploads_begun, deadline_s=60, what="the first deploy to upload")
        told = stage.desk.error("deploy", str(stage.market), exit_code=6)
        stage.let_uploads_through()
        result = stage.note(stage.desk.read(first.wait(), 0).json())
    assert told.startswith("locked: market is locked by ")
    assert f"{os.uname().nodename}:" in told
    assert " UTC: deploy " in told
    assert result["version"] in told
    assert "--steal" in told
    assert_former_runs(stage, result["version"])


def test_a_lock_that_was_stolen_makes_the_robbed_deploy_end_without_activating(stage: Stage, tmp_path: Path) -> None:
    stage.hold_uploads()
    with stage.desk.begin("deploy", stage.change(), "--output", "json") as robbed:
        wait_until(stage.uploads_begun, deadline_s=60, what="the first deploy to upload")
        stage.hold_no_more_uploads()
        second = stage.market.copy(tmp_path / "second", "stolen")
        result = stage.desk.json("deploy", str(second), "--steal")
        stage.code_of[result["version"]] = "stolen"
        stage.let_uploads_through()
        error = stage.desk.read(robbed.wait(), 6).json()["error"]
    assert error["kind"] == "conflict"
    assert_former_runs(stage, result["version"])


@pytest.mark.parametrize("wish", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_deploy_undoes_itself_and_frees_the_lock(stage: Stage, wish: signal.Signals) -> None:
    former = stage.desk.active()
    stage.hold_uploads()
    with stage.desk.begin("deploy", stage.change(), "--output", "json") as command:
        stage.wait_until_half_done()
        signal_to(command, wish)
        stage.let_uploads_through()
        result = stage.note(stage.desk.read(command.wait(), 130).json())
    assert rows(result)["node-1"]["step"] == "undone"
    assert_undone(stage, former, result)
    assert stage.deploy()["active"] is True


def test_two_interrupts_end_a_deploy_at_once_and_the_former_release_stays(stage: Stage) -> None:
    former = stage.desk.active()
    stage.hold_uploads()
    with stage.desk.begin("deploy", stage.change()) as command:
        wait_until(stage.uploads_begun, deadline_s=60, what="half a deploy")
        # Two at the very same moment would be one.
        wait_until(lambda: is_over_after_ctrl_c(command), deadline_s=60, what="its end", pause_s=0.3)
        stage.desk.read(command.wait(), 130)
    stage.let_uploads_through()
    assert_former_runs(stage, former)
    assert stage.deploy()["active"] is True


def test_a_deploy_killed_half_way_leaves_the_former_release_and_a_lock_to_steal(stage: Stage) -> None:
    former = stage.desk.active()
    stage.hold_uploads()
    with stage.desk.begin("deploy", stage.change()) as command:
        stage.wait_until_half_done()
        signal_to(command, signal.SIGKILL)
        command.wait()
    stage.let_uploads_through()
    # First what holds for as long as the lock lasts.
    assert 0 < stage.lock_ttl_s() <= 60
    assert "locked: market is locked by " in stage.desk.error("deploy", str(stage.market), exit_code=6)
    assert_former_runs(stage, former)
    result = stage.note(stage.desk.json("deploy", str(stage.market), "--steal"))
    assert result["active"] is True
    assert_former_runs(stage, result["version"])
