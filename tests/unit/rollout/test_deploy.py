"""A deploy tells the truth: what is said to be deployed is there, and what is said to be undone is not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
from support.eggs import small_egg
from support.fleet import Fleet

from toolkit.cluster.nodes import Nodes
from toolkit.model.errors import ConflictError, LockHeldError, NodeError, StoreUnreachableError
from toolkit.model.names import NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.releases import DeployResult, RolloutLock
from toolkit.rollout.deploy import InterruptedDeployError, choose_version, deploy, plan
from toolkit.rollout.lock import holding_lock
from toolkit.rollout.push import DONE, HELD, Cargo
from toolkit.rollout.rollback import rollback
from toolkit.store.interfaces import Store

SMALL, V1, V2 = ProjectName("small"), VersionName("v1"), VersionName("v2")


def cargo_of(version: VersionName = V1, *, marker: str = "") -> Cargo:
    egg = small_egg(marker=marker)
    return Cargo(SMALL, version, egg, hashlib.sha256(egg).hexdigest(), (SpiderName("alpha"), SpiderName("beta")))


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet(nodes=3) as fleet:
        yield fleet


def ship(nodes: Nodes, store: Store, cargo: Cargo, *, keep_going: bool = False) -> DeployResult:
    return deploy(nodes, store, cargo, keep_going=keep_going, on_step=_ignore, on_done=_ignore)


def digests(fleet: Fleet, version: VersionName) -> list[str | None]:
    eggs = [fleet.report(host.name)["eggs"] for host in fleet.hosts]
    return [each.get("small", {}).get(version, {}).get("digest") for each in eggs]


def steps(result: DeployResult) -> list[str]:
    return [each.step for each in result.results]


def test_what_is_deployed_is_on_every_node_and_active(fleet: Fleet, nodes: Nodes, store: Store) -> None:
    cargo = cargo_of()
    result = ship(nodes, store, cargo)
    assert (result.is_active, result.is_changed, steps(result)) == (True, True, [DONE] * 3)
    assert digests(fleet, V1) == [cargo.digest] * 3
    active = store.releases.active(SMALL)
    assert active is not None
    assert (active.version, active.digest, active.spiders) == (V1, cargo.digest, cargo.spiders)
    assert store.releases.holders(SMALL, V1) == {host.name for host in fleet.hosts}


def test_deploying_the_same_again_changes_nothing(fleet: Fleet, nodes: Nodes, store: Store) -> None:
    ship(nodes, store, cargo_of())
    result = ship(nodes, store, cargo_of())
    assert (result.is_active, result.is_changed, steps(result)) == (True, False, [HELD] * 3)
    assert fleet.calls("addversion.json") == 3
    assert len(store.releases.history(SMALL)) == 1


def test_somebody_elses_version_of_the_same_name_is_not_taken_for_ours(
    fleet: Fleet, nodes: Nodes, store: Store
) -> None:
    theirs = cargo_of(marker="theirs")
    nodes[NodeName("sim-002")].upload(SMALL, V1, theirs.content)
    ours = cargo_of(marker="ours")
    assert plan(nodes, store, ours).values == {host.name: "upload" for host in fleet.hosts}
    result = ship(nodes, store, ours)
    assert result.is_active
    assert digests(fleet, V1) == [ours.digest] * 3


def test_a_lost_answer_does_not_pass_somebody_elses_egg_off_as_ours(fleet: Fleet, nodes: Nodes, store: Store) -> None:
    nodes[NodeName("sim-002")].upload(SMALL, V1, cargo_of(marker="theirs").content)
    fleet.set_faults("sim-002", {"addversion.json": "reset"})
    result = ship(nodes, store, cargo_of(marker="ours"))
    assert not result.is_active
    assert [each.node for each in result.results if each.step == "upload"] == ["sim-002"]


def test_one_nodes_failure_undoes_the_others(fleet: Fleet, nodes: Nodes, store: Store) -> None:
    ship(nodes, store, cargo_of())
    fleet.set_faults("sim-002", {"addversion.json": "500"})
    result = ship(nodes, store, cargo_of(V2, marker="2"))
    assert (result.is_active, result.is_changed) == (False, False)
    assert digests(fleet, V2) == [None] * 3
    assert steps(result) == ["undone", "upload", "undone"]
    active = store.releases.active(SMALL)
    assert active is not None
    assert active.version == V1
    assert [type(error) for error in result.errors] != []
    assert all(isinstance(error, NodeError) for error in result.errors)


def test_keeping_going_makes_it_active_where_it_is(fleet: Fleet, nodes: Nodes, store: Store) -> None:
    fleet.set_faults("sim-002", {"*": "500"})
    result = ship(nodes, store, cargo_of(), keep_going=True)
    assert (result.is_active, result.is_changed) == (True, True)
    assert store.releases.holders(SMALL, V1) == {"sim-001", "sim-003"}


def test_what_failed_everywhere_is_not_active_even_when_keeping_going(fleet: Fleet, nodes: Nodes, store: Store) -> None:
    for host in fleet.hosts:
        fleet.set_faults(host.name, {"addversion.json": "error"})
    result = ship(nodes, store, cargo_of(), keep_going=True)
    assert not result.is_active
    assert store.releases.active(SMALL) is None


def test_a_version_released_meanwhile_with_other_content_is_refused_before_any_node_is_touched(
    fleet: Fleet, nodes: Nodes, store: Store
) -> None:
    ours = cargo_of(marker="ours")
    assert choose_version(store, SMALL, ours.digest, wanted=V1) == V1
    theirs = cargo_of(marker="theirs")
    ship(nodes, store, theirs)
    with pytest.raises(ConflictError, match="other content"):
        ship(nodes, store, ours)
    assert digests(fleet, V1) == [theirs.digest] * 3
    with pytest.raises(ConflictError, match="other content"):
        choose_version(store, SMALL, ours.digest, wanted=V1)


def test_the_same_content_keeps_its_version(nodes: Nodes, store: Store) -> None:
    ship(nodes, store, cargo_of())
    assert choose_version(store, SMALL, cargo_of().digest, wanted=None) == V1
    assert choose_version(store, SMALL, "another", wanted=None) != V1


def test_a_second_deploy_at_the_same_moment_is_refused(nodes: Nodes, store: Store) -> None:
    with holding_lock(store.releases, SMALL, why="another"), pytest.raises(LockHeldError, match="another"):
        ship(nodes, store, cargo_of())


def test_ctrl_c_takes_back_what_was_brought(fleet: Fleet, nodes: Nodes, store: Store) -> None:
    pressed: list[object] = []

    def press(result: object) -> None:
        pressed.append(result)
        if len(pressed) == 1:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedDeployError) as caught:
        deploy(nodes, store, cargo_of(), on_step=_ignore, on_done=press)
    assert not caught.value.result.is_active
    assert digests(fleet, V1) == [None] * 3
    assert store.releases.active(SMALL) is None
    assert store.releases.holder(SMALL) is None


def test_a_store_that_goes_away_after_the_activation_hides_no_success(
    nodes: Nodes, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: RolloutLock) -> None:
        raise StoreUnreachableError("the store is away")

    monkeypatch.setattr(store.releases, "unlock", gone)
    assert ship(nodes, store, cargo_of()).is_active


def test_a_store_that_goes_away_hides_no_other_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: RolloutLock) -> None:
        raise StoreUnreachableError("the store is away")

    monkeypatch.setattr(store.releases, "unlock", gone)
    with pytest.raises(ConflictError, match="the real reason"), holding_lock(store.releases, SMALL, why="a test"):
        raise ConflictError("the real reason")


def test_a_rollback_is_to_what_the_nodes_still_hold(fleet: Fleet, nodes: Nodes, store: Store) -> None:
    ship(nodes, store, cargo_of())
    ship(nodes, store, cargo_of(V2, marker="2"))
    result = rollback(nodes, store, SMALL, to=None)
    assert (result.version, result.is_active, result.is_changed) == (V1, True, True)
    assert fleet.calls("addversion.json") == 6
    assert not rollback(nodes, store, SMALL, to=V1).is_changed


def _ignore(*_: object) -> None:
    """Take no notice."""
