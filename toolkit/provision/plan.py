"""Decides what has to be done to a host: facts and the desired state in, steps out. Pure; nothing is connected here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolkit.model.nodes import IS_STARTING, WAITS_FOR_REDIS
from toolkit.provision.desired import Desired, Packages, bind_of
from toolkit.provision.facts import EnvironmentFact, Facts, Manager
from toolkit.provision.files import WantedFile, wanted_files
from toolkit.provision.fitness import notes, problems
from toolkit.provision.host_plan import Carried, HostPlan, Problem, Step, StepKind
from toolkit.provision.local_nodes import NODE_PAGE, STOCK_PAGE
from toolkit.provision.packages import environment_id, is_offline, own_requirement, versions_of, wheels_for
from toolkit.provision.places import UNIT, Places
from toolkit.provision.service import Verb, call_of
from toolkit.provision.units import MARK, cron_lines, manager_for

__all__ = ["HostPlan", "Problem", "Step", "StepKind", "plan"]

INSTALL_WITHIN_S = 600.0
ANSWER_WITHIN_S = 45.0


def plan(facts: Facts, desired: Desired) -> HostPlan:
    """Return what makes the host as desired; empty for one that is. After it was performed, it is empty."""
    manager = manager_for(desired.host, facts)
    maker = _Maker(facts, desired, manager)
    steps = maker.steps()
    return HostPlan(
        facts.host,
        manager,
        steps=steps,
        problems=problems(facts, desired, manager, needs_room=maker.needs_room),
        notes=notes(facts, desired, manager),
    )


class _Maker:
    """Puts one host's steps together."""

    def __init__(self, facts: Facts, desired: Desired, manager: Manager) -> None:
        self._facts = facts
        self._places = facts.places
        self._desired = desired
        self._manager = manager
        self._admin = "root" if facts.is_root else facts.user
        self._environment_why = environment_why(facts, desired)
        self._files = [
            wanted
            for wanted in wanted_files(desired, facts, manager)
            if not wanted.is_met_by(facts.files.get(wanted.path))
        ]
        self.needs_room = self._environment_why is not None

    def steps(self) -> tuple[Step, ...]:
        """Return all of them; one is needed only for itself, and the record only with others."""
        begun = [*self._user(), *self._folders(), *self._carried(), *self._packages()]
        written = [self._file(wanted) for wanted in self._files]
        service = [*self._service(), *self._running()]
        steps = [*begun, *written, *service]
        due = self._restart_due() if self._must_restart and not self._facts.is_restart_due else ()
        if written and due:
            at = len(begun)
            steps[at] = replace(steps[at], operations=(*due, *steps[at].operations))
        return (*steps, *self._record(has_others=bool(steps)))

    def _user(self) -> Iterator[Step]:
        name = self._facts.service_user
        if not self._facts.has_service_user:
            made = {"do": "user", "name": name, "home": self._places.node, "doing": f"make the user {name}"}
            yield Step(StepKind.USER, name, "the node runs as it", operations=(made,))

    def _folders(self) -> Iterator[Step]:
        wanted = wanted_folders(self._facts)
        wrong = {
            path: (mode, owner)
            for path, (mode, owner) in wanted.items()
            if (found := self._facts.folders.get(path)) is None or (found.mode, found.owner) != (mode, owner)
        }
        if wrong:
            made = tuple(
                {"do": "folder", "path": path, "mode": mode, "owner": owner, "doing": f"make {path}"}
                for path, (mode, owner) in wrong.items()
            )
            missing = [path for path in wrong if path not in self._facts.folders]
            why = f"{len(missing)} of {len(wanted)} are missing" if missing else "mode or owner is another one"
            yield Step(StepKind.FOLDER, self._places.folder, why, operations=made)

    def _carried(self) -> Iterator[Step]:
        if self._environment_why is None:
            return
        packages = self._desired.packages
        carried: list[Carried] = []
        if packages.own_digest not in self._facts.wheels:
            carried.append(Carried(packages.own_wheel, own_wheel_path(self._places, packages)))
        if packages.wheelhouse is not None and packages.pins is not None:
            wheels, _ = wheels_for(packages.pins, packages.wheelhouse, self._facts.machine)
            fresh = [path for path in wheels if path.name not in self._facts.wheels]
            carried += [Carried(path, f"{self._places.wheels}/{path.name}") for path in fresh]
        has_uv_wheel = any(name.startswith("uv-") for name in (*self._facts.wheels, *(c.name for c in carried)))
        needs_uv = self._facts.uv is None
        if needs_uv and not has_uv_wheel:
            carried.append(Carried(None, self._places.uv, mode=0o755))
        unpacked: tuple[Mapping[str, Any], ...] = ()
        if needs_uv and has_uv_wheel:
            doing = "take uv out of its wheel"
            unpacked = (
                {
                    "do": "program_of_wheel",
                    "name": "uv",
                    "wheels": self._places.wheels,
                    "path": self._places.uv,
                    "doing": doing,
                },
            )
        if carried or unpacked:
            what = ", ".join([each.name for each in carried][:3])
            more = f" and {len(carried) - 3} more" if len(carried) > 3 else ""  # noqa: PLR2004 - as many as were named
            target = f"{what}{more}" or "uv"
            yield Step(
                StepKind.CARRY, target, "the host has no such files", operations=unpacked, carries=tuple(carried)
            )

    def _packages(self) -> Iterator[Step]:
        if self._environment_why is None:
            return
        facts, packages = self._facts, self._desired.packages
        if packages.pins is None:
            yield Step(StepKind.PACKAGES, "crawlctl[node]", f"{self._environment_why}; versions are still to be chosen")
            return
        name = environment_id(packages, facts)
        doing = "install packages"
        made = {
            **installing(facts, packages),
            "do": "environment",
            "folder": self._places.environments,
            "id": name,
            "pins": packages.pins,
            "own": own_requirement(own_wheel_path(self._places, packages)),
            "noted": {"inputs": packages.inputs, "pins": packages.pins, "own": packages.own_digest},
            "doing": doing,
        }
        linked = {
            "do": "link",
            "path": self._places.environment,
            "target": f"{self._places.environments}/{name}",
            "doing": "put the environment in place",
        }
        due = self._restart_due() if self._must_restart and not facts.is_restart_due else ()
        count = len(versions_of(packages.pins)) + 1
        yield Step(
            StepKind.PACKAGES,
            f"{count} packages",
            self._environment_why,
            operations=(made, *due, linked),
            timeout_s=INSTALL_WITHIN_S,
        )

    def _file(self, wanted: WantedFile) -> Step:
        found = self._facts.files.get(wanted.path)
        written = {
            "do": "file",
            "path": wanted.path,
            "text": wanted.content.reveal(),
            "mode": wanted.mode,
            "owner": wanted.owner,
            "doing": f"write {wanted.path}",
        }
        return Step(StepKind.FILE, wanted.path, wanted.why(found), wanted.diff(found), operations=(written,))

    def _service(self) -> Iterator[Step]:
        found = self._facts.service(self._manager)
        if self._manager == "supervisor":
            lines = cron_lines(self._places)
            if self._facts.has_cron and our_lines(self._facts.crontab) != lines:
                put = {
                    "do": "crontab",
                    "owner": self._facts.service_user,
                    "lines": lines,
                    "mark": MARK,
                    "doing": "write the crontab",
                }
                yield Step(StepKind.SERVICE, "crontab", "its lines for the node are missing", operations=(put,))
            return
        if self._manager == "user" and not self._facts.lingers:
            linger = self._call(["loginctl", "enable-linger"], "let the user's services run without a login")
            yield Step(StepKind.SERVICE, "linger", "services end with the login otherwise", operations=(linger,))
        is_written = any(wanted.is_unit for wanted in self._files)
        is_enabled = found is not None and found.is_enabled
        if is_written or not is_enabled or (found is not None and found.needs_reload):
            operations = [self._verb("reload")] if is_written or found is None or found.needs_reload else []
            operations += [] if is_enabled else [self._call([*self._systemctl, "enable", UNIT], f"enable {UNIT}")]
            why = "is not enabled" if not is_enabled else "has to be read anew"
            yield Step(StepKind.SERVICE, UNIT, why, operations=tuple(operations))

    def _running(self) -> Iterator[Step]:
        found = self._facts.service(self._manager)
        is_active = found is not None and found.is_active
        if is_active and not self._must_restart:
            return
        answering = await_answer(self._desired, self._places, self._manager)
        settled = {"do": "remove", "path": self._places.restart_due, "doing": "note that the node is as it shall be"}
        spiders = "running spiders end" if self._desired.is_stock else "running spiders go on"
        why = f"its files were changed; {spiders}" if is_active else "does not run"
        yield Step(
            StepKind.RESTART,
            UNIT,
            why,
            operations=(*self._begun_anew(is_active=is_active), answering, settled),
            timeout_s=ANSWER_WITHIN_S * 2,
        )

    def _begun_anew(self, *, is_active: bool) -> list[Mapping[str, Any]]:
        if not is_active:
            return [self._verb("start")]
        # The keeper restarts in the background, and the old node would answer meanwhile; its own packages are old too.
        return [self._verb("stop"), self._verb("start")] if self._manager == "supervisor" else [self._verb("restart")]

    def _record(self, *, has_others: bool) -> Iterator[Step]:
        noted = recorded(self._facts, self._desired, self._manager)
        known = {key: self._facts.record.get(key) for key in noted}
        if has_others or known != noted:
            yield Step(StepKind.RECORD, self._places.record, "what was done is noted there")

    @property
    def _must_restart(self) -> bool:
        is_changed = self._environment_why is not None or any(wanted.restarts for wanted in self._files)
        return is_changed or self._facts.is_restart_due

    def _restart_due(self) -> tuple[Mapping[str, Any], ...]:
        noted = {
            "do": "file",
            "path": self._places.restart_due,
            "text": "",
            "mode": 0o644,
            "owner": self._admin,
            "doing": "note that the node is to be started anew",
        }
        return (noted,)

    def _verb(self, verb: Verb) -> Mapping[str, Any]:
        call = call_of(verb, self._manager, self._places, user=self._facts.service_user)
        words = list(call.words) if call is not None else ["true"]
        whose = call.as_user if call is not None else None
        return self._call(words, f"{verb} {UNIT}", whose=whose)

    def _call(self, words: Sequence[str], doing: str, *, whose: str | None = None) -> Mapping[str, Any]:
        return {"do": "command", "words": list(words), "owner": whose, "doing": doing}

    @property
    def _systemctl(self) -> tuple[str, ...]:
        return ("systemctl",) if self._manager == "system" else ("systemctl", "--user")


