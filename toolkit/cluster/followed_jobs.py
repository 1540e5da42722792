"""Which jobs' logs are wanted: by their ids, or by what they have in common; and what became of them since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from toolkit.cluster.everywhere import OpenStore, list_everywhere
from toolkit.cluster.many_logs import MAX_STREAMS
from toolkit.cluster.nodes import Nodes
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import JobId

MAX_READ = 200
"""So many jobs' logs are read at once where they are not followed."""

ALIVE = frozenset(state for state in JobState if not state.is_final)


@dataclass(frozen=True, slots=True)
class JobsToRead:
    """The jobs that were asked for, newest first; `is_cut` says that there are more."""

    jobs: tuple[Job, ...]
    is_cut: bool


def jobs_to_read(nodes: Nodes, open_store: OpenStore, chosen: JobFilter, *, follow: bool) -> JobsToRead:
    """Return the jobs whose logs to begin with: to be followed, those that have not ended, unless states are chosen."""
    wanted = replace(chosen, states=ALIVE) if follow and not chosen.states else chosen
    limit = MAX_STREAMS if follow else MAX_READ
    found = list_everywhere(nodes, open_store, wanted, limit=limit + 1).jobs
    begun = [job for job in found if follow or job.node is not None]
    return JobsToRead(tuple(begun[:limit]), len(found) > limit)


class FollowedJobs:
    """The jobs that somebody follows (`JobsSeen`). Without a filter none comes to those that were named.

    `states` are those that were asked for; without any, those of jobs that have not ended. `begun_at` is when the
    following began, by the store's clock: a job that was scheduled after it is wanted even if it has ended since.
    """

    def __init__(
        self,
        nodes: Nodes,
        open_store: OpenStore,
        chosen: JobFilter | None,
        *,
        begun_at: datetime,
        limit: int,
    ) -> None:
        self._nodes = nodes
        self._open_store = open_store
        self._chosen = chosen
        self._begun_at = begun_at
        self._limit = limit

    def wanted(self) -> Sequence[Job]:
        """Return the jobs that are to be followed now, those that were scheduled since the begin among them."""
        if self._chosen is None:
            return ()
        alive = self._listed(self._chosen if self._chosen.states else replace(self._chosen, states=ALIVE))
        new = self._listed(replace(self._chosen, since=self._begun_at))
        return list({job.id: job for job in (*new, *alive)}.values())

    def fresh(self, jobs: Sequence[Job]) -> Mapping[JobId, Job]:
        """Return these jobs as they are now. A stock node that lists one no more has forgotten it: it has ended."""
        queued = [job.id for job in jobs if job.is_queued]
        found = dict(self._open_store().jobs.get_many(queued)) if queued else {}
        direct = [job for job in jobs if not job.is_queued and job.node is not None]
        if direct:
            nodes = frozenset(job.node for job in direct if job.node is not None)
            listed = {job.id: job for job in self._listed(JobFilter(nodes=nodes))}
            found |= {job.id: listed.get(job.id) or replace(job, state=JobState.FINISHED) for job in direct}
        lost = [job for job in jobs if job.is_queued and job.id not in found]
        return found | {job.id: replace(job, state=JobState.LOST) for job in lost}

    def _listed(self, wanted: JobFilter) -> Sequence[Job]:
        return list_everywhere(self._nodes, self._open_store, wanted, limit=self._limit).jobs
