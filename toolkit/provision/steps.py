"""Performs the steps of a plan on their host: few connections, each step safe to repeat, under the host's lock."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import secrets
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from toolkit.model.errors import CrawlctlError, HostRefusedError
from toolkit.provision import programs
from toolkit.provision.bundles import Bundles
from toolkit.provision.facts import Facts
from toolkit.provision.fitness import is_stale
from toolkit.provision.host_plan import HostPlan, Step, StepKind
from toolkit.provision.remote import Remote
from toolkit.provision.steps_program import MARK

Say = Callable[[str], object]

_BEFORE = frozenset({StepKind.USER, StepKind.FOLDER, StepKind.CARRY})
_WORDS = {
    StepKind.USER: "making the user",
    StepKind.FOLDER: "making folders",
    StepKind.CARRY: "carrying files",
    StepKind.PACKAGES: "installing packages",
    StepKind.FILE: "writing files",
    StepKind.SERVICE: "setting up the service",
    StepKind.RESTART: "waiting for the node",
    StepKind.RECORD: "noting what was done",
}
_NOT_FETCHED = re.compile(r"Failed to fetch: `?(?P<url>[^\s`]+)`?.* cause: (?P<last>.+)", re.IGNORECASE | re.DOTALL)
_NO_INDEX = ("Failed to fetch", "error sending request", "dns error", "tcp connect error", "Connection refused")
_NO_PACKAGE = ("No solution found", "not found in", "no wheels with a matching", "There is no version")
_FREE_SPACE = "free some space there, then provision it again"
# The first that fits counts. Why a node does not start, it says in any words: those of a full disk, of an index, ...
_HINTS = (
    (("has not joined its cluster",), "is the redis URL right, and its password? Mend it, then provision it again"),
    (("No space left", "Disk quota"), _FREE_SPACE),
    (("it does not answer",), "crawlctl nodes logs shows more"),
    (
        _NO_INDEX,
        "the host reaches no package index: carry wheels there with --wheelhouse, see crawlctl docs no-internet",
    ),
    (_NO_PACKAGE, "crawlctl nodes wheelhouse fetches what fits; see crawlctl docs no-internet"),
    (("provisions this host now",), "wait until that has ended, then provision it again"),
    (("Could not enable linger",), "have root run there: loginctl enable-linger; or provision.service: supervisor"),
)


@dataclass(slots=True)
class Worker:
    """Does things on one host as it was seen; `who` is told to others who want to provision it meanwhile."""

    remote: Remote
    facts: Facts
    bundles: Bundles
    who: str
    say: Say
    token: str = field(default_factory=lambda: f"{machine_mark()}{secrets.token_hex(8)}")
    is_locked: bool = False

    def perform(self, plan: HostPlan, *, record: Mapping[str, object]) -> str | None:
        """Do all steps of a plan, and return why the node takes no job, if it does not.

        Raises:
            HostError: a step failed; those before it are done, and the next run does what is left.
            RefusedError: the plan has problems; nothing was done.

        """
        unfit = None
        for batch in _batches(plan.steps):
            results = self.do(batch, record=record)
            unfit = next((each for each in results if isinstance(each, str)), unfit)
        self.release()
        return unfit

    def prepare(self, plan: HostPlan) -> None:
        """Do only what comes before packages: the user, folders, and what is carried there."""
        self.do([step for step in plan.steps if step.kind in _BEFORE], record={})

    def do(self, steps: Sequence[Step], *, record: Mapping[str, object]) -> list[Any]:
        """Do some steps over one connection, and return what their operations did."""
        if not steps:
            return []
        doing = _WORDS[
            next((step.kind for step in reversed(steps) if step.kind is not StepKind.RECORD), StepKind.RECORD)
        ]
        self.say(doing)
        operations = [self._lock()]
        for step in steps:
            if step.carries:
                operations.append(self._carried(step))
            operations += step.operations
            if step.kind is StepKind.RECORD:
                operations += self._recorded(record)
        results = self.run(operations, doing=doing, timeout_s=sum(step.timeout_s for step in steps))[1:]
        self.is_locked = steps[-1].kind is not StepKind.RECORD
        return results

    def run(self, operations: Sequence[Mapping[str, Any]], *, timeout_s: float, doing: str | None = None) -> list[Any]:
        """Have operations done on the host, and return the result of each; `doing` is what they are together.

        Raises:
            HostRefusedError: one failed; it says which, and why.

        """
        doing = doing or str(operations[-1]["doing"])
        python = self.facts.python.path if self.facts.python else "python3"
        program = programs.composed(
            programs.STEPS, {"operations": list(operations), "folder": self.facts.places.folder}
        )
        ran = self.remote.run(
            [python, "-I", "-"], doing=doing, stdin=program, timeout_s=timeout_s, as_root=self.facts.is_root
        )
        said = programs.answer(ran, MARK, host=self.facts.host, doing=doing)
        self.is_locked = self.is_locked or bool(said["results"])
        if "failed" in said:
            full = self.facts.places.folder if said["is_disk_full"] else None
            why, hint = told(str(said["why"]), full_disk_of=full)
            raise HostRefusedError(self.facts.host, str(said["failed"]), why, hint=hint)
        return list(said["results"])

    def release(self) -> None:
        """Give the host's lock back, where it can still be reached."""
        if self.is_locked:
            with contextlib.suppress(CrawlctlError):
                self.run([self._unlock()], timeout_s=20.0)

    def _lock(self) -> Mapping[str, Any]:
        stale = self.facts.lock.token if self.facts.lock is not None and is_stale(self.facts) else None
        return {
            "do": "lock",
            "path": self.facts.places.lock,
            "who": self.who,
            "token": self.token,
            "takes_over": stale,
            "doing": "take the host's lock",
        }

    def _unlock(self) -> Mapping[str, Any]:
        path = self.facts.places.lock
        return {"do": "unlock", "path": path, "token": self.token, "doing": "give the host's lock back"}

    def _carried(self, step: Step) -> Mapping[str, Any]:
        bundle = self.bundles.of(step.carries, self.facts)
        path = f"/tmp/crawlctl-{self.token}.tar"  # noqa: S108 - nobody can guess it, and its bytes are checked there
        size = bundle.path.stat().st_size
        self.remote.send(
            bundle.path, path, on_bytes=lambda count: self.say(f"carrying files: {100 * count // max(size, 1)} %")
        )
        doing = f"unpack {step.target}"
        return {"do": "unpack", "archive": path, "digest": bundle.digest, "into": dict(bundle.into), "doing": doing}

    def _recorded(self, record: Mapping[str, object]) -> Iterator[Mapping[str, Any]]:
        places = self.facts.places
        noted = {**record, "by": self.who, "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        yield {
            "do": "file",
            "path": places.record,
            "text": json.dumps(noted, indent=1) + "\n",
            "mode": 0o644,
            "owner": "root" if self.facts.is_root else self.facts.user,
            "doing": f"write {places.record}",
        }
        yield {
            "do": "prune",
            "folder": places.environments,
            "link": places.environment,
            "kept": [self.facts.environment.id] if self.facts.environment is not None else [],
            "owner": self.facts.service_user,
            "doing": "remove old environments",
        }
        yield self._unlock()


