"""Crons in a real Redis: what is due falls to one, a firing happens once, and overlaps are as told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support.queue_desk import SOON_S, QueueDesk, a_pending_job, a_report, an_ending, names, queue_desk
from support.waiting import wait_until

from toolkit.model.crons import (
    After,
    Cron,
    CronView,
    Due,
    Firing,
    FiringState,
    Outcome,
    Overlap,
    Proposal,
    Taken,
    Trigger,
)
from toolkit.model.errors import ConflictError
from toolkit.model.events import EventKind
from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, ProjectName, SpiderName
from toolkit.store.interfaces import Shared
from toolkit.store.interfaces_watch import MAX_FIRINGS, Crons

HOUR = timedelta(hours=1)
NIGHTLY = Cron("nightly", SpiderName("books"), at="0 3 * * *")


class CronDesk:
    """A queue with crons whose due times a test sets as it likes."""

    def __init__(self, desk: QueueDesk) -> None:
        self.desk = desk
        # A little ago, so that what is due some milliseconds later is due however fast this machine is.
        self.now: datetime = desk.store.now().replace(microsecond=0) - timedelta(seconds=1)
        self.count = 0

    @property
    def shared(self) -> Shared:
        assert self.desk.store.shared is not None
        return self.desk.store.shared

    @property
    def crons(self) -> Crons:
        return self.shared.crons

    def put(self, cron: Cron = NIGHTLY, *, ago: timedelta = timedelta()) -> None:
        """Define a cron that is due now, or was a while ago."""
        at = self.now - ago
        self.crons.put([cron], by="ann@desk", due={} if cron.at is None else {cron.name: Due(at, at)})

    def take(self, *, lease_s: float = 60.0) -> Taken:
        (taken,) = self.crons.take(lease_s=lease_s).crons
        return taken

    def proposal(self, taken: Taken, *, job: str | None = None, next_in: timedelta = HOUR) -> Proposal:
        """Return what a node would make of it: one job, and the next due time an hour later."""
        self.count += 1
        job_id = job or f"{taken.cron.name}-{self.count}"
        following = None if taken.due is None else Due(taken.due.at + next_in, taken.due.fires_at + next_in)
        return Proposal(
            taken, FiringState.FIRED, "node-1", jobs=(a_pending_job(job_id, spider=taken.cron.spider),), next=following
        )

    def fire(self, *, job: str | None = None) -> Firing | None:
        """Take the one firing that is due and let it happen."""
        (told,) = self.crons.commit([self.proposal(self.take(), job=job, next_in=timedelta(milliseconds=1))])
        return told

    def view(self, name: str = "nightly") -> CronView:
        view = self.crons.get(name)
        assert view is not None
        return view

    def states(self, name: str = "nightly") -> list[tuple[str, Sequence[JobId]]]:
        return [(firing.state.value, firing.jobs) for firing in reversed(self.crons.firings(name))]

    def run(self, job_id: str, *, state: JobState = JobState.FINISHED) -> None:
        """Let a node take the job and end it."""
        report = a_report()
        self.desk.register(report)
        claim = self.desk.run(report)
        assert claim.job.id == job_id
        self.desk.finish(claim, an_ending(state))


@pytest.fixture
def cron(redis_url: str, tmp_path: Path) -> Iterator[CronDesk]:
    with queue_desk(redis_url, tmp_path) as desk:
        yield CronDesk(desk)


def test_a_cron_comes_back_as_it_was_defined(cron: CronDesk) -> None:
    full = replace(
        NIGHTLY,
        project=ProjectName("shop"),
        jitter_s=30.0,
        timezone="Europe/Berlin",
        starts_at=cron.now,
        args={"city": "Zürich"},
        on=(a_report().name,),
        overlap=Overlap.QUEUE,
        workers=3,
        comment="why",
    )
    chain = Cron("after-it", SpiderName("prices"), after=After(SpiderName("books"), Outcome.ANY), is_paused=True)
    cron.crons.put([full, chain], by="ann@desk", due={"nightly": Due(cron.now, cron.now + HOUR)})
    after_it, nightly = cron.crons.all()
    assert (nightly.cron, nightly.next_at, nightly.by) == (full, cron.now + HOUR, "ann@desk")
    assert (after_it.cron, after_it.next_at, after_it.last) == (chain, None, None)
    assert cron.crons.get("no-such") is None


def test_what_is_due_falls_to_one_and_to_another_when_its_lease_is_over(cron: CronDesk) -> None:
    cron.put()
    assert cron.crons.take(lease_s=60).crons
    looked = cron.crons.take()
    assert looked.crons == ()
    assert looked.next_in_s is not None
    assert 0 < looked.next_in_s <= 60
    # Almost all of the lease goes by at once.
    cron.desk.redis.zincrby(cron.desk.keys.crons_due, -59_900, "nightly")
    wait_until(lambda: cron.crons.take().crons, deadline_s=SOON_S, what="the lease to be over")


def test_a_firing_happens_once_however_many_propose_it(cron: CronDesk) -> None:
    cron.put()
    proposal = cron.proposal(cron.take(), job="job-1")
    first, second = cron.crons.commit([proposal, proposal])
    (third,) = cron.crons.commit([proposal])
    assert first is not None
    assert (first.state, first.jobs, first.due_at) == (FiringState.FIRED, ("job-1",), cron.now)
    assert (second, third) == (None, None)
    assert cron.states() == [("fired", ("job-1",))]
    assert cron.desk.queue.counts()["pending"] == 1
    assert cron.view().next_at == cron.now + HOUR
    told = [event for event in cron.shared.events.entries() if event.subject == "nightly"]
    assert [(event.kind, event.about["jobs"]) for event in told] == [(EventKind.CRON_FIRED, "job-1")]


def test_a_firing_whose_memory_was_lost_but_not_its_job_makes_no_second_job(cron: CronDesk) -> None:
    cron.put()
    cron.desk.queue.add([a_pending_job("job-1")])
    assert cron.fire(job="job-1") is not None
    assert cron.desk.queue.counts()["pending"] == 1


def test_a_firing_of_a_definition_that_was_changed_or_removed_meanwhile_does_not_happen(cron: CronDesk) -> None:
    cron.put()
    taken = cron.take()
    cron.put(replace(NIGHTLY, priority=5.0))
    assert cron.crons.commit([cron.proposal(taken)]) == (None,)
    taken = cron.take()
    assert cron.crons.remove(["nightly", "no-such"]) == {"nightly"}
    assert cron.crons.commit([cron.proposal(taken)]) == (None,)
    assert cron.desk.queue.counts()["pending"] == 0
    assert not list(cron.desk.redis.scan_iter("*crons*"))


def test_defining_a_cron_as_it_is_leaves_its_next_due_time(cron: CronDesk) -> None:
    cron.put()
    assert cron.crons.put([NIGHTLY], by="bob", due={"nightly": Due(cron.now + HOUR, cron.now + HOUR)}) == frozenset()
    assert cron.view().next_at == cron.now
    assert cron.view().by == "ann@desk"


def test_a_change_that_leaves_the_times_loses_no_due_time_that_has_come(cron: CronDesk) -> None:
    tomorrow = Due(cron.now + 24 * HOUR, cron.now + 24 * HOUR)
    cron.put()
    cron.crons.put([replace(NIGHTLY, comment="after the backup")], by="bob", due={"nightly": tomorrow})
    assert cron.view().next_at == cron.now
    # Also one that a node has just taken: it is given anew, with the new definition.
    cron.take()
    cron.crons.put([replace(NIGHTLY, comment="by night")], by="bob", due={"nightly": tomorrow})
    assert cron.take().cron.comment == "by night"
    cron.crons.put([replace(NIGHTLY, at="0 4 * * *")], by="bob", due={"nightly": tomorrow})
    assert cron.view().next_at == tomorrow.at


def test_a_cron_that_was_changed_meanwhile_is_not_overwritten(cron: CronDesk) -> None:
    cron.put()
    seen = cron.view().revision
    cron.put(replace(NIGHTLY, priority=5.0))
    with pytest.raises(ConflictError, match="nightly was changed"):
        cron.crons.put([replace(NIGHTLY, is_paused=True)], by="bob", expected={"nightly": seen})
    with pytest.raises(ConflictError):
        cron.crons.put([replace(NIGHTLY, name="other"), NIGHTLY], by="bob", expected={"other": "", "nightly": ""})
    assert [view.cron.name for view in cron.crons.all()] == ["nightly"]


def test_a_paused_cron_does_not_fire_and_forgets_what_waited(cron: CronDesk) -> None:
    cron.put(replace(NIGHTLY, overlap=Overlap.QUEUE))
    cron.fire(job="job-1")
    assert cron.fire() is None
    assert cron.view().waiting == 1
    cron.crons.put([replace(NIGHTLY, is_paused=True)], by="ann")
    assert cron.crons.take().crons == ()
    assert (cron.view().waiting, cron.view().next_at) == (0, None)


def test_a_firing_is_skipped_while_the_job_of_the_one_before_has_not_ended(cron: CronDesk) -> None:
    cron.put()
    cron.fire(job="job-1")
    skipped = cron.fire()
    assert skipped is not None
    assert (skipped.state, skipped.reason) == (FiringState.SKIPPED, "job job-1 of the firing before has not ended")
    cron.run("job-1")
    cron.fire(job="job-2")
    assert cron.states() == [("fired", ("job-1",)), ("skipped", ()), ("fired", ("job-2",))]


def test_firings_may_overlap_when_that_is_allowed(cron: CronDesk) -> None:
    cron.put(replace(NIGHTLY, overlap=Overlap.ALLOW))
    cron.fire(job="job-1")
    cron.fire(job="job-2")
    assert cron.desk.queue.counts()["pending"] == 2


def test_firings_wait_for_the_one_before_and_all_happen_in_order(cron: CronDesk) -> None:
    cron.put(replace(NIGHTLY, overlap=Overlap.QUEUE))
    first = cron.fire(job="job-1")
    assert first is not None
    assert cron.fire() is None
    assert cron.fire() is None
    # The next due time is pushed away, so that only those that wait are to be seen.
    cron.crons.commit([cron.proposal(cron.take())])
    view = cron.view()
    assert (view.waiting, view.waits_since) == (3, cron.now + timedelta(milliseconds=1))
    assert cron.crons.take().crons == ()
    for number in (2, 3, 4):
        cron.run(f"job-{number - 1}")
        waiting = cron.take()
        assert waiting.waited
        proposal = cron.proposal(waiting, job=f"job-{number}")
        assert [told is None for told in cron.crons.commit([proposal, proposal])] == [False, True]
    fired = list(reversed(cron.crons.firings("nightly")))
    assert [firing.jobs for firing in fired] == [("job-1",), ("job-2",), ("job-3",), ("job-4",)]
    assert [firing.due_at for firing in fired] == sorted({firing.due_at for firing in fired})
    assert cron.view().waiting == 0


def test_a_firing_that_looks_too_early_goes_on_waiting(cron: CronDesk) -> None:
    cron.put(replace(NIGHTLY, overlap=Overlap.QUEUE))
    cron.fire(job="job-1")
    cron.crons.commit([cron.proposal(cron.take())])
    cron.desk.redis.zadd(cron.desk.keys.crons_due, {"nightly\n": 1})
    assert cron.crons.commit([cron.proposal(cron.take())]) == (None,)
    assert cron.view().waiting == 1
    cron.desk.queue.cancel(names("job-1"), grace_s=0)
    assert cron.fire(job="job-2") is not None


def test_the_job_before_is_cancelled_and_replaced_when_it_is_gone(cron: CronDesk) -> None:
    cron.put(replace(NIGHTLY, overlap=Overlap.REPLACE))
    cron.fire(job="job-1")
    # A pending one is gone at once.
    assert cron.fire(job="job-2") is not None
    assert cron.desk.states("job-1", "job-2") == ["cancelled", "pending"]
    claim = cron.desk.run(cron.desk.register(a_report()))
    assert cron.fire() is None
    assert cron.fire() is None
    assert cron.desk.beat(a_report(), claim).wishes[claim.token].is_cancel
    cron.crons.commit([replace(cron.proposal(cron.take()), state=FiringState.SKIPPED, jobs=())])
    cron.desk.finish(claim)
    assert cron.fire(job="job-3") is not None
    assert [state for state, _ in cron.states()] == ["fired", "fired", "skipped", "skipped", "fired"]


def test_a_cron_follows_the_jobs_of_another_spider_by_their_end(cron: CronDesk) -> None:
    for outcome in Outcome:
        after = After(SpiderName("books"), outcome)
        project = ProjectName("shop") if outcome is Outcome.ANY else None
        cron.put(Cron(f"on-{outcome}", SpiderName("prices"), after=after, project=project))
    for number, state in enumerate((JobState.FINISHED, JobState.FAILED, JobState.CANCELLED)):
        job_id = f"job-{number}"
        cron.desk.add(job_id, attempts=1)
        if state is JobState.CANCELLED:
            cron.desk.queue.cancel(names(job_id), grace_s=0)
        else:
            cron.run(job_id, state=state)
        due = cron.crons.take(lease_s=60).crons
        kind = {"finished": "success", "failed": "failed"}.get(state.value)
        assert {each.cron.name for each in due} == {f"on-{each}" for each in (kind, "any") if each}
        assert {(each.trigger.job, each.trigger.project) for each in due} == {(job_id, "shop")}
        proposals = [cron.proposal(each) for each in due]
        assert None not in cron.crons.commit(proposals)
        assert set(cron.crons.commit(proposals)) == {None}
        cron.desk.queue.cancel([job.id for each in proposals for job in each.jobs], grace_s=0)
    cron.crons.remove([f"on-{outcome}" for outcome in Outcome])
    assert cron.desk.redis.exists(cron.desk.keys.cron_followers) == 0


def test_a_cron_that_follows_no_more_is_not_woken(cron: CronDesk) -> None:
    chain = Cron("chain", SpiderName("prices"), after=After(SpiderName("books")))
    cron.put(chain)
    cron.put(replace(chain, after=After(SpiderName("other"))))
    cron.desk.add("job-1")
    cron.run("job-1")
    assert cron.crons.take().crons == ()


def test_the_last_good_firing_is_remembered_when_its_job_is_long_forgotten(cron: CronDesk) -> None:
    cron.put()
    cron.fire(job="job-1")
    cron.run("job-1", state=JobState.FAILED)
    assert cron.view().last_success_at is None
    fired = cron.fire(job="job-2")
    assert fired is not None
    cron.run("job-2")
    cron.desk.queue.drop_old(max_age_s=0.001, max_jobs=0)
    assert cron.view().last_success_at == fired.due_at
    assert cron.take().last_success_at == fired.due_at


def test_the_last_success_never_goes_back_and_goes_with_the_cron(cron: CronDesk) -> None:
    cron.put(replace(NIGHTLY, overlap=Overlap.ALLOW))
    for job in ("job-1", "job-2", "job-3"):
        fired = cron.fire(job=job)
    assert fired is not None
    report = a_report()
    cron.desk.register(report)
    claims = {str(claim.job.id): claim for claim in (cron.desk.run(report) for _ in range(3))}
    cron.desk.finish(claims["job-3"], an_ending())
    cron.desk.finish(claims["job-1"], an_ending())
    assert cron.view().last_success_at == fired.due_at
    cron.crons.remove(["nightly"])
    cron.desk.finish(claims["job-2"], an_ending())
    assert not cron.desk.redis.exists(cron.desk.keys.cron_followers)
    cron.put()
    assert cron.view().last_success_at is None


def test_a_firing_by_hand_heeds_the_overlap_unless_told_not_to(cron: CronDesk) -> None:
    cron.put(ago=-HOUR)
    view = cron.view()

    def by_hand(word: str, *, heeds: bool = True) -> FiringState:
        taken = Taken(view.cron, view.revision, Trigger(cron.now, word=word))
        proposal = Proposal(taken, FiringState.FIRED, "ann", jobs=(a_pending_job(word),), heeds_overlap=heeds)
        told, again = cron.crons.commit([proposal, proposal])
        assert told is not None
        assert again is None or told.state is FiringState.SKIPPED
        return told.state

    assert by_hand("one") is FiringState.FIRED
    assert by_hand("two") is FiringState.SKIPPED
    assert by_hand("three", heeds=False) is FiringState.FIRED
    assert cron.view().next_at == cron.now + HOUR


def test_what_is_run_by_hand_while_paused_waits_its_turn_and_happens(cron: CronDesk) -> None:
    paused = replace(NIGHTLY, overlap=Overlap.QUEUE, is_paused=True)
    cron.crons.put([paused], by="ann")
    for word in ("one", "two"):
        taken = Taken(paused, cron.view().revision, Trigger(cron.now, word=word))
        cron.crons.commit([Proposal(taken, FiringState.FIRED, "ann", jobs=(a_pending_job(word),))])
    assert cron.view().waiting == 1
    cron.run("one")
    assert cron.fire(job="two") is not None
    assert cron.states() == [("fired", ("one",)), ("fired", ("two",))]


def test_what_failed_or_was_skipped_is_told_and_goes_on(cron: CronDesk) -> None:
    cron.put()
    failed = replace(cron.proposal(cron.take()), state=FiringState.FAILED, jobs=(), reason="no release")
    (told,) = cron.crons.commit([failed])
    assert told is not None
    assert (told.state, told.reason) == (FiringState.FAILED, "no release")
    assert cron.view().last == told
    assert cron.view().next_at == cron.now + HOUR
    assert cron.shared.events.entries()[0].kind is EventKind.CRON_FAILED


def test_the_history_is_capped(cron: CronDesk) -> None:
    cron.put(replace(NIGHTLY, overlap=Overlap.ALLOW))
    for _ in range(MAX_FIRINGS + 2):
        cron.fire()
    assert len(cron.crons.firings("nightly", limit=1000)) == MAX_FIRINGS
    assert len(cron.crons.firings("nightly", limit=2)) == 2


def test_a_cron_that_a_newer_crawlctl_wrote_keeps_no_other_from_firing(cron: CronDesk) -> None:
    cron.put()
    cron.put(replace(NIGHTLY, name="newer"))
    cron.desk.redis.hset(cron.desk.keys.crons, "newer", '{"v": 99}')
    assert cron.take().cron.name == "nightly"


def test_firings_with_many_workers_are_committed_in_calls_that_redis_can_bear(cron: CronDesk) -> None:
    for name in ("one", "two"):
        cron.put(replace(NIGHTLY, name=name, workers=700))
    taken = cron.crons.take().crons
    proposals = [
        replace(cron.proposal(each), jobs=tuple(a_pending_job(f"{each.cron.name}-{number}") for number in range(700)))
        for each in taken
    ]
    told = cron.crons.commit(proposals)
    assert [len(firing.jobs) for firing in told if firing is not None] == [700, 700]
    assert cron.desk.queue.counts()["pending"] == 1400
    assert cron.crons.commit([]) == ()
