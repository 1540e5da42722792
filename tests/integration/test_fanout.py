"""One call to many nodes: threads that are stuck, nodes that hang, Ctrl-C, bugs."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from support.doors import nodes_of
from support.fleet import Fleet
from support.waiting import wait_until

from toolkit.cluster import fanout
from toolkit.cluster.fanout import INTERRUPTED, InterruptedFanOutError, fan_out
from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.model.errors import CrawlctlError, NodeError, NodeTimeoutError, NodeUnreachableError
from toolkit.model.names import NodeName
from toolkit.model.outcomes import Outcome


@dataclass(frozen=True)
class Named:
    name: NodeName


def named(count: int) -> list[Named]:
    return [Named(NodeName(f"node-{i}")) for i in range(count)]


@pytest.fixture
def never() -> threading.Event:
    """Hang a call until the test is over."""
    return threading.Event()


def test_outcomes_come_in_the_order_of_the_nodes_whatever_the_order_of_their_ends() -> None:
    turns = [threading.Event() for _ in range(4)]
    turns[-1].set()

    def call(node: Named) -> str:
        place = int(node.name[-1])
        assert turns[place].wait(30)
        turns[place - 1].set()
        return f"from {node.name}"

    heard: list[Outcome[str]] = []
    outcomes = fan_out(named(4), call, on_done=heard.append)
    assert [outcome.value for outcome in outcomes] == [f"from node-{i}" for i in range(4)]
    assert [outcome.node for outcome in heard] == ["node-3", "node-2", "node-1", "node-0"]


def test_one_nodes_failure_is_its_own() -> None:
    def call(node: Named) -> int:
        if node.name == "node-1":
            raise NodeUnreachableError(node.name, "asking", "nobody there")
        return 1

    outcomes = fan_out(named(3), call)
    assert outcomes.values == {"node-0": 1, "node-2": 1}
    assert [type(outcome.error) for outcome in outcomes.failed] == [NodeUnreachableError]


def test_no_nodes_are_done_at_once() -> None:
    assert len(fan_out([], lambda _: 1)) == 0


def test_no_more_threads_are_at_work_than_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine a thread may wait for the processor for longer than it usually takes to be stuck.
    monkeypatch.setattr(fanout, "STUCK_AFTER_S", 2.0)
    at_work, most, lock = 0, 0, threading.Lock()

    def call(_: Named) -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.001)
        with lock:
            at_work -= 1

    fan_out(named(1000), call)
    assert most <= fanout.FIRST_THREADS * 3


def test_as_many_threads_as_hang_take_their_place(never: threading.Event) -> None:
    hanging = fanout.FIRST_THREADS * 3
    done: list[NodeName] = []

    def call(node: Named) -> None:
        if int(node.name.removeprefix("node-")) < hanging:
            never.wait(30)

    def on_done(outcome: Outcome[None]) -> None:
        done.append(outcome.node)
        if len(done) == 50:
            never.set()

    outcomes = fan_out(named(hanging + 50), call, on_done=on_done)
    assert {int(name.removeprefix("node-")) for name in done[:50]} == set(range(hanging, hanging + 50))
    assert not outcomes.failed


def test_a_steady_trickle_of_answers_hides_no_stuck_threads(
    never: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanout, "FIRST_THREADS", 4)
    at_work: set[int] = set()

    def call(node: Named) -> None:
        number = int(node.name.removeprefix("node-"))
        if number < 3:
            never.wait(30)
        else:
            at_work.add(threading.get_ident())
            time.sleep(0.02)

    def on_done(outcome: Outcome[None]) -> None:
        if outcome.node == "node-99":
            never.set()

    fan_out(named(100), call, on_done=on_done)
    assert len(at_work) >= 3


def test_a_machine_that_allows_few_threads_does_it_with_those(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[threading.Thread] = []
    start = threading.Thread.start

    def start_three(self: threading.Thread) -> None:
        if len(began) == 3:
            raise RuntimeError("can't start new thread")
        began.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", start_three)
    assert len(fan_out(named(40), lambda node: node.name).values) == 40


def test_a_machine_that_allows_no_thread_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        fan_out(named(2), lambda _: 1)


def test_a_call_that_outlives_its_deadline_is_given_up_and_the_others_stand(never: threading.Event) -> None:
    def call(node: Named) -> str:
        if node.name == "node-0":
            never.wait(30)
        return "done"

    began = time.monotonic()
    outcomes = fan_out(named(3), call, deadline_s=lambda node: 0.3 if node.name == "node-0" else 30)
    assert time.monotonic() - began < 20
    never.set()
    (late,) = outcomes.failed
    assert isinstance(late.error, NodeTimeoutError)
    assert late.error.node == "node-0"
    assert late.seconds >= 0.3


def test_the_deadline_counts_from_a_calls_own_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "MAX_THREADS", 1)
    outcomes = fan_out(named(6), lambda _: time.sleep(0.6), deadline_s=lambda _: 3.0)
    assert not outcomes.failed


def test_an_answer_after_the_deadline_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "MAX_THREADS", 2)
    heard: list[Outcome[None]] = []
    is_given_up, has_answered = threading.Event(), threading.Event()

    def call(node: Named) -> None:
        if node.name == "node-0":
            assert is_given_up.wait(30)
            has_answered.set()
        elif node.name == "node-3":
            assert has_answered.wait(30)
            time.sleep(0.3)  # the late answer is heard of first; afterwards is as good

    def on_done(outcome: Outcome[None]) -> None:
        heard.append(outcome)
        if outcome.node == "node-0":
            is_given_up.set()

    outcomes = fan_out(named(4), call, deadline_s=lambda node: 0.2 if node.name == "node-0" else 60, on_done=on_done)
    assert [outcome.ok for outcome in outcomes] == [False, True, True, True]
    assert len(heard) == 4


@pytest.mark.parametrize("bug", [ZeroDivisionError("a bug"), KeyError("x"), SystemExit(3)])
def test_a_bug_reaches_the_caller_as_it_is(bug: BaseException) -> None:
    def call(node: Named) -> None:
        if node.name == "node-1":
            raise bug

    with pytest.raises(type(bug)) as caught:
        fan_out(named(3), call)
    assert caught.value is bug


def interrupt_when(condition: Callable[[], bool]) -> threading.Thread:
    """Press Ctrl-C once the condition holds."""

    def wait_and_press() -> None:
        wait_until(condition, deadline_s=30, what="the moment of Ctrl-C")
        _thread.interrupt_main()

    thread = threading.Thread(target=wait_and_press)
    thread.start()
    return thread


def test_ctrl_c_ends_the_wait_at_once(never: threading.Event) -> None:
    begun = threading.Event()

    def call(_: Named) -> None:
        begun.set()
        never.wait(30)

    pressing = interrupt_when(begun.is_set)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as caught:
        fan_out(named(2), call)
    assert time.monotonic() - began < 20
    assert not isinstance(caught.value, InterruptedFanOutError)
    pressing.join()
    never.set()


def test_ctrl_c_lets_what_was_begun_end_and_begins_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "MAX_THREADS", 2)
    begun: list[NodeName] = []
    is_stopped = threading.Event()

    def call(node: Named) -> str:
        begun.append(node.name)
        assert is_stopped.wait(30)
        return "whole"

    def press() -> None:
        wait_until(lambda: len(begun) == 2, deadline_s=30, what="two calls to be under way")
        _thread.interrupt_main()

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(InterruptedFanOutError) as caught:
        fan_out(named(5), call, finish_begun=True, on_stop=is_stopped.set)
    pressing.join()
    outcomes = caught.value.outcomes
    assert len(outcomes) == 5
    assert outcomes.values == {"node-0": "whole", "node-1": "whole"}
    assert begun == ["node-0", "node-1"]
    for outcome in outcomes.failed:
        assert isinstance(outcome.error, CrawlctlError)
        assert INTERRUPTED in str(outcome.error)
        assert outcome.seconds == 0


def test_a_second_ctrl_c_ends_that_wait_too(never: threading.Event) -> None:
    begun, is_stopped = threading.Event(), threading.Event()

    def call(_: Named) -> None:
        begun.set()
        never.wait(30)

    def press_twice() -> None:
        assert begun.wait(30)
        _thread.interrupt_main()
        assert is_stopped.wait(30), "the first one is dealt with"
        _thread.interrupt_main()

    pressing = threading.Thread(target=press_twice)
    pressing.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        fan_out(named(2), call, finish_begun=True, on_stop=is_stopped.set)
    assert not isinstance(caught.value, InterruptedFanOutError)
    pressing.join()
    never.set()


@pytest.mark.parametrize("place", [0, 3, 29])
def test_ctrl_c_while_a_result_is_being_taken_loses_none(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    take = fanout._FanOut._take
    pressed: list[int] = []

    def take_or_press(self: fanout._FanOut[Named, str], index: int) -> list[Outcome[str]]:
        if index == place and not pressed:
            pressed.append(index)
            raise KeyboardInterrupt
        return take(self, index)

    monkeypatch.setattr(fanout._FanOut, "_take", take_or_press)
    with pytest.raises(InterruptedFanOutError) as caught:
        fan_out(named(30), lambda node: str(node.name), finish_begun=True)
    outcomes = caught.value.outcomes
    assert [outcome.node for outcome in outcomes] == [node.name for node in named(30)]
    assert all(outcome.ok or INTERRUPTED in str(outcome.error) for outcome in outcomes)


def test_ctrl_c_while_a_result_is_being_told_loses_none() -> None:
    def on_done(outcome: Outcome[str]) -> None:
        if outcome.node == "node-3":
            raise KeyboardInterrupt

    with pytest.raises(InterruptedFanOutError) as caught:
        fan_out(named(30), lambda node: str(node.name), on_done=on_done, finish_begun=True)
    assert len(caught.value.outcomes) == 30


def test_a_thousand_nodes_are_asked_and_those_that_hang_cost_one_timeout() -> None:
    with Fleet(nodes=1_000, project="shop") as fleet:
        hanging = {host.name for host in fleet.hosts[::20]}
        for name in hanging:
            fleet.set_faults(name, {"*": "hang"})
        nodes = nodes_of(fleet.hosts, timeout_s=10)
        began = time.monotonic()
        outcomes = nodes.ask(ScrapydNode.load)
        took_s = time.monotonic() - began
        nodes.close()
    assert {outcome.node for outcome in outcomes.failed} == hanging
    assert all(isinstance(outcome.error, NodeError) for outcome in outcomes.failed)
    assert [outcome.node for outcome in outcomes] == [host.name for host in fleet.hosts]
    # Not two, one after the other; and what the others take is less than another one.
    assert 10 <= took_s < 20
