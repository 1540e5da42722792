"""The job records of one cluster in Redis: bodies in one hash, found by three sorted sets of ids (`keys.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolkit.model.jobs import Job, JobFilter
from toolkit.model.names import JobId
from toolkit.store import refusals, wire_jobs
from toolkit.store.connect import RedisDoor
from toolkit.store.interfaces import MAX_JOBS
from toolkit.store.job_search import find_ids
from toolkit.store.keys import Keys
from toolkit.store.ordering import scheduled_us

BODIES_A_CALL = 500
_FORGOTTEN_A_CALL = 1000
_NO_AGE_MS = 10**15


class RedisJobs:
    """Keeps what `JobStore` promises; `max_jobs` bounds the records in a final state where no plug-in node does."""

    def __init__(self, door: RedisDoor, keys: Keys, *, max_jobs: int = MAX_JOBS) -> None:
        self._door = door
        self._keys = keys
        self._max_jobs = max_jobs

    def add(self, jobs: Sequence[Job]) -> None:
        """See `JobStore.add`."""
        refusals.check_ids_differ(jobs)
        if not jobs:
            return
        keys = self._keys
        verdict = self._door.run(
            "add_jobs",
            keys=[keys.jobs, keys.unfinished_jobs, keys.final_jobs, keys.job_ids, keys.beats],
            args=_arguments(jobs),
        )
        if verdict[0] == "known":
            raise refusals.job_known(JobId(verdict[1]))
        ended, nodes = verdict[1:]
        if ended > self._max_jobs and not nodes:
            # Plug-in nodes have a duty for this, and options that say how much is kept. Without them it is done here.
            terms = [_NO_AGE_MS, self._max_jobs, _FORGOTTEN_A_CALL]
            self._door.run("drop_old", keys=[*keys.queue, keys.samples_prefix], args=terms)

    def update(self, jobs: Sequence[Job]) -> None:
        """See `JobStore.update`."""
        keys = self._keys
        if jobs:
            self._door.run(
                "update_jobs", keys=[keys.jobs, keys.unfinished_jobs, keys.final_jobs], args=_arguments(jobs)
            )

    def get(self, job_id: JobId) -> Job | None:
        """See `JobStore.get`."""
        return self.get_many([job_id]).get(job_id)

    def get_many(self, job_ids: Sequence[JobId]) -> Mapping[JobId, Job]:
        """See `JobStore.get_many`."""
        return {job.id: job for job in self._bodies(job_ids)}

    def matching(self, prefix: str, *, limit: int = 20) -> Sequence[Job]:
        """See `JobStore.matching`."""
        if limit < 1:
            return ()
        start = prefix.encode(errors="replace")
        # The byte \xff is greater than any of UTF-8, so it ends what begins with the prefix.
        ids = self._door.ask("ZRANGEBYLEX", self._keys.job_ids, b"[" + start, b"(" + start + b"\xff", "LIMIT", 0, limit)
        return tuple(self._bodies(ids))

    def recent(self, wanted: JobFilter, *, limit: int, offset: int = 0) -> Sequence[Job]:
        """See `JobStore.recent`. A round trip for each thousand jobs that are looked at, and for 500 that are found."""
        if limit < 1:
            return ()
        ids = find_ids(self._door, self._keys, wanted, limit=limit, offset=offset)
        return tuple(job for job in self._bodies(ids) if wanted.admits(job))

    def unfinished(self) -> Sequence[Job]:
        """See `JobStore.unfinished`."""
        ids = self._door.ask("ZRANGE", self._keys.unfinished_jobs, 0, -1)
        return tuple(job for job in self._bodies(ids) if not job.state.is_final)

    def _bodies(self, ids: Sequence[str]) -> Iterator[Job]:
        """Yield the records of the ids, in their order; one that was dropped meanwhile is left out."""
        for start in range(0, len(ids), BODIES_A_CALL):
            some = ids[start : start + BODIES_A_CALL]
            facts, orders, progress = self._door.ask_together(
                *(("HMGET", key, *some) for key in (self._keys.jobs, self._keys.orders, self._keys.progress))
            )
            places = self._places(facts)
            for body, order, now in zip(facts, orders, progress, strict=True):
                if body is not None:
                    on = places.get(wire_jobs.place_in(body) or "") if places else None
                    yield wire_jobs.read_job(body, order=order, progress=now, on=on)

    def _places(self, facts: Sequence[str | None]) -> dict[str, str]:
        """Fetch the nodes of the places that some of the jobs are bound to; most jobs are bound to none."""
        bound = (body for body in facts if body is not None and '"place"' in body)
        wanted = sorted({place for body in bound if (place := wire_jobs.place_in(body)) is not None})
        if not wanted:
            return {}
        nodes = self._door.ask("HMGET", self._keys.places, *wanted)
        return {place: body for place, body in zip(wanted, nodes, strict=True) if body is not None}


def _arguments(jobs: Sequence[Job]) -> list[str | int]:
    return [
        argument
        for job in jobs
        for argument in (job.id, scheduled_us(job), "1" if job.state.is_final else "0", wire_jobs.write_job(job))
    ]
