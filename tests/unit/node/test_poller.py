"""The poller on a queue that fails, lies and delays: it goes on, loses no slot, and keeps no job that nobody runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapyd.config import Config
from support.hand_machine import HandMachine
from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import capturedLogs

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, Token, VersionName
from toolkit.model.nodes import NodeReport
from toolkit.model.queue import Claimed, Line, NothingToClaim
from toolkit.node.membership import membership
from toolkit.node.poller import ClaimingPoller, fitting_lines

SHOP, V1, V2 = ProjectName("shop"), VersionName("v1"), VersionName("v2")


def claimed(number: int) -> Claimed:
    job = Job(JobId(f"job-{number}"), SHOP, SpiderName("books"), JobState.STARTING)
    return Claimed(job, Token(f"{number}:node-1:life"))


class ScriptedQueue:
    """Answers claims as it was told; an exception is raised."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.claims = 0
        self.reconciled: list[list[Token]] = []
        self.given_back: list[JobId] = []

    def lines(self) -> Sequence[Line]:
        return ()

    def reconcile(self, _: NodeReport, tokens: Sequence[Token]) -> dict[JobId, JobState]:
        self.reconciled.append(list(tokens))
        return {}

    def claim(
        self, _: NodeReport, __: Sequence[str], *, running: int, has_process: Collection[JobId], returned_ms: int
    ) -> object:
        assert (has_process, returned_ms) == ((), 0)
        assert running >= 0
        self.claims += 1
        answer = self.answers.pop(0) if self.answers else NothingToClaim()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def give_back(self, job_id: JobId, _: Token, *, reason: str) -> bool:
        assert reason
        self.given_back.append(job_id)
        return True


