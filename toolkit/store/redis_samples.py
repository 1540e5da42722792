"""The samples in Redis: one string of records for each job, one list for the cluster (`wire_samples.py`)."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from toolkit.model.errors import StoreUnreadableError
from toolkit.model.jobs import Job
from toolkit.model.names import JobId
from toolkit.model.samples import ClusterSample, JobSample
from toolkit.store import wire_jobs
from toolkit.store.connect import Argument, RedisDoor
from toolkit.store.interfaces_watch import MAX_CLUSTER_SAMPLES
from toolkit.store.keys import Keys
from toolkit.store.ordering import ttl_ms
from toolkit.store.wire_samples import (
    FINEST,
    JOB_BYTES,
    read_cluster_sample,
    read_series,
    thinned,
    write_counts,
)

JOBS_A_CALL = 250
"""How many jobs one step in Redis samples: it stands still for everybody else for about half a millisecond."""

TURNS_A_THINNING = 32
SERIES_KEPT_S = 30 * 86_400.0
"""A series lives this long after the job's last sample, unless the job's record goes before."""


class RedisSamples:
    """Keeps what `Samples` promises."""

    def __init__(self, door: RedisDoor, keys: Keys) -> None:
        self._door = door
        self._keys = keys

    def of_job(self, job_id: JobId) -> Sequence[JobSample]:
        """See `Samples.of_job`. One round trip."""
        return self.of_jobs([job_id])[job_id]

    def of_jobs(self, job_ids: Collection[JobId]) -> Mapping[JobId, Sequence[JobSample]]:
        """See `Samples.of_jobs`. One round trip."""
        ids = list(dict.fromkeys(job_ids))
        if not ids:
            return {}
        series, records = self._door.ask_together_for_bytes(
            ("MGET", *(self._keys.samples_of(each) for each in ids)), ("HMGET", self._keys.jobs, *ids)
        )
        return {
            job_id: _with_ends(read_series(of_job), record)
            for job_id, of_job, record in zip(ids, series, records, strict=True)
        }

    def of_cluster(self, *, limit: int = 360) -> Sequence[ClusterSample]:
        """See `Samples.of_cluster`. One round trip."""
        if limit < 1:
            return ()
        (found,) = self._door.ask_together_for_bytes(("LRANGE", self._keys.cluster_samples, -limit, -1))
        return tuple(read_cluster_sample(record) for record in found)

    def begin(self, *, every_s: float) -> int | None:
        """See `Samples.begin`."""
        number = self._door.run("begin_sampling", keys=[self._keys.sampling], args=[ttl_ms(every_s)])
        return None if number is None else int(number)

    def sample_jobs(self, turn: int) -> int:
        """See `Samples.sample_jobs`. Two round trips for each few hundred jobs."""
        cursor: Argument = 0
        sampled: set[str] = set()
        while True:
            cursor, told = self._door.ask("HSCAN", self._keys.progress, cursor, "COUNT", JOBS_A_CALL)
            # A scan may tell of one twice.
            records = {name: record for name in told.keys() - sampled if (record := _record(told[name])) is not None}
            if records and not self._lay(turn, records):
                return len(sampled)
            sampled |= records.keys()
            if int(cursor) == 0:
                return len(sampled)

    def sample_cluster(self, turn: int, *, pending: int, active: int, nodes_live: int, slots: int) -> bool:
        """See `Samples.sample_cluster`."""
        keys = [self._keys.sampling, self._keys.measures, self._keys.cluster_samples]
        told = [pending, active, nodes_live, slots]
        return bool(self._door.run("sample_cluster", keys=keys, args=[turn, MAX_CLUSTER_SAMPLES, *map(int, told)]))

    def _lay(self, turn: int, records: Mapping[str, bytes]) -> bool:
        keys = self._keys
        names = list(records)
        for at in range(0, len(names), JOBS_A_CALL):
            part = names[at : at + JOBS_A_CALL]
            arguments = [argument for name in part for argument in (name, records[name])]
            is_ours = self._door.run(
                "sample_jobs",
                keys=[keys.sampling, keys.progress, keys.measures, keys.samples_prefix],
                args=[turn, ttl_ms(SERIES_KEPT_S), *arguments],
            )
            if not is_ours:
                return False
            self._thin([name for name in part if _is_thinned_at(turn, name)])
        return True

    def _thin(self, names: Sequence[str]) -> None:
        if not names:
            return
        keys = [self._keys.samples_of(JobId(name)) for name in names]
        for key, series in zip(keys, self._door.ask_together_for_bytes(("MGET", *keys))[0], strict=True):
            if series is not None:
                few = b"" if len(series) <= FINEST * JOB_BYTES else thinned(series)
                self._door.run("thin_samples", keys=[key], args=[len(series), ttl_ms(SERIES_KEPT_S), few])


def _is_thinned_at(turn: int, name: str) -> bool:
    """Tell whether it is this job's turn to be thinned: each comes by once in so many, not all at once."""
    return (zlib.crc32(name.encode(errors="replace")) + (turn)) % TURNS_A_THINNING == 0


def _record(told: str) -> bytes | None:
    try:
        return write_counts(wire_jobs.read_progress(told))
    except StoreUnreadableError:
        # Of a newer node: it is a newer one's turn to sample it.
        return None


def _with_ends(samples: Sequence[JobSample], record: Any) -> Sequence[JobSample]:
    """Add what the job's record tells of its begin, and of its end."""
    try:
        job = None if record is None else wire_jobs.read_job(record)
    except StoreUnreadableError:
        job = None
    return tuple(samples) if job is None else between_ends(samples, job)


def between_ends(samples: Sequence[JobSample], job: Job) -> tuple[JobSample, ...]:
    """Return the samples with one of nothing at the start of its last attempt, and its last counts behind. Pure."""
    found, started_at = list(samples), job.started_at
    if started_at is not None:
        earlier = [each for each in found if each.at < started_at]
        found = [*earlier, JobSample(started_at, 0, 0, 0), *found[len(earlier) :]]
    if job.state.is_final and job.ended_at is not None and (job.pages, job.items, job.errors) != (None, None, None):
        last = JobSample(job.ended_at, job.pages, job.items, job.errors, job.memory_mb)
        found = [*(each for each in found if each.at < last.at), last]
    return tuple(found)
