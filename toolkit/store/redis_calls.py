"""Questions to nodes and their answers in Redis: three keys a question, all of which expire by themselves.

A piece of an answer is one entry of a list, whose first byte tells a piece from the end and from a refusal.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence

from toolkit.model.calls import Heard, Question
from toolkit.model.errors import NodeRefusedError, NodeTimeoutError, StoreUnreachableError, StoreUnreadableError
from toolkit.model.names import NodeName
from toolkit.store.connect import RedisDoor
from toolkit.store.envelope import read, write
from toolkit.store.interfaces_calls import MAX_PIECE_BYTES, MAX_WAITING_PIECES, MAX_WAITING_QUESTIONS
from toolkit.store.keys import Keys
from toolkit.store.ordering import ttl_ms

LOOK_S = 1.0
"""How long one wait for a piece lasts, at most; after each the node hears that somebody still listens."""

ANSWER_KEPT_S = 60.0
"""How long pieces that nobody fetches are kept, after the last of them."""

MAX_REASON = 2_000
_PIECE, _END, _REFUSAL = b"+", b".", b"-"


class RedisCalls:
    """Keeps what `NodeCalls` promises."""

    def __init__(self, door: RedisDoor, keys: Keys) -> None:
        self._door = door
        self._keys = keys

    def ask(
        self, node: NodeName, what: str, args: Mapping[str, str], *, timeout_s: float, silence_s: float
    ) -> Iterator[bytes]:
        """See `NodeCalls.ask`."""
        question = Question(secrets.token_hex(16), node, what, args)
        try:
            self._leave(question, timeout_s=timeout_s, kept_ms=_kept_ms(timeout_s, silence_s))
            yield from self._pieces(question, timeout_s=timeout_s, silence_s=silence_s)
        finally:
            # What cannot be taken away now goes by itself.
            with contextlib.suppress(StoreUnreachableError):
                self._door.ask("DEL", self._keys.asker(question.id), self._keys.answer(question.id))

    def questions(self, node: NodeName, *, most: int = MAX_WAITING_QUESTIONS) -> Sequence[Question]:
        """See `NodeCalls.questions`."""
        taken = self._door.run("take_questions", keys=[self._keys.questions(node)], args=[most])
        questions = []
        for each in taken:
            # A newer crawlctl's question: who asked it hears that there was no answer.
            with contextlib.suppress(StoreUnreadableError):
                questions.append(_read(each, node))
        return questions

    def answer(self, question: Question, piece: bytes) -> Heard:
        """See `NodeCalls.answer`."""
        if len(piece) > MAX_PIECE_BYTES:
            raise ValueError(f"a piece of {len(piece)} bytes; at most {MAX_PIECE_BYTES} fit")
        return self._append(question, _PIECE + piece, most=MAX_WAITING_PIECES)

    def end(self, question: Question, *, refusal: str | None = None) -> None:
        """See `NodeCalls.end`."""
        last = _END if refusal is None else _REFUSAL + refusal[:MAX_REASON].encode()
        self._append(question, last, most=MAX_WAITING_PIECES + 1)

    def _append(self, question: Question, entry: bytes, *, most: int) -> Heard:
        keys = [self._keys.asker(question.id), self._keys.answer(question.id)]
        return Heard(self._door.run("answer", keys=keys, args=[entry, most, ttl_ms(ANSWER_KEPT_S)]))

    def _leave(self, question: Question, *, timeout_s: float, kept_ms: int) -> None:
        body = write({"id": question.id, "what": question.what, "args": dict(question.args)})
        keys = [self._keys.questions(question.node), self._keys.asker(question.id), self._keys.wake]
        limits = (ttl_ms(timeout_s), kept_ms, MAX_WAITING_QUESTIONS)
        if not self._door.run("ask", keys=keys, args=[question.node, body, *limits]):
            why = f"{MAX_WAITING_QUESTIONS} questions wait for it already"
            raise NodeRefusedError(question.node, question.what, why)

    def _pieces(self, question: Question, *, timeout_s: float, silence_s: float) -> Iterator[bytes]:
        has_begun = False
        heard_at = kept_at = time.monotonic()
        while True:
            patience_s = silence_s if has_begun else timeout_s
            left_s = heard_at + patience_s - time.monotonic()
            if left_s <= 0:
                raise _too_late(question, patience_s, has_begun=has_begun)
            entries = self._door.wait_for_bytes(
                self._keys.answer(question.id), most=MAX_WAITING_PIECES, timeout_s=min(left_s, LOOK_S)
            )
            for entry in entries:
                kind, piece = entry[:1], entry[1:]
                if kind == _REFUSAL:
                    raise NodeRefusedError(question.node, question.what, piece.decode("utf-8", "replace"))
                if kind == _END:
                    return
                if piece:
                    yield piece
            now = time.monotonic()
            if entries:
                heard_at, has_begun = now, True
            if now - kept_at >= LOOK_S / 2:
                kept_at = now
                self._door.ask("PEXPIRE", self._keys.asker(question.id), _kept_ms(timeout_s, silence_s))


def _kept_ms(timeout_s: float, silence_s: float) -> int:
    return ttl_ms(max(timeout_s, silence_s) + LOOK_S)


def _too_late(question: Question, waited_s: float, *, has_begun: bool) -> NodeTimeoutError:
    why = f"its answer paused for {waited_s:g} s" if has_begun else f"no answer within {waited_s:g} s"
    return NodeTimeoutError(question.node, question.what, f"{why}, asked through Redis")


def _read(body: str, node: NodeName) -> Question:
    fields = read(body, "question to a node")
    return Question(fields.text("id"), node, fields.text("what"), fields.maybe_mapping("args") or {})
