"""Any node samples the jobs and the cluster; what was done is counted once, however jobs begin, end and begin anew."""

from __future__ import annotations

import pytest
from support.queue_desk import SOON_S, QueueDesk, a_pending_job, a_report, an_ending, names
from support.waiting import wait_until

from toolkit.duties.sample import sample
from toolkit.model.jobs import JobState
from toolkit.model.names import JobId
from toolkit.model.queue import Claimed, Ending, Progress
from toolkit.store import redis_samples


def told(pages: int, *, items: int = 0, errors: int = 0) -> Progress:
    return Progress(JobState.RUNNING, pages=pages, items=items, errors=errors, memory_mb=80.5)


def next_turn(desk: QueueDesk) -> int:
    turns: list[int] = []

    def is_due() -> bool:
        turn = desk.shared.samples.begin(every_s=0.001)
        turns.extend([turn] if turn is not None else [])
        return bool(turns)

    wait_until(is_due, deadline_s=SOON_S, what="a turn at sampling")
    return turns[0]


def take(desk: QueueDesk) -> None:
    """Take a turn as the duty does, whenever the last one was."""
    turn = next_turn(desk)
    desk.shared.samples.sample_jobs(turn)
    desk.redis.hincrby(desk.keys.sampling, "counted_ms", -10_000)
    assert desk.shared.samples.sample_cluster(turn, pending=0, active=1, nodes_live=1, slots=4)


def done(desk: QueueDesk) -> tuple[int, int, int]:
    measures = desk.shared.measures.read()
    return measures.pages, measures.items, measures.errors


def pages_of(desk: QueueDesk, job_id: str) -> list[int | None]:
    return [each.pages for each in desk.shared.samples.of_job(JobId(job_id))]


def running(desk: QueueDesk, *job_ids: str) -> list[Claimed]:
    desk.add(*job_ids)
    report = desk.register(a_report(slots=20))
    # The first turn ever only takes note of what runs already.
    next_turn(desk)
    return [desk.run(report) for _ in job_ids]


def test_of_many_nodes_one_samples_at_a_time_and_any_of_them_the_next_time(desk: QueueDesk) -> None:
    running(desk, "a")
    assert [sample(desk.shared), sample(desk.shared), sample(desk.shared)] == [False] * 3
    desk.redis.hset(desk.keys.sampling, "at_ms", 0)
    assert [sample(desk.shared), sample(desk.shared)] == [True, False]
    (only,) = desk.shared.samples.of_cluster()
    assert (only.active, only.pending, only.nodes_live, only.slots) == (1, 0, 1, 20)


def test_a_job_is_sampled_from_its_start_to_its_last_counts(desk: QueueDesk) -> None:
    (claim,) = running(desk, "a")
    for pages in (5, 9):
        desk.beat(a_report(slots=20), claim, progress=told(pages, items=pages - 1))
        take(desk)
    assert pages_of(desk, "a") == [0, 5, 9]
    desk.finish(claim, Ending(JobState.FINISHED, "it finished", progress=told(12, items=11)))
    take(desk)
    assert pages_of(desk, "a") == [0, 5, 9, 12]
    assert done(desk) == (12, 11, 0)
    assert desk.shared.samples.of_jobs(names("a", "nobody"))[JobId("nobody")] == ()


def test_a_job_that_nobody_sampled_counts_when_it_ends(desk: QueueDesk) -> None:
    (claim,) = running(desk, "short")
    desk.finish(claim, Ending(JobState.FAILED, "it failed", progress=told(3, items=2, errors=1)))
    assert done(desk) == (3, 2, 1)
    assert pages_of(desk, "short")[-1] == 3
    desk.finish(claim, an_ending())
    assert done(desk) == (3, 2, 1)


def test_an_attempt_that_begins_anew_takes_nothing_away(desk: QueueDesk) -> None:
    desk.queue.add([a_pending_job("a", retries_failed=True)])
    report = desk.register(a_report(slots=20))
    next_turn(desk)
    claim = desk.run(report)
    desk.beat(report, claim, progress=told(50))
    take(desk)
    desk.finish(claim, Ending(JobState.FAILED, "it failed", progress=told(60)))
    again = desk.run(report)
    desk.beat(report, again, progress=told(4))
    take(desk)
    take(desk)
    assert done(desk)[0] == 64
    assert pages_of(desk, "a") == [50, 0, 4, 4]
    assert all(each.pages_per_s >= 0 for each in desk.shared.samples.of_cluster())
    assert desk.shared.samples.of_cluster()[-1].pages_per_s == 0


def test_what_ran_before_the_first_turn_ever_is_not_of_that_moment(desk: QueueDesk) -> None:
    desk.add("old")
    report = desk.register(a_report())
    claim = desk.run(report)
    desk.beat(report, claim, progress=told(1_000_000))
    take(desk)
    desk.beat(report, claim, progress=told(1_000_010))
    take(desk)
    assert done(desk)[0] == 10
    assert [round(each.pages_per_s) for each in desk.shared.samples.of_cluster()] == [0, 1]


def test_a_turn_that_another_has_overtaken_lays_nothing_down(desk: QueueDesk) -> None:
    (claim,) = running(desk, "a")
    desk.beat(a_report(slots=20), claim, progress=told(5))
    slow, _ = next_turn(desk), next_turn(desk)
    assert desk.shared.samples.sample_jobs(slow) == 0
    assert not desk.shared.samples.sample_cluster(slow, pending=0, active=0, nodes_live=0, slots=0)
    assert (done(desk)[0], desk.shared.samples.of_cluster()) == (0, ())


def test_many_jobs_are_sampled_in_steps_each_once(desk: QueueDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_samples, "JOBS_A_CALL", 4)
    claims = running(desk, *(f"job-{number}" for number in range(15)))
    desk.nodes.beat(a_report(slots=20), [])
    desk.beat(a_report(slots=20), *claims, progress=told(7))
    assert desk.shared.samples.sample_jobs(next_turn(desk)) == 15
    assert done(desk)[0] == 7 * 15


def test_long_series_are_thinned_and_keep_living(desk: QueueDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_samples, "TURNS_A_THINNING", 1)
    (claim,) = running(desk, "a")
    desk.beat(a_report(slots=20), claim, progress=told(5))
    key = desk.keys.samples_of(JobId("a"))
    for _ in range(70):
        take(desk)
    # They were taken within a moment: of the crowd the first stays, and the last.
    assert len(pages_of(desk, "a")) < 70
    assert desk.redis.pttl(key) > 0
    assert done(desk)[0] == 5


def test_samples_go_when_the_record_of_the_job_goes(desk: QueueDesk) -> None:
    (claim,) = running(desk, "a")
    desk.beat(a_report(slots=20), claim, progress=told(5))
    take(desk)
    desk.finish(claim)
    assert desk.redis.exists(desk.keys.samples_of(JobId("a")))
    assert desk.queue.drop_old(max_age_s=86_400, max_jobs=0) == 1
    assert not desk.redis.exists(desk.keys.samples_of(JobId("a")))
    assert desk.shared.samples.of_job(JobId("a")) == ()


def test_the_newest_samples_of_the_cluster_are_kept(desk: QueueDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_samples, "MAX_CLUSTER_SAMPLES", 3)
    for active in range(5):
        turn = next_turn(desk)
        desk.shared.samples.sample_cluster(turn, pending=0, active=active, nodes_live=1, slots=1)
    assert [each.active for each in desk.shared.samples.of_cluster()] == [2, 3, 4]
    assert [each.active for each in desk.shared.samples.of_cluster(limit=1)] == [4]
    assert desk.shared.samples.of_cluster(limit=0) == ()
