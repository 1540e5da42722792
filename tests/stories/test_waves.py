"""Rollouts in waves on real nodes: a canary that fails, a check without items, an operator who is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from support.cli import RunningCrawlctl
from support.desk import Desk
from support.market import Market
from support.plugin_node import PluginNode, running_plugin_nodes
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS
from support.terminal import run_on_terminal
from support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("stories-waves")

WAVES = ("--canary", "1", "--waves", "50%,100%")


@dataclass
class Stage:
    """Three real plug-in nodes, and a project with a release on all of them."""

    desk: Desk
    market: Market
    nodes: list[PluginNode]
    _numbers: Iterator[int] = field(default_factory=count)

    def change(self) -> str:
        """Change the tree and return its folder."""
        self.market.change(f"release-{next(self._numbers)}")
        return str(self.market)

    def deploy(self, *words: str, exit_code: int = 0) -> Any:
        return self.desk.json("deploy", self.change(), *words, exit_code=exit_code)

    def begin(self, *words: str) -> RunningCrawlctl:
        return self.desk.begin("deploy", self.change(), *words)

    def holding(self, version: str) -> list[str]:
        held = {node.name: node.get("listversions.json", project="market")["versions"] for node in self.nodes}
        return [name for name, versions in held.items() if version in versions]

    def audited(self) -> list[tuple[str, str]]:
        """Return the last five entries of the audit, oldest first."""
        found = self.desk.json("audit", "-n", "5")
        return [(row["action"], row["result"]) for row in reversed(found)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, story_redis: RedisServer) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("waves")
    with running_plugin_nodes(3, redis_url=story_redis.url, folder=folder / "nodes", lease_s=6.0) as nodes:
        secrets = (TEST_CREDENTIALS[1], str(story_redis.password))
        desk = Desk.of(nodes, story_redis.url, folder / "desk", secrets=secrets, timeout_s=5)
        stage = Stage(desk, Market(folder / "market"), nodes)
        stage.deploy()
        yield stage


def test_each_wave_runs_the_new_version_before_the_next_one_begins(stage: Stage) -> None:
    former = stage.desk.active()
    planned = stage.desk.json("deploy", str(stage.market), *WAVES, "--dry-run")
    assert [each["wave"] for each in planned["nodes"]] == [1, 2, 3]
    deployed = stage.deploy("--canary", "1", "--check", "quick")
    shown = stage.desk.json("rollouts", "show", deployed["rollout"]["id"])

    assert (deployed["active"], deployed["rollout"]["state"], shown["former"]) == (True, "done", former)
    assert [(wave["state"], len(wave["nodes"])) for wave in shown["waves"]] == [("passed", 1), ("passed", 2)]
    for wave in shown["waves"]:
        assert (wave["check"]["node"] in wave["nodes"], wave["check"]["items"]) == (True, 1)
    job = stage.desk.job(shown["waves"][0]["check"]["job"])
    assert (job["version"], job["node"], job["finish_reason"]) == (deployed["version"], "node-1", "finished")
    assert (stage.desk.active(), stage.desk.json("rollouts")) == (deployed["version"], [])
    assert stage.desk.json("releases", "market", "--history")[0]["kind"] == "waves"
    assert stage.audited()[-1] == ("deploy", "done")


def test_a_check_that_brings_nothing_undoes_the_canary(stage: Stage) -> None:
    former = stage.desk.active()
    ended = stage.desk.run("deploy", stage.change(), *WAVES, "--check", "raising", exit_code=4)
    assert "the check on node-1 failed: the job" in ended.err
    assert "brought 0 items, fewer than 1" in ended.err
    assert stage.desk.active() == former
    (over, *_) = stage.desk.json("rollouts", "list", "--all")
    assert (over["state"], over["wave"]) == ("undone", 1)
    assert stage.holding(over["version"]) == []
    assert stage.audited()[-1] == ("deploy", "failed")


def test_a_canary_that_cannot_list_the_egg_is_held_when_asked_to_and_then_undone(stage: Stage) -> None:
    flag = stage.nodes[0].folder / "lacks-a-module"
    flag.touch()
    held = stage.desk.run("deploy", stage.change(), *WAVES, "--hold", exit_code=4)
    flag.unlink()
    (left,) = stage.desk.json("rollouts")
    assert (left["state"], left["wave"], left["failed"]) == ("held", 1, 1)
    assert "a_module_that_is_missing_only_here" in left["why"]
    assert f"crawlctl rollouts resume {left['id']}" in held.err

    refused = stage.desk.error("rollback", "-p", "market", exit_code=6)
    assert f"the rollout {left['id']} of market {left['version']} is held in wave 1 of 3" in refused
    undone = stage.desk.json("rollouts", "undo")
    assert (undone["active"], undone["rollout"]["state"]) == (False, "undone")
    assert stage.holding(left["version"]) == []
    assert stage.audited()[-4:] == [
        ("deploy", "failed"), ("rollback", "refused"), ("rollback", "refused"), ("rollouts undo", "done"),
    ]  # fmt: skip


def test_somebody_at_a_terminal_is_asked_what_to_do_about_a_wave_that_failed(stage: Stage) -> None:
    former, flag = stage.desk.active(), stage.nodes[0].folder / "lacks-a-module"
    flag.touch()
    words = ("deploy", stage.change(), *WAVES, "--hold")
    code, screen = run_on_terminal(*words, cwd=stage.desk.folder, typed="u\n")
    flag.unlink()
    assert "is held in wave 1 of 3" in screen
    assert "What now?" in screen
    assert "undone by" in screen
    assert (code, stage.desk.json("rollouts"), stage.desk.active()) == (4, [], former)


def test_ctrl_c_leaves_a_rollout_that_somebody_finishes_later(stage: Stage) -> None:
    former = stage.desk.active()
    with stage.begin(*WAVES, "--pause", "10m") as command:
        wait_until(lambda: stage.desk.json("rollouts") and _passed(stage) == 1, deadline_s=60, what="the first wave")
        command.interrupt()
        ended = stage.desk.read(command.wait(), 130)
    (left,) = stage.desk.json("rollouts")
    assert (left["state"], left["why"], left["tried"]) == ("held", "interrupted by its operator", 1)
    assert f"crawlctl rollouts undo {left['id']} takes it back" in ended.err
    assert stage.desk.json("schedule", "quick")["jobs"][0]["version"] == former
    assert (stage.desk.active(), stage.holding(left["version"])) == (former, ["node-1"])

    undone = stage.desk.json("rollouts", "undo", left["id"][:3])
    assert (undone["rollout"]["state"], stage.holding(left["version"])) == ("undone", [])
    assert ("deploy", "interrupted") in stage.audited()


def test_what_an_operator_left_who_was_killed_in_the_second_wave_is_finished(stage: Stage) -> None:
    former = stage.desk.active()
    stage.nodes[1].freeze()
    try:
        with stage.begin(*WAVES) as command:
            wait_until(lambda: "wave 2 of 3" in command.err, deadline_s=60, what="the second wave")
            os.killpg(command._started.pid, signal.SIGKILL)
            command.wait()
    finally:
        stage.nodes[1].thaw()
    # It was silent for a while: until its next heartbeat it may be taken for lost.
    wait_until(
        lambda: stage.desk.json("nodes", "show", "node-2")["state"] == "live", deadline_s=60, what="node-2 to be heard"
    )
    (left,) = stage.desk.json("rollouts")
    assert (left["wave"], stage.desk.active()) == (2, former)
    assert "is locked by" in stage.desk.error("rollouts", "resume", exit_code=6)

    ended = stage.desk.json("rollouts", "resume", "--steal")
    assert (ended["rollout"]["state"], stage.desk.active()) == ("done", left["version"])
    assert len(stage.holding(left["version"])) == 3


def _passed(stage: Stage) -> int:
    waves = stage.desk.json("rollouts", "show")["waves"]
    return sum(wave["state"] == "passed" or len(wave["results"]) == len(wave["nodes"]) for wave in waves)
