"""What must be true of the firings when all is over. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from toolkit.crons.firing import job_id_of
from toolkit.model.crons import Trigger
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId

IN_TIME_MS = 1000
LEASES_MS = 2 * 2000
"""What takers that die or fall asleep may cost beyond that: two of them, one after the other."""


@dataclass(frozen=True, slots=True)
class Told:
    """One event `cron.fired`: of which cron, the due time it tells of, its job, and when it was written."""

    cron: str
    due: str
    job: JobId
    at_ms: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known at the end; times are milliseconds.

    `due` maps each timed cron to its due times, with when it fires and the text of the due time; `disturbed` are the
    times without Redis. `followed` is the spider whose jobs the cron `follower` follows, and
    `in_turn` the cron whose jobs may never overlap.
    """

    due: Mapping[str, Sequence[tuple[Trigger, int, str]]]
    told: Sequence[Told]
    skipped: int
    jobs: Mapping[JobId, Job]
    disturbed: Sequence[tuple[int, int]] = ()
    followed: str = ""
    follower: str = ""
    in_turn: str = ""
    slack_ms: int = IN_TIME_MS


@dataclass(slots=True)
class Verdict:
    """What the run proved, and each promise that broke."""

    due: int = 0
    fired: int = 0
    missed: int = 0
    doubled: int = 0
    late_ms_max: int = 0
    broken: list[str] = field(default_factory=list)


def judge(evidence: Evidence) -> Verdict:
    """Hold the evidence to the promises."""
    verdict = Verdict()
    counts = Counter((each.cron, each.job) for each in evidence.told)
    at_ms = {(each.cron, each.job): each.at_ms for each in evidence.told}
    expected = {
        (cron, job_id_of(cron, trigger)): (fires_ms, text)
        for cron, times in evidence.due.items()
        for trigger, fires_ms, text in times
    }
    ends = [job for job in evidence.jobs.values() if job.spider == evidence.followed and _is_good(job)]
    for job in ends:
        assert job.ended_at is not None
        trigger = Trigger(job.ended_at, job=job.id, project=job.project)
        ended_ms = round(job.ended_at.timestamp() * 1000)
        expected[evidence.follower, job_id_of(evidence.follower, trigger)] = (ended_ms, f"the end of {job.id}")
    verdict.due, verdict.fired = len(expected), sum(counts.values())
    for key, (fires_ms, text) in expected.items():
        cron, job_id = key
        if counts[key] == 0 or job_id not in evidence.jobs:
            verdict.missed += 1
            verdict.broken.append(f"{cron} did not fire for {text}")
            continue
        if cron != evidence.in_turn:
            _look_at_lateness(verdict, evidence, f"{cron} for {text}", fires_ms, at_ms[key])
    for (cron, job_id), count in counts.items():
        if count > 1 or (cron, job_id) not in expected:
            verdict.doubled += 1
            verdict.broken.append(f"{cron} fired {count} times by job {job_id}, which was to be {int(count > 1)}")
    if evidence.skipped:
        verdict.broken.append(f"{evidence.skipped} firing(s) were skipped or failed")
    verdict.broken += _overlaps(evidence)
    return verdict


def _look_at_lateness(verdict: Verdict, evidence: Evidence, what: str, fires_ms: int, at_ms: int) -> None:
    late_ms = at_ms - fires_ms
    verdict.late_ms_max = max(verdict.late_ms_max, late_ms)
    disturbed_ms = sum(max(0, min(at_ms, end) - max(fires_ms, begin)) for begin, end in evidence.disturbed)
    if late_ms > disturbed_ms + LEASES_MS + evidence.slack_ms:
        verdict.broken.append(f"{what} was {late_ms} ms late, of which {disturbed_ms} ms were disturbed")
    if late_ms < 0:
        verdict.broken.append(f"{what} was {-late_ms} ms early")


def _overlaps(evidence: Evidence) -> list[str]:
    jobs = [job for job in evidence.jobs.values() if job.scheduled_by == f"cron {evidence.in_turn}"]
    spans = sorted((job.started_at, job.ended_at, job.id) for job in jobs if job.started_at and job.ended_at)
    return [
        f"{second[2]} was started before {first[2]} had ended"
        for first, second in pairwise(spans)
        if second[0] < first[1]
    ]


def _is_good(job: Job) -> bool:
    return job.state is JobState.FINISHED
