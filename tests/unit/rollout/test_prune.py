"""Prune never takes what is needed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.eggs import small_egg
from support.fleet import Fleet

from toolkit.cluster.nodes import Nodes
from toolkit.model.errors import LockHeldError, NotFoundError, NothingReachableError, RefusedError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.releases import Release
from toolkit.rollout.deploy import deploy
from toolkit.rollout.lock import holding_lock
from toolkit.rollout.prune import choose, prune
from toolkit.rollout.push import Cargo
from toolkit.store.interfaces import Store

SMALL, ALPHA = ProjectName("small"), SpiderName("alpha")
AT = datetime(2026, 11, 21, tzinfo=UTC)

names = st.lists(st.integers(0, 99).map(lambda i: VersionName(f"v{i}")), unique=True, max_size=30)


def release(version: VersionName, age: int) -> Release:
    return Release(SMALL, version, "aa", (ALPHA,), 1, None, AT - timedelta(hours=age), "ann")


@given(versions=names, keep=st.integers(1, 40), needed=st.data())
def test_what_is_active_in_use_or_new_is_never_chosen(
    versions: list[VersionName], keep: int, needed: st.DataObject
) -> None:
    active = needed.draw(st.sampled_from([None, *versions, VersionName("elsewhere")]))
    in_use = needed.draw(st.sets(st.sampled_from([*versions, VersionName("elsewhere")])))
    removed, kept = choose(
        [release(version, age) for age, version in enumerate(versions)], keep=keep, active=active, in_use=in_use
    )
    assert sorted(removed + kept) == sorted(versions)
    assert not set(removed) & ({active} | in_use | set(versions[:keep]))
    assert set(kept) == set(versions) & ({active} | in_use | set(versions[:keep]))


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet(nodes=2, slots=1, job_s=600) as fleet:
        yield fleet


@pytest.fixture
def versions(nodes: Nodes, store: Store) -> list[VersionName]:
    """Deploy five releases, and return their versions, newest first."""
    made = [VersionName(f"v{i}") for i in range(5)]
    for version in made:
        egg = small_egg(marker=version)
        cargo = Cargo(SMALL, version, egg, hashlib.sha256(egg).hexdigest(), (ALPHA, SpiderName("beta")))
        assert deploy(nodes, store, cargo, on_step=_ignore, on_done=_ignore).is_active
    return made[::-1]


def held(nodes: Nodes) -> list[tuple[VersionName, ...]]:
    return [node.versions(SMALL) for node in nodes]


def run_on_first(nodes: Nodes, job_id: str, version: VersionName) -> Job:
    first = nodes.names[0]
    job = Job(JobId(job_id), SMALL, ALPHA, JobState.PENDING, version=version, node=first, args={"duration_s": "600"})
    nodes[first].start(job)
    return replace(job, scheduled_at=AT)


def test_the_newest_stay_and_the_others_are_gone_from_nodes_and_history(
    nodes: Nodes, store: Store, versions: list[VersionName]
) -> None:
    pruned = prune(nodes, store, SMALL, keep=2)
    assert (pruned.removed, pruned.kept, pruned.errors) == (("v2", "v1", "v0"), ("v4", "v3"), ())
    assert held(nodes) == [("v3", "v4")] * 2
    assert [each.version for each in store.releases.releases(SMALL)] == versions[:2]


def test_a_dry_run_removes_nothing(nodes: Nodes, store: Store, versions: list[VersionName]) -> None:
    pruned = prune(nodes, store, SMALL, keep=1, is_dry_run=True)
    assert pruned.removed == ("v3", "v2", "v1", "v0")
    assert held(nodes) == [tuple(sorted(versions))] * 2


@pytest.mark.usefixtures("versions")
def test_what_runs_and_what_waits_stays(nodes: Nodes, store: Store) -> None:
    jobs = [run_on_first(nodes, "running", VersionName("v0")), run_on_first(nodes, "waiting", VersionName("v1"))]
    store.jobs.add(jobs)
    assert prune(nodes, store, SMALL, keep=1).removed == ("v3", "v2")
    assert held(nodes) == [("v0", "v1", "v4")] * 2


@pytest.mark.usefixtures("versions")
def test_what_runs_on_a_node_that_does_not_answer_stays(fleet: Fleet, nodes: Nodes, store: Store) -> None:
    store.jobs.add([run_on_first(nodes, "running", VersionName("v0"))])
    fleet.set_faults("sim-001", {"*": "reset"})
    pruned = prune(nodes, store, SMALL, keep=1)
    assert "v0" in pruned.kept
    assert [node for node, _ in pruned.errors] == ["sim-001"]


@pytest.mark.usefixtures("versions")
def test_a_running_job_of_which_nobody_knows_the_version_stops_it(nodes: Nodes, store: Store) -> None:
    run_on_first(nodes, "unknown", VersionName("v0"))
    with pytest.raises(RefusedError, match="unknown runs on sim-001"):
        prune(nodes, store, SMALL, keep=1)
    assert len(held(nodes)[0]) == 5


def test_a_release_that_some_node_keeps_stays_known_for_the_next_prune(
    fleet: Fleet, nodes: Nodes, store: Store, versions: list[VersionName]
) -> None:
    fleet.set_faults("sim-002", {"delversion.json": "500"})
    pruned = prune(nodes, store, SMALL, keep=4)
    assert [node for node, _ in pruned.errors] == ["sim-002"]
    assert len(store.releases.releases(SMALL)) == len(versions)
    fleet.set_faults("sim-002", {})
    assert prune(nodes, store, SMALL, keep=4).errors == ()
    assert held(nodes) == [("v1", "v2", "v3", "v4")] * 2


@pytest.mark.usefixtures("versions")
def test_where_no_node_answers_nothing_is_forgotten(fleet: Fleet, nodes: Nodes, store: Store) -> None:
    for host in fleet.hosts:
        fleet.set_faults(host.name, {"*": "reset"})
    with pytest.raises(NothingReachableError):
        prune(nodes, store, SMALL, keep=1)
    assert len(store.releases.releases(SMALL)) == 5


def test_nothing_is_pruned_during_a_rollout(nodes: Nodes, store: Store) -> None:
    with holding_lock(store.releases, SMALL, why="deploy v9"), pytest.raises(LockHeldError, match="deploy v9"):
        prune(nodes, store, SMALL, keep=1)


def test_the_node_is_named_as_in_the_inventory(nodes: Nodes) -> None:
    assert nodes.names == (NodeName("sim-001"), NodeName("sim-002"))


def _ignore(*_: object) -> None:
    """Take no notice."""


def test_what_no_release_knows_goes_only_when_asked_for(
    nodes: Nodes, store: Store, versions: list[VersionName]
) -> None:
    stray = VersionName("left-by-a-killed-deploy")
    one = next(iter(nodes))
    one.upload(SMALL, stray, small_egg(marker=stray))
    assert stray not in prune(nodes, store, SMALL, keep=5).removed
    assert stray in one.versions(SMALL)
    assert prune(nodes, store, SMALL, keep=5, takes_strays=True).removed == (stray,)
    assert stray not in one.versions(SMALL)
    assert set(versions) <= set(one.versions(SMALL))


def test_a_project_without_releases_is_told(nodes: Nodes, store: Store) -> None:
    with pytest.raises(NotFoundError, match="nope"):
        prune(nodes, store, ProjectName("nope"), keep=1)
