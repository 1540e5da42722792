"""What the faces that stay do to a cluster: every act is in the audit, and one that is not says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.busy_cluster import BusyCluster
from support.queue_desk import queue_desk
from support.redis_server import RedisServer
from support.stores import a_release, a_rollout

from toolkit.cluster import crons
from toolkit.cluster.acts import Acts
from toolkit.model.audit import AuditEntry
from toolkit.model.crons import Cron, FiringState
from toolkit.model.errors import ConflictError, RefusedError, StoreUnreachableError
from toolkit.model.jobs import JobState


@pytest.fixture
def cluster(redis_server: RedisServer, tmp_path: Path) -> Iterator[BusyCluster]:
    with queue_desk(redis_server.url, tmp_path / "desk", cluster=tmp_path.name) as queue:
        yield BusyCluster(queue, nodes=2, slots=2)


def entries(cluster: BusyCluster) -> list[AuditEntry]:
    return list(cluster.desk.store.audit.entries())


def test_what_somebody_does_stands_in_the_audit_under_the_name(cluster: BusyCluster) -> None:
    acts = Acts(cluster.desk, who="alice@web")
    waiting = cluster.schedule(1)
    (cancelled,) = acts.cancel(waiting)
    assert (cancelled.after, cancelled.error) == (JobState.CANCELLED, None)
    (again,) = acts.retry(waiting)
    assert again.state is JobState.PENDING
    acts.drain(["node-001"])

    told = [(each.who, each.action, each.subject, each.result) for each in reversed(entries(cluster))]
    assert told == [
        ("alice@web", "cancel", waiting[0], "done"),
        ("alice@web", "jobs retry", waiting[0], "done"),
        ("alice@web", "nodes drain", "node-001", "done"),
    ]


def test_a_refusal_stands_there_too_with_its_reason(cluster: BusyCluster) -> None:
    (job_id,) = cluster.schedule(1)
    with pytest.raises(RefusedError, match="only a job that a node has can be paused"):
        Acts(cluster.desk, who="alice@web").pause_job(job_id)
    (entry,) = entries(cluster)
    assert (entry.action, entry.result) == ("jobs pause", "refused")
    assert entry.detail is not None
    assert "is pending" in entry.detail


def test_an_act_that_cannot_be_written_down_says_that_it_was_done(
    cluster: BusyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: AuditEntry) -> str:
        raise StoreUnreachableError("Redis is away")

    monkeypatch.setattr(cluster.desk.store.audit, "note", away)
    acts = Acts(cluster.desk, who="alice@web")
    with pytest.raises(StoreUnreachableError, match="nodes drain node-001 was done, but it is not in the audit"):
        acts.drain(["node-001"])
    (job_id,) = cluster.schedule(1)
    with pytest.raises(RefusedError):
        acts.pause_job(job_id)


def test_a_cron_that_is_run_by_hand_tells_what_became_of_it(
    cluster: BusyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, store = cluster.desk.shared, cluster.desk.store
    release = a_release()
    lock = store.releases.lock(release.project, who="ann@desk", why="deploy", ttl_s=60)
    store.releases.record(release, lock)
    store.releases.activate(a_rollout(), lock, held_by=[])
    shared.crons.put([Cron("nightly", release.spiders[0], at="@daily")], by="ann@desk")
    acts = Acts(cluster.desk, who="alice@web")
    fired, skipped = acts.run_cron("nightly"), acts.run_cron("nightly")
    assert fired is not None
    assert skipped is not None
    assert (fired.state, skipped.state) == (FiringState.FIRED, FiringState.SKIPPED)
    assert [(each.result, each.detail) for each in reversed(entries(cluster))] == [
        ("done", fired.jobs[0]),
        ("refused", skipped.reason),
    ]
    view = shared.crons.get("nightly")
    shared.crons.remove(["nightly"])
    # Somebody takes it away between the look at it and the firing.
    monkeypatch.setattr(crons, "find", lambda *_: view)
    with pytest.raises(ConflictError, match="nothing was run"):
        acts.run_cron("nightly")