def wanted_folders(facts: Facts) -> dict[str, tuple[int, str]]:
    """Return the folders that a host shall have, with mode and owner."""
    places, owner = facts.places, facts.service_user
    admin = "root" if facts.is_root else facts.user
    ours = 0o755 if facts.is_root else 0o700
    return {
        places.folder: (ours, admin),
        places.programs: (0o755, admin),
        places.wheels: (0o755, admin),
        places.environments: (0o755, owner),
        places.cache: (0o750, owner),
        places.node: (0o750, owner),
    }


def environment_why(facts: Facts, desired: Desired) -> str | None:
    """Say why the environment has to be made; `None` where it is as it shall be."""
    found, packages = facts.environment, desired.packages
    if found is None or not found.is_complete:
        return "there is no environment yet" if found is None else "making it was cut short"
    if found.own_digest != packages.own_digest:
        return "crawlctl is another one"
    if packages.pins is None:
        if packages.chosen_anew:
            return "newer versions are looked for"
        return None if found.inputs == packages.inputs else "other packages are asked for"
    if found.id == environment_id(packages, facts):
        return _other_versions(found, packages.pins)
    return _other_versions(found, packages.pins) or "its Python is another one"


def _other_versions(found: EnvironmentFact, pins: str) -> str | None:
    other = [
        f"{name} {found.packages.get(name, 'missing')} → {version}"
        for name, version in versions_of(pins).items()
        if found.packages.get(name) != version
    ]
    more = f" and {len(other) - 3} more" if len(other) > 3 else ""  # noqa: PLR2004 - as many as were named
    return ", ".join(other[:3]) + more if other else None


