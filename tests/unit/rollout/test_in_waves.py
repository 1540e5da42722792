"""A rollout in waves goes as far as its gates let it, and stands in the store so that anybody can finish or undo it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.doors import nodes_of
from support.eggs import small_egg
from support.fleet import Fleet
from support.plugged_node import PluggedNode
from support.waiting import wait_until

from toolkit.cluster.nodes import Nodes
from toolkit.model.errors import ConflictError, LockHeldError, NotFoundError, RefusedError, StoreUnreachableError
from toolkit.model.hosts import Secret
from toolkit.model.jobs import JobState
from toolkit.model.names import NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.releases import LATER, NodeResult
from toolkit.model.rollouts import Allowance, GateRules, RolloutState, SmokeCheck, Wave, WaveRollout, WaveState
from toolkit.model.snapshot import NodeState
from toolkit.rollout import in_waves, looking
from toolkit.rollout.brought import GONE, Brought
from toolkit.rollout.deploy import deploy
from toolkit.rollout.in_waves import InterruptedWavesError, Watch, WavesResult
from toolkit.rollout.lock import holding_lock
from toolkit.rollout.prune import prune
from toolkit.rollout.push import Cargo
from toolkit.rollout.rollback import rollback
from toolkit.rollout.shipment import Shipment
from toolkit.store.interfaces import Store
from toolkit.store.open import open_store

SMALL, V1, V2 = ProjectName("small"), VersionName("v1"), VersionName("v2")
HALVES = (50.0, 100.0)
HOLDS = GateRules(holds=True)


class PowerCutError(BaseException):
    """The operator's process ends here, as by SIGKILL."""


def cargo_of(version: VersionName = V1, *, marker: str = "") -> Cargo:
    egg = small_egg(marker=marker)
    return Cargo(SMALL, version, egg, hashlib.sha256(egg).hexdigest(), (SpiderName("alpha"), SpiderName("beta")))


def silent(*, at: str | None = None, raises: type[BaseException] = KeyboardInterrupt) -> Watch:
    """Watch without a word; at a stage that begins with `at` something happens to the operator."""

    def stage(text: str) -> None:
        if at is not None and text.startswith(at):
            raise raises

    return Watch(lambda *_: None, lambda _: None, stage)


@dataclass
class Stage:
    """A fleet with v1 active everywhere, and what is rolled out on it."""

    fleet: Fleet
    nodes: Nodes
    store: Store
    is_whole: bool = False
    cargo: Cargo = field(default_factory=lambda: cargo_of(V2, marker="2"))

    def begin(
        self,
        rules: GateRules | None = None,
        *,
        canary: int = 1,
        shares: tuple[float, ...] = HALVES,
        watch: Watch | None = None,
        steal: bool = False,
    ) -> WavesResult:
        return in_waves.begin(
            self.nodes,
            self.store,
            self.cargo,
            rules or GateRules(),
            canary=canary,
            shares=shares,
            revision=None,
            steal=steal,
            is_whole=self.is_whole,
            watch=watch or silent(),
        )

    def resume(self, rollout: WaveRollout, **more: bool) -> WavesResult:
        return in_waves.resume(self.nodes, self.store, rollout.id, watch=silent(), **more)

    def undo(self, rollout: WaveRollout, **more: bool) -> WavesResult:
        return in_waves.undo(self.nodes, self.store, rollout.id, watch=silent(), **more)

    def left(self) -> WaveRollout:
        """Return the open rollout."""
        rollout = self.store.rollouts.open(SMALL)
        assert rollout is not None
        return rollout

    def holding(self, version: VersionName = V2) -> list[str]:
        """Return which nodes hold a version, without their common prefix."""
        eggs = {host.name: self.fleet.report(host.name)["eggs"] for host in self.fleet.hosts}
        return [name.removeprefix("sim-00") for name, each in eggs.items() if version in each.get("small", {})]

    @property
    def active(self) -> str | None:
        release = self.store.releases.active(SMALL)
        return None if release is None else release.version


@pytest.fixture(scope="module")
def running() -> Iterator[Fleet]:
    with Fleet(nodes=5) as fleet:
        yield fleet


@pytest.fixture
def fleet(running: Fleet) -> Iterator[Fleet]:
    """Give the fleet without faults and eggs; it is the same for all tests, since its start takes longest."""
    yield running
    for host in running.hosts:
        running.set_faults(host.name, {})
    with closing(nodes_of(running.hosts, timeout_s=20)) as nodes:
        for version in (V1, V2):
            assert not nodes.ask(lambda node, version=version: node.remove(SMALL, version)).failed  # type: ignore[misc]