class Bench:
    """A poller whose queue is a script, whose threads answer at once or when told, and whose clock stands still."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *answers: object) -> None:
        monkeypatch.chdir(folder)  # Scrapyd reads a scrapyd.conf that lies where it is started.
        config = Config()
        config.cp.add_section("crawlctl")
        config.cp.set("crawlctl", "redis", "redis://nowhere:1/0")
        for name, value in {"dbs_dir": folder / "dbs", "eggs_dir": folder / "eggs", "logs_dir": folder}.items():
            config.cp.set("scrapyd", name, str(value))
        for name in ("min_disk_mb", "min_memory_mb"):
            config.cp.set("crawlctl", name, "0")
        self.queue = ScriptedQueue(*answers)
        self.machine = HandMachine()
        self.waiting: list[Deferred[None]] = []
        self.is_slow = False
        self.member = membership(config)
        self.member.unready = None
        monkeypatch.setattr(self.member, "ask", self._ask)
        self.member.machine = self.machine
        self.poller = ClaimingPoller(config)
        self.taken: list[str] = []

    def offer(self) -> Deferred[Any]:
        return self.poller.next().addCallback(lambda given: self.taken.append(given.job.id))

    def _ask(self, work: Callable[[Any], Any]) -> Deferred[Any]:
        gate: Deferred[None] = succeed(None)
        if self.is_slow:
            gate = Deferred()
            self.waiting.append(gate)
        return gate.addCallback(lambda _: work(SimpleNamespace(queue=self.queue)))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    return lambda *answers: Bench(tmp_path, monkeypatch, *answers)


def test_each_free_slot_gets_a_job(bench: Callable[..., Bench]) -> None:
    it = bench(claimed(1), claimed(2), claimed(3))
    it.offer()
    it.offer()

    assert it.taken == ["job-1", "job-2"]


def test_nothing_is_claimed_without_a_free_slot(bench: Callable[..., Bench]) -> None:
    it = bench(claimed(1))
    it.poller.look()

    assert it.queue.claims == 0


def test_nothing_is_claimed_while_the_node_is_not_ready(bench: Callable[..., Bench]) -> None:
    it = bench(claimed(1))
    it.member.unready = "waits for Redis"
    it.offer()
    assert it.queue.claims == 0

    it.member.unready = None
    it.poller.look()
    assert it.taken == ["job-1"]


def test_a_wake_gives_the_waiting_slot_its_job(bench: Callable[..., Bench]) -> None:
    it = bench(NothingToClaim())
    it.offer()
    assert it.taken == []

    it.queue.answers.append(claimed(1))
    it.poller.look()
    assert it.taken == ["job-1"]


def test_a_node_that_redis_may_have_forgotten_gives_a_sign_of_life_before_it_takes_a_job(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    it = bench(NothingToClaim(must_beat=True), claimed(1))
    beats: list[str] = []
    monkeypatch.setattr(it.member, "beat", lambda: beats.append("beat"))
    it.offer()
    assert (beats, it.taken) == (["beat"], [])

    # As after every heartbeat that was answered.
    it.poller.poll()
    assert it.taken == ["job-1"]


def test_it_looks_again_when_the_queue_says_so(bench: Callable[..., Bench]) -> None:
    it = bench(NothingToClaim(again_s=0.25), claimed(1))
    it.offer()
    assert it.machine.waits() == [0.25]

    it.machine.clock.advance(0.25)
    assert it.taken == ["job-1"]


def test_what_keeps_all_nodes_from_jobs_is_said_once_and_looked_at_again(bench: Callable[..., Bench]) -> None:
    unkept = NothingToClaim(again_s=1.0, why="no replica has it")
    it = bench(unkept, unkept, claimed(1))
    with capturedLogs() as logged:
        it.offer()
        for _ in range(2):
            assert it.taken == []
            assert it.machine.waits() == [1.0]
            it.machine.clock.advance(1.0)

    assert it.taken == ["job-1"]
    assert [event["why"] for event in logged if "why" in event] == ["no replica has it"]


def test_a_wake_during_a_claim_is_not_lost(bench: Callable[..., Bench]) -> None:
    it = bench(NothingToClaim(), claimed(1))
    it.is_slow = True
    it.offer()
    it.poller.look()
    it.waiting.pop(0).callback(None)
    it.waiting.pop(0).callback(None)

    assert it.taken == ["job-1"]


@pytest.mark.parametrize("error", [StoreUnreachableError("away"), ValueError("a bug"), KeyError("x")])
def test_no_failure_ends_it_and_what_may_have_been_claimed_is_settled(
    bench: Callable[..., Bench], error: Exception
) -> None:
    it = bench(NothingToClaim(), error, claimed(1))
    it.offer()
    assert it.queue.reconciled == [[]]
    it.member.tokens = lambda: [Token("9:node-1:life")]
    it.poller.look()
    assert it.taken == []

    it.poller.poll()

    assert it.taken == ["job-1"]
    assert it.queue.reconciled == [[], [Token("9:node-1:life")]]


def test_a_job_that_comes_after_the_stop_goes_back(bench: Callable[..., Bench]) -> None:
    it = bench(claimed(1))
    it.is_slow = True
    it.offer()
    it.member.unready = "is stopping"
    settled = it.poller.settle()
    it.waiting.pop(0).callback(None)
    assert not settled.called
    it.waiting.pop(0).callback(None)

    assert it.taken == []
    assert it.queue.given_back == ["job-1"]
    assert settled.called


def test_a_job_that_comes_after_its_slot_was_withdrawn_goes_back(bench: Callable[..., Bench]) -> None:
    it = bench(claimed(1))
    it.is_slow = True
    slot = it.offer()
    slot.addErrback(lambda _: None)
    slot.cancel()
    it.waiting.pop(0).callback(None)
    it.waiting.pop(0).callback(None)

    assert it.queue.given_back == ["job-1"]


def test_it_rests_when_the_node_could_not_start_what_it_took(bench: Callable[..., Bench]) -> None:
    it = bench(claimed(1))
    it.poller.rest(10)
    it.offer()
    assert it.queue.claims == 0
    assert it.machine.waits() == [10]

    it.machine.clock.advance(10)
    assert it.taken == ["job-1"]


def test_it_rests_also_with_the_slot_that_it_has_just_got_back(bench: Callable[..., Bench]) -> None:
    it = bench(*(claimed(number) for number in range(50)))

    def could_not_begin(_: object) -> None:
        it.poller.rest(10.0)
        it.poller.next().addCallback(could_not_begin)

    it.poller.next().addCallback(could_not_begin)
    assert it.queue.claims == 1
    it.machine.clock.advance(10.0)
    assert it.queue.claims == 2


def test_it_looks_again_after_its_rest_also_when_it_was_to_look_sooner(bench: Callable[..., Bench]) -> None:
    it = bench(NothingToClaim(again_s=0.25), claimed(1))
    it.is_slow = True
    it.offer()
    it.poller.rest(10.0)
    it.is_slow = False
    it.waiting.pop(0).callback(None)
    it.machine.clock.advance(0.25)
    assert it.taken == []
    it.machine.clock.advance(9.75)
    assert it.taken == ["job-1"]


def test_what_comes_into_doubt_during_a_claim_is_settled_after_it(bench: Callable[..., Bench]) -> None:
    it = bench()
    it.offer()
    assert it.queue.reconciled == [[]]
    it.is_slow = True
    it.poller.look()
    it.poller.doubt()
    it.is_slow = False
    it.waiting.pop(0).callback(None)
    it.poller.poll()
    assert it.queue.reconciled == [[], []]


@pytest.mark.parametrize("why_none", ["no free slot", "unfit", "stopping", "rests"])
def test_what_is_in_doubt_is_settled_also_by_a_node_that_takes_no_job(
    bench: Callable[..., Bench], why_none: str
) -> None:
    it = bench()
    if why_none == "unfit":
        it.member.redials = "changes its address"
    it.member.is_stopping = why_none == "stopping"
    if why_none == "rests":
        it.poller.rest(10.0)
    if why_none != "no free slot":
        it.offer()
    it.poller.look()
    it.poller.doubt()
    it.poller.poll()
    assert (it.queue.reconciled, it.queue.claims) == ([[], []], 0)


def test_what_fails_to_take_a_job_does_not_end_it(bench: Callable[..., Bench]) -> None:
    it = bench(claimed(1), claimed(2))
    broken = it.poller.next().addCallback(lambda _: fail(ValueError("a bug")))
    broken.addErrback(lambda _: None)
    it.offer()

    assert it.taken == ["job-2"]


def test_a_node_takes_the_lines_of_what_it_holds() -> None:
    node = NodeName("node-1")
    spider = SpiderName("books")
    lines = [
        Line(SHOP, V1, spider),
        Line(SHOP, V2, spider),
        Line(ProjectName("news"), V1, spider),
        Line(SHOP, V1, spider, "here", frozenset({node})),
        Line(SHOP, V1, spider, "there", frozenset({NodeName("node-2")})),
    ]

    assert fitting_lines(lines, node=node, versions={SHOP: (V1,)}) == [lines[0].name, lines[3].name]
