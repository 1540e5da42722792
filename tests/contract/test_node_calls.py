"""Questions to nodes through the store: asked, taken once, answered piece by piece, and gone by themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis
from support.queue_desk import QueueDesk
from support.waiting import wait_until

from toolkit.model.calls import Heard, Question
from toolkit.model.errors import NodeRefusedError, NodeTimeoutError
from toolkit.model.names import NodeName
from toolkit.store import redis_calls
from toolkit.store.interfaces_calls import MAX_WAITING_PIECES, NodeCalls

NODE = NodeName("node-1")
SOON_S = 20.0


@pytest.fixture
def calls(desk: QueueDesk) -> NodeCalls:
    assert desk.store.shared is not None
    return desk.store.shared.calls


@contextmanager
def answering(calls: NodeCalls, answer: Callable[[Question], None], *, node: NodeName = NODE) -> Iterator[list[str]]:
    """Take the questions of a node as they come and answer each, in a thread; give what was asked."""
    over, asked = threading.Event(), list[str]()

    def go_on() -> None:
        while not over.is_set():
            for question in calls.questions(node):
                asked.append(question.what)
                answer(question)
            over.wait(0.01)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        thread.join()


def taken(calls: NodeCalls, node: NodeName = NODE) -> Question:
    """Return the next question to a node."""
    found: list[Question] = []

    def is_there() -> bool:
        found.extend(calls.questions(node))
        return bool(found)

    wait_until(is_there, deadline_s=SOON_S, what="a question")
    return found[0]


def ask(
    calls: NodeCalls, *, timeout_s: float = SOON_S, silence_s: float = SOON_S, what: str = "log"
) -> Iterator[bytes]:
    return calls.ask(NODE, what, {"job": "3f2a", "city": "Zürich"}, timeout_s=timeout_s, silence_s=silence_s)


class Asker:
    """Somebody who asks in a thread of his own; `pieces` are what he has heard so far, `error` how it ended badly."""

    def __init__(self, answer: Iterator[bytes]) -> None:
        self.pieces: list[bytes] = []
        self.error: Exception | None = None
        self._answer = answer
        self.thread = threading.Thread(target=self._hear)
        self.thread.start()

    def _hear(self) -> None:
        try:
            self.pieces.extend(self._answer)
        except (NodeRefusedError, NodeTimeoutError) as error:
            self.error = error


def test_an_answer_arrives_piece_by_piece_and_byte_by_byte(calls: NodeCalls) -> None:
    def answer(question: Question) -> None:
        assert question.args == {"job": "3f2a", "city": "Zürich"}
        pieces = [b"\xff\x00 not a text", b"", b"x" * 64_000]
        assert [calls.answer(question, piece) for piece in pieces] == [Heard.TAKEN] * 3
        calls.end(question)

    with answering(calls, answer) as asked:
        assert list(ask(calls)) == [b"\xff\x00 not a text", b"x" * 64_000]
    assert asked == ["log"]


def test_a_refusal_says_why(calls: NodeCalls) -> None:
    with (
        answering(calls, lambda question: calls.end(question, refusal="there is no such job")),
        pytest.raises(NodeRefusedError, match="node-1: log: there is no such job"),
    ):
        list(ask(calls))


def test_a_question_is_given_out_once_and_wakes_its_node_only_with_its_own_word(
    calls: NodeCalls, desk: QueueDesk
) -> None:
    assert desk.store.shared is not None
    wakes = desk.store.shared.queue.wakes(timeout_s=1.0)
    assert next(wakes) == ""
    asker = Asker(ask(calls))
    assert next(word for word in wakes if word) == "?node-1"
    assert calls.questions(NodeName("node-2")) == []
    question = taken(calls)
    assert calls.questions(NODE) == []
    calls.end(question)
    asker.thread.join()
    assert asker.error is None


def test_a_node_that_does_not_answer_is_waited_for_so_long_and_the_question_is_gone(calls: NodeCalls) -> None:
    with pytest.raises(NodeTimeoutError, match=r"no answer within 0.2 s"):
        list(ask(calls, timeout_s=0.2))
    assert calls.questions(NODE) == []


def test_a_node_that_falls_silent_in_the_middle_is_told_of(calls: NodeCalls) -> None:
    with (
        answering(calls, lambda question: _ignore(calls.answer(question, b"half"))),
        pytest.raises(NodeTimeoutError, match=r"paused for 0.2 s"),
    ):
        list(ask(calls, silence_s=0.2))


def test_an_empty_piece_keeps_the_asker_waiting(calls: NodeCalls) -> None:
    asker = Asker(ask(calls, silence_s=2.0))
    question, began = taken(calls), time.monotonic()

    def is_longer_than_the_asker_bears() -> bool:
        assert calls.answer(question, b"") is Heard.TAKEN
        return time.monotonic() - began > 2.5

    wait_until(is_longer_than_the_asker_bears, deadline_s=SOON_S, what="the time to go by", pause_s=0.1)
    calls.end(question)
    asker.thread.join()
    assert (asker.pieces, asker.error) == ([], None)


def test_what_nobody_fetches_is_bounded_and_who_leaves_is_told_to_the_node(calls: NodeCalls) -> None:
    answer = ask(calls, timeout_s=SOON_S)
    first = threading.Thread(target=lambda: next(answer))
    first.start()
    question = taken(calls)
    assert calls.answer(question, b"first") is Heard.TAKEN
    first.join()
    heard = [calls.answer(question, b"more") for _ in range(MAX_WAITING_PIECES + 1)]
    assert heard == [Heard.TAKEN] * MAX_WAITING_PIECES + [Heard.FULL]
    answer.close()  # type: ignore[attr-defined]
    assert calls.answer(question, b"late") is Heard.GONE
    calls.end(question)


def test_the_questions_to_a_node_that_is_away_are_bounded(
    calls: NodeCalls, desk: QueueDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_calls, "MAX_WAITING_QUESTIONS", 2)
    short = Asker(ask(calls, timeout_s=0.2))
    short.thread.join()
    # Its question lies there yet, since nobody took it, and makes room for others: nobody waits for it any more.
    askers = [Asker(ask(calls)), Asker(ask(calls))]
    wait_until(lambda: len(desk.redis.keys("*asker:*")) == 2, deadline_s=SOON_S, what="both to have asked")
    with pytest.raises(NodeRefusedError, match="2 questions wait for it already"):
        list(ask(calls))
    for question in calls.questions(NODE):
        calls.end(question)
    for asker in askers:
        asker.thread.join()


def test_everything_goes_by_itself_when_the_asker_dies(calls: NodeCalls, redis_url: str) -> None:
    asker = Asker(ask(calls))
    question = taken(calls)
    calls.answer(question, b"a piece")
    client = redis.Redis.from_url(redis_url)
    left = [key for key in client.scan_iter() if b"asker:" in key or b"answer:" in key or b"questions:" in key]
    assert left
    assert [key for key in left if client.pttl(key) == -1] == []
    calls.end(question)
    asker.thread.join()
    wait_until(lambda: not client.exists(*left), deadline_s=SOON_S, what="the keys to be gone")


def test_a_piece_that_is_too_large_is_the_caller_s_mistake(calls: NodeCalls) -> None:
    with pytest.raises(ValueError, match="at most 64000"):
        calls.answer(Question("1", NODE, "log"), b"x" * 64_001)


def _ignore(_: object) -> None:
    """Take no notice."""
