"""The words with which every back end refuses a write."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.errors import ConflictError, LockHeldError, NotFoundError, RefusedError, UsageError
from toolkit.model.jobs import Job
from toolkit.model.names import JobId, ProjectName, VersionName
from toolkit.model.releases import RolloutLock


def lock_held(lock: RolloutLock) -> LockHeldError:
    """Say who holds the lock that was asked for."""
    return LockHeldError(lock.project, who=lock.who, since=lock.since, why=lock.why)


def lock_lost(lock: RolloutLock) -> ConflictError:
    """Say that the lock under which the write was tried has expired or was stolen."""
    return ConflictError(
        f"{lock.project}: the lock taken by {lock.who} ({lock.why}) has expired or was stolen; nothing was changed",
        hint=f"crawlctl releases {lock.project}",
    )


def other_bytes(project: ProjectName, version: VersionName) -> ConflictError:
    """Say that the version already means something else."""
    return ConflictError(
        f"{project} {version} is known with other bytes; a version never changes its meaning",
        hint="deploy under another --version",
    )


def rollout_open(project: ProjectName) -> ConflictError:
    """Say that a rollout of the project waits to be finished or undone."""
    return ConflictError(
        f"a rollout of {project} is under way or held already; nothing was changed", hint="crawlctl rollouts shows it"
    )


def no_such_release(project: ProjectName, version: VersionName) -> NotFoundError:
    """Say that the release was never recorded, or forgotten."""
    return NotFoundError(f"{project} has no release {version}", hint=f"crawlctl releases {project}")


def release_is_active(project: ProjectName, version: VersionName) -> ConflictError:
    """Say that the release may not be forgotten."""
    return ConflictError(
        f"{project} {version} is the active release and cannot be forgotten",
        hint=f"make another one active first: crawlctl rollback -p {project}",
    )


def job_known(job_id: JobId) -> ConflictError:
    """Say that the job id is taken."""
    return ConflictError(f"job {job_id} is known already; no job was added", hint="leave --id out to get a new one")


def same_job(job: Job) -> ConflictError:
    """Say that a unique job has a like that is not final."""
    return ConflictError(
        f"a job of {job.spider} with the same arguments is pending or running already; no job was added",
        hint=f"crawlctl jobs list --spider {job.spider} shows it; leave --unique out to run another",
    )


def twice_the_same(job: Job) -> ConflictError:
    """Say that two of the new jobs are alike, which cannot both be the only one."""
    return ConflictError(
        f"two of these jobs of {job.spider} have the same arguments, and --unique lets in one of a kind; "
        "no job was added",
        hint="leave --unique out to run them all",
    )


def egg_too_large(size_bytes: int, max_bytes: int) -> RefusedError:
    """Say that an egg does not go through Redis."""
    return RefusedError(f"the egg has {size_bytes} bytes, more than the {max_bytes} that go through Redis")


def egg_too_large_to_fetch(size_bytes: int, max_bytes: int) -> RefusedError:
    """Say that an egg in Redis is larger than its reader takes."""
    return RefusedError(f"the egg in the shared store is too large: {size_bytes} bytes; {max_bytes} at most are taken")


def other_digest(expected: str, found: str) -> ConflictError:
    """Say that an egg is not what its release says."""
    return ConflictError(f"the egg has the digest {found[:12]}, but its release says {expected[:12]}")


def no_audit_id(text: str) -> UsageError:
    """Say that this is not the id of an entry of the audit."""
    return UsageError(f"{text!r} is no id of an entry of the audit", hint="crawlctl audit --output json shows the ids")


def no_event_id(text: str) -> UsageError:
    """Say that this is not the id of an event."""
    return UsageError(f"{text!r} is no id of an event", hint="crawlctl events --output json shows the ids")


def cron_changed(name: str) -> ConflictError:
    """Say that a cron is not what it was when somebody decided to change it."""
    return ConflictError(
        f"the cron {name} was changed by somebody else meanwhile; nothing was done", hint=f"crawlctl cron show {name}"
    )


def check_ids_differ(jobs: Sequence[Job]) -> None:
    """Refuse new jobs that share an id.

    Raises:
        ConflictError: two of them have the same.

    """
    seen: set[JobId] = set()
    for job in jobs:
        if job.id in seen:
            raise job_known(job.id)
        seen.add(job.id)
