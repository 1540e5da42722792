"""The judge of a chaos run sees each broken promise, and calls none broken that a fault excuses."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
from chaos.checking import SLACK_S, Evidence, Hit, Verdict, judge
from chaos.journal import Run
from chaos.plan import FaultKind, Order, faults, orders
from chaos.spiders import PLAIN, PROJECT
from chaos.watching import Look, Seen, Span, Tenure

from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, Token

JOB, N1, N2 = JobId("job-1"), NodeName("node-1"), NodeName("node-2")
FIRST, SECOND = Token("1.100000.1:node-1:a"), Token("2.108000.2:node-2:b")
ORDER = Order(JOB, PLAIN, run_s=1.0, attempts=2, batch=0)


def a_job(state: JobState = JobState.FINISHED, token: Token = FIRST, attempt: int = 1) -> Job:
    return Job(id=JOB, project=PROJECT, spider=PLAIN, state=state, token=token, attempt=attempt)


def a_run(token: Token = FIRST, began_at: float = 101.0, ended_at: float | None = 103.0, pid: int = 11) -> Run:
    return Run(JOB, token, pid, began_at, ended_at)


def verdict_on(
    job: Job | None,
    *runs: Run,
    tenures: tuple[Tenure, ...] = (Tenure(JOB, FIRST, N1, 100.0, 104.0, JobState.FINISHED),),
    hits: tuple[Hit, ...] = (),
    cancels: dict[JobId, JobState] | None = None,
    order: Order = ORDER,
    beats: dict[NodeName, list[float]] | None = None,
    outages: tuple[Span, ...] = (),
    looks: tuple[Look, ...] = (),
) -> Verdict:
    seen = Seen(tenures=list(tenures), outages=list(outages), looks=list(looks))
    seen.beats.update(beats or {})
    return judge(Evidence(3.0, [order], {JOB: job} if job else {}, runs, seen, hits, cancels or {}))


def test_a_job_that_ran_once_to_its_end_and_finished_breaks_nothing() -> None:
    verdict = verdict_on(a_job(), a_run())
    assert verdict.broken == []
    assert verdict.outcomes == {"finished": 1, "failed": 0, "cancelled": 0, "lost": 0}


@pytest.mark.parametrize("job", [None, a_job(JobState.PENDING), a_job(JobState.RUNNING)])
def test_a_job_without_a_final_state_has_no_outcome(job: Job | None) -> None:
    verdict = verdict_on(job)
    assert verdict.without_outcome == 1
    assert "has no outcome" in verdict.broken[0]


@pytest.mark.parametrize(
    ("state", "doubt"),
    [
        (JobState.FINISHED, "no run of this claim came to its end"),
        (JobState.FAILED, "nothing made it fail"),
        (JobState.CANCELLED, "nobody asked for that"),
        (JobState.LOST, "nothing happened to its node"),
    ],
)
def test_an_outcome_that_nothing_explains_is_doubted(state: JobState, doubt: str) -> None:
    broken = verdict_on(a_job(state), a_run(ended_at=None)).broken
    assert any(doubt in each for each in broken)


def test_a_killed_spider_may_fail_and_a_cancelled_one_be_cancelled() -> None:
    killed = Hit(FaultKind.SPIDER_DIES, JOB, Span(102.0, 102.0), pids=(11,))
    assert verdict_on(a_job(JobState.FAILED), a_run(ended_at=None), hits=(killed,)).broken == []
    asked = {JOB: JobState.RUNNING}
    assert verdict_on(a_job(JobState.CANCELLED), a_run(ended_at=None), cancels=asked).broken == []


def test_a_job_that_was_cancelled_while_pending_may_end_in_no_other_way() -> None:
    broken = verdict_on(a_job(), a_run(), cancels={JOB: JobState.PENDING}).broken
    assert "it was cancelled while it was pending" in broken[0]


TWICE = (
    Tenure(JOB, FIRST, N1, 100.0, 104.0, JobState.PENDING),
    Tenure(JOB, SECOND, N2, 108.0, 112.0, JobState.FINISHED),
)
BOTH_RUNS = (a_run(), a_run(SECOND, 109.0, 111.0, 22))


def test_two_whole_runs_are_wrong_while_the_node_was_there() -> None:
    verdict = verdict_on(a_job(token=SECOND), *BOTH_RUNS, tenures=TWICE, beats={N1: [100.0, 101.0, 102.0, 103.0]})
    assert (verdict.ran_twice, verdict.ran_twice_wrongly) == (1, 1)
    assert "ran twice" in verdict.broken[0]


def test_two_whole_runs_are_excused_by_a_machine_that_died() -> None:
    died = Hit(FaultKind.MACHINE_DIES, N1, Span(103.5, 106.0))
    verdict = verdict_on(a_job(token=SECOND), *BOTH_RUNS, tenures=TWICE, hits=(died,))
    assert (verdict.ran_twice, verdict.ran_twice_wrongly, verdict.broken) == (1, 0, [])


@pytest.mark.parametrize(("retries_failed", "wrongly"), [(True, 0), (False, 1)])
def test_a_run_that_was_killed_after_its_last_line_may_be_repeated_where_that_was_asked(
    wrongly: int, *, retries_failed: bool
) -> None:
    killed = Hit(FaultKind.SPIDER_DIES, JOB, Span(103.0, 103.0), pids=(11,))
    alive: dict[NodeName, list[float]] = {N1: [100.0, 101.0, 102.0, 103.0]}
    seen = Seen(tenures=list(TWICE), outages=[], looks=[])
    seen.beats.update(alive)
    order = replace(ORDER, retries_failed=retries_failed)
    verdict = judge(Evidence(3.0, [order], {JOB: a_job(token=SECOND)}, BOTH_RUNS, seen, (killed,), {}))
    assert verdict.ran_twice_wrongly == wrongly


def test_two_whole_runs_are_excused_by_a_silence_of_a_lease_unless_redis_was_away_for_it() -> None:
    silent = {N1: [100.0, 101.0, 105.0]}
    assert verdict_on(a_job(token=SECOND), *BOTH_RUNS, tenures=TWICE, beats=silent).ran_twice_wrongly == 0
    away = (Span(101.5, 104.5),)
    verdict = verdict_on(a_job(token=SECOND), *BOTH_RUNS, tenures=TWICE, beats=silent, outages=away)
    assert verdict.ran_twice_wrongly == 1


def test_a_run_that_was_broken_off_for_nothing_is_seen() -> None:
    runs = (a_run(ended_at=None), BOTH_RUNS[1])
    assert verdict_on(a_job(token=SECOND), *runs, tenures=TWICE).interrupted_wrongly == 1


ONCE = replace(ORDER, attempts=1)


def begun_too_often(
    *hits: Hit, heard_at: float = 107.0, order: Order = ONCE, tokens: tuple[Token, Token] = (FIRST, SECOND)
) -> int:
    runs = (a_run(tokens[0], ended_at=None), a_run(tokens[1], 109.0, 111.0, 22))
    beats: dict[NodeName, list[float]] = {N1: [100.0, 102.0, heard_at]}
    return verdict_on(a_job(token=SECOND), *runs, tenures=TWICE, hits=hits, beats=beats, order=order).begun_too_often


def test_a_job_of_one_attempt_may_be_begun_again_only_when_its_node_closed_it() -> None:
    assert begun_too_often() == 1
    assert begun_too_often(Hit(FaultKind.MACHINE_DIES, N1, Span(103.5, 106.0))) == 1
    assert begun_too_often(Hit(FaultKind.NODE_CLOSES, N2, Span(103.5, 106.0))) == 1
    assert begun_too_often(Hit(FaultKind.NODE_CLOSES, N1, Span(103.5, 106.0))) == 0
    assert begun_too_often(order=ORDER) == 0


@pytest.mark.parametrize(
    ("heard_at", "attempts", "wrongly"), [(108.2, 1, 1), (109.0, 1, 0), (106.2, 2, 1), (107.1, 2, 0)]
)
def test_a_claim_that_redis_forgot_excuses_another_begin_only_when_its_node_was_late(
    heard_at: float, attempts: int, wrongly: int
) -> None:
    away = Span(102.5, 105.5)
    rolled_back = Hit(FaultKind.REDIS_AWAY_OLDER, "redis", away, rolled_back_to=99.9)
    order = replace(ORDER, attempts=attempts)
    runs = (a_run(ended_at=None), a_run(SECOND, 109.0, 111.0, 22))
    verdict = verdict_on(
        a_job(token=SECOND),
        *runs,
        tenures=TWICE,
        hits=(rolled_back,),
        beats={N1: [102.0, heard_at]},
        outages=(away,),
        order=order,
    )
    assert verdict.interrupted_wrongly == wrongly
    assert verdict.begun_too_often == (wrongly if attempts == 1 else 0)


def test_a_claim_is_begun_once() -> None:
    assert any("under" in each for each in verdict_on(a_job(), a_run(), a_run(pid=22)).broken)


@pytest.mark.parametrize(
    ("claimed_at", "free", "seconds"),
    [
        (104.5, {N2}, 4.5),
        (105.5, {N2}, 5.5),
        (109.0, set(), 4.0),
    ],
    ids=["in time", "too late", "no slot was free"],
)
def test_the_jobs_of_a_dead_machine_are_taken_in_time_where_there_is_a_slot(
    claimed_at: float, free: set[NodeName], seconds: float
) -> None:
    held = Tenure(JOB, FIRST, N1, 98.0, 99.9)
    died = Hit(FaultKind.MACHINE_DIES, N1, Span(100.0, 107.0), jobs=(held,))
    tenures = (
        Tenure(JOB, FIRST, N1, 98.0, 104.0, JobState.PENDING),
        Tenure(JOB, SECOND, N2, claimed_at, claimed_at + 3, JobState.FINISHED),
    )
    runs = (a_run(SECOND, claimed_at, claimed_at + 2),)
    looks = tuple(Look(104.0 + n / 10, frozenset(free)) for n in range(60))
    verdict = verdict_on(a_job(token=SECOND), *runs, tenures=tenures, hits=(died,), looks=looks)
    assert verdict.requeues == [pytest.approx(seconds)]
    assert bool(verdict.broken) is (seconds > 3.0 + SLACK_S)


def test_the_same_seed_gives_the_same_plan_and_another_seed_another() -> None:
    assert orders(7, 200, nodes=4) == orders(7, 200, nodes=4) != orders(8, 200, nodes=4)
    first, again, other = (list(islice(faults(seed, mean_s=1.5), 60)) for seed in (7, 7, 8))
    assert first == again != other
    assert {fault.kind for fault in first} == set(FaultKind)


@pytest.mark.parametrize(
    ("first", "second", "heard_at", "changes"),
    [
        (JobState.FAILED, JobState.LOST, 106.0, 1),
        (JobState.FAILED, JobState.LOST, 108.5, 0),
        (JobState.LOST, JobState.FAILED, 106.0, 0),
    ],
)
def test_an_outcome_changes_only_when_redis_forgot_it_and_its_node_was_late(
    first: JobState, second: JobState, heard_at: float, changes: int
) -> None:
    told = Tenure(JOB, FIRST, N1, 100.0, 104.0, first)
    seen = Seen(tenures=[told, replace(told, begin=104.7, end=107.6, after=second)], outages=[], looks=[])
    seen.beats[N1] = [102.0, heard_at]
    seen.finals[JOB] = {"state": first.value}
    rolled_back = Hit(FaultKind.REDIS_PROMOTED, "redis", Span(104.5, 104.6), rolled_back_to=103.0)
    run = replace(a_run(ended_at=None), failed_by_itself=True)
    verdict = judge(Evidence(3.0, [ONCE], {JOB: a_job(second)}, (run,), seen, (rolled_back,), {}))
    assert verdict.broken == changes * ["job-1 was failed and is lost now"]
