"""A cluster that is busy, as it looks in a real Redis: registered nodes, jobs that wait, run and have ended.

No process is behind it; what nodes and spiders would say is said for them, always the same for the same numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from support.queue_desk import QueueDesk, a_pending_job, an_ending
from support.stores import SHOP, V1

from toolkit.cluster.desk import Desk
from toolkit.cluster.nodes import Nodes
from toolkit.model.jobs import JobState
from toolkit.model.names import NodeName, Session
from toolkit.model.nodes import NodeReport
from toolkit.model.queue import Claimed, Held, Progress

SPIDERS = ("books", "prices", "reviews", "stock", "images")
LEASE_S = 600.0
FULL_CALL = 1_000


class BusyCluster:
    """Builds and moves such a cluster through a queue desk."""

    def __init__(self, queue: QueueDesk, *, nodes: int = 3, slots: int = 2) -> None:
        self.queue = queue
        self.desk = Desk(Nodes.of([]), lambda: queue.store)
        self.reports = [self._report(number, slots) for number in range(1, nodes + 1)]
        self.running: dict[str, list[Claimed]] = {report.name: [] for report in self.reports}
        self.done: dict[str, int] = {}
        self._jobs = 0
        self.beat(pages=0)

    def schedule(self, count: int, *, spiders: Sequence[str] = SPIDERS, on: Sequence[str] | None = None) -> list[str]:
        """Schedule jobs; their ids depend on nothing but their number."""
        begin = self._jobs
        self._jobs += count
        now = datetime.now(UTC)
        jobs = [
            replace(
                a_pending_job(job_id(number), spider=spiders[number % len(spiders)], on=on),
                scheduled_at=now + timedelta(milliseconds=number - begin - count),
            )
            for number in range(begin, begin + count)
        ]
        for at in range(0, count, FULL_CALL):
            self.queue.queue.add(jobs[at : at + FULL_CALL])
        return [job.id for job in jobs]

    def start(self) -> list[Claimed]:
        """Let every node take jobs until its slots are full, each its first before any its second."""
        started = []
        lines = [line.name for line in self.queue.queue.lines()]
        for taken in range(self.reports[0].slots):
            for report in self.reports:
                if len(self.running[report.name]) > taken:
                    continue
                answer = self.queue.queue.claim(report, lines, running=taken)
                if isinstance(answer, Claimed):
                    assert self.queue.queue.started(answer.job.id, answer.token, pid=4711)
                    self.running[report.name].append(answer)
                    started.append(answer)
        return started

    def beat(self, *, pages: int, items: int | None = None, errors: int = 0) -> None:
        """Let every node say that each of its jobs has done so much more."""
        for report in self.reports:
            held = []
            for claim in self.running[report.name]:
                done = self.done[claim.job.id] = self.done.get(claim.job.id, 0) + pages
                progress = Progress(
                    JobState.RUNNING,
                    pages=done,
                    items=done if items is None else items,
                    errors=errors,
                    bytes=done * 20_000,
                    pages_per_minute=60.0 * pages,
                    memory_mb=81.5,
                )
                held.append(Held(claim.job.id, claim.token, progress))
            self.queue.nodes.beat(replace(report, running=len(held)), held)

    def end(self, count: int, state: JobState = JobState.FINISHED, *, reason: str | None = None) -> list[str]:
        """Let so many of the jobs that run come to an end."""
        ended: list[str] = []
        for claims in self.running.values():
            while claims and len(ended) < count:
                claim = claims.pop(0)
                ending = an_ending(state, exit_code=int(state is JobState.FAILED))
                self.queue.queue.finish(
                    claim.job.id, claim.token, ending if reason is None else replace(ending, reason=reason)
                )
                ended.append(claim.job.id)
        return ended

    def _report(self, number: int, slots: int) -> NodeReport:
        name = NodeName(f"node-{number:03}")
        return NodeReport(
            name=name,
            session=Session("life-1"),
            home=f"home of {name}",
            address=f"10.0.{number // 250}.{number % 250 + 1}:6800",
            slots=slots,
            running=0,
            lease_s=LEASE_S,
            load=0.25 + number % 7 / 10,
            memory_free_mb=2048 + number,
            disk_free_mb=50_000 + number,
            versions={SHOP: (V1,)},
            software={"python": "3.11.9", "scrapy": "2.13.0", "scrapyd": "1.6.0", "crawlctl": "0.1.0"},
            labels={"region": "eu" if number % 2 else "us"},
        )


def job_id(number: int) -> str:
    """Return the id of a job by its number: as long and as mixed as Scrapyd's own."""
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()
