"""The life of a project's releases: the same again, another one, back, forward, and the old ones taken away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from support.desk import Desk
from support.market import Market
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode, running_nodes
from support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("stories-releases")


class Stage(NamedTuple):
    desk: Desk
    market: Market
    nodes: list[ScrapydNode]
    versions: list[str]

    def on_nodes(self) -> list[list[str]]:
        """Return the versions that each node holds."""
        return [node.get("listversions.json", project="market")["versions"] for node in self.nodes]

    def deploy(self, release: str) -> str:
        """Deploy another tree and return its version."""
        return str(self.desk.json("deploy", str(self.market.change(release)))["version"])


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, story_redis: RedisServer) -> Iterator[Stage]:
    """Give two nodes that hold three releases, of which the last is active."""
    folder = tmp_path_factory.mktemp("releases")
    with running_nodes(2, folder=folder / "nodes") as nodes:
        secrets = (TEST_CREDENTIALS[1], str(story_redis.password))
        desk = Desk.of(nodes, story_redis.url, folder / "desk", secrets=secrets)
        stage = Stage(desk, Market(folder / "market"), nodes, [])
        for release in ("one", "two", "three"):
            stage.versions.append(stage.deploy(release))
            # A version is named after its second, and nodes list versions by name.
            begun = int(time.time())
            wait_until(lambda begun=begun: int(time.time()) > begun, deadline_s=60, what="a second")  # type: ignore[misc]
        yield stage
        desk.cancel_all()


@pytest.fixture(autouse=True)
def third_is_active(stage: Stage) -> None:
    """Begin each sentence where the story begins."""
    if stage.desk.active() != stage.versions[2]:
        stage.desk.json("rollback", stage.versions[2])


def test_each_tree_has_become_a_release_of_its_own(stage: Stage) -> None:
    assert len(set(stage.versions)) == 3
    assert stage.on_nodes() == [stage.versions, stage.versions]
    releases = stage.desk.json("releases", "market")
    assert [row["version"] for row in releases] == stage.versions[::-1]
    assert [row["active"] for row in releases] == [True, False, False]
    assert stage.desk.marks("quick") == {"three"}


def test_an_unchanged_tree_changes_nothing_and_says_so(stage: Stage) -> None:
    history = stage.desk.json("releases", "--history")
    again = stage.desk.json("deploy", str(stage.market.change("three")))
    assert (again["version"], again["changed"], again["active"]) == (stage.versions[2], False, True)
    assert "nothing changed" in stage.desk.run("deploy", str(stage.market)).err
    assert stage.on_nodes() == [stage.versions, stage.versions]
    assert stage.desk.json("releases", "--history") == history


def test_a_tree_that_was_deployed_before_is_the_same_release_again(stage: Stage) -> None:
    back = stage.desk.json("deploy", str(stage.market.change("one")))
    assert (back["version"], back["changed"], back["active"]) == (stage.versions[0], True, True)
    assert {node["step"] for node in back["nodes"]} == {"held"}
    assert stage.desk.marks("quick") == {"one"}


def test_a_version_name_is_never_given_to_other_bytes(stage: Stage) -> None:
    stage.market.change("four")
    told = stage.desk.error("deploy", str(stage.market), "--version", stage.versions[0], exit_code=6)
    assert "is released already with other content" in told
    assert stage.on_nodes() == [stage.versions, stage.versions]


def test_a_dry_run_tells_what_would_happen_and_changes_nothing(stage: Stage) -> None:
    would = stage.desk.json("deploy", str(stage.market.change("four")), "--dry-run")
    assert [(node["name"], node["ok"], node["step"]) for node in would["nodes"]] == [
        ("node-1", True, "upload"),
        ("node-2", True, "upload"),
    ]
    assert stage.on_nodes() == [stage.versions, stage.versions]
    assert stage.desk.active() == stage.versions[2]


def test_rollback_goes_back_and_forward_and_jobs_follow(stage: Stage) -> None:
    back = stage.desk.json("rollback", stage.versions[0])
    assert (back["version"], back["active"], back["changed"]) == (stage.versions[0], True, True)
    assert {node["step"] for node in back["nodes"]} == {"held"}
    assert stage.desk.marks("quick") == {"one"}
    forward = stage.desk.json("rollback", stage.versions[1])
    assert (forward["version"], forward["changed"]) == (stage.versions[1], True)
    assert stage.desk.marks("quick") == {"two"}
    # Without a version it is the one that was active before.
    assert stage.desk.json("rollback")["version"] == stage.versions[0]
    assert stage.desk.active() == stage.versions[0]


def test_rollback_to_what_is_active_changes_nothing(stage: Stage) -> None:
    assert stage.desk.json("rollback", stage.versions[2])["changed"] is False


def test_rollback_to_a_version_that_a_node_lacks_is_refused_and_the_node_is_named(stage: Stage) -> None:
    stage.nodes[1].post("delversion.json", project="market", version=stage.versions[0])
    try:
        told = stage.desk.error("rollback", stage.versions[0], exit_code=6)
        assert "node-2 no longer hold(s) market" in told
        assert "node-1" not in told
        assert stage.desk.active() == stage.versions[2]
    finally:
        stage.desk.json("deploy", str(stage.market.change("one")))
    assert stage.on_nodes() == [stage.versions, stage.versions]


def test_rollback_to_a_version_that_nobody_knows_is_told(stage: Stage) -> None:
    assert "market has no release 20200101-000000-0000000" in stage.desk.error(
        "rollback", "20200101-000000-0000000", exit_code=7
    )
    assert stage.desk.active() == stage.versions[2]


def test_the_history_tells_every_rollout_with_who_and_where(stage: Stage) -> None:
    stage.desk.json("rollback", stage.versions[1])
    newest = stage.desk.json("releases", "market", "--history")[0]
    assert list(newest) == ["project", "version", "kind", "at", "by", "activated", "nodes"]
    assert (newest["version"], newest["kind"], newest["activated"]) == (stage.versions[1], "rollback", True)
    assert "@" in newest["by"]
    assert [(node["name"], node["ok"], node["spiders"]) for node in newest["nodes"]] == [
        ("node-1", True, stage.market.spiders),
        ("node-2", True, stage.market.spiders),
    ]


def test_prune_keeps_the_active_release_and_those_in_use(stage: Stage) -> None:
    one, two, three = stage.versions
    running = stage.desk.start_sleeper("--version", one, "-p", "market")
    assert running["version"] == one
    stage.desk.json("rollback", two)
    would = stage.desk.json("prune", "--keep", "1", "--dry-run")
    assert (would["removed"], sorted(would["kept"])) == ([], stage.versions)
    stage.desk.json("prune", "--keep", "1")
    assert stage.on_nodes() == [stage.versions, stage.versions]
    stage.desk.json("cancel", running["id"], "--grace", "0")
    pruned = stage.desk.json("prune", "--keep", "1")
    assert (pruned["removed"], sorted(pruned["kept"])) == ([one], [two, three])
    assert stage.on_nodes() == [[two, three], [two, three]]
    assert "has no release" in stage.desk.error("rollback", one, exit_code=7)
    assert stage.desk.marks("quick") == {"two"}
