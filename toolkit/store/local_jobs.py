"""The job records of a cluster without Redis, in a file of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from toolkit.model.jobs import Job, JobFilter
from toolkit.model.names import JobId
from toolkit.store import refusals, wire_jobs
from toolkit.store.interfaces import MAX_JOBS
from toolkit.store.local_file import LocalFile
from toolkit.store.ordering import microseconds, scheduled_us

# Each is answered in the order of one index (`local_file.py`), so that reading stops when enough jobs have passed.
_NEWEST = "SELECT body FROM jobs WHERE scheduled_us >= ? OR scheduled_us = 0 ORDER BY scheduled_us DESC, id DESC"
_NEWEST_OF_A_KIND = (
    "SELECT body FROM jobs WHERE is_final = ? AND (scheduled_us >= ? OR scheduled_us = 0)"
    " ORDER BY scheduled_us DESC, id DESC"
)


class LocalJobs:
    """Keeps what `JobStore` promises; `max_jobs` bounds the records in a final state."""

    def __init__(self, file: LocalFile, *, max_jobs: int = MAX_JOBS) -> None:
        self._file = file
        self._max_jobs = max_jobs

    def add(self, jobs: Sequence[Job]) -> None:
        """See `JobStore.add`."""
        refusals.check_ids_differ(jobs)
        if not jobs:
            return
        new = [(job.id, scheduled_us(job), job.state.is_final, wire_jobs.write_job(job)) for job in jobs]
        with self._file.writing() as rows:
            for job in jobs:
                if rows.execute("SELECT 1 FROM jobs WHERE id = ?", (job.id,)).fetchone():
                    raise refusals.job_known(job.id)
            rows.executemany("INSERT INTO jobs VALUES (?, ?, ?, ?)", new)
            beyond = rows.execute("SELECT count(*) FROM jobs WHERE is_final").fetchone()[0] - self._max_jobs
            rows.execute(
                "DELETE FROM jobs WHERE id IN"
                " (SELECT id FROM jobs WHERE is_final = 1 ORDER BY scheduled_us, id LIMIT ?)",
                (max(0, beyond),),
            )

    def update(self, jobs: Sequence[Job]) -> None:
        """See `JobStore.update`."""
        changed = [
            (scheduled_us(job), job.state.is_final, wire_jobs.write_job(job), job.id, job.state.is_final)
            for job in jobs
        ]
        if not changed:
            return
        with self._file.writing() as rows:
            rows.executemany(
                "UPDATE jobs SET scheduled_us = ?, is_final = ?, body = ? WHERE id = ? AND (? OR NOT is_final)",
                changed,
            )

    def get(self, job_id: JobId) -> Job | None:
        """See `JobStore.get`."""
        with self._file.reading() as rows:
            found = rows.execute("SELECT body FROM jobs WHERE id = ?", (job_id,)).fetchone()
        return None if found is None else wire_jobs.read_job(found[0])

    def get_many(self, job_ids: Sequence[JobId]) -> Mapping[JobId, Job]:
        """See `JobStore.get_many`."""
        with self._file.reading() as rows:
            found = [rows.execute("SELECT body FROM jobs WHERE id = ?", (job_id,)).fetchone() for job_id in job_ids]
        jobs = (wire_jobs.read_job(row[0]) for row in found if row is not None)
        return {job.id: job for job in jobs}

    def matching(self, prefix: str, *, limit: int = 20) -> Sequence[Job]:
        """See `JobStore.matching`."""
        # No text is greater than the last code point, so it ends what begins with the prefix.
        ends = prefix + "\U0010ffff"
        with self._file.reading() as rows:
            found = rows.execute(
                "SELECT body FROM jobs WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", (prefix, ends, max(0, limit))
            ).fetchall()
        return tuple(wire_jobs.read_job(body) for (body,) in found)

    def recent(self, wanted: JobFilter, *, limit: int, offset: int = 0) -> Sequence[Job]:
        """See `JobStore.recent`."""
        oldest = 0 if wanted.since is None else max(0, microseconds(wanted.since))
        finals = {state.is_final for state in wanted.states}
        with self._file.reading() as rows:
            if len(finals) == 1:
                found = rows.execute(_NEWEST_OF_A_KIND, (*finals, oldest))
            else:
                found = rows.execute(_NEWEST, (oldest,))
            passing = (job for job in (wire_jobs.read_job(body) for (body,) in found) if wanted.admits(job))
            return tuple(islice(passing, offset, offset + max(0, limit)))

    def unfinished(self) -> Sequence[Job]:
        """See `JobStore.unfinished`."""
        with self._file.reading() as rows:
            found = rows.execute("SELECT body FROM jobs WHERE is_final = 0 ORDER BY scheduled_us, id").fetchall()
        return tuple(wire_jobs.read_job(body) for (body,) in found)