@pytest.fixture
def stage(fleet: Fleet, nodes: Nodes, store: Store, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(looking, "PATIENCE_S", 0.1)
    deploy(nodes, store, cargo_of(), on_step=lambda *_: None, on_done=lambda _: None)
    return Stage(fleet, nodes, store)


def states(rollout: WaveRollout) -> list[str]:
    return [wave.state.value for wave in rollout.waves]


def test_each_wave_is_brought_and_the_last_one_makes_the_release_active(stage: Stage) -> None:
    seen: list[tuple[str, list[str], str | None]] = []
    watch = Watch(lambda *_: None, lambda _: None, lambda text: seen.append((text, stage.holding(), stage.active)))

    ended = stage.begin(watch=watch)

    assert seen == [
        ("wave 1 of 3: 1 node(s)", [], "v1"),
        ("wave 2 of 3: 2 node(s)", ["1"], "v1"),
        ("wave 3 of 3: 2 node(s)", ["1", "2", "3"], "v1"),
    ]
    assert (ended.rollout.state, states(ended.rollout)) == (RolloutState.DONE, ["passed"] * 3)
    assert (ended.result.is_active, ended.result.is_changed, len(ended.result.results)) == (True, True, 5)
    assert (stage.active, stage.holding()) == ("v2", list("12345"))
    assert (ended.rollout.former, ended.rollout.release.digest) == ("v1", stage.cargo.digest)
    assert stage.store.rollouts.get(ended.rollout.id) == ended.rollout
    assert stage.store.releases.history(SMALL)[0].kind == "waves"
    assert stage.store.releases.holder(SMALL) is None


def test_a_canary_that_fails_is_undone_and_nobody_else_was_touched(stage: Stage) -> None:
    stage.fleet.set_faults("sim-001", {"addversion.json": "error"})
    uploads = stage.fleet.calls("addversion.json")
    ended = stage.begin()

    assert (ended.rollout.state, states(ended.rollout)) == (RolloutState.UNDONE, ["failed", "waiting", "waiting"])
    assert "no node of the wave took it: sim-001: upload" in str(ended.rollout.why)
    assert not ended.result.is_active
    assert [str(error).partition(":")[0] for error in ended.result.errors] == ["sim-001"]
    assert (stage.active, stage.holding()) == ("v1", [])
    assert stage.fleet.calls("addversion.json") == uploads + 1
    assert not stage.store.releases.history(SMALL)[0].activated


def test_a_failure_in_a_later_wave_is_undone_on_all_that_took_it(stage: Stage) -> None:
    stage.fleet.set_faults("sim-003", {"addversion.json": "error"})
    ended = stage.begin()
    assert ended.rollout.state is RolloutState.UNDONE
    assert "1 of 3 node(s) failed, more than the 0 allowed: sim-003: upload" in str(ended.rollout.why)
    assert [each.step for each in ended.result.results] == ["undone", "undone", "upload"]
    assert (stage.active, stage.holding()) == ("v1", [])


def test_as_many_failures_as_are_allowed_stop_nothing(stage: Stage) -> None:
    stage.fleet.set_faults("sim-003", {"addversion.json": "error"})
    ended = stage.begin(GateRules(Allowance(1)))
    assert ended.rollout.state is RolloutState.DONE
    assert [each.node for each in ended.result.failed] == ["sim-003"]
    assert (stage.active, stage.holding()) == ("v2", list("1245"))
    assert stage.store.releases.holders(SMALL, V2) == {"sim-001", "sim-002", "sim-004", "sim-005"}


def test_a_node_that_breaks_after_its_own_wave_counts_too(stage: Stage) -> None:
    def stop(text: str) -> None:
        if text.startswith("wave 2"):
            stage.fleet.set_faults("sim-001", {"listversions.json": "error"})

    ended = stage.begin(HOLDS, watch=Watch(lambda *_: None, lambda _: None, stop))
    assert (ended.rollout.state, states(ended.rollout)) == (RolloutState.HELD, ["passed", "failed", "waiting"])
    assert "1 of 3 node(s) failed, more than the 0 allowed: sim-001: gate" in str(ended.rollout.why)

    stage.fleet.set_faults("sim-001", {})
    assert stage.resume(ended.rollout).rollout.state is RolloutState.DONE
    assert stage.holding() == list("12345")


def test_a_held_rollout_waits_and_is_tried_again_where_it_failed(stage: Stage) -> None:
    stage.fleet.set_faults("sim-003", {"addversion.json": "error"})
    held = stage.begin(HOLDS)
    assert (held.rollout.state, states(held.rollout)) == (RolloutState.HELD, ["passed", "failed", "waiting"])
    assert (stage.active, stage.holding()) == ("v1", ["1", "2"])
    assert stage.store.releases.holder(SMALL) is None
    assert stage.resume(held.rollout).rollout.state is RolloutState.HELD

    stage.fleet.set_faults("sim-003", {})
    uploads = stage.fleet.report("sim-002")["calls"]["addversion.json"]
    done = stage.resume(held.rollout)
    assert (done.rollout.state, done.result.is_active, stage.active) == (RolloutState.DONE, True, "v2")
    assert stage.fleet.report("sim-002")["calls"]["addversion.json"] == uploads


def test_a_failed_wave_may_be_accepted_and_counts_no_more(stage: Stage) -> None:
    stage.fleet.set_faults("sim-003", {"addversion.json": "error"})
    done = stage.resume(stage.begin(HOLDS).rollout, accepts=True)
    assert (done.rollout.state, done.rollout.waves[1].is_accepted) == (RolloutState.DONE, True)
    assert (stage.active, stage.holding()) == ("v2", list("1245"))


def test_a_held_rollout_can_be_undone(stage: Stage) -> None:
    stage.fleet.set_faults("sim-003", {"addversion.json": "error"})
    undone = stage.undo(stage.begin(HOLDS).rollout)
    assert (undone.rollout.state, undone.result.is_active) == (RolloutState.UNDONE, False)
    assert (stage.active, stage.holding(), stage.holding(V1)) == ("v1", [], list("12345"))
    for act in (stage.resume, stage.undo):
        with pytest.raises(RefusedError, match="is undone already"):
            act(undone.rollout)


@pytest.mark.parametrize("moment", ["wave 2", "wave 3"])
def test_ctrl_c_leaves_a_rollout_held_where_it_is(stage: Stage, moment: str) -> None:
    with pytest.raises(InterruptedWavesError) as caught:
        stage.begin(watch=silent(at=moment))
    rollout = caught.value.ended.rollout
    assert (rollout.state, rollout.why) == (RolloutState.HELD, "interrupted by its operator")
    assert stage.left() == rollout
    assert stage.active == "v1"
    assert stage.resume(rollout).result.is_active
    assert (stage.active, stage.holding()) == ("v2", list("12345"))


def test_what_a_killed_operator_left_is_finished_or_undone_by_another(stage: Stage, tmp_path: Path) -> None:
    def killed() -> WaveRollout:
        pushing = iter(range(9))

        def on_done(_: object) -> None:
            if next(pushing) == 2:
                raise PowerCutError

        with pytest.raises(PowerCutError):
            stage.begin(watch=Watch(lambda *_: None, on_done, lambda _: None))
        return stage.left()

    left = killed()
    assert (left.state, states(left)) == (RolloutState.RUNNING, ["passed", "begun", "waiting"])
    undone = stage.undo(left)
    assert (undone.rollout.state, stage.holding(), stage.active) == (RolloutState.UNDONE, [], "v1")

    left = killed()
    other = open_store(None, tmp_path)
    assert in_waves.resume(stage.nodes, other, left.id[:4], watch=silent()).result.is_active
    other.close()
    assert (stage.active, stage.holding()) == ("v2", list("12345"))


def test_an_undo_says_on_which_node_it_did_not_work(stage: Stage) -> None:
    with pytest.raises(InterruptedWavesError):
        stage.begin(watch=silent(at="wave 3"))
    stage.fleet.set_faults("sim-001", {"delversion.json": "500"})
    undone = stage.undo(stage.left())
    assert [each.step for each in undone.result.results] == ["undo", "undone", "undone"]
    assert stage.holding() == ["1"]


@pytest.mark.parametrize("what", ["deploy", "waves", "rollback", "prune"])
def test_nothing_else_is_done_to_a_project_beside_an_open_rollout(stage: Stage, what: str) -> None:
    def act(*, steal: bool) -> object:
        nodes, store = stage.nodes, stage.store
        acts: dict[str, Callable[[], object]] = {
            "deploy": lambda: deploy(
                nodes, store, cargo_of(), steal=steal, on_step=lambda *_: None, on_done=lambda _: None
            ),
            "waves": lambda: stage.begin(steal=steal),
            "rollback": lambda: rollback(nodes, store, SMALL, to=V1, steal=steal),
            "prune": lambda: prune(nodes, store, SMALL, keep=1, steal=steal),
        }
        return acts[what]()

    with pytest.raises(InterruptedWavesError):
        stage.begin(watch=silent(at="wave 2"))
    left = stage.left()
    with pytest.raises(RefusedError, match=rf"{left.id} of small v2 is held in wave 2 of 3 \(interrupted") as caught:
        act(steal=False)
    assert f"crawlctl rollouts resume {left.id}, or undo {left.id}" in str(caught.value.hint)

    act(steal=True)
    abandoned = stage.store.rollouts.get(left.id)
    assert abandoned is not None
    assert abandoned.state is RolloutState.ABANDONED


def test_whoever_is_at_a_rollout_holds_its_lock_and_a_thief_decides(stage: Stage) -> None:
    rollouts: list[WaveRollout] = []

    def steal(text: str) -> None:
        if text.startswith("wave 2"):
            with pytest.raises(LockHeldError, match="in waves, rollout"):
                stage.undo(stage.left())
            rollouts.append(stage.undo(stage.left(), steal=True).rollout)

    with pytest.raises(ConflictError, match="expired or was stolen"):
        stage.begin(watch=Watch(lambda *_: None, lambda _: None, steal))
    assert stage.store.rollouts.get(rollouts[0].id) == rollouts[0]
    assert (rollouts[0].state, stage.active) == (RolloutState.UNDONE, "v1")


def test_a_node_that_is_gone_from_the_inventory_is_a_failure(stage: Stage) -> None:
    with pytest.raises(InterruptedWavesError):
        stage.begin(watch=silent(at="wave 3"))
    fewer = Nodes([node for node in stage.nodes if node.name != "sim-005"])
    ended = in_waves.resume(fewer, stage.store, stage.left().id, watch=silent())
    assert ended.rollout.state is RolloutState.UNDONE
    assert [each.error for each in ended.result.results if each.node == "sim-005"] == [GONE]


def test_what_is_active_everywhere_changes_nothing(stage: Stage) -> None:
    stage.cargo = cargo_of()
    ended = stage.begin()
    assert (ended.rollout.state, ended.result.is_active, ended.result.is_changed) == (RolloutState.DONE, True, False)
    assert [each.step for each in ended.result.results] == ["held"] * 5


def test_a_rollout_is_found_by_the_first_characters_of_its_id(stage: Stage) -> None:
    with pytest.raises(NotFoundError, match="no rollout's id begins with 'zz'"):
        in_waves.resume(stage.nodes, stage.store, "zz", watch=silent())


def test_only_the_plug_in_nodes_of_the_waves_so_far_may_take_the_egg(
    fleet: Fleet, tmp_path: Path, redis_url: str
) -> None:
    store = open_store(Secret(redis_url), tmp_path / "redis")
    shared = store.shared
    assert shared is not None
    stage = Stage(fleet, Nodes([]), store, is_whole=True)
    names = ("node-1", "node-2", "node-3")
    with PluggedNode(store, "lost", lease_s=0.05) as silent_one:
        silent_one.fall_silent()
    wait_until(lambda: shared.nodes.all()[0].state is NodeState.LOST, deadline_s=30, what="a node to be lost")
    offers: list[list[bool]] = []

    def look(text: str) -> None:
        if text.startswith("wave"):
            offers.append([bool(shared.eggs.offered(node=NodeName(name))) for name in names])

    with ExitStack() as living:
        for name in names:
            living.enter_context(PluggedNode(store, name, fetches=True))
        ended = stage.begin(watch=Watch(lambda *_: None, lambda _: None, look))

    assert offers == [[False] * 3, [True, False, False], [True, True, False]]
    assert [(each.node, each.step) for each in ended.result.results] == [
        *((name, "fetched") for name in names),
        ("lost", "later"),
    ]
    assert ended.rollout.waves[-1].nodes == ("node-3", "lost")
    assert stage.active == "v2"
    assert shared.eggs.offered() == []
    store.close()


def test_the_lock_is_refused_while_somebody_else_rolls_out(stage: Stage) -> None:
    with holding_lock(stage.store.releases, SMALL, why="deploy v9"), pytest.raises(LockHeldError):
        stage.begin()
    assert stage.store.rollouts.recent() == ()


def test_a_wave_that_was_begun_is_brought_again(stage: Stage) -> None:
    with pytest.raises(PowerCutError):
        stage.begin(watch=silent(at="wave 2", raises=PowerCutError))
    assert stage.left().waves[1].state is WaveState.WAITING
    assert stage.resume(stage.left()).result.is_active


def test_what_a_rollout_has_made_active_is_not_undone_but_ended(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    end_offer = Shipment.end_offer

    def cut(_: Shipment) -> None:
        raise PowerCutError

    monkeypatch.setattr(Shipment, "end_offer", cut)
    with pytest.raises(PowerCutError):
        stage.begin()
    monkeypatch.setattr(Shipment, "end_offer", end_offer)
    left = stage.left()
    assert (left.state, stage.active) == (RolloutState.RUNNING, "v2")

    with pytest.raises(RefusedError, match="has made small v2 active already") as caught:
        stage.undo(left)
    assert f"rollouts resume {left.id}" in str(caught.value.hint)
    assert stage.holding() == list("12345")
    entries = len(stage.store.releases.history(SMALL))
    ended = stage.resume(left)
    assert (ended.rollout.state, ended.result.is_active) == (RolloutState.DONE, True)
    assert len(stage.store.releases.history(SMALL)) == entries


def test_ctrl_c_after_the_one_write_does_not_deny_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    activate = Shipment.activate

    def then_interrupted(self: Shipment, results: Sequence[NodeResult]) -> None:
        activate(self, results)
        raise KeyboardInterrupt

    monkeypatch.setattr(Shipment, "activate", then_interrupted)
    ended = stage.begin()
    assert (ended.rollout.state, ended.result.is_active, stage.active) == (RolloutState.DONE, True, "v2")


def test_a_node_that_was_not_well_and_keeps_the_egg_is_told_by_the_undo(stage: Stage) -> None:
    def stop(text: str) -> None:
        if text.startswith("wave 2"):
            stage.fleet.set_faults("sim-001", {"listversions.json": "error", "delversion.json": "500"})

    ended = stage.begin(watch=Watch(lambda *_: None, lambda _: None, stop))
    assert (ended.rollout.state, stage.holding()) == (RolloutState.UNDONE, ["1"])
    (kept,) = [each for each in ended.result.results if each.node == "sim-001"]
    assert kept.step == "undo"
    assert "could not be taken back" in str(kept.error)


def test_the_smoke_job_of_a_killed_operator_ends_with_the_undo(stage: Stage) -> None:
    rules = GateRules(check=SmokeCheck(SpiderName("alpha"), timeout_s=30))
    with pytest.raises(PowerCutError):
        stage.begin(rules, watch=silent(at="wave 1: alpha on", raises=PowerCutError))
    smoke = stage.left().waves[0].smoke
    assert smoke is not None
    stage.undo(stage.left())
    job = stage.store.jobs.get_many([smoke.job])[smoke.job]
    assert job.state is JobState.CANCELLED


def test_a_lost_node_that_came_back_while_a_rollout_was_held_is_undone_too() -> None:
    lost, here = NodeName("lost"), NodeName("here")
    later = NodeResult(lost, ok=True, step=LATER, seconds=0.0)
    held = NodeResult(here, ok=True, step="held", seconds=0.0)
    wave = Wave((lost, here), WaveState.PASSED, (later, held))

    def ours(*holding: NodeName, proven: frozenset[NodeName] = frozenset({here})) -> list[str]:
        return [each.result.node for each in Brought(proven, frozenset(holding)).of(wave) if each.is_ours]

    assert ours(here) == []
    assert ours(here, lost) == ["lost"]
    assert ours(here, lost, proven=frozenset({here, lost})) == []


def test_ctrl_c_with_the_store_away_is_still_ctrl_c(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StoreUnreachableError("Redis is away")

    def stop(text: str) -> None:
        if text.startswith("wave 2"):
            monkeypatch.setattr(type(stage.store.rollouts), "update", away)
            monkeypatch.setattr(type(stage.store.releases), "active", away)
            raise KeyboardInterrupt

    with pytest.raises(InterruptedWavesError):
        stage.begin(watch=Watch(lambda *_: None, lambda _: None, stop))
    monkeypatch.undo()
    assert stage.left().state is RolloutState.RUNNING


def test_ctrl_c_in_an_undo_leaves_the_rollout_held_for_the_next(stage: Stage) -> None:
    with pytest.raises(InterruptedWavesError):
        stage.begin(watch=silent(at="wave 3"))
    with pytest.raises(InterruptedWavesError):
        in_waves.undo(stage.nodes, stage.store, stage.left().id, watch=silent(at="taking back"))
    left = stage.left()
    assert (left.state, left.why) == (RolloutState.HELD, "interrupted by its operator")
    assert stage.undo(left).rollout.state is RolloutState.UNDONE
    assert stage.holding() == []
