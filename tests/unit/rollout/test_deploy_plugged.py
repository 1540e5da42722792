"""A deploy to plug-in nodes: by HTTP where that works, else the nodes fetch the egg by themselves, now or later."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from support.doors import nodes_of
from support.eggs import small_egg
from support.fleet import Fleet
from support.plugged_node import PluggedNode
from support.ports import free_port
from support.queue_desk import SHORT_S, QueueDesk, a_report, queue_desk
from support.registry import a_record
from support.waiting import wait_until

from toolkit.cluster.nodes import Nodes
from toolkit.cluster.registry import Registry
from toolkit.model.errors import NothingReachableError, RefusedError
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.releases import LATER, DeployResult
from toolkit.model.snapshot import NodeState
from toolkit.rollout.deploy import deploy, plan
from toolkit.rollout.plugged import Fetching, bring, is_held_already, judge_fetching
from toolkit.rollout.prune import prune
from toolkit.rollout.push import DONE, FETCHED, HELD, Cargo
from toolkit.rollout.rollback import rollback
from toolkit.rollout.targets import targets_of

SMALL, V1, V2 = ProjectName("small"), VersionName("v1"), VersionName("v2")
Plug = Callable[..., PluggedNode]


def cargo_of(version: VersionName = V1, *, marker: str = "") -> Cargo:
    egg = small_egg(marker=marker)
    return Cargo(SMALL, version, egg, hashlib.sha256(egg).hexdigest(), (SpiderName("alpha"), SpiderName("beta")))


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet(nodes=2) as fleet:
        yield fleet


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[QueueDesk]:
    with queue_desk(redis_url, tmp_path) as desk:
        yield desk


@pytest.fixture
def plug(desk: QueueDesk) -> Iterator[Plug]:
    """Give what starts a plug-in node that holds nothing, and beats until the test is over."""
    with ExitStack() as ending:

        def start(name: str, **more: object) -> PluggedNode:
            return ending.enter_context(PluggedNode(desk.store, name, versions={}, **more))  # type: ignore[arg-type]

        yield start


def unreachable(*hosts: str) -> Nodes:
    return Nodes.of([Host(NodeName(name), port=free_port(), timeout_s=1) for name in hosts])


def ship(
    desk: QueueDesk, nodes: Nodes, cargo: Cargo, *, keep_going: bool = False, is_whole: bool = False
) -> DeployResult:
    return deploy(nodes, desk.store, cargo, keep_going=keep_going, is_whole=is_whole, on_step=_ignore, on_done=_ignore)


def steps(result: DeployResult) -> dict[str, str]:
    return {each.node: each.step for each in result.results}


def lose(desk: QueueDesk, name: str, **more: object) -> None:
    """Register a node that then falls silent for good."""
    desk.register(a_report(name, lease_s=SHORT_S, **more))  # type: ignore[arg-type]

    def is_lost() -> bool:
        return any(each.name == name and each.state is NodeState.LOST for each in desk.nodes.all())

    wait_until(is_lost, deadline_s=10, what=f"{name} to be lost")


def test_a_cluster_without_plug_in_nodes_keeps_no_egg(desk: QueueDesk, fleet: Fleet) -> None:
    cargo = cargo_of()
    assert set(steps(ship(desk, nodes_of(fleet.hosts), cargo)).values()) == {DONE}
    assert desk.eggs.fetch(cargo.digest) is None


def test_a_node_that_http_does_not_reach_fetches_the_egg_by_itself(desk: QueueDesk, fleet: Fleet, plug: Plug) -> None:
    plug("behind-nat", fetches=True)
    cargo = cargo_of()
    nodes = Nodes([*nodes_of(fleet.hosts), *unreachable("behind-nat")])
    result = ship(desk, nodes, cargo)
    assert steps(result) == {"sim-001": DONE, "sim-002": DONE, "behind-nat": FETCHED}
    assert result.is_active
    assert result.failed == ()
    assert desk.store.releases.holders(SMALL, V1) == {"sim-001", "sim-002", "behind-nat"}
    assert desk.eggs.fetch(cargo.digest) == cargo.content
    assert desk.eggs.offered() == []


def test_a_plug_in_node_that_answers_is_pushed_to_and_read_back(desk: QueueDesk, fleet: Fleet, plug: Plug) -> None:
    plug("sim-001", fetches=False)
    result = ship(desk, nodes_of(fleet.hosts), cargo_of())
    assert steps(result) == {"sim-001": DONE, "sim-002": DONE}
    assert result.is_active


def test_the_same_again_asks_no_plug_in_node_and_changes_nothing(desk: QueueDesk, plug: Plug) -> None:
    plug("a", fetches=True)
    cargo = cargo_of()
    assert steps(ship(desk, unreachable("a"), cargo)) == {"a": FETCHED}
    assert plan(unreachable("a"), desk.store, cargo).values == {"a": "hold"}
    again = ship(desk, unreachable("a"), cargo)
    assert (steps(again), again.is_active, again.is_changed) == ({"a": HELD}, True, False)
    assert desk.eggs.offered() == []


def test_registered_nodes_beyond_the_inventory_count_when_all_are_meant(desk: QueueDesk, plug: Plug) -> None:
    plug("a", fetches=True)
    plug("unlisted", fetches=True)
    assert steps(ship(desk, unreachable("a"), cargo_of())) == {"a": FETCHED}
    second = ship(desk, unreachable("a"), cargo_of(V2, marker="2"), is_whole=True)
    assert steps(second) == {"a": FETCHED, "unlisted": FETCHED}


def test_a_lost_node_gets_it_later_and_that_is_no_failure(desk: QueueDesk, plug: Plug) -> None:
    plug("a", fetches=True)
    lose(desk, "gone", versions={})
    nodes = unreachable("a", "gone")
    assert plan(nodes, desk.store, cargo_of()).values == {"a": "upload", "gone": LATER}
    result = ship(desk, nodes, cargo_of())
    assert steps(result) == {"a": FETCHED, "gone": LATER}
    assert (result.is_active, result.failed, [each.node for each in result.later]) == (True, (), ["gone"])
    assert desk.store.releases.holders(SMALL, V1) == {"a"}


def test_a_deploy_to_nothing_but_lost_nodes_fails_and_leaves_nothing(desk: QueueDesk) -> None:
    lose(desk, "gone", versions={})
    result = ship(desk, unreachable("gone"), cargo_of())
    assert (result.is_active, [each.step for each in result.failed]) == (False, ["look"])
    assert [type(error).__name__ for error in result.errors] == ["NodeUnreachableError"]
    assert desk.store.releases.active(SMALL) is None
    assert desk.eggs.offered() == []
    assert desk.eggs.fetch(cargo_of().digest) is None


def test_a_node_that_cannot_install_it_fails_the_deploy_with_its_reason(
    desk: QueueDesk, fleet: Fleet, plug: Plug
) -> None:
    plug("a", refuses="No module named 'scrapy_splash'")
    nodes = Nodes([*nodes_of(fleet.hosts), *unreachable("a")])
    result = ship(desk, nodes, cargo_of())
    assert not result.is_active
    assert [(each.node, each.step) for each in result.failed] == [
        ("sim-001", "undone"),
        ("sim-002", "undone"),
        ("a", "fetch"),
    ]
    assert "No module named 'scrapy_splash'" in (result.results[-1].error or "")
    assert desk.eggs.offered() == []
    assert all(
        fleet.report(host.name)["eggs"] == {"small": {}} or not fleet.report(host.name)["eggs"] for host in fleet.hosts
    )


def test_a_node_that_lives_and_does_nothing_fails_the_deploy(
    desk: QueueDesk, plug: Plug, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.rollout.plugged.FETCH_PATIENCE_S", 0.5)
    plug("a")
    plug("b", fetches=True)
    result = ship(desk, unreachable("a", "b"), cargo_of())
    assert steps(result) == {"a": "fetch", "b": "undo"}
    assert "has not fetched it from the store within 0.5 s; nor could it be reached" in (result.results[0].error or "")
    going = ship(desk, unreachable("a", "b"), cargo_of(V2, marker="2"), keep_going=True)
    assert (steps(going), going.is_active) == ({"a": "fetch", "b": FETCHED}, True)


def test_an_egg_that_is_too_large_for_the_store_is_refused_before_anything_is_sent(
    desk: QueueDesk, fleet: Fleet, plug: Plug, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug("a", fetches=True)

    def refuse(*_: object, **__: object) -> None:
        raise RefusedError("the egg is too large")

    monkeypatch.setattr(type(desk.eggs), "offer", refuse)
    with pytest.raises(RefusedError, match="too large"):
        ship(desk, Nodes([*nodes_of(fleet.hosts), *unreachable("a")]), cargo_of())
    assert fleet.calls("addversion.json") == 0


def test_what_a_killed_deploy_left_on_offer_ends_with_the_next_one(desk: QueueDesk, plug: Plug) -> None:
    plug("a", fetches=True)
    ship(desk, unreachable("a"), cargo_of())
    left = desk.store.releases.active(SMALL)
    assert left is not None
    egg = small_egg(marker="left")
    stray = replace(left, version=VersionName("v9"), digest=hashlib.sha256(egg).hexdigest())
    desk.eggs.offer(stray, egg)
    ship(desk, unreachable("a"), cargo_of(V2, marker="2"))
    assert desk.eggs.offered() == []
    assert desk.eggs.fetch(stray.digest) is None


def test_a_rollback_reads_what_plug_in_nodes_hold_from_their_reports(desk: QueueDesk, plug: Plug) -> None:
    plug("a", fetches=True)
    lose(desk, "gone", versions={})
    nodes = unreachable("a", "gone")
    ship(desk, nodes, cargo_of())
    ship(desk, nodes, cargo_of(V2, marker="2"))
    result = rollback(nodes, desk.store, SMALL, to=None)
    assert (result.version, steps(result)) == (V1, {"a": HELD, "gone": LATER})
    plug("new")
    with pytest.raises(RefusedError, match="new no longer hold"):
        rollback(unreachable("a", "new"), desk.store, SMALL, to=V2)
    with pytest.raises(NothingReachableError, match="every node is lost"):
        rollback(unreachable("gone"), desk.store, SMALL, to=V2)


def test_a_prune_drops_the_eggs_that_no_release_needs(desk: QueueDesk, fleet: Fleet, plug: Plug) -> None:
    plug("elsewhere", fetches=True)
    nodes = nodes_of(fleet.hosts)
    first, second = cargo_of(), cargo_of(V2, marker="2")
    ship(desk, nodes, first)
    ship(desk, nodes, second)
    pruned = prune(nodes, desk.store, SMALL, keep=1)
    assert (pruned.removed, pruned.errors) == ((V1,), ())
    assert desk.eggs.fetch(first.digest) is None
    assert desk.eggs.fetch(second.digest) == second.content


def test_what_a_report_shows_decides() -> None:
    cargo = replace(cargo_of(), proven=frozenset({NodeName("a")}))
    holding = a_record("a", project=SMALL, versions=[V1])
    assert judge_fetching(holding, cargo) == Fetching(is_held=True)
    assert judge_fetching(a_record("a", versions=[], age_s=100), cargo) == Fetching(is_away=True)
    assert judge_fetching(a_record("a", versions=[]), cargo) == Fetching()
    behind = a_record("a", versions=[], behind={f"{SMALL} {V1}": "no disk"})
    assert judge_fetching(behind, cargo) == Fetching(refusal="no disk")
    assert judge_fetching(None, cargo).refusal is not None
    assert is_held_already(holding, cargo)
    assert not is_held_already(holding, replace(cargo, proven=frozenset()))
    assert not is_held_already(replace(holding, age_s=100), cargo)


def _ignore(*_: object) -> None:
    pass


def test_a_release_with_an_environment_of_its_own_is_fetched_also_by_a_node_that_http_reaches(
    desk: QueueDesk, fleet: Fleet, plug: Plug
) -> None:
    (host, _) = fleet.hosts
    plug(host.name, fetches=True)
    cargo = replace(cargo_of(), needs=("tinydep==1.0",), has_environment=True)
    result = ship(desk, nodes_of([host]), cargo)
    assert (steps(result), result.is_active) == ({host.name: FETCHED}, True)
    assert fleet.calls("addversion.json") == 0
    release = desk.store.releases.get(SMALL, V1)
    assert release is not None
    assert (release.needs, release.has_environment) == (("tinydep==1.0",), True)


def test_a_stock_node_has_no_environment_for_a_release_and_says_what_does(desk: QueueDesk, fleet: Fleet) -> None:
    cargo = replace(cargo_of(), needs=("tinydep==1.0",), has_environment=True)
    planned = plan(nodes_of(fleet.hosts), desk.store, cargo)
    result = ship(desk, nodes_of(fleet.hosts), cargo)
    assert not result.is_active
    assert set(steps(result).values()) == {"look"}
    for error in [*(each.error for each in result.results), *(str(each.error) for each in planned)]:
        assert "crawlctl nodes provision" in (error or "")
    assert fleet.calls("addversion.json") == 0


def test_a_refusal_that_a_node_had_before_is_believed_only_when_it_had_time_to_take_it_back(
    desk: QueueDesk, plug: Plug, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.rollout.plugged.FETCH_PATIENCE_S", 0.5)
    plug("a", refuses="no version of tinydep")
    cargo = replace(cargo_of(), needs=("tinydep==9",), has_environment=True)
    for _ in range(2):
        result = ship(desk, unreachable("a"), cargo)
        assert result.results[0].error == "no version of tinydep"


def test_an_interruption_ends_the_wait_for_a_node_that_makes_an_environment(desk: QueueDesk, plug: Plug) -> None:
    plug("a")
    cargo = replace(cargo_of(), needs=("tinydep==1.0",), has_environment=True)
    (target,) = targets_of(unreachable("a"), desk.store, is_whole=False)
    pushed = bring(target, cargo, Registry(desk.store), on_step=_ignore, is_stopped=lambda: True)
    assert (pushed.result.step, pushed.result.error) == ("fetch", "interrupted")
    assert pushed.is_ours, "so that it is taken back"
