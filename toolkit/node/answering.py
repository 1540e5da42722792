"""Answers what is asked of this node through Redis, in two threads of its own: for who cannot reach it.

An idle node pays nothing: it looks when it is woken with its own word, or when a heartbeat's answer counts questions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.threadpool import ThreadPool

from toolkit.model.calls import Heard, Question
from toolkit.model.errors import CrawlctlError, StoreUnreachableError
from toolkit.node.answers import Answer
from toolkit.node.machine import reactor, started_threads
from toolkit.node.membership import Membership, shared_of
from toolkit.store.interfaces_calls import NodeCalls

THREADS = 2
FULL_PAUSE_S = 0.05
AGAIN_S = 1.0
PATIENCE_S = 30.0
"""How long the node tries to get rid of a piece when who asked is slow, and of an end when Redis is away."""

T = TypeVar("T")
_log = Logger()


class Answering:
    """Takes this node's questions one by one and answers each; `answers` holds what it knows, by word."""

    def __init__(self, member: Membership, answers: Mapping[str, Answer]) -> None:
        self._member = member
        self._answers = answers
        self._at_work = 0
        self._is_wanted = False

    def look(self) -> None:
        """Answer what is asked; called on the reactor's thread, at any time."""
        if self._at_work >= THREADS:
            self._is_wanted = True
            return
        self._at_work += 1
        served = self.in_thread(self._serve)
        served.addErrback(_note)
        served.addBoth(lambda _: self._served())

    def in_thread(self, work: Callable[[], object]) -> Deferred[object]:
        """Do what may take its time in one of the threads."""
        return deferToThreadPool(reactor(), self._pool, work)

    def _served(self) -> None:
        self._at_work -= 1
        if self._is_wanted:
            self._is_wanted = False
            self.look()

    def _serve(self) -> None:
        calls = shared_of(self._member.store()).calls
        while questions := calls.questions(self._member.settings.name, most=1):
            for question in questions:
                self._answer(calls, question)

    def _answer(self, calls: NodeCalls, question: Question) -> None:
        answer = self._answers.get(question.what)
        refusal: str | None = None
        try:
            if answer is None:
                refusal = f"it does not know what {question.what[:40]!r} is; crawlctl there is older than here"
            elif not send(calls, question, answer(question)):
                return
        except StoreUnreachableError:
            raise
        except CrawlctlError as error:
            refusal = error.message
        except OSError as error:
            refusal = f"it cannot be read: {error.strerror or error}"
        except Exception:  # noqa: BLE001 - whatever is asked, the node goes on, and who asks hears of it
            _log.failure("The question {what} could not be answered", what=question.what)
            refusal = "it failed; its log says why"
        patiently(lambda: calls.end(question, refusal=refusal))

    @cached_property
    def _pool(self) -> ThreadPool:
        return started_threads("crawlctl-answers", most=THREADS)


def send(calls: NodeCalls, question: Question, pieces: Iterator[bytes]) -> bool:
    """Send an answer piece by piece, no faster than it is taken; tell whether somebody listened to its end."""
    for piece in pieces:
        deadline = time.monotonic() + PATIENCE_S
        # Not again where Redis did not answer: the piece may have arrived, and half of it twice is no file.
        while (heard := calls.answer(question, piece)) is Heard.FULL:
            if time.monotonic() > deadline:
                return False
            time.sleep(FULL_PAUSE_S)
        if heard is Heard.GONE:
            return False
    return True


def patiently(call: Callable[[], T]) -> T:
    """Do it, again and again while Redis is away, for half a minute.

    Raises:
        StoreUnreachableError: it stayed away.

    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except StoreUnreachableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(AGAIN_S)


def _note(failure: Any) -> None:
    """Leave an unreachable Redis to the heartbeat, which says so once."""
    if not failure.check(CrawlctlError):
        _log.failure("Answering failed", failure=failure)
