"""Many claim, cancel and end at once: no job twice, none lost, and the order is kept within a priority."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.queue_desk import QueueDesk, a_pending_job, a_report, an_ending, names, queue_desk
from support.stores import a_release

from toolkit.model.errors import ConflictError
from toolkit.model.jobs import JobState
from toolkit.model.names import NodeName
from toolkit.model.queue import Claimed

SOON_S = 60.0


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[QueueDesk]:
    with queue_desk(redis_url, tmp_path / "state") as desk:
        yield desk


def at_once(*works: Callable[[], None]) -> None:
    """Do all of this at once; what one of them raises is raised here."""
    failures: list[BaseException] = []
    gate = threading.Barrier(len(works))

    def do(work: Callable[[], None]) -> None:
        gate.wait(SOON_S)
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised again in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=do, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON_S)
        assert not thread.is_alive(), "a thread is still at work"
    if failures:
        raise failures[0]


def test_no_job_is_given_twice_none_is_left_and_each_sees_the_order(desk: QueueDesk) -> None:
    jobs = [a_pending_job(f"j{number:03}", priority=number % 3, spider=f"s{number % 4}") for number in range(300)]
    desk.queue.add(jobs)
    wanted = [str(job.id) for job in sorted(jobs, key=lambda job: (-(job.priority or 0), job.id))]
    taken: dict[str, list[str]] = {f"node-{number}": [] for number in range(6)}

    def take(name: str) -> Callable[[], None]:
        report = desk.register(a_report(name, slots=1000))
        return lambda: taken[name].extend(desk.take_all(report))

    at_once(*[take(name) for name in taken])
    assert sorted(job_id for job_ids in taken.values() for job_id in job_ids) == sorted(wanted)
    for job_ids in taken.values():
        assert job_ids == [job_id for job_id in wanted if job_id in job_ids]


def test_jobs_that_are_added_while_others_claim_are_all_taken_once(desk: QueueDesk) -> None:
    taken: list[str] = []
    is_all_added = threading.Event()

    def add(adder: int) -> Callable[[], None]:
        def work() -> None:
            for batch in range(10):
                desk.add(*(f"{adder}-{batch}-{number}" for number in range(10)), spider=f"s{batch % 3}")

        return work

    def take(name: str) -> Callable[[], None]:
        report = desk.register(a_report(name, slots=1000))

        def work() -> None:
            is_last_look = False
            while not is_last_look:
                is_last_look = is_all_added.is_set()
                while isinstance(claim := desk.look(report), Claimed):
                    taken.append(str(claim.job.id))
                    desk.finish(claim)

        return work

    def add_all() -> None:
        for adder in range(3):
            add(adder)()
        is_all_added.set()

    at_once(add_all, *[take(f"node-{number}") for number in range(4)])
    assert Counter(taken) == Counter(f"{a}-{b}-{n}" for a in range(3) for b in range(10) for n in range(10))
    assert desk.left_behind() == set()


def test_a_job_is_cancelled_before_its_claim_or_asked_to_end_after_it(desk: QueueDesk) -> None:
    job_ids = [f"j{number:03}" for number in range(200)]
    desk.add(*job_ids)
    report = desk.register(a_report(slots=1000))
    claims: list[Claimed] = []
    before: dict[str, JobState] = {}

    def claim_all() -> None:
        while isinstance(claim := desk.look(report), Claimed):
            claims.append(claim)

    def cancel_all() -> None:
        for job_id in reversed(job_ids):
            before.update({str(known): state for known, state in desk.queue.cancel(names(job_id), grace_s=1).items()})

    at_once(claim_all, cancel_all)
    claimed = {str(claim.job.id) for claim in claims}
    assert before.keys() == set(job_ids)
    assert {job_id for job_id, state in before.items() if state == JobState.PENDING} == set(job_ids) - claimed
    assert set(desk.beat(report, *claims).wishes) == {claim.token for claim in claims}
    assert {desk.finish(claim, an_ending(JobState.FAILED)) for claim in claims} <= {JobState.CANCELLED}
    assert {desk.job(job_id).state for job_id in job_ids} == {JobState.CANCELLED}
    assert desk.left_behind() == set()


def test_jobs_that_are_rearranged_while_others_claim_are_taken_once(desk: QueueDesk) -> None:
    job_ids = [f"j{number:03}" for number in range(150)]
    desk.add(*job_ids)
    taken: list[str] = []
    is_arranged = threading.Event()

    def rearrange() -> None:
        for turn in range(3):
            for start_at in range(0, len(job_ids), 30):
                some = names(*job_ids[start_at : start_at + 30])
                desk.queue.hold(some[::2])
                desk.queue.reprioritise(some, float(turn))
                desk.queue.move(some[::3], [NodeName("node-1")])
                desk.queue.release(some)
        is_arranged.set()

    def take(name: str) -> Callable[[], None]:
        report = desk.register(a_report(name, slots=1000))

        def work() -> None:
            while not is_arranged.is_set():
                taken.extend(desk.take_all(report))

        return work

    at_once(rearrange, *[take(f"node-{number}") for number in range(3)])
    taken += desk.take_all(a_report("node-1", slots=1000))
    assert Counter(taken) == Counter(job_ids)


def test_an_egg_that_is_offered_while_unused_ones_are_dropped_is_there(desk: QueueDesk) -> None:
    content = b"PK an egg"
    release = replace(a_release(), digest=hashlib.sha256(content).hexdigest())
    is_over = threading.Event()
    missing = 0

    def offer_and_withdraw() -> None:
        nonlocal missing
        for _ in range(200):
            desk.eggs.offer(release, content)
            missing += desk.eggs.fetch(release.digest) is None
            # As one who was killed half way would leave it: the egg without its offer.
            desk.redis.hdel(desk.keys.offers, f"{release.project} {release.version}")
        is_over.set()

    def drop() -> None:
        while not is_over.is_set():
            desk.eggs.drop_unused()

    at_once(offer_and_withdraw, drop, drop)
    assert missing == 0


def test_one_of_many_unique_jobs_is_let_in(desk: QueueDesk) -> None:
    let_in: list[int] = []

    def add(number: int) -> Callable[[], None]:
        def work() -> None:
            for turn in range(10):
                try:
                    desk.queue.add([a_pending_job(f"{number}-{turn}", args={"city": "Bern"})], is_unique=True)
                    let_in.append(number)
                except ConflictError:
                    pass

        return work

    at_once(*[add(number) for number in range(8)])
    assert len(let_in) == 1
    assert desk.queue.counts()["pending"] == 1


def test_an_ending_and_a_lost_lease_at_once_are_one_outcome(desk: QueueDesk) -> None:
    job_ids = [f"j{number:03}" for number in range(60)]
    desk.queue.add([a_pending_job(job_id, attempts=1) for job_id in job_ids])
    report = desk.register(a_report(slots=1000))
    claims = [desk.run(report) for _ in job_ids]
    finished: dict[str, JobState | None] = {}
    lost: list[str] = []
    desk.end_leases(*job_ids)

    def finish_all() -> None:
        finished.update({str(claim.job.id): desk.finish(claim) for claim in claims})

    def requeue_all() -> None:
        for _ in range(20):
            lost.extend(desk.queue.requeue_expired())

    at_once(finish_all, requeue_all, requeue_all)
    assert Counter(lost).most_common(1)[0][1:] in {(), (1,)} if lost else True
    for job_id in job_ids:
        state = desk.job(job_id).state
        assert state == (JobState.LOST if job_id in lost else JobState.FINISHED)
        assert finished[job_id] in ({None, JobState.LOST} if job_id in lost else {JobState.FINISHED})
    assert desk.queue.counts()["ended"] == len(job_ids)
    assert desk.left_behind() == set()
