"""Watches Redis from outside while a run goes on: who owns which job from when to when, which nodes give signs of life.

It reads keys and writes none, about twenty times a second, and knows nothing but what it has seen.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import redis
from chaos.journal import read_journal
from chaos.spiders import PROJECT, VERSION

from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, NodeName, Token
from toolkit.store.keys import Keys

LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when something was so, by this machine's clock."""

    begin: float
    end: float

    def overlaps(self, begin: float, end: float) -> bool:
        """They have a moment in common."""
        return self.begin <= end and begin <= self.end


@dataclass(frozen=True, slots=True)
class Tenure:
    """One claim of one job: first and last seen. `after` is the job's state when the claim was over."""

    job: JobId
    token: Token
    node: NodeName
    begin: float
    end: float
    after: JobState | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """How many jobs each node had at a moment, and which nodes were fit to take one and had a slot for it."""

    at: float
    free: frozenset[NodeName]


@dataclass(slots=True)
class Seen:
    """All that was seen. `beats` are the nodes' signs of life, `outages` the times without Redis."""

    tenures: list[Tenure] = field(default_factory=list)
    beats: dict[NodeName, list[float]] = field(default_factory=lambda: defaultdict(list))
    outages: list[Span] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    finals: dict[JobId, dict[str, Any]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)


class Watcher(threading.Thread):
    """Looks until it is told to stop; `seen` may be read at any time, and `tenures_now` asked."""

    def __init__(self, url: str, journal: Path, *, lease_s: float) -> None:
        super().__init__(name="watcher", daemon=True)
        self.seen = Seen()
        self._client = redis.Redis.from_url(url, decode_responses=True, socket_timeout=1, socket_connect_timeout=1)
        self._keys = Keys()
        self._journal = journal
        self._lease_s = lease_s
        self._open: dict[Token, Tenure] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._last_answer = time.time()

    def stop(self) -> None:
        """Look once more, and end."""
        self._stopping.set()
        self.join(10)
        self._client.close()

    def tenures_now(self) -> list[Tenure]:
        """Return the claims that were there at the last look."""
        with self._lock:
            return list(self._open.values())

    def run(self) -> None:
        """Look again and again."""
        is_last = False
        while not is_last:
            is_last = self._stopping.wait(LOOK_EVERY_S)
            try:
                self._look()
            except redis.RedisError:
                self._note_outage()

    def _note_outage(self) -> None:
        now = time.time()
        outages = self.seen.outages
        if outages and outages[-1].begin == self._last_answer:
            outages.pop()
        outages.append(Span(self._last_answer, now))

    def _look(self) -> None:
        keys = self._keys
        together = self._client.pipeline(transaction=True)
        together.hgetall(keys.owners)
        together.zrange(keys.beats, 0, -1, withscores=True)
        together.hgetall(keys.nodes)
        owners, beats, reports = together.execute()
        now = time.time()
        outages = self.seen.outages
        if outages and outages[-1].begin == self._last_answer:
            outages[-1] = replace(outages[-1], end=now)
        self._last_answer = now
        self._note_beats(beats)
        nodes = self._nodes_of([job for job, token in owners.items() if Token(token) not in self._open])
        with self._lock:
            ended = self._note_owners(owners, nodes, now)
        self._note_room(beats, reports, now)
        for tenure in ended:
            self._note_end(tenure)

    def _note_beats(self, beats: list[tuple[str, float]]) -> None:
        for name, at_ms in beats:
            known = self.seen.beats[NodeName(name)]
            # A Redis that came back older tells of older ones.
            if not known or known[-1] < at_ms / 1000:
                known.append(at_ms / 1000)

    def _nodes_of(self, jobs: list[str]) -> dict[str, NodeName]:
        bodies = self._client.hmget(self._keys.jobs, jobs) if jobs else []
        told = {job: json.loads(body) for job, body in zip(jobs, bodies, strict=True) if body is not None}
        # A claim may be over already; then nothing is known of it.
        return {job: NodeName(facts["node"]) for job, facts in told.items() if "node" in facts}

    def _note_owners(self, owners: dict[str, str], nodes: dict[str, NodeName], now: float) -> list[Tenure]:
        for job, text in owners.items():
            token = Token(text)
            known = self._open.get(token)
            if known is not None:
                self._open[token] = replace(known, end=now)
            elif job in nodes:
                self._open[token] = Tenure(JobId(job), token, nodes[job], now, now)
        return [self._open.pop(token) for token in self._open.keys() - set(owners.values())]

    def _note_room(self, beats: list[tuple[str, float]], reports: dict[str, str], now: float) -> None:
        held: dict[NodeName, int] = defaultdict(int)
        for tenure in self._open.values():
            held[tenure.node] += 1
        fresh = {name for name, at_ms in beats if at_ms / 1000 > now - self._lease_s * 0.45}
        free = set()
        for name in fresh:
            report = json.loads(reports[name])
            taken = max(held[NodeName(name)], report.get("running", 0))
            holds = VERSION in report["versions"].get(PROJECT, ())
            if taken < report["slots"] and holds and not report.get("unfit"):
                free.add(NodeName(name))
        self.seen.looks.append(Look(now, frozenset(free)))

    def _note_end(self, tenure: Tenure) -> None:
        """Look at what became of the job, and whether a cancelled one's processes are gone at this very moment."""
        body = self._client.hget(self._keys.jobs, tenure.job)
        job = json.loads(str(body)) if body else {}
        after = JobState(job["state"]) if job else None
        self.seen.tenures.append(replace(tenure, end=time.time(), after=after))
        if after is JobState.CANCELLED:
            runs = [run for run in read_journal(self._journal) if run.token == tenure.token]
            left = [pid for run in runs for pid in run.left()]
            if left:
                self.seen.broken.append(f"{tenure.job} is called cancelled while its processes {left} are there")
        if after is not None and after.is_final:
            self.seen.finals.setdefault(tenure.job, job)
