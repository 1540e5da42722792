"""A plug-in node reduced to what the operator's side sees of one: heartbeats, claims, endings and fetched releases.

It speaks to a real store from a thread of its own and runs no spider, so that a test decides what a node does.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from support.queue_desk import a_report, an_ending
from support.waiting import wait_until

from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, ProjectName, Session, VersionName
from toolkit.model.nodes import NodeReport
from toolkit.model.queue import BeatAnswer, Claimed, Held, Progress, unfit
from toolkit.store.interfaces import Shared, Store

BEAT_S = 0.05


class PluggedNode:
    """A node that beats from entering the context to leaving it.

    With `claims` it takes jobs, with `fetches` it installs what is offered or active, or says `refuses` instead; with
    `is_deaf` it does not end what it is asked to cancel.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        slots: int = 4,
        lease_s: float = 15.0,
        versions: dict[ProjectName, tuple[VersionName, ...]] | None = None,
        claims: bool = False,
        fetches: bool = False,
        refuses: str | None = None,
        is_deaf: bool = False,
    ) -> None:
        assert store.shared is not None
        self.name = name
        self.held: dict[JobId, Claimed] = {}
        self._store = store
        self._shared: Shared = store.shared
        self._report = a_report(name, slots=slots, lease_s=lease_s, versions=versions)
        self._claims = claims
        self._fetches = fetches
        self._refuses = refuses
        self._is_deaf = is_deaf
        self._lives = 1
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def __enter__(self) -> Self:
        self._shared.nodes.beat(self._report, [])
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.fall_silent()

    def fall_silent(self) -> None:
        """Stop beating, as a host does that lost its power."""
        self._is_over.set()
        self._thread.join()

    def start_anew(self, *, unfit: str | None = None) -> None:
        """Be another life of the same node, as after a restart of its Scrapyd."""
        self._lives += 1
        self._report = replace(self._report, session=Session(f"life-{self._lives}"), unfit=unfit)

    def wait_for_jobs(self, *job_ids: str) -> None:
        """Wait until the node has just these jobs, and has told so."""

        def has_told() -> bool:
            record = next(each for each in self._shared.nodes.all() if each.name == self.name)
            return set(self.held) == set(job_ids) and record.report.running == len(job_ids)

        wait_until(has_told, deadline_s=60, what=f"{self.name} to have {job_ids}")

    def end(self, job_id: str, state: JobState = JobState.FINISHED) -> None:
        """Let a job's process end."""
        claim = self.held.pop(JobId(job_id))
        self._shared.queue.finish(claim.job.id, claim.token, an_ending(state))

    def _live(self) -> None:
        while not self._is_over.wait(BEAT_S):
            held = [
                Held(claim.job.id, claim.token, Progress(JobState.RUNNING, pages=7)) for claim in [*self.held.values()]
            ]
            answer = self._shared.nodes.beat(replace(self._report, running=len(held)), held)
            self._obey(answer)
            if self._fetches:
                self._report = self._install(self._report)
            elif self._refuses is not None:
                offered = self._shared.eggs.offered(node=self._report.name)
                behind = {f"{each.project} {each.version}": self._refuses for each in offered}
                self._report = replace(self._report, behind=behind)
            if self._claims and not answer.is_draining and len(self.held) < self._report.slots:
                self._claim()

    def _obey(self, answer: BeatAnswer) -> None:
        for job_id, claim in list(self.held.items()):
            wish = answer.wishes.get(claim.token)
            if claim.token in answer.stale:
                del self.held[job_id]
            elif wish is not None and wish.is_cancel and not self._is_deaf:
                self.end(job_id)

    def _install(self, report: NodeReport) -> NodeReport:
        wanted = [*self._shared.eggs.offered(node=self._report.name), *self._store.releases.actives().values()]
        versions = dict(report.versions)
        for release in wanted:
            held: Sequence[VersionName] = versions.get(release.project, ())
            if release.version not in held and self._shared.eggs.fetch(release.digest) is not None:
                versions[release.project] = (*held, release.version)
        return replace(report, versions=versions)

    def _claim(self) -> None:
        lines = [
            line.name
            for line in self._shared.queue.lines()
            if not unfit(line, node=self._report.name, versions=self._report.versions)
        ]
        answer = self._shared.queue.claim(self._report, lines, running=len(self.held))
        if isinstance(answer, Claimed) and self._shared.queue.started(answer.job.id, answer.token, pid=4711):
            self.held[answer.job.id] = answer
