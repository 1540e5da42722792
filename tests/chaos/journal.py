"""Reads what the spiders wrote of themselves: which process ran which job from when, and whether to its end."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from toolkit.model.names import JobId, NodeName, Token

BEGIN, CHILD, END, FAILS = "begin", "child", "end", "fails"
_CLOCK_SLACK_S = 0.5


_TOKEN = re.compile(r"\d+\.(\d+)\.(\d+):(.+):[^:]*$")


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a token tells of its claim. `at` is by Redis' clock, which is this machine's."""

    at: float
    attempt: int
    node: NodeName


@dataclass(frozen=True, slots=True)
class Witnessed:
    """A process that was there at that moment: its id may mean another one later."""

    pid: int
    at: float

    @property
    def is_alive(self) -> bool:
        """That very process is still there, and no zombie."""
        try:
            process = psutil.Process(self.pid)
            is_same = process.create_time() <= self.at + _CLOCK_SLACK_S
            return is_same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


@dataclass(frozen=True, slots=True)
class Run:
    """One process that ran a job. Times are those of this machine's clock; `ended_at` only if it did all its work."""

    job: JobId
    token: Token | None
    pid: int
    began_at: float
    ended_at: float | None = None
    failed_by_itself: bool = False
    children: tuple[Witnessed, ...] = ()

    @property
    def claimed(self) -> Claimed | None:
        """Its claim, where it could be seen."""
        found = _TOKEN.match(self.token) if self.token else None
        return Claimed(int(found[1]) / 1000, int(found[2]), NodeName(found[3])) if found else None

    @property
    def claimed_at(self) -> float:
        """When it was claimed. A process that stood still begins later than the one that took its job over."""
        return self.claimed.at if self.claimed else self.began_at

    @property
    def is_whole(self) -> bool:
        """It came to the end of its work."""
        return self.ended_at is not None

    def left(self) -> list[int]:
        """Return which of the run's processes are still there."""
        return [each.pid for each in (Witnessed(self.pid, self.began_at), *self.children) if each.is_alive]


def read_journal(path: Path) -> list[Run]:
    """Return all runs so far, in the order of their beginning."""
    if not path.exists():
        return []
    # What follows the last line's end is being written just now.
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    lines = [json.loads(line) for line in whole.splitlines()]
    told: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    runs = []
    for line in lines:
        key = (line["job"], line["pid"])
        if line["what"] == BEGIN and told[key]:
            # The same id for another process of the same job: a new run.
            runs.append(_run(told.pop(key)))
        told[key].append(line)
    runs += map(_run, told.values())
    return sorted(runs, key=lambda run: run.began_at)


def by_job(runs: Iterable[Run]) -> dict[JobId, list[Run]]:
    """Return the runs of each job."""
    found: dict[JobId, list[Run]] = defaultdict(list)
    for run in runs:
        found[run.job].append(run)
    return found


def _run(lines: list[Mapping[str, Any]]) -> Run:
    first = lines[0]
    assert first["what"] == BEGIN, f"a run without a beginning: {first}"
    return Run(
        job=JobId(first["job"]),
        token=None if first["token"] is None else Token(first["token"]),
        pid=first["pid"],
        began_at=first["at"],
        ended_at=next((line["at"] for line in lines if line["what"] == END), None),
        failed_by_itself=any(line["what"] == FAILS for line in lines),
        children=tuple(Witnessed(line["child"], line["at"]) for line in lines if line["what"] == CHILD),
    )
