"""Outcomes on their way to a queue that is away, forgets, or has given the job to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.claims import CLAIM
from support.hand_machine import HandMachine
from twisted.internet.defer import Deferred, fail, succeed

from toolkit.model.errors import NotFoundError, StoreUnreachableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, Token
from toolkit.model.queue import Ending, Held
from toolkit.node.delivery import Delivery, Parcel
from toolkit.node.endings import read_ending
from toolkit.runs.folder import ENDING, RunFolder

ENDED = Ending(JobState.FINISHED, "finished", exit_code=0)


class Desk:
    """A delivery whose queue answers, or fails, as told; the clock is ours."""

    def __init__(self) -> None:
        self.machine = HandMachine()
        self.trouble: Exception | None = None
        self.answer: JobState | None = JobState.FINISHED
        self.is_known = True
        self.told: list[tuple[str, float]] = []
        member = SimpleNamespace(settings=SimpleNamespace(lease_s=10.0), ask=self._ask, machine=self.machine)
        self.delivery = Delivery(member)  # type: ignore[arg-type]

    def _ask(self, work: Callable[[Any], Any]) -> Deferred[Any]:
        if self.trouble is not None:
            return fail(self.trouble)
        return succeed(work(SimpleNamespace(queue=self)))

    def finish(self, job_id: JobId, token: Token, ending: Ending, *, lease_s: float) -> JobState | None:
        assert (token, lease_s) == (CLAIM.token, CLAIM.lease_s)
        if not self.is_known:
            raise NotFoundError("the shared queue knows no job job-1")
        self.told.append((f"{job_id} {ending.state}", ending.ago_s))
        return self.answer

    def readmit(self, job: Job, token: Token, *, lease_s: float) -> None:
        assert (token, lease_s) == (CLAIM.token, CLAIM.lease_s)
        self.told.append((f"{job.id} is brought back", 0.0))
        self.is_known = True

    def give_back(self, job_id: JobId, token: Token, *, reason: str, lease_s: float) -> bool:
        assert (token, lease_s) == (CLAIM.token, CLAIM.lease_s)
        self.told.append((f"{job_id} back: {reason}", 0.0))
        return True


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    path = tmp_path / "job-1~1"
    path.mkdir()
    return RunFolder(path)


def test_an_outcome_is_told_and_kept_for_some_leases(folder: RunFolder) -> None:
    desk = Desk()
    desk.delivery.send(Parcel(CLAIM, ended_at=990.0, ending=ENDED, folder=folder))

    assert desk.told == [("job-1 finished", 10.0)]
    assert desk.delivery.held() == []
    assert desk.delivery.taken() == [(CLAIM.job_id, CLAIM.token)]
    # A later Scrapyd would tell it again to a Redis that has forgotten it.
    assert read_ending(folder.read(ENDING)) == (ENDED, 990.0)

    desk.machine.clock.advance(41.0)
    assert desk.delivery.taken() == []
    assert not folder.path.exists()


def test_a_job_that_redis_has_forgotten_is_brought_back_with_its_outcome() -> None:
    desk = Desk()
    desk.is_known = False
    job = Job(CLAIM.job_id, CLAIM.project, CLAIM.spider, JobState.STARTING)
    desk.delivery.send(Parcel(replace(CLAIM, job=job), ended_at=990.0, ending=ENDED))
    assert desk.told == [("job-1 is brought back", 0.0), ("job-1 finished", 10.0)]


def test_a_cancel_is_told_with_what_is_held() -> None:
    desk = Desk()
    desk.trouble = StoreUnreachableError("away")
    desk.delivery.send(Parcel(CLAIM, ended_at=990.0, ending=replace(ENDED, is_cancelled=True)))
    assert desk.delivery.held() == [Held(CLAIM.job_id, CLAIM.token, cancel_grace_s=0.0)]


@pytest.mark.parametrize("trouble", [StoreUnreachableError("away"), ValueError("a bug")])
def test_what_is_not_heard_is_kept_with_its_lease_and_told_again(folder: RunFolder, trouble: Exception) -> None:
    desk = Desk()
    desk.trouble = trouble
    desk.delivery.send(Parcel(CLAIM, ended_at=990.0, ending=ENDED, folder=folder))
    assert desk.delivery.held() == [Held(CLAIM.job_id, CLAIM.token)]
    assert read_ending(folder.read(ENDING)) == (ENDED, 990.0)

    desk.trouble = None
    desk.machine.clock.advance(50)
    desk.delivery.retry()

    assert desk.told == [("job-1 finished", 60.0)]
    assert desk.delivery.held() == []


def test_the_start_is_told_before_the_end() -> None:
    desk = Desk()
    start: Deferred[None] = Deferred()
    desk.delivery.send(Parcel(CLAIM, ended_at=990.0, ending=ENDED), after=start)
    # As after each heartbeat.
    desk.delivery.retry()
    assert desk.told == []
    assert desk.delivery.held() != []

    start.callback(None)
    assert desk.told == [("job-1 finished", 10.0)]


def test_a_job_that_was_never_begun_goes_back() -> None:
    desk = Desk()
    desk.delivery.send(Parcel(CLAIM, ended_at=990.0))

    assert desk.told == [("job-1 back: its process was never begun", 0.0)]
    assert desk.delivery.taken() == []


def test_an_outcome_that_is_no_longer_ours_to_tell_is_let_go(folder: RunFolder) -> None:
    desk = Desk()
    desk.answer = None
    desk.delivery.send(Parcel(CLAIM, ended_at=990.0, ending=ENDED, folder=folder))

    assert desk.delivery.held() == []
    assert desk.delivery.taken() == []
    assert not folder.path.exists()


def test_what_a_queue_forgot_when_it_came_back_older_is_told_again_with_its_true_time() -> None:
    desk = Desk()
    desk.delivery.send(Parcel(CLAIM, ended_at=990.0, ending=ENDED))
    assert desk.delivery.taken() == [(CLAIM.job_id, CLAIM.token)]

    desk.machine.clock.advance(20)
    desk.delivery.tell_again([CLAIM.token, Token("another")])

    assert desk.told == [("job-1 finished", 10.0), ("job-1 finished", 30.0)]
