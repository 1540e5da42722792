"""What the tests of every store share: values to put in, and a way to open the same store again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from toolkit.model.hosts import Secret
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.releases import NodeResult, Release, Rollout, RolloutLock
from toolkit.store.interfaces import Store
from toolkit.store.open import open_store

BACK_ENDS = ("redis", "local")
SHOP, NEWS = ProjectName("shop"), ProjectName("news")
V1, V2 = VersionName("20261120-101500-aaaaaaa"), VersionName("20261121-101500-bbbbbbb")
BEGIN = datetime(2026, 11, 20, 10, 15, 0, 123456, tzinfo=UTC)
SOON_S = 10.0

Opener = Callable[[], Store]


def redis_of(request: pytest.FixtureRequest) -> Secret | None:
    """Return the URL of an empty Redis if the test is run on that back end, else nothing."""
    return Secret(request.getfixturevalue("redis_url")) if request.param == "redis" else None


@contextmanager
def opener(redis: Secret | None, folder: Path) -> Iterator[Opener]:
    """Give what opens the same store anew, as other processes would; all are closed at the end."""
    with ExitStack() as closing:

        def open_again() -> Store:
            store = open_store(redis, folder)
            closing.callback(store.close)
            return store

        yield open_again


def a_release(version: VersionName = V1, *, digest: str = "aa", project: ProjectName = SHOP, hours: int = 0) -> Release:
    return Release(
        project=project,
        version=version,
        digest=digest,
        spiders=(SpiderName("books"), SpiderName("prices")),
        size_bytes=12345,
        revision="9f3c2a1",
        created_at=BEGIN + timedelta(hours=hours),
        created_by="ann@desk",
    )


def a_rollout(version: VersionName = V1, *, project: ProjectName = SHOP, minutes: int = 0) -> Rollout:
    return Rollout(
        project=project,
        version=version,
        kind="deploy",
        at=BEGIN + timedelta(minutes=minutes),
        by="ann@desk",
        activated=True,
        results=(
            NodeResult(node=NodeName("node-1"), ok=True, step="read back", seconds=0.7, spiders=2),
            NodeResult(node=NodeName("node-2"), ok=False, step="push", seconds=5.0, error="no answer"),
        ),
    )


def a_job(job_id: str, *, state: JobState = JobState.PENDING, minutes: int | None = 0, spider: str = "books") -> Job:
    return Job(
        id=JobId(job_id),
        project=SHOP,
        spider=SpiderName(spider),
        state=state,
        version=V1,
        node=NodeName("node-1"),
        args={"city": "Zürich", "max": "5"},
        settings={"LOG_LEVEL": "INFO"},
        priority=1.5,
        scheduled_at=None if minutes is None else BEGIN + timedelta(minutes=minutes),
    )


def a_lock(store: Store, project: ProjectName = SHOP, *, ttl_s: float = 60) -> RolloutLock:
    return store.releases.lock(project, who="ann@desk", why="deploy", ttl_s=ttl_s)


def ids(jobs: object) -> list[str]:
    assert isinstance(jobs, tuple)
    return [job.id for job in jobs]
