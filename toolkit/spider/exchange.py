"""A worker's exchange with the frontier: one commit at a time, and what each answer to it means.

Runs in Scrapy's thread and never waits: the courier waits. It knows neither Scrapy's engine nor Redis; `Side` is what
it needs of the one, `Frontier` of the other.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from twisted.internet.defer import Deferred

from toolkit.model.crawls import (
    Answer,
    Commit,
    Disposition,
    DomainLimit,
    Done,
    EntryId,
    Joined,
    StartRole,
    Verdict,
)
from toolkit.model.names import WorkerName
from toolkit.spider.calls import Calls
from toolkit.spider.clock import Alarm, Clock
from toolkit.spider.gate import Gate, Room
from toolkit.spider.journal import Journal, Sent
from toolkit.spider.leases import Lease, Leases
from toolkit.spider.outbox import START_END, Batch, Outbox
from toolkit.spider.pace import Gathered, Pace
from toolkit.spider.recovery import agree, taken_again
from toolkit.spider.side import Side

logger = logging.getLogger(__name__)


class Exchange:
    """Sends what the outbox collects, in order, and keeps what is in hand; times are in seconds."""

    def __init__(
        self, side: Side, calls: Calls, clock: Clock, *, worker: WorkerName, ttl_s: float, journal_s: float, room: int
    ) -> None:
        self.leases = Leases()
        self.outbox = Outbox(max_size=room)
        self.room = Room(self.outbox, self.leases, size=room)
        self.pace = Pace(ttl_s=ttl_s, now=clock.now())
        self.role = StartRole.WAIT
        self.token: int | None = None
        self.pending = 0
        self.handed = 0
        """How many entries went to the engine since the last answer."""
        self.has_run_start = False
        """This worker has run `start()` to its end, and all that it brought is sent."""
        self.is_over = False
        """The last answer said so, a replica has all that led to it, and nothing was collected since."""
        self.idle_s = 0.0
        self._side, self._calls, self._clock = side, calls, clock
        self._worker, self._ttl_s = worker, ttl_s
        self._journal = Journal(span_s=journal_s)
        self._gathered = Gathered()
        self._limits: list[DomainLimit] = []
        self._sent_limits: tuple[DomainLimit, ...] = ()
        self._alarm = Alarm(clock, self.look)
        self._number = self._controls_seen = 0
        self._start_ended: int | None = None
        """The commit that brought the end of `start()`."""
        self._batch = Batch()
        self._leaving: Deferred[None] | None = None
        self._is_finished = self._is_gone = False
        self._role_gate = Gate()

    def join(self, *, flush: bool) -> Deferred[Joined]:
        """Take part in the crawl; fires when Redis has answered, however long that takes, or fails for good.

        A worker that was told to stop while it had to wait has not joined, and gets the answer that told it to wait.
        """
        joined: Deferred[Joined] = Deferred()

        def ask() -> None:
            self._calls.make(
                lambda: lambda frontier: frontier.join(self._worker, ttl_s=self._ttl_s, flush=flush),
                begin,
                joined.errback,
                is_wanted=self._side.is_wanted,
            )

        def begin(answer: Joined, _: float) -> None:
            if answer.again_s is not None and self._side.is_wanted():
                logger.info(
                    "Waiting up to %.0f s for workers of this crawl that may still be alive before it is begun anew",
                    answer.again_s,
                )
                self._clock.later(answer.again_s, ask_again, answer)
                return
            if answer.again_s is None and not answer.is_over:
                self._begin(answer)
            joined.callback(answer)

        def ask_again(answer: Joined) -> None:
            if self._side.is_wanted():
                ask()
            else:
                joined.callback(answer)

        ask()
        return joined

    def added(self) -> None:
        """Hear that the outbox got something more."""
        self.is_over = False
        gathered, outbox = self._gathered, self.outbox
        if not gathered.since:
            gathered.since = self._clock.now()
        elif outbox.pushes != 1:
            gathered.pushes, gathered.endings, gathered.items = outbox.pushes, outbox.endings, outbox.items
            if not self.pace.is_enough(gathered):
                return
        self.look()

    def may_have_lapsed(self) -> bool:
        """Tell whether the lease may be over, so that what is ready may be with others; asks Redis if so."""
        if self._calls.silent_s() < self._ttl_s:
            return False
        self.look()
        return True

    def learn(self, limit: DomainLimit) -> None:
        """Bring a domain's budget with the next commit."""
        self._limits.append(limit)

    def look(self) -> None:
        """Send a commit if it is time for one, else set the time for it."""
        if self._calls.is_busy or self.token is None or self._is_gone:
            return
        try:
            self._go_on()
        except Exception as mistake:  # noqa: BLE001 - else the worker would live on mute, and keep its lease
            self._failed(mistake)

    def _go_on(self) -> None:
        if self._leaving is not None:
            self._go_on_leaving()
            return
        is_taking = self._side.is_taking()
        if not is_taking:
            self._hand_back(self.leases.take_ready())
        now = self._clock.now()
        due = self.pace.due_at(self._gather(), now=now, is_taking=is_taking)
        if due <= now:
            self._send(want=self.pace.want(self._gathered) if is_taking else 0)
        else:
            self._alarm.set(due)

    def wait_for_role(self) -> Deferred[None]:
        """Fire when it is known who runs `start()`."""
        return self._role_gate.wait(is_open=self.role is not StartRole.WAIT or self._is_gone)

    def leave(self, *, is_finished: bool) -> Deferred[None]:
        """Hand back what is ready, send all that was collected, and go; fires after a lease's time at the latest."""
        self._leaving = Deferred()
        leaving = self._leaving
        self._is_finished = is_finished
        if self._is_gone:
            leaving.callback(None)
            return leaving
        if self.token is None and not self._calls.is_busy:
            self._go()
            return leaving
        self._hand_back(self.leases.take_all())
        if self._calls.away_s():
            logger.warning("Redis is away; %d things that are to be sent wait for %.0f s", self._unsent, self._ttl_s)
        self._clock.later(self._ttl_s, self._give_up)
        self.look()
        return leaving

    # Commits and their answers.

    def _gather(self) -> Gathered:
        gathered, outbox, leases = self._gathered, self.outbox, self.leases
        gathered.ready, gathered.working = len(leases.ready), leases.working
        gathered.free = self._side.free()
        gathered.pushes, gathered.endings, gathered.items = outbox.pushes, outbox.endings, outbox.items
        return gathered

    def _send(self, *, want: int) -> None:
        self._alarm.cancel()
        batch = self._batch = self.outbox.take()
        self._gathered.since = self._clock.now() if batch.has_more else 0.0
        self._number += 1
        if batch.has_start_end:
            self.has_run_start, self._start_ended = True, self._number
        self._sent_limits, self._limits = tuple(self._limits), []
        commit = Commit(
            worker=self._worker,
            token=self.token or 0,
            number=self._number,
            ttl_s=self._ttl_s,
            want=want,
            pushes=batch.pushes,
            done=batch.done,
            ahead=batch.ahead,
            loose_items=batch.loose_items,
            limits=self._sent_limits,
            controls_seen=self._controls_seen,
            has_more=batch.has_more,
            start_is_done=self.has_run_start,
        )
        self._calls.make(lambda: lambda frontier: frontier.commit(commit), self._answered, self._failed)

    def _answered(self, answer: Answer, took_s: float) -> None:
        self._side.count("frontier/commits")
        if answer.verdict is Verdict.DONE:
            self._done(answer, took_s)
        elif answer.verdict is Verdict.REPEATED:
            self._settle(())
            self._compare()
        elif answer.verdict is Verdict.LAPSED:
            self._lapsed(answer.known)
        else:
            self._rolled_back(answer.known)

    def _done(self, answer: Answer, took_s: float) -> None:
        batch = self._batch
        self.pace.answered(answer, now=self._clock.now(), took_s=took_s, handed=self.handed, pushed=len(batch.pushes))
        self.handed = 0
        self.pending, self.idle_s = answer.pending, answer.idle_s
        self._settle(answer.duplicates)
        if answer.refused:
            self._side.count("frontier/refused", answer.refused)
        self._take_role(answer.start)
        if answer.controls is not None:
            self._controls_seen = answer.controls.version
            self._side.obey(answer.controls)
        leases = [Lease(leased) for leased in answer.leased]
        if self._leaving is not None:
            self._hand_back(leases)
        elif leases:
            self._side.receive(leases)
        is_over = answer.is_over and not self.outbox and not self.leases
        if is_over and not self.is_over and self._leaving is None:
            # Once this worker has gone, nobody may be left who could bring what a promoted replica lacks.
            token = self.token or 0
            self._calls.make(
                lambda: lambda frontier: frontier.is_kept(self._worker, token, ttl_s=self._ttl_s),
                lambda is_kept, _: self._ended(is_kept=is_kept),
                self._failed,
            )
            return
        self._ended(is_kept=is_over)

    def _ended(self, *, is_kept: bool) -> None:
        self.is_over = is_kept and not self.outbox and not self.leases
        self._side.heed()
        self.look()

    def _settle(self, duplicates: Sequence[int]) -> None:
        """Note that Redis has what the last batch brought."""
        batch, self._batch = self._batch, Batch()
        self._side.confirm(batch, duplicates)
        self._journal.add(Sent(self._number, self._clock.now(), batch.collected))
        self.room.look()

    @property
    def _unsent(self) -> int:
        return len(self.outbox) + len(self._batch.collected)

    def _hold(self, token: int | None) -> None:
        self.token = token
        self._calls.keep(token)

    def _take_role(self, role: StartRole) -> None:
        self.role = role
        if role is not StartRole.WAIT:
            self._role_gate.open()

    def _hand_back(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            lease.end()
            self.outbox.end(lease, Done(lease.entry, Disposition.BACK))
        if leases:
            self.is_over = False
            self._gathered.since = self._gathered.since or self._clock.now()

    # What can go wrong with Redis.

    def _begin(self, joined: Joined) -> None:
        self._hold(joined.token)
        self._number = 0
        if self._start_ended is not None:
            self._start_ended = 0
        self.pending = joined.pending
        self._journal.begin_anew()
        self._controls_seen = joined.controls.version
        self._side.obey(joined.controls)
        self._take_role(joined.start)
        self.look()

    def _lapsed(self, known: int) -> None:
        """Give up all that was in hand: others have it by now. What no page brought is kept.

        A Redis that has come back older may have forgotten some of that: it is sent again.
        """
        self._hold(None)
        if known >= self._number:
            # It was carried out while the lease still held, and the answer to it was lost.
            self._settle(())
        else:
            self._take_batch_back()
        self._bring_back(known)
        given_up = self.leases.void_all()
        dropped = self.outbox.void_pages()
        self._side.count("frontier/lapsed")
        self._side.forget()
        logger.warning(
            "This worker was silent for longer than its lease of %.0f s: %d requests that it held are with others, and "
            "what it had not sent of them (%d things) is dropped, as they do them again",
            self._ttl_s,
            given_up,
            dropped,
        )
        self._calls.make(
            lambda: lambda frontier: frontier.join(self._worker, ttl_s=self._ttl_s, is_new_life=False),
            lambda joined, _: self._come_too_late() if joined.is_over else self._begin(joined),
            self._failed,
        )

    def _come_too_late(self) -> None:
        """Send nothing more: siblings have ended the crawl, and what there is under its name is another run."""
        logger.warning("The crawl ended while this worker was silent; there is nothing more to do")
        self._side.end()
        self._go()

    def _rolled_back(self, known: int) -> None:
        """Bring Redis, which came back older, what it does not know any more."""
        self._side.count("frontier/rolled_back")
        self._side.forget()
        self._take_batch_back()
        is_all_sent_again = self._bring_back(known) and known < 0
        taken = taken_again(self.leases, self.outbox, self._side.fingerprint, is_all_sent_again=is_all_sent_again)
        token, number = self.token or 0, self._number
        self._calls.make(
            lambda: (
                lambda frontier: frontier.rejoin(self._worker, token, number=number, ttl_s=self._ttl_s, taken=taken)
            ),
            self._rejoined,
            self._failed,
        )

    def _rejoined(self, token: int, _: float) -> None:
        self._hold(token)
        self._compare()

    def _compare(self) -> None:
        """Bring what Redis and what the worker have in hand to one state."""
        token = self.token or 0
        self._calls.make(
            lambda: lambda frontier: frontier.held(self._worker, token),
            lambda held, _: self._compared(held),
            self._failed,
        )

    def _compared(self, held: Sequence[EntryId]) -> None:
        if dropped := agree(self.leases, self.outbox, held):
            logger.info("%d things of pages that others do again are not sent", dropped)
        self.look()

    def _bring_back(self, known: int) -> bool:
        """Collect again what was sent after a commit; tell whether that is all there was."""
        lost, is_whole = self._journal.after(known), self._journal.reaches(known)
        if lost or not is_whole:
            logger.warning(
                "Redis came back as it was before: it knows this worker's commits up to %d, and %d after that are sent "
                "again%s",
                known,
                len(lost),
                "" if is_whole else "; those before are forgotten (FRONTIER_JOURNAL_S is how long)",
            )
        for sent in reversed(lost):
            self._put_back(sent)
        self._journal.drop_after(known)
        if not is_whole and (self._start_ended is None or known < self._start_ended):
            # Some of what start() has brought is gone for good, unless it is run again.
            self.has_run_start, self._start_ended = False, None
            self.outbox.drop_start_end()
            self._side.start_is_lost()
        return is_whole

    def _put_back(self, sent: Batch | Sent) -> None:
        self.outbox.put_back(sent.collected)
        # Not before what start() brought has arrived may anybody hear that it is done.
        if any(thing.what is START_END for thing in sent.collected):
            self.has_run_start, self._start_ended = False, None

    def _take_batch_back(self) -> None:
        batch, self._batch = self._batch, Batch()
        self._put_back(batch)
        self._limits[:0] = self._sent_limits
        self._gathered.since = self._gathered.since or self._clock.now()

    def _failed(self, error: Exception) -> None:
        self._hold(None)
        self.room.give_up()
        self._side.fail(error)
        if self._leaving is not None:
            self._go()

    # The end.

    def _go_on_leaving(self) -> None:
        if self.outbox:
            self._send(want=0)
            return
        token, is_finished = self.token or 0, self._is_finished
        self._calls.make(
            lambda: lambda frontier: frontier.leave(self._worker, token, is_finished=is_finished),
            lambda *_: self._go(),
            self._failed,
        )

    def _give_up(self) -> None:
        if not self._is_gone:
            logger.error(
                "Redis did not take the last of this worker's crawl in time (%d requests, endings and items): the end "
                "of its lease gives back what it held, and the pages are done again",
                self._unsent,
            )
            self._go()

    def _go(self) -> None:
        if self._is_gone:
            return
        self._is_gone = True
        self.token = None
        self._alarm.cancel()
        self._calls.close()
        self.room.give_up()
        self._role_gate.open()
        if self._leaving is not None:
            self._leaving.callback(None)
