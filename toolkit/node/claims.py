"""What `claim.json` keeps of a job that this node has taken, so that a later Scrapyd knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from toolkit.model.errors import StoreUnreadableError
from toolkit.model.jobs import Job
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, Token, VersionName, WorkerName, worker_of
from toolkit.model.queue import Claimed
from toolkit.runs.folder import CLAIM, RunFolder
from toolkit.store.wire_jobs import read_job, write_job


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of one job. `begun_at` is in seconds since the epoch; `timeout_s` counts from there.

    `job` is the whole job, for a Redis that has forgotten it. `environment` is that of its release, if it has one.
    `redis_file` is where the spider finds the URL of
    the cluster's Redis: neither its environment nor its command line shows it.
    """

    job_id: JobId
    token: Token
    project: ProjectName
    spider: SpiderName
    version: VersionName | None
    attempt: int
    begun_at: float
    lease_s: float
    timeout_s: float | None = None
    redis_file: str | None = None
    environment: str | None = None
    job: Job | None = None

    @classmethod
    def of(
        cls,
        claimed: Claimed,
        *,
        begun_at: float,
        lease_s: float,
        redis_file: str | None = None,
        environment: str | None = None,
    ) -> Claim:
        """Return what is kept of a claim that the queue has just given."""
        job = claimed.job
        return cls(
            job_id=job.id,
            token=claimed.token,
            project=job.project,
            spider=job.spider,
            version=job.version,
            attempt=job.attempt or 1,
            begun_at=begun_at,
            lease_s=lease_s,
            timeout_s=job.timeout_s,
            redis_file=redis_file,
            environment=environment,
            job=job,
        )

    @property
    def worker(self) -> WorkerName:
        """The name under which the job's process takes part in a crawl, if it does."""
        return worker_of(self.job_id, self.token)

    def written(self) -> dict[str, Any]:
        """Return the content of `claim.json`."""
        fields = asdict(replace(self, job=None))
        if self.job is None:
            return fields
        return {**fields, "job": write_job(self.job), "on": None if self.job.on is None else list(self.job.on)}


def read_claim(content: Mapping[str, Any] | None) -> Claim | None:
    """Return the claim that was written; `None` when there is none that makes sense."""
    if not content:
        return None
    try:
        timeout_s, redis_file = content["timeout_s"], content.get("redis_file")
        environment = content.get("environment")
        return Claim(
            job_id=JobId(str(content["job_id"])),
            token=Token(str(content["token"])),
            project=ProjectName(str(content["project"])),
            spider=SpiderName(str(content["spider"])),
            version=None if content["version"] is None else VersionName(str(content["version"])),
            attempt=int(content["attempt"]),
            begun_at=float(content["begun_at"]),
            lease_s=float(content["lease_s"]),
            timeout_s=None if timeout_s is None else float(timeout_s),
            redis_file=None if redis_file is None else str(redis_file),
            environment=None if environment is None else str(environment),
            job=_read_job(content),
        )
    except (KeyError, TypeError, ValueError, StoreUnreadableError):
        return None


def _read_job(content: Mapping[str, Any]) -> Job | None:
    if content.get("job") is None:
        return None
    job, on = read_job(str(content["job"])), content.get("on")
    return replace(job, on=None if on is None else tuple(NodeName(str(name)) for name in on))


def environments_in_use(runs: Path) -> frozenset[str]:
    """Return the environments in which jobs of this node run, also those that an earlier Scrapyd began."""
    claims = (read_claim(RunFolder(path).read(CLAIM)) for path in runs.glob("*"))
    return frozenset(claim.environment for claim in claims if claim is not None and claim.environment is not None)
