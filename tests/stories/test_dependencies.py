"""Releases that need packages which the node lacks, or has otherwise, from the desk of an operator."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.desk import Desk, process_of
from support.plugin_node import PluginNode, running_plugin_nodes
from support.redis_server import RedisServer
from support.scrapy_projects import write_files, write_project
from support.scrapyd_node import TEST_CREDENTIALS
from support.waiting import wait_until
from support.wheels import add_gated_source, add_wheel

pytestmark = pytest.mark.xdist_group("stories-dependencies")
SOON_S = 60.0

_SPIDER = """\
import asyncio
import sys
from pathlib import Path

import scrapy


class TellsSpider(scrapy.Spider):
    name = "tells"

    async def start(self):
        while (until := getattr(self, "until", None)) and not Path(until).exists():
            await asyncio.sleep(0.05)
        yield scrapy.Request("data:,")

    def parse(self, response):
        import tinydep

        yield {"has": tinydep.VERSION, "python": sys.prefix}
"""


class Stage(NamedTuple):
    desk: Desk
    node: PluginNode
    project: Path
    gate: Path

    def needs(self, *lines: str) -> str:
        """Let the project need this; return its folder."""
        write_files(self.project, {"requirements.txt": "".join(f"{line}\n" for line in lines)})
        return str(self.project)

    def deploy(self, *lines: str) -> str:
        """Deploy the project with these requirements, and return the version."""
        return str(self.desk.json("deploy", self.needs(*lines), "--sync-deps")["version"])

    @property
    def environments(self) -> Path:
        return self.node.folder / "dbs" / "node" / "environments"

    def made(self) -> list[str]:
        """Return what lies in the folder of environments, half made ones too."""
        return sorted(path.name for path in self.environments.iterdir() if path.name != "cache")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, story_redis: RedisServer) -> Iterator[Stage]:
    """One plug-in node with a wheelhouse, and two releases that need clashing versions of one package."""
    folder = tmp_path_factory.mktemp("needs")
    house, gate, project = folder / "wheels", folder / "gate", folder / "project"
    add_wheel(house, "tinydep", "1.0")
    add_wheel(house, "tinydep", "2.0")
    add_gated_source(house, "slowdep", "1.0", gate=gate)
    write_project(project, {"shop/spiders/tells.py": _SPIDER})
    own = {"wheelhouse": str(house)}
    with running_plugin_nodes(1, redis_url=story_redis.url, folder=folder, slots=3, own=own) as nodes:
        desk = Desk.of(nodes, story_redis.url, folder / "desk", secrets=(TEST_CREDENTIALS[1],))
        yield Stage(desk, nodes[0], project, gate)


def test_a_release_whose_needs_the_node_lacks_is_refused_and_nothing_is_active(stage: Stage) -> None:
    project = stage.needs("tinydep==1.0", "Scrapy>=2", "# a comment", "absent; python_version < '3'")
    for words in (("deploy", project, "--dry-run"), ("deploy", project)):
        told = stage.desk.json(*words, exit_code=4)
        assert "lacks tinydep==1.0 (has none)" in told["nodes"][0]["error"]
        assert "--sync-deps" in told["nodes"][0]["error"]
    assert stage.desk.json("releases") == []
    assert stage.desk.run("deploy", project, "--no-check-deps", "--dry-run").exit_code == 0


def test_two_releases_with_clashing_needs_run_side_by_side_and_a_rollback_brings_the_old_back(stage: Stage) -> None:
    first, second = stage.deploy("tinydep==1.0"), stage.deploy("tinydep==2.0")
    assert first != second
    until = stage.desk.folder / "both-ran"
    (old,) = stage.desk.json("schedule", "tells", "-p", "shop", "--version", first, "-a", f"until={until}")["jobs"]
    wait_until(lambda: process_of(old["id"]), deadline_s=SOON_S, what="the job of the first release")
    (new,) = stage.desk.json("schedule", "tells", "--wait")
    assert process_of(old["id"]) is not None, "both ran at once"
    until.touch()
    wait_until(
        lambda: stage.desk.job(old["id"])["state"] == "finished",
        deadline_s=SOON_S,
        what="the first release's job to end",
    )
    (item,), (other,) = stage.desk.items(old["id"]), stage.desk.items(new["id"])
    assert (item["has"], other["has"]) == ("1.0", "2.0")
    assert len({item["python"], other["python"]}) == 2

    stage.desk.run("rollback", "-p", "shop")
    (again,) = stage.desk.json("schedule", "tells", "--wait")
    assert [item["has"] for item in stage.desk.items(again["id"])] == ["1.0"]

    both = [f"tinydep==1.0; needed by shop {first}", f"tinydep==2.0; needed by shop {second}"]
    # A node says so with its next heartbeat only.
    wait_until(
        lambda: sorted(stage.desk.json("nodes", "show", stage.node.name)["environments"].values()) == both,
        deadline_s=SOON_S,
        what="the node to tell of both environments",
    )
    row = next(row for row in stage.desk.json("releases") if row["version"] == second)
    assert (row["needs"], row["environment"]) == (["tinydep==2.0"], True)


def test_needs_that_cannot_be_met_are_refused_with_the_resolvers_words(stage: Stage) -> None:
    active = stage.desk.active("shop")
    told = stage.desk.json("deploy", stage.needs("tinydep==9"), "--sync-deps", exit_code=4)
    assert "there is no version of tinydep==9" in told["nodes"][0]["error"]
    assert stage.desk.active("shop") == active
    assert all(not name.startswith(".") for name in stage.made())


def test_a_node_that_is_killed_while_it_makes_an_environment_makes_it_at_its_next_start(stage: Stage) -> None:
    begun, opened = stage.gate / "begun", stage.gate / "open"
    opened.touch()
    stage.deploy("slowdep==1.0", "tinydep==2.0")
    stage.node.stop()
    (made,) = (path.parent for path in stage.environments.glob("*/made.json") if "slowdep" in path.read_text())
    shutil.rmtree(made)
    shutil.rmtree(stage.environments / "cache")
    begun.unlink()
    opened.unlink()

    stage.node.start()
    wait_until(begun.exists, deadline_s=SOON_S, what="the environment to be made")
    assert [name for name in stage.made() if name.startswith(".")]
    stage.node.kill()
    opened.touch()
    stage.node.start()

    (job,) = stage.desk.json("schedule", "tells", "--wait")
    assert [item["has"] for item in stage.desk.items(job["id"])] == ["2.0"]
    wait_until(
        lambda: not [name for name in stage.made() if name.startswith(".")],
        deadline_s=SOON_S,
        what="what the kill left to be gone",
    )