def machine_mark() -> str:
    """Return what our tokens begin with, and those of no other machine: many are called `ubuntu`, and have equal users.

    Another boot, or another container, is another machine: its process ids are others.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        place = f"{boot}{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        place = f"{uuid.getnode():x}"
    return hashlib.sha256(place.encode()).hexdigest()[:16]


def _batches(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Give steps that go over one connection: before packages, packages, and all that follows."""
    yield [step for step in steps if step.kind in _BEFORE]
    yield [step for step in steps if step.kind is StepKind.PACKAGES]
    yield [step for step in steps if step.kind not in {*_BEFORE, StepKind.PACKAGES}]


def told(why: str, *, full_disk_of: str | None = None) -> tuple[str, str | None]:
    """Return why an operation failed, and what to do then if that is known; a full disk is the cause of all. Pure.

    Of what uv says of a package that it cannot fetch, the causes between the first and the last are left out.
    """
    found = _NOT_FETCHED.search(why)
    short = why if found is None else f"{found['url']} cannot be fetched: {found['last'].strip()}"
    if full_disk_of is None:
        return short, next((hint for words, hint in _HINTS if any(word in why for word in words)), None)
    is_said = short.startswith("No space left")
    return short if is_said else f"no space left on the disk of {full_disk_of}: {short}", _FREE_SPACE