def installing(facts: Facts, packages: Packages) -> dict[str, Any]:
    """Return what each use of uv on the host needs."""
    return {
        "uv": facts.places.uv,
        "python": facts.python.path if facts.python else "python3",
        "owner": facts.service_user,
        "cache": facts.places.cache,
        "wheels": facts.places.wheels,
        "is_offline": is_offline(packages, facts.record),
        "index": packages.index.reveal() if packages.index else None,
        "timeout_s": INSTALL_WITHIN_S,
    }


LOG_LINES = "400"
"""Where a node's last words are looked for; each time that it was asked whether it is there is a line as well."""


def await_answer(desired: Desired, places: Places, manager: Manager) -> dict[str, Any]:
    """Return the operation that ends when the node answers under its name and credentials."""
    host = desired.host
    words = {
        "system": ["journalctl", "-q", "-o", "cat", "-n", LOG_LINES, "-u", UNIT],
        "user": ["journalctl", "-q", "-o", "cat", "-n", LOG_LINES, "--user-unit", UNIT],
        "supervisor": ["tail", "-n", LOG_LINES, places.log],
    }
    return {
        "do": "answers",
        "bind": bind_of(host),
        "port": host.port,
        "is_tls": host.scheme == "https",
        "username": host.username,
        "password": host.password.reveal() if host.password else "",
        "page": STOCK_PAGE if desired.is_stock else NODE_PAGE,
        "name": host.name,
        "is_starting": IS_STARTING,
        "waits": WAITS_FOR_REDIS,
        "within_s": ANSWER_WITHIN_S,
        "folder": places.folder,
        "unit": UNIT,
        "log": words[manager],
        "doing": "wait until the node answers",
    }


def recorded(facts: Facts, desired: Desired, manager: Manager) -> dict[str, object]:
    """Return what the record says apart from who did it and when."""
    packages = desired.packages
    return {
        "node": str(desired.host.name),
        "crawlctl": packages.own_digest,
        "environment": environment_id(packages, facts) if packages.pins is not None else None,
        "offline": is_offline(packages, facts.record),
        "service": manager,
        # No digests: anybody there may read this, and a weak password could be guessed by that of its file.
        "files": [wanted.path for wanted in wanted_files(desired, facts, manager)],
    }


def own_wheel_path(places: Places, packages: Packages) -> str:
    """Return where crawlctl's own wheel lies on the host: below its digest, since its name alone does not tell."""
    return f"{places.wheels}/{packages.own_digest}/{packages.own_wheel.name}"


def our_lines(crontab: str) -> tuple[str, ...]:
    """Return the lines of a crontab that are ours."""
    return tuple(line for line in crontab.splitlines() if line.endswith(MARK))
