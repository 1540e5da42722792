"""A rollout in waves: each is brought, checked and waited for; after the last one, one write makes the release active.

Where it stands is in the store before and after every step, so that another process can go on, or take all of it back.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from toolkit.cluster.fanout import INTERRUPTED
from toolkit.cluster.membership import registered
from toolkit.cluster.nodes import Nodes
from toolkit.model.errors import NodeError, NotFoundError, RefusedError, StoreUnreachableError
from toolkit.model.jobs import Job
from toolkit.model.names import NodeName
from toolkit.model.releases import DeployResult
from toolkit.model.rollouts import GateRules, RolloutState, Smoke, Wave, WaveRollout, WaveState
from toolkit.model.snapshot import NodeState
from toolkit.rollout.brought import GONE, Brought, has_activated, missing
from toolkit.rollout.deploy import refuse_other_content
from toolkit.rollout.gate import GATE, failure_of, looked_at
from toolkit.rollout.lock import holding_lock, operator
from toolkit.rollout.looking import problems
from toolkit.rollout.push import Cargo, OnStep, Pushed
from toolkit.rollout.shipment import InterruptedPushError, OnDone, Shipment, cargo_of, release_of
from toolkit.rollout.smoke import cancel_checks, choose_prover, run_smoke
from toolkit.rollout.targets import Target, targets_of
from toolkit.rollout.unfinished import KIND, clear_the_way, find_rollout
from toolkit.rollout.waves import cut
from toolkit.store.interfaces import Store

WAS_INTERRUPTED = "interrupted by its operator"
NOT_AWAITED = "its end was not waited for"
_TICK_S = 0.5


@dataclass(frozen=True, slots=True)
class Watch:
    """Who hears how a rollout gets on: the steps on each node, its result, and in words what is under way now."""

    on_step: OnStep
    on_done: OnDone
    on_stage: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class WavesResult:
    """Where a rollout in waves has come to, and what that means for the release."""

    rollout: WaveRollout
    result: DeployResult


class InterruptedWavesError(KeyboardInterrupt):
    """Ctrl-C came during a rollout in waves; what was brought stays, to be gone on with or undone."""

    def __init__(self, ended: WavesResult) -> None:
        super().__init__()
        self.ended = ended


def plan_waves(
    nodes: Nodes, store: Store, *, canary: int, shares: Sequence[float], is_whole: bool
) -> tuple[tuple[NodeName, ...], ...]:
    """Say which nodes each wave would have now. Nothing is changed."""
    return _cut(targets_of(nodes, store, is_whole=is_whole), canary=canary, shares=shares)


def begin(
    nodes: Nodes,
    store: Store,
    cargo: Cargo,
    rules: GateRules,
    *,
    canary: int,
    shares: Sequence[float],
    revision: str | None,
    steal: bool,
    is_whole: bool,
    watch: Watch,
) -> WavesResult:
    """Roll a release out in waves, as far as it gets: done, undone, or held where the rules say so.

    Raises:
        RefusedError: the egg is too large for the store, or another rollout of the project is open.
        LockHeldError: another operator is at a rollout of the project.
        ConflictError: the lock was stolen meanwhile; whoever has it decides now.
        InterruptedWavesError: Ctrl-C; the rollout is held.

    """
    rollout_id = secrets.token_hex(4)
    why = f"deploy {cargo.version} in waves, rollout {rollout_id}"
    with holding_lock(store.releases, cargo.project, why=why, steal=steal) as held:
        refuse_other_content(store, cargo.project, cargo.version, cargo.digest)
        clear_the_way(store, cargo.project, held.lock, steal=steal, doing=f"the deploy of {cargo.version}")
        targets = targets_of(nodes, store, is_whole=is_whole)
        if not targets:
            raise NotFoundError("there is no node to deploy to")
        former, now = store.releases.active(cargo.project), store.now()
        rollout = WaveRollout(
            id=rollout_id,
            release=release_of(store, cargo, revision=revision),
            former=former.version if former else None,
            state=RolloutState.RUNNING,
            rules=rules,
            waves=tuple(Wave(wave) for wave in _cut(targets, canary=canary, shares=shares)),
            who=operator(),
            began_at=now,
            changed_at=now,
            token=held.lock.token,
        )
        store.rollouts.begin(rollout, cargo.content, held.lock)
        cargo = replace(cargo, proven=store.releases.holders(cargo.project, cargo.version))
        shipment = Shipment(store, cargo, rollout.release, held, targets, kind=KIND)
        return _Advance(shipment, rollout, nodes, watch).run()


def resume(
    nodes: Nodes, store: Store, rollout_id: str, *, steal: bool = False, accepts: bool = False, watch: Watch
) -> WavesResult:
    """Go on with an open rollout from the wave that it is in, which is tried again; raises as `begin` does.

    What nodes took already is verified, not sent again. With `accepts`, a wave that failed counts as passed.

    Raises:
        RefusedError: it is not open any more, or its egg is not kept any more.

    """
    rollout = find_rollout(store, rollout_id, only_open=True)
    why = f"resume of rollout {rollout.id}, deploy {rollout.version}"
    with holding_lock(store.releases, rollout.project, why=why, steal=steal) as held:
        rollout = find_rollout(store, rollout.id, only_open=True)
        content = store.rollouts.egg(rollout)
        if content is None:
            raise RefusedError(
                f"the egg of the rollout {rollout.id} is not kept any more", hint=f"crawlctl rollouts undo {rollout.id}"
            )
        cargo = cargo_of(store, rollout.release, content)
        brought = {each.node for each in rollout.results if each.is_proven or each.step == GATE}
        cargo = replace(cargo, proven=cargo.proven | brought)
        targets = targets_of(nodes, store, is_whole=True)
        if accepts:
            rollout = _accepted(rollout)
        shipment = Shipment(store, cargo, rollout.release, held, targets, kind=KIND)
        return _Advance(shipment, rollout, nodes, watch).go_on()


def undo(nodes: Nodes, store: Store, rollout_id: str, *, steal: bool = False, watch: Watch) -> WavesResult:
    """Take an open rollout back from every node that it may have reached; raises as `resume` does.

    Raises:
        RefusedError: it had made its release active already, so only noting its end is left.

    """
    rollout = find_rollout(store, rollout_id, only_open=True)
    why = f"undo of rollout {rollout.id}, deploy {rollout.version}"
    with holding_lock(store.releases, rollout.project, why=why, steal=steal) as held:
        rollout = find_rollout(store, rollout.id, only_open=True)
        if has_activated(store, rollout):
            raise RefusedError(
                f"the rollout {rollout.id} has made {rollout.project} {rollout.version} active already",
                hint=f"crawlctl rollouts resume {rollout.id} ends it; then crawlctl rollback -p {rollout.project}",
            )
        cargo = cargo_of(store, rollout.release, b"")
        targets = targets_of(nodes, store, is_whole=True)
        shipment = Shipment(store, cargo, rollout.release, held, targets, kind=KIND)
        return _Advance(shipment, rollout, nodes, watch).undo()


class _Advance:
    """One process' work on a rollout, under the project's lock."""

    def __init__(self, shipment: Shipment, rollout: WaveRollout, nodes: Nodes, watch: Watch) -> None:
        self._shipment = shipment
        self._store, self._held = shipment.store, shipment.held
        self._rollout = rollout
        self._nodes = nodes
        self._targets = {target.name: target for target in shipment.targets}
        self._watch = watch
        self._errors: list[NodeError] = []

    def run(self) -> WavesResult:
        """Go on from where the rollout is."""
        try:
            while (at := self._rollout.place) is not None:
                why = self._wave(at)
                if why is not None and self._rollout.rules.holds:
                    return self._hold(why)
                if why is not None:
                    return self.take_back(why)
            return self._finish()
        except KeyboardInterrupt:
            # A store that is away shows the rollout as left, which says the same.
            with suppress(StoreUnreachableError):
                if has_activated(self._store, self._rollout):
                    return self._done(is_changed=True)
                self._hold(WAS_INTERRUPTED)
            raise InterruptedWavesError(self._ended(is_changed=False)) from None

    def undo(self) -> WavesResult:
        """Take it back because somebody says so; Ctrl-C leaves it held, to be undone by the next who tries."""
        try:
            return self.take_back(f"undone by {operator()}")
        except KeyboardInterrupt:
            with suppress(StoreUnreachableError):
                self._hold(WAS_INTERRUPTED)
            raise InterruptedWavesError(self._ended(is_changed=False)) from None

    def go_on(self) -> WavesResult:
        """Go on after a while: what was wrong with a node may be mended by now, or something else be wrong."""
        if has_activated(self._store, self._rollout):
            return self._done(is_changed=True)
        self._end_checks()
        self._watch.on_stage("looking at the nodes that have it")
        self._look()
        return self.run()

    def take_back(self, why: str) -> WavesResult:
        """Take the release off every node that may have it of this rollout."""
        self._watch.on_stage("taking back what was brought")
        self._end_checks()
        waves = self._rollout.waves
        reached = [wave for wave in waves if wave.state is not WaveState.WAITING]
        # Whoever goes on after a half undo has to bring every wave once more.
        begun = tuple(
            wave if wave.state is WaveState.WAITING else replace(wave, state=WaveState.BEGUN) for wave in waves
        )
        self._save(waves=begun, state=RolloutState.RUNNING, why=f"being undone: {why}")
        # Before the look, or a node that was lost takes it right after.
        self._shipment.end_offer()
        brought = Brought(self._shipment.cargo.proven, self._came_back())
        result = self._shipment.give_up([each for wave in reached for each in brought.of(wave)])
        told = {each.node: each for each in result.results}
        waves = tuple(replace(wave, results=tuple(told[name] for name in wave.nodes if name in told)) for wave in waves)
        self._save(waves=waves, state=RolloutState.UNDONE, why=why)
        return WavesResult(self._rollout, replace(result, errors=(*self._errors, *result.errors)))

    def _wave(self, at: int) -> str | None:
        """Bring one wave, and return why the gate behind it does not open, if it does not."""
        wave, of = self._rollout.waves[at], len(self._rollout.waves)
        self._watch.on_stage(f"wave {at + 1} of {of}: {len(wave.nodes)} node(s)")
        self._save_wave(at, replace(wave, state=WaveState.BEGUN, why=None, smoke=None))
        self._shipment.offer(to=set(self._rollout.reached()))
        targets = [self._targets[name] for name in wave.nodes if name in self._targets]
        try:
            self._keep(at, self._shipment.push(targets, self._watch.on_step, self._watch.on_done))
        except InterruptedPushError as interrupted:
            self._keep(at, interrupted.pushed)
            raise
        why = failure_of(self._rollout, at) or self._check(at)
        if why is None and at + 1 < of:
            self._pause(at)
        if why is None:
            rules = self._rollout.rules
            # What was read back a moment ago need not be asked once more.
            is_fresh = rules.check is None and not (rules.pause_s and at + 1 < of)
            self._look(except_for=wave.nodes if is_fresh else ())
            why = failure_of(self._rollout, at)
        state = WaveState.PASSED if why is None else WaveState.FAILED
        self._save_wave(at, replace(self._rollout.waves[at], state=state, why=why))
        return why

    def _keep(self, at: int, pushed: Sequence[Pushed]) -> None:
        """Note what became of a wave's nodes; of one that was not begun nothing is known."""
        wave = self._rollout.waves[at]
        tried = [each for each in pushed if INTERRUPTED not in (each.result.error or "")]
        self._errors += [each.error for each in tried if each.error is not None]
        told = {each.result.node: each.result for each in tried}
        told |= {name: missing(name) for name in wave.nodes if name not in self._targets}
        taken = {*wave.taken, *(each.result.node for each in tried if each.is_ours)}
        results = tuple(told[name] for name in wave.nodes if name in told)
        self._save_wave(at, replace(wave, results=results, taken=tuple(sorted(taken))))

    def _check(self, at: int) -> str | None:
        """Run the wave's smoke job, if the rules ask for one and a node is there to run it."""
        rules, wave = self._rollout.rules, self._rollout.waves[at]
        prover = choose_prover(wave.results, list(self._targets.values()))
        if rules.check is None or prover is None:
            return None
        stage = f"wave {at + 1}: {rules.check.spider} on {prover.name}"

        # So that whoever finds the rollout left can end the job.
        def begun(job: Job) -> None:
            self._save_wave(at, replace(wave, smoke=Smoke(prover.name, job.id, error=NOT_AWAITED)))

        def told(job: Job) -> None:
            self._watch.on_stage(f"{stage}: {job.state.value}, {job.items or 0} items")

        smoke = run_smoke(
            self._nodes, self._store, self._rollout.release, rules.check, prover, on_begin=begun, on_look=told
        )
        self._save_wave(at, replace(wave, smoke=smoke))
        return failure_of(self._rollout, at)

    def _end_checks(self) -> None:
        """Cancel the smoke jobs that an operator who was killed did not wait for."""
        left = [wave.smoke.job for wave in self._rollout.waves if wave.smoke and wave.smoke.error == NOT_AWAITED]
        if left:
            cancel_checks(self._nodes, self._store, left)

    def _came_back(self) -> frozenset[NodeName]:
        """Return the nodes that say they hold the release; some of them were lost when they were tried."""
        release = self._rollout.release
        return frozenset(
            record.name
            for record in registered(self._store)
            if release.version in record.report.versions.get(release.project, ())
        )

    def _pause(self, at: int) -> None:
        deadline = time.monotonic() + self._rollout.rules.pause_s
        while (left_s := deadline - time.monotonic()) > 0:
            self._watch.on_stage(f"wave {at + 1} passed; the next one begins in {left_s:.0f} s")
            time.sleep(min(_TICK_S, left_s))

    def _look(self, *, except_for: Sequence[NodeName] = ()) -> None:
        """Look at every node that has the release by now: what broke since its own wave counts too."""
        release, waves = self._rollout.release, self._rollout.waves
        holding = {each.node for each in self._rollout.results if each.is_proven or each.step == GATE}
        holding -= set(except_for)
        there = [target for name, target in self._targets.items() if name in holding]
        found = problems(there, self._store, release.project, release.version)
        found |= dict.fromkeys(holding - set(self._targets), GONE)
        self._rollout = replace(
            self._rollout, waves=tuple(replace(wave, results=looked_at(wave.results, found)) for wave in waves)
        )

    def _finish(self) -> WavesResult:
        """Make the release active, unless it was so before, and every node had it."""
        results = self._rollout.results
        if not any(each.is_proven for each in results):
            return self.take_back("no node holds it")
        was_active = self._rollout.former == self._rollout.version
        is_changed = not was_active or any(wave.taken for wave in self._rollout.waves)
        if is_changed:
            self._shipment.activate(results)
        else:
            self._shipment.countersign()
        return self._done(is_changed=is_changed)

    def _done(self, *, is_changed: bool) -> WavesResult:
        self._shipment.end_offer()
        self._save(state=RolloutState.DONE, why=None if is_changed else "it was active before; nothing changed")
        return self._ended(is_changed=is_changed)

    def _hold(self, why: str) -> WavesResult:
        self._save(state=RolloutState.HELD, why=why)
        return self._ended(is_changed=False)

    def _ended(self, *, is_changed: bool) -> WavesResult:
        rollout = self._rollout
        release, former = rollout.release, rollout.former
        is_active = rollout.state is RolloutState.DONE or former == rollout.version
        result = DeployResult(
            release.project,
            release.version,
            release.digest,
            is_active,
            is_changed,
            rollout.results,
            tuple(self._errors),
        )
        return WavesResult(rollout, result)

    def _save_wave(self, at: int, wave: Wave) -> None:
        self._save(waves=self._rollout.with_wave(at, wave).waves, state=RolloutState.RUNNING, why=None)

    def _save(self, *, state: RolloutState, why: str | None, waves: tuple[Wave, ...] | None = None) -> None:
        """Write down where the rollout is; refused as soon as the lock is somebody else's."""
        self._rollout = replace(
            self._rollout,
            waves=self._rollout.waves if waves is None else waves,
            state=state,
            why=why,
            who=operator(),
            changed_at=self._store.now(),
            token=self._held.lock.token,
        )
        self._store.rollouts.update(self._rollout, self._held.lock)


def _cut(targets: Sequence[Target], *, canary: int, shares: Sequence[float]) -> tuple[tuple[NodeName, ...], ...]:
    lost = {each.name for each in targets if each.record is not None and each.record.state is NodeState.LOST}
    return cut([target.name for target in targets], canary=canary, shares=shares, lost=lost)


def _accepted(rollout: WaveRollout) -> WaveRollout:
    at = rollout.place
    if at is None or rollout.waves[at].state is not WaveState.FAILED:
        return rollout
    return rollout.with_wave(at, replace(rollout.waves[at], state=WaveState.PASSED, is_accepted=True))
