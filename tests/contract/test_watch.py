"""What the duty of watching tells, on a real Redis: each change once, whoever looks, and only of its own cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.crawl_desk import CrawlDesk
from support.queue_desk import QueueDesk, a_report, queue_desk
from support.stores import SHOP, V2, a_lock, a_release, a_rollout

from toolkit.duties.watch import every_s, watch
from toolkit.model.names import JobId, worker_of

LEASE_S = 1.0


class Watch:
    """A cluster and those who look at it, each with a store of its own."""

    def __init__(self, desk: QueueDesk, desks: list[QueueDesk]) -> None:
        self.desk = desk
        self.desks = desks
        self.events = desk.shared.events

    def look(self) -> None:
        """Let one look at the cluster, though another has just done so."""
        self.end_outage()
        self.look_now()

    def look_now(self) -> None:
        """Let one look at the cluster, however long nobody looked at the leases."""
        self.desk.redis.delete(self.desk.keys.duty("watch"))
        watch(self.desk.store, self.desk.shared, lease_s=LEASE_S)

    def look_all(self) -> None:
        """Let all look at once, though one would be enough."""
        self.end_outage()
        with ThreadPoolExecutor(len(self.desks)) as pool:
            list(pool.map(_look_anyway, self.desks))

    def silence(self, name: str) -> None:
        """Let a node have been silent for a lease and longer."""
        self.desk.redis.zadd(self.desk.keys.beats, {name: 1}, xx=True)
        assert next(each for each in self.desk.nodes.all() if each.name == name).state == "lost"

    def end_outage(self) -> None:
        """Let leases have been looked at just now, as nodes do that live."""
        self.desk.end_leases()

    def kinds(self) -> list[str]:
        """Return what was told of the cluster as a whole, oldest first."""
        found = self.events.after("0-0")
        return [f"{event.kind} {event.subject}" for event in found if not event.kind.startswith("job.")]


def _look_anyway(desk: QueueDesk) -> None:
    class Eager:
        is_in_grace = desk.shared.duties.is_in_grace

        @staticmethod
        def take(_: str, *, for_s: float) -> bool:
            return for_s > 0

    shared = desk.shared
    rooms = {name: getattr(shared, name) for name in ("events", "nodes", "queue", "crawls")}
    watch(desk.store, type("Rooms", (), {**rooms, "duties": Eager}), lease_s=LEASE_S)  # type: ignore[arg-type]


@pytest.fixture
def seen(redis_url: str, tmp_path: Path) -> Iterator[Watch]:
    with ExitStack() as closing:
        desks = [closing.enter_context(queue_desk(redis_url, tmp_path / str(number))) for number in range(4)]
        yield Watch(desks[0], desks)


def test_each_change_is_told_once_however_many_look(seen: Watch) -> None:
    desk = seen.desk
    desk.register(a_report("stays", lease_s=3600))
    desk.register(a_report("goes", lease_s=3600))
    seen.look_all()
    seen.silence("goes")
    seen.look_all()
    desk.register(a_report("goes", lease_s=3600))
    seen.look_all()
    seen.look_all()
    assert sorted(seen.kinds()[:2]) == ["node.back goes", "node.back stays"]
    assert seen.kinds()[2:] == ["node.lost goes", "node.back goes"]


def test_one_look_is_enough_for_a_while(seen: Watch) -> None:
    seen.look()
    # However slow this machine is, the while is not over.
    seen.desk.redis.set(seen.desk.keys.duty("watch"), "taken")
    seen.desk.register(a_report("new"))
    assert [watch(desk.store, desk.shared, lease_s=3600) for desk in seen.desks] == [0] * len(seen.desks)
    assert seen.kinds() == []
    assert every_s(LEASE_S) < LEASE_S


def test_after_an_outage_nobody_is_lost_who_had_no_chance_to_speak(seen: Watch) -> None:
    desk = seen.desk
    desk.register(a_report("node-1", lease_s=3600))
    seen.look()
    seen.silence("node-1")
    desk.redis.hset(desk.keys.clock, mapping={"asked_ms": 1, "grace_ms": 0})
    assert desk.shared.duties.is_in_grace()
    seen.look_now()
    assert seen.kinds() == ["node.back node-1"]
    desk.queue.requeue_expired()
    assert desk.shared.duties.is_in_grace()
    seen.look()
    assert seen.kinds() == ["node.back node-1", "node.lost node-1"]


def test_a_forgotten_node_is_new_when_it_comes_again(seen: Watch) -> None:
    desk = seen.desk
    desk.register(a_report("node-1", lease_s=3600))
    seen.look()
    seen.silence("node-1")
    assert desk.nodes.forget([a_report("node-1").name])
    seen.look()
    desk.register(a_report("node-1"))
    seen.look()
    assert seen.kinds() == ["node.back node-1"] * 2


def test_jobs_that_nobody_may_take_and_a_release_that_nobody_holds_are_told_in_time(seen: Watch) -> None:
    desk = seen.desk
    desk.register(a_report("node-1", lease_s=3600))
    lock = a_lock(desk.store)
    desk.store.releases.record(a_release(V2), lock)
    desk.store.releases.activate(a_rollout(V2), lock, held_by=())
    desk.register(a_report("node-1", lease_s=3600, versions={SHOP: ()}))
    desk.add("a")
    seen.look()
    look, behind = desk.shared.events.states()["queue:look"], "behind:node-1"
    desk.redis.hset(desk.keys.watched, mapping={"queue:look": f"{look.rpartition(' ')[0]} 1", behind: "since 1"})
    seen.look()
    assert seen.kinds()[2:] == ["node.behind node-1", "queue.wedged queue"]
    desk.register(a_report("node-1", lease_s=3600, versions={SHOP: (V2,)}))
    desk.take_all(a_report("node-1"))
    seen.look()
    assert behind not in desk.shared.events.states()


def test_only_the_cluster_whose_job_worked_on_a_crawl_last_tells_that_it_is_over(
    seen: Watch, crawl: CrawlDesk, redis_url: str, tmp_path: Path
) -> None:
    with queue_desk(redis_url, tmp_path / "other", cluster="other") as desk:
        other = Watch(desk, [desk])
        for each in (seen, other):
            each.look()
        report = seen.desk.register(a_report(lease_s=3600))
        seen.desk.add("a")
        claim = seen.desk.run(report)
        worker = crawl.worker(worker_of(JobId("a"), claim.token))
        worker.push("page", "page 2")
        worker.work_off()
        worker.leave(is_finished=True)
        crawl.worker("somebody's own").leave(is_finished=True)
        for _ in range(2):
            for each in (seen, other):
                each.look()

        (over,) = (event for event in seen.events.after("0-0") if event.kind == "crawl.over")

        assert over.subject == "books"
        assert over.about == {"project": SHOP, "spider": "books", "job": "a", "pages": "2", "items": "0"}
        assert other.kinds() == []
