"""The life of jobs against a plain model: after any history of calls, the shared queue says what the model says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from support.queue_desk import QueueDesk, a_pending_job, a_report, an_ending, queue_desk
from support.queue_model import PENDING, Expected, told, wanted
from support.stores import SHOP

from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, NodeName, SpiderName
from toolkit.model.nodes import NodeReport
from toolkit.model.queue import Cap, Claimed, NothingToClaim

NODES = ("node-1", "node-2", "node-2:6800")
SPIDERS = ("books", "bücher")
SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
PRIORITIES = (-2.0, 0.0, 0.5, 7.0)


class LifeOfJobs(RuleBasedStateMachine):
    """Three nodes, two spiders, an operator, and any order of what they may do."""

    desk: ClassVar[QueueDesk]

    def __init__(self) -> None:
        super().__init__()
        desk = self.desk
        desk.redis.flushall()
        self.jobs: dict[str, Expected] = {}
        self.claims: list[Claimed] = []
        self.cap: int | None = None
        self.drained: set[str] = set()
        self.reports: dict[str, NodeReport] = {name: desk.register(a_report(name, slots=500)) for name in NODES}
        self.clock = 0
        desk.end_leases()

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def some(self, data: st.DataObject) -> Expected:
        return self.jobs[data.draw(st.sampled_from(sorted(self.jobs)))]

    def old_or_new_claim(self, data: st.DataObject) -> tuple[Claimed, Expected, bool]:
        """Draw a claim of which something is told now, and say whether the job is its own with that."""
        claim = data.draw(st.sampled_from(self.claims))
        job = self.jobs[str(claim.job.id)]
        is_owner = (job.is_active and job.token == claim.token) or job.is_taken_up(claim.token)
        return claim, job, is_owner

    @rule(
        spider=st.sampled_from(SPIDERS),
        priority=st.sampled_from(PRIORITIES),
        attempts=st.integers(1, 3),
        retries_failed=st.booleans(),
        is_held=st.sampled_from([False, False, True]),
        is_delayed=st.sampled_from([False, False, True]),
        on=st.sampled_from([None, None, *NODES]),
    )
    def add(
        self,
        *,
        spider: str,
        priority: float,
        attempts: int,
        retries_failed: bool,
        is_held: bool,
        is_delayed: bool,
        on: str | None,
    ) -> None:
        name = f"job-{len(self.jobs)}"
        self.jobs[name] = Expected(
            name, spider, priority, self.tick(), attempts, retries_failed, is_held, on, is_delayed
        )
        job = a_pending_job(
            name,
            spider=spider,
            priority=priority,
            attempts=attempts,
            retries_failed=retries_failed,
            is_held=is_held,
            due_at=self.desk.store.now() + timedelta(days=1) if is_delayed else None,
            on=None if on is None else [on],
        )
        self.desk.queue.add([job])

    def takable(self) -> list[Expected]:
        pending = [job for job in self.jobs.values() if job.state == PENDING]
        free = (job for job in pending if not job.is_held and not job.is_delayed)
        return sorted(free, key=lambda job: job.order)

    def busy(self, spider: str) -> int:
        return sum(job.is_active and job.spider == spider for job in self.jobs.values())

    def best_for(self, node: str) -> Expected | None:
        if node in self.drained:
            return None
        is_full = self.cap is not None and self.busy(SPIDERS[0]) >= self.cap
        fit = (job for job in self.takable() if job.on in {None, node} and not (is_full and job.spider == SPIDERS[0]))
        return next(fit, None)

    @rule(node=st.sampled_from(NODES))
    def claim(self, node: str) -> None:
        best = self.best_for(node)
        answer = self.desk.look(self.reports[node])
        if best is None:
            assert isinstance(answer, NothingToClaim)
            return
        assert isinstance(answer, Claimed)
        assert answer.job.id == best.name
        assert all(answer.token != claim.token for claim in self.claims)
        best.state, best.node, best.token = JobState.STARTING, node, answer.token
        best.session, best.attempt = str(self.reports[node].session), best.attempt + 1
        best.taken_from = None
        self.claims.append(answer)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        claim, job, is_owner = self.old_or_new_claim(data)
        assert self.desk.queue.started(claim.job.id, claim.token, pid=1) == is_owner
        if is_owner:
            job.state = JobState.RUNNING

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), state=st.sampled_from([JobState.FINISHED, JobState.FAILED, JobState.LOST]))
    def finish(self, data: st.DataObject, state: JobState) -> None:
        claim, job, is_owner = self.old_or_new_claim(data)
        answer = self.desk.finish(claim, an_ending(state, finish_reason="shutdown"))
        if not is_owner:
            assert answer in {None, job.state}
            return
        if state == JobState.LOST:
            after = job.loses_its_process(is_gone=True)
        elif job.is_cancel_wished:
            after = job.ends(JobState.CANCELLED)
        elif state == JobState.FAILED and job.retries_failed and job.attempt < job.attempts:
            after = job.goes_back()
        else:
            after = job.ends(state)
        assert answer == after

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        claim, job, is_owner = self.old_or_new_claim(data)
        assert self.desk.queue.give_back(claim.job.id, claim.token, reason="no memory") == is_owner
        if is_owner and job.is_cancel_wished:
            job.ends(JobState.CANCELLED)
        elif is_owner:
            job.goes_back(is_counted=False)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        claim, job, is_owner = self.old_or_new_claim(data)
        answer = self.desk.beat(self.reports[str(claim.job.node)], claim)
        assert answer.stale == (() if is_owner else (claim.token,))
        assert (claim.token in answer.wishes) == (is_owner and job.is_cancel_wished)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def lose_some(self, data: st.DataObject) -> None:
        active = sorted(job.name for job in self.jobs.values() if job.is_active)
        lost = data.draw(st.lists(st.sampled_from(active), unique=True)) if active else []
        self.desk.end_leases(*lost)
        settled = self.desk.queue.requeue_expired()
        assert settled == {name: self.jobs[name].loses_its_process(is_gone=False) for name in lost}

    @rule(data=st.data(), node=st.sampled_from(NODES), is_new_life=st.booleans())
    def reconcile(self, data: st.DataObject, node: str, *, is_new_life: bool) -> None:
        if is_new_life:
            self.reports[node] = self.desk.register(a_report(node, session=f"life-{self.tick()}", slots=500))
        mine = [job for job in self.jobs.values() if job.is_active and job.node == node]
        known = {job.token for job in mine if data.draw(st.booleans())}
        forgotten = [job for job in mine if job.token not in known]
        expected = {}
        for job in forgotten:
            if job.session == self.reports[node].session and not job.is_cancel_wished:
                expected[job.name] = job.goes_back(is_counted=False)
            else:
                expected[job.name] = job.loses_its_process(is_gone=True)
        assert self.desk.queue.reconcile(self.reports[node], [token for token in known if token]) == expected

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = self.some(data)
        assert self.desk.queue.cancel([JobId(job.name)], grace_s=1) == {job.name: job.state}
        if job.state == PENDING:
            job.ends(JobState.CANCELLED)
        job.is_cancel_wished = job.is_cancel_wished or job.is_active

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), is_held=st.booleans())
    def hold_or_release(self, data: st.DataObject, *, is_held: bool) -> None:
        job = self.some(data)
        change = self.desk.queue.hold if is_held else self.desk.queue.release
        assert change([JobId(job.name)]) == ({job.name} if job.state == PENDING else set())
        if job.state == PENDING:
            job.taken_from = None if is_held else job.taken_from
            job.is_held = is_held
            job.is_delayed = job.is_delayed and is_held

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), priority=st.sampled_from(PRIORITIES))
    def reprioritise(self, data: st.DataObject, priority: float) -> None:
        job = self.some(data)
        changed = self.desk.queue.reprioritise([JobId(job.name)], priority)
        assert changed == ({job.name} if job.state == PENDING else set())
        if job.state == PENDING:
            job.priority = priority

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), on=st.sampled_from([None, *NODES]))
    def move(self, data: st.DataObject, on: str | None) -> None:
        job = self.some(data)
        moved = self.desk.queue.move([JobId(job.name)], None if on is None else [NodeName(on)])
        assert moved == ({job.name} if job.state == PENDING else set())
        if job.state == PENDING:
            job.on, job.taken_from = on, None

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        job = self.some(data)
        can = job.state in {JobState.FAILED, JobState.LOST, JobState.CANCELLED}
        assert self.desk.queue.retry([JobId(job.name)]) == ({job.name} if can else set())
        if can:
            job.goes_back()
            job.age, job.attempt, job.is_cancel_wished, job.is_held = self.tick(), 0, False, False

    @rule(cap=st.sampled_from([None, 0, 1, 2]))
    def set_cap(self, cap: int | None) -> None:
        self.cap = cap
        self.desk.queue.set_cap(Cap(SHOP, SpiderName(SPIDERS[0]), cluster=cap))

    @rule(node=st.sampled_from(NODES), is_drained=st.booleans())
    def drain_or_resume(self, node: str, *, is_drained: bool) -> None:
        if is_drained:
            self.desk.nodes.drain([NodeName(node)], who="ann@desk")
            self.drained.add(node)
        else:
            self.desk.nodes.resume([NodeName(node)])
            self.drained.discard(node)

    @invariant()
    def the_records_are_as_expected(self) -> None:
        found = self.desk.store.jobs.get_many([JobId(name) for name in self.jobs])
        for name, job in self.jobs.items():
            assert told(found[JobId(name)]) == wanted(job)

    @invariant()
    def the_counts_are_as_expected(self) -> None:
        states = [job.state for job in self.jobs.values()]
        counts = self.desk.queue.counts()
        assert counts["pending"] == states.count(PENDING)
        assert counts["held"] == sum(job.state == PENDING and job.is_held for job in self.jobs.values())
        assert counts["delayed"] == sum(
            job.state == PENDING and job.is_delayed and not job.is_held for job in self.jobs.values()
        )
        assert counts["active"] == sum(job.is_active for job in self.jobs.values())
        assert counts["ended"] == sum(state.is_final for state in states)
        assert counts["lost_day"] == states.count(JobState.LOST)
        for spider in SPIDERS:
            assert self.desk.queue.busy(SHOP, SpiderName(spider)) == self.busy(spider)

    @invariant()
    def the_order_is_as_expected(self) -> None:
        for place, job in enumerate(self.takable()):
            assert self.desk.queue.position(JobId(job.name)) == place
        lines = {(line.spider, line.on) for line in self.desk.queue.lines()}
        assert lines == {(job.spider, None if job.on is None else frozenset({job.on})) for job in self.takable()}

    @invariant()
    def nothing_is_left_when_all_is_over(self) -> None:
        if all(job.state.is_final for job in self.jobs.values()):
            assert self.desk.left_behind() == set()


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[QueueDesk]:
    with queue_desk(redis_url, tmp_path / "state") as desk:
        yield desk


def test_any_history_of_calls_leads_where_the_model_leads(desk: QueueDesk) -> None:
    class LifeAtThisDesk(LifeOfJobs):
        pass

    LifeAtThisDesk.desk = desk
    many = settings(max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=SLOW)
    run_state_machine_as_test(LifeAtThisDesk, settings=many)
