"""Brings hosts to the desired state: each looked at, planned, changed where it differs, and seen to answer.

Hosts are independent of one another, except that the first of a kind chooses the versions that all of them get.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.model.errors import HostRefusedError
from toolkit.model.hosts import Host
from toolkit.model.provisioning import Provisioned
from toolkit.provision.bundles import Bundles
from toolkit.provision.choosing import Choosing
from toolkit.provision.credentials import local_password, note_provisioned, with_password
from toolkit.provision.desired import Desired, bind_of, desired_state, redis_of, redis_places
from toolkit.provision.facts import Facts, LockFact, gather
from toolkit.provision.host_plan import HostPlan, Step, StepKind
from toolkit.provision.node_security import security_of
from toolkit.provision.own_wheel import OwnWheel, make_own_wheel
from toolkit.provision.packages import (
    RESOLVE_WITHIN_S,
    PinsFolder,
    bare_pins,
    kind_of,
    odd_pin,
    own_requirement,
    packages_of,
    resolved_here,
    wheels_for,
)
from toolkit.provision.plan import installing, own_wheel_path, plan, recorded
from toolkit.provision.remote import Remote
from toolkit.provision.steps import Say, Worker, machine_mark
from toolkit.provision.verify import why_not_reached

if TYPE_CHECKING:
    from toolkit.config.inventory import Inventory

CARRIED_FOLDER = "carried"
SEEN = "seen"
"""In the place of the digest of wishes: versions that hosts were seen with, for a resolver to prefer."""


class Provisioning:
    """One run over hosts: what they have in common is made once. Any thread may work on a host of its own.

    `scratch` is a folder that the caller removes afterwards. With `chooses_anew` kept versions are not used, but chosen
    again.
    """

    def __init__(
        self,
        inventory: Inventory,
        state_folder: Path,
        *,
        scratch: Path,
        who: str,
        wheelhouse: Path | None = None,
        chooses_anew: bool = False,
    ) -> None:
        self._inventory = inventory
        self._state_folder = state_folder
        self._scratch = scratch
        self._who = who
        self._wheelhouse = wheelhouse
        self._chooses_anew = chooses_anew
        self._own: OwnWheel = make_own_wheel(state_folder / CARRIED_FOLDER)
        self._bundles = Bundles(scratch, kept=state_folder / CARRIED_FOLDER)
        self._pins = PinsFolder(state_folder)
        self._choosing = Choosing()

    def with_credentials(self, host: Host) -> Host:
        """Return the host with the credentials that its node has or gets."""
        return with_password(host, local_password(self._state_folder))

    def desired(self, host: Host) -> Desired:
        """Return what the host shall be; versions are not looked up yet.

        Raises:
            ConfigurationError: the inventory asks for what cannot be.

        """
        full = self.with_credentials(host)
        inventory = self._inventory
        packages = packages_of(full, self._own, folder=inventory.path.parent, wheelhouse=self._wheelhouse)
        packages = replace(packages, chosen_anew=self._chooses_anew)
        security = security_of(full, inventory, self._state_folder, redis=redis_of(full, inventory.redis))
        return desired_state(full, packages, redis=inventory.redis, cluster=inventory.cluster, security=security)

    def look(self, remote: Remote, say: Say) -> tuple[Facts, Desired, HostPlan]:
        """Return what is the case on the host, what shall be, and what that takes. Nothing is changed.

        Raises:
            HostError: it cannot be looked at.
            ConfigurationError: the inventory asks for what cannot be, or a wheelhouse is not enough.

        """
        say("looking")
        desired = self.desired(remote.host)
        facts = gather(remote, bind=bind_of(desired.host), redis=redis_places(desired))
        if facts.lock is not None and is_gone(facts.lock, self._who):
            facts = replace(facts, lock=replace(facts.lock, is_abandoned=True))
        desired = self._pinned(facts, desired)
        return facts, desired, plan(facts, desired)

    def dry_run(self, remote: Remote, say: Say) -> Provisioned:
        """Return what would be done, and do nothing.

        Raises:
            HostError, ConfigurationError: as `provision`.

        """
        _, _, planned = self.look(remote, say)
        _check(planned)
        return Provisioned(remote.host, planned.steps, planned.notes)

    def provision(self, remote: Remote, say: Say) -> Provisioned:
        """Bring a host to its desired state, and return when its node answers; idempotent, safe to repeat.

        Raises:
            HostError: it cannot be reached, is not fit, or a step failed; a repetition does what is left.
            ConfigurationError: the inventory asks for what cannot be, or a wheelhouse is not enough.
            NodeError: something else answers at the node's address.

        """
        facts, desired, planned = self.look(remote, say)
        _check(planned)
        if planned.is_empty:
            self._note(desired.host)
            return Provisioned(remote.host, (), planned.notes)
        worker = Worker(remote, facts, self._bundles, self._who, say)
        done = planned.steps
        try:
            if desired.packages.pins is None and any(step.kind is StepKind.PACKAGES for step in planned.steps):
                worker.prepare(planned)
                desired = self._chosen(worker, desired)
                planned = _without(plan(facts, desired), {StepKind.USER, StepKind.FOLDER, StepKind.CARRY})
                done = (*(step for step in done if step.kind in _PREPARING), *planned.steps)
            unfit = worker.perform(planned, record=recorded(facts, desired, planned.manager))
        except BaseException:
            worker.release()
            raise
        self._note(desired.host)
        return Provisioned(remote.host, done, (*planned.notes, *self._verified(desired, unfit)))

    def _note(self, host: Host) -> None:
        if not host.is_local and host.password == local_password(self._state_folder):
            note_provisioned(self._state_folder, host)

    def _verified(self, desired: Desired, unfit: str | None) -> list[str]:
        why = why_not_reached(desired.host)
        told = [f"takes no job: {unfit}"] if unfit else []
        if why is not None:
            known = "" if desired.is_stock else "; jobs, cancels and eggs reach it through Redis"
            told.append(f"answers on the host itself, not from here ({why}){known}")
        return told

    def _pinned(self, facts: Facts, desired: Desired) -> Desired:
        """Return the wish with versions, where they are known already or can be chosen without the host."""
        packages = desired.packages
        kind = kind_of(facts)
        with self._choosing.of(kind, packages.inputs):
            pins = self._known(facts, desired, kind)
            if pins is None and packages.wheelhouse is not None and facts.python is not None and _is_fit(facts):
                preferences = "" if self._chooses_anew else self._pins.preferences(kind)
                pins = resolved_here(
                    packages,
                    facts,
                    wheelhouse=packages.wheelhouse,
                    python=facts.python.text,
                    preferences=preferences,
                    scratch=self._scratch / f"{kind}-{packages.inputs}",
                )
                self._keep(kind, packages.inputs, pins)
        return replace(desired, packages=replace(packages, pins=pins))

    def _known(self, facts: Facts, desired: Desired, kind: str) -> str | None:
        packages, found = desired.packages, facts.environment
        if self._chooses_anew and not self._choosing.is_done(kind, packages.inputs):
            return None
        pins = self._pins.get(kind, packages.inputs)
        if pins is None and found is not None and found.inputs == packages.inputs and found.pins is not None:
            # Another operator, or a lost state folder: what the host has is what was chosen. Spiders may have written
            # that, so other hosts get none of it but versions, where they need such packages anyway.
            pins = found.pins
            if not self._pins.preferences(kind):
                self._pins.put(kind, SEEN, bare_pins(pins))
        if pins is not None and packages.wheelhouse is not None:
            has_all = found is not None and found.pins == pins
            return pins if has_all or not wheels_for(pins, packages.wheelhouse, facts.machine)[1] else None
        return pins

    def _chosen(self, worker: Worker, desired: Desired) -> Desired:
        """Return the wish with versions, chosen on the host unless another one did meanwhile."""
        packages, facts = desired.packages, worker.facts
        kind = kind_of(facts)
        worker.say("waiting for the choice of versions")

        def choose() -> str:
            worker.say("choosing versions")
            told = str(worker.run([self._choice(facts, desired, kind)], timeout_s=RESOLVE_WITHIN_S)[0])
            if (line := odd_pin(told, requirements=packages.requirements)) is not None:
                raise HostRefusedError(facts.host, "choose versions of packages", f"it says {line[:80]!r}")
            return told

        pins = self._choosing.once(
            kind,
            packages.inputs,
            known=lambda: self._known(facts, desired, kind),
            choose=choose,
            keep=lambda pins: self._keep(kind, packages.inputs, pins),
        )
        return replace(desired, packages=replace(packages, pins=pins))

    def _keep(self, kind: str, inputs: str, pins: str) -> None:
        self._pins.put(kind, inputs, pins)
        self._choosing.done(kind, inputs)

    def _choice(self, facts: Facts, desired: Desired, kind: str) -> Mapping[str, object]:
        packages = desired.packages
        required = f"{own_requirement(own_wheel_path(facts.places, packages))}\n{packages.requirements}\n"
        return {
            **installing(facts, packages),
            "do": "resolve",
            "requirements": required,
            "constraints": packages.constraints,
            "preferences": "" if self._chooses_anew else self._pins.preferences(kind),
            "timeout_s": RESOLVE_WITHIN_S,
            "doing": "choose versions of packages",
        }


_PREPARING = frozenset({StepKind.USER, StepKind.FOLDER, StepKind.CARRY})


def drift(facts: Facts, desired: Desired) -> tuple[Step, ...]:
    """Return how a host differs from what it shall be: the steps that would mend it. Pure."""
    return plan(facts, desired).steps


def is_gone(lock: LockFact, us: str) -> bool:
    """Tell whether a lock's holder, as `operator()` names them, is a process of our own machine that has ended."""
    place, _, pid = lock.who.rpartition(":")
    is_of_here = place == us.rpartition(":")[0] and lock.token.startswith(machine_mark())
    if not is_of_here or lock.who == us or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _is_fit(facts: Facts) -> bool:
    return facts.lacks_python is None and facts.python is not None and facts.python.version[:2] >= (3, 11)


def _without(planned: HostPlan, kinds: set[StepKind]) -> HostPlan:
    return replace(planned, steps=tuple(step for step in planned.steps if step.kind not in kinds))


def _check(planned: HostPlan) -> None:
    if planned.problems:
        first = planned.problems[0]
        more = "".join(f"; also: {each.why}" for each in planned.problems[1:])
        raise HostRefusedError(planned.host, first.doing, f"{first.why}{more}", hint=first.hint)
