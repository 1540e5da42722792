"""What a worker does when Redis is away, forgets, repeats itself or has given its entries to others; decided by hand.

Time and the courier are the test's: a call is made when the test says so, and its answer is the test's too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from scrapy import Request
from twisted.internet.defer import Deferred

from toolkit.model.crawls import (
    Answer,
    Commit,
    Controls,
    Disposition,
    Done,
    EntryId,
    Filter,
    Joined,
    Leased,
    Push,
    StartRole,
    Verdict,
)
from toolkit.model.errors import RefusedError, StoreUnreachableError
from toolkit.model.names import WorkerName
from toolkit.spider.calls import Calls
from toolkit.spider.clock import Orders
from toolkit.spider.courier import Outcome
from toolkit.spider.exchange import Exchange
from toolkit.spider.leases import Lease
from toolkit.spider.outbox import Batch

TTL_S, JOURNAL_S = 30.0, 5.0


class HandClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.time = 100.0
        self.timers: list[HandTimer] = []

    def now(self) -> float:
        return self.time

    def later(self, delay_s: float, call: Callable[..., object], *args: object) -> HandTimer:
        self.timers.append(HandTimer(self.time + delay_s, lambda: call(*args)))
        return self.timers[-1]

    def soon(self, call: Callable[..., object], *args: object) -> None:
        call(*args)

    def chance(self) -> float:
        return 0.5

    def start_thread(self, name: str, work: Callable[[], object]) -> None:
        raise NotImplementedError

    def orders(self) -> Orders[Any]:
        raise NotImplementedError

    def move(self, seconds: float) -> None:
        """Let time pass, and what is due happen in its order."""
        end = self.time + seconds
        while due := [each for each in self.timers if not each.is_over and each.at <= end]:
            first = min(due, key=lambda each: each.at)
            first.is_over = True
            self.time = max(self.time, first.at)
            first.call()
        self.time = end


class HandTimer:
    def __init__(self, at: float, call: Callable[[], object]) -> None:
        self.at = at
        self.call = call
        self.is_over = False

    def cancel(self) -> None:
        self.is_over = True


class Wire:
    """A courier whose calls wait for the test, and the frontier at its other end: what was asked, as (name, what)."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Callable[[Any], Any], Callable[[Outcome], object]]] = deque()
        self.asked: list[tuple[str, Any]] = []
        self.token: int | None = None
        self.is_closed = False
        self._answer: Any = None

    def send(self, call: Callable[[Any], Any], then: Callable[[Outcome], object]) -> None:
        self.waiting.append((call, then))

    def silent_s(self) -> float:
        return 0.0

    def keep(self, token: int | None) -> None:
        self.token = token

    def close(self) -> None:
        self.is_closed = True

    def answer(self, answer: Any) -> Any:
        """Answer the call that waits, and return what it asked."""
        call, then = self.waiting.popleft()
        self._answer = answer
        call(self)
        then(Outcome(error=answer) if isinstance(answer, Exception) else Outcome(answer))
        return self.asked[-1][1]

    def commit(self, commit: Commit) -> None:
        self.asked.append(("commit", commit))

    def join(self, *_: Any, **more: Any) -> None:
        self.asked.append(("join", more))

    def is_kept(self, *_: Any, **__: Any) -> None:
        self.asked.append(("is_kept", None))

    def held(self, *_: Any) -> None:
        self.asked.append(("held", None))

    def rejoin(self, *_: Any, **more: Any) -> None:
        self.asked.append(("rejoin", more))

    def leave(self, *_: Any, **more: Any) -> None:
        self.asked.append(("leave", more))


class Crawl:
    """The side of the crawl: takes everything, and remembers what it was told."""

    def __init__(self) -> None:
        self.taking = self.wanted = True
        self.leases: list[Lease] = []
        self.confirmed: list[bytes] = []
        self.duplicates: list[int] = []
        self.counted: list[str] = []
        self.error: Exception | None = None
        self.is_ended = False
        self.forgot = self.lost_starts = 0

    def free(self) -> int:
        return 16

    def is_taking(self) -> bool:
        return self.taking

    def is_wanted(self) -> bool:
        return self.wanted

    def receive(self, leases: Sequence[Lease]) -> None:
        self.leases += leases
        self.ready.extend(leases)

    def obey(self, controls: Controls) -> None:
        pass

    def confirm(self, batch: Batch, duplicates: Sequence[int]) -> None:
        self.confirmed += [push.body for push in batch.pushes]
        self.duplicates += duplicates

    def forget(self) -> None:
        self.forgot += 1

    def start_is_lost(self) -> None:
        self.lost_starts += 1

    def fingerprint(self, lease: Lease) -> bytes:
        return lease.leased.body.rjust(20)

    def heed(self) -> None:
        pass

    def count(self, name: str, number: int = 1) -> None:
        self.counted += [name] * number

    def end(self) -> None:
        self.is_ended = True

    def fail(self, error: Exception) -> None:
        self.error = error

    ready: deque[Lease]


class Desk:
    """A worker that has joined, with everything around it in the test's hand."""

    def __init__(self) -> None:
        self.clock, self.wire, self.crawl = HandClock(), Wire(), Crawl()
        calls = Calls(self.wire, self.clock, self.crawl.count)  # type: ignore[arg-type]  # the test's courier
        self.exchange = Exchange(
            self.crawl, calls, self.clock, worker=WorkerName("w1"), ttl_s=TTL_S, journal_s=JOURNAL_S, room=100
        )
        self.crawl.ready = self.exchange.leases.ready
        self.joined: Deferred[Joined] = self.exchange.join(flush=False)

    def begin(self, *, start: StartRole = StartRole.DONE) -> Desk:
        """Let the worker join, and make its first commit."""
        self.wire.answer(Joined(7, 0, start, Controls()))
        return self

    def push(self, body: bytes, page: Lease | None = None) -> None:
        self.exchange.outbox.push(Push(body, 0, body.rjust(20), Filter.SEEN), page)
        self.exchange.added()

    def commit(self, verdict: Verdict = Verdict.DONE, **answer: Any) -> Commit:
        """Let time pass until a commit waits, answer it, and return it."""
        while not self.wire.waiting:
            self.clock.move(0.01)
        commit = self.wire.answer(Answer(verdict, **answer))
        assert isinstance(commit, Commit)
        return commit

    def lease(self, *names: bytes) -> list[Lease]:
        """Let the next commit lease entries of these bodies; none of them is handed on yet."""
        self.commit(leased=tuple(Leased(entry(name), name) for name in names))
        return self.crawl.leases[-len(names) :]


@pytest.fixture
def desk() -> Desk:
    return Desk().begin()


def entry(name: bytes) -> EntryId:
    return EntryId(name.rjust(8))


def unreachable() -> StoreUnreachableError:
    return StoreUnreachableError("nothing listens there")


def test_a_commit_that_got_no_answer_is_sent_again_as_it_was(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.commit()
    desk.push(b"a")
    desk.clock.move(1)
    first = desk.wire.answer(unreachable())
    desk.push(b"b")
    for _ in range(3):
        desk.clock.move(2)
        assert desk.wire.answer(unreachable()) == first
    desk.clock.move(2)
    assert desk.commit() == first
    assert [push.body for push in desk.commit().pushes] == [b"b"]
    assert desk.crawl.confirmed == [b"a", b"b"]
    assert caplog.text.count("waits for Redis") == 1


def test_numbers_rise_by_one_and_duplicates_are_told(desk: Desk) -> None:
    desk.push(b"a")
    numbers = [desk.commit(duplicates=(0,) if number == 1 else ()).number for number in range(4)]
    assert numbers == [1, 2, 3, 4]
    assert desk.crawl.duplicates == [0]


def test_what_only_redis_has_in_hand_goes_back_when_an_answer_was_lost(desk: Desk) -> None:
    (lease,) = desk.lease(b"known")
    desk.commit(Verdict.REPEATED)
    desk.wire.answer((lease.entry, entry(b"lost")))
    done = desk.commit().done
    assert [(each.entry, each.disposition) for each in done] == [(entry(b"lost"), Disposition.BACK)]


def test_a_lapsed_lease_costs_all_that_pages_brought_and_nothing_else(desk: Desk) -> None:
    first, second = desk.lease(b"one", b"two")
    desk.push(b"of a page", first)
    desk.push(b"of start()")
    desk.commit(Verdict.LAPSED)
    assert first.is_void
    assert second.is_void
    assert desk.wire.token is None
    assert desk.wire.answer(Joined(8, 0, StartRole.DONE, Controls())) == {"ttl_s": TTL_S, "is_new_life": False}
    commit = desk.commit()
    assert (commit.token, commit.number) == (8, 1)
    assert [push.body for push in commit.pushes] == [b"of start()"]
    assert desk.crawl.counted.count("frontier/lapsed") == 1
    assert desk.crawl.forgot == 1


def test_a_redis_that_came_back_older_gets_what_it_forgot_in_the_same_order(desk: Desk) -> None:
    (lease,) = desk.lease(b"one")
    for body in (b"a", b"b", b"c"):
        desk.push(body, lease)
        desk.commit()
    desk.push(b"d", lease)
    known = desk.exchange._number - 2
    desk.commit(Verdict.ROLLED_BACK, known=known)
    rejoined = desk.wire.answer(9)
    assert [taken.leased.entry for taken in rejoined["taken"]] == [lease.entry]
    desk.wire.answer((lease.entry,))
    commit = desk.commit()
    assert (commit.token, commit.number) == (9, rejoined["number"] + 1)
    assert [push.body for push in commit.pushes] == [b"b", b"c", b"d"]
    assert desk.crawl.counted.count("frontier/rolled_back") == 1


def test_what_siblings_have_by_then_is_given_up_after_a_rollback(desk: Desk) -> None:
    mine, theirs = desk.lease(b"mine", b"theirs")
    desk.push(b"of mine", mine)
    desk.push(b"of theirs", theirs)
    desk.commit(Verdict.ROLLED_BACK, known=-1)
    desk.wire.answer(9)
    desk.wire.answer((mine.entry,))
    assert [push.body for push in desk.commit().pushes] == [b"of mine"]
    assert theirs.is_void


def test_what_was_given_up_goes_back_when_a_second_rollback_brings_it_into_hand_again(desk: Desk) -> None:
    mine, theirs = desk.lease(b"mine", b"theirs")
    desk.exchange.leases.begin(Request("http://shop.example/slow"), theirs)
    for leases in ((mine.entry,), (mine.entry, theirs.entry)):
        desk.commit(Verdict.ROLLED_BACK, known=-1)
        desk.wire.answer(9)
        desk.wire.answer(leases)
    done = desk.commit().done
    assert [(each.entry, each.disposition) for each in done] == [(theirs.entry, Disposition.BACK)]


def test_a_worker_that_leaves_hands_back_what_is_ready_and_sends_all_first(desk: Desk) -> None:
    desk.lease(b"one", b"two")
    desk.push(b"last")
    left = desk.exchange.leave(is_finished=False)
    commits = []
    while desk.wire.asked[-1][0] != "leave":
        commits.append(desk.wire.answer(Answer(Verdict.DONE)))
    dispositions = {each.entry: each.disposition for commit in commits[:-1] for each in commit.done}
    assert dispositions == {entry(b"one"): Disposition.BACK, entry(b"two"): Disposition.BACK}
    assert [push.body for commit in commits[:-1] for push in commit.pushes] == [b"last"]
    assert all(commit.want == 0 for commit in commits[1:-1])
    assert left.called
    assert desk.wire.is_closed


def test_what_is_leased_while_a_worker_leaves_goes_back(desk: Desk) -> None:
    left = desk.exchange.leave(is_finished=True)
    desk.commit(leased=(Leased(entry(b"late"), b"late"),))
    assert [each.entry for each in desk.commit().done] == [entry(b"late")]
    assert desk.wire.answer(Answer(Verdict.DONE)) == {"is_finished": True}
    assert left.called


def test_a_worker_that_cannot_reach_redis_at_its_end_gives_up_with_its_lease(desk: Desk) -> None:
    desk.push(b"last")
    left = desk.exchange.leave(is_finished=False)
    while not left.called:
        if desk.wire.waiting:
            desk.wire.answer(unreachable())
        desk.clock.move(1)
        assert desk.clock.time <= 100 + TTL_S + 1
    assert desk.wire.is_closed


def test_a_paused_worker_hands_back_what_is_ready_and_asks_for_nothing(desk: Desk) -> None:
    desk.lease(b"one")
    desk.crawl.taking = False
    commit = desk.commit()
    assert commit.want == 0
    assert [each.disposition for each in commit.done] == [Disposition.BACK]
    desk.crawl.taking = True
    assert desk.commit().want > 0


def test_a_refusal_ends_the_crawl_and_the_worker_leaves_without_a_word(desk: Desk) -> None:
    refusal = RefusedError("the crawl is of another kind")
    desk.wire.answer(refusal)
    assert desk.crawl.error is refusal
    assert desk.exchange.leave(is_finished=False).called


def test_the_crawl_is_over_only_while_nothing_was_collected_since(desk: Desk) -> None:
    desk.commit(is_over=True)
    assert not desk.exchange.is_over
    desk.wire.answer(answer=False)
    assert not desk.exchange.is_over
    desk.commit(is_over=True)
    desk.wire.answer(answer=True)
    assert desk.wire.asked[-1][0] == "is_kept"
    assert desk.exchange.is_over
    desk.commit(is_over=True)
    assert desk.wire.asked[-1][0] == "commit"
    assert desk.exchange.is_over
    desk.push(b"from an idle handler")
    assert not desk.exchange.is_over
    desk.commit(is_over=False)
    desk.commit(is_over=False)
    assert not desk.exchange.is_over


def test_whoever_waits_for_room_goes_on_when_redis_has_taken_some(desk: Desk) -> None:
    desk.commit()
    for number in range(100):
        desk.push(b"%d" % number)
    waiting = desk.exchange.room.wait()
    assert desk.exchange.outbox.is_full or waiting.called
    while not waiting.called:
        desk.commit()
    assert not desk.exchange.outbox.is_full


def test_the_part_of_start_is_known_when_redis_tells_it() -> None:
    desk = Desk().begin(start=StartRole.WAIT)
    waiting = desk.exchange.wait_for_role()
    desk.commit(start=StartRole.WAIT)
    assert not waiting.called
    desk.commit(start=StartRole.YOURS)
    assert waiting.called
    assert not desk.commit(start=StartRole.YOURS).start_is_done
    desk.exchange.outbox.end_start()
    desk.exchange.added()
    assert desk.commit(start=StartRole.YOURS).start_is_done
    assert desk.commit().start_is_done


def test_nobody_waits_for_room_once_the_frontier_has_failed(desk: Desk) -> None:
    desk.commit()
    for number in range(150):
        desk.push(b"%d" % number)
    waiting = desk.exchange.room.wait()
    desk.wire.answer(RefusedError("no"))
    assert waiting.called
    assert not desk.exchange.room.is_used_up


def test_start_is_not_called_done_while_a_part_of_it_is_sent_again() -> None:
    desk = Desk().begin(start=StartRole.YOURS)
    for number in range(600):
        desk.push(b"%d" % number)
    desk.exchange.outbox.end_start()
    desk.exchange.added()
    first = desk.commit(start=StartRole.YOURS)
    while not first.has_more:
        first = desk.commit(start=StartRole.YOURS)
    assert not first.start_is_done
    assert desk.commit(Verdict.ROLLED_BACK, known=first.number - 1).start_is_done
    desk.wire.answer(9)
    desk.wire.answer(())
    again = desk.commit(start=StartRole.YOURS)
    assert (again.has_more, again.start_is_done) == (True, False)
    assert desk.commit(start=StartRole.DONE).start_is_done


def test_what_nothing_would_filter_goes_with_the_end_of_its_page_or_not_at_all(desk: Desk) -> None:
    kept, given_back = desk.lease(b"kept", b"given back")
    desk.exchange.leases.take_ready()
    for lease in (kept, given_back):
        request = Request(f"http://example.com/{lease.leased.body.decode()}".replace(" ", "-"))
        desk.exchange.leases.begin(request, lease)
        lease.pushes.append((Push(b"child of " + lease.leased.body), None))
    ended = desk.exchange.leases.end(Request("http://example.com/other"))
    assert ended is None
    kept.end()
    desk.exchange.outbox.end(kept, Done(kept.entry))
    given_back.void()
    desk.exchange.added()
    commit = desk.commit()
    assert [push.body for push in commit.pushes] == [b"child of kept"]
    assert [done.entry for done in commit.done] == [kept.entry]


def test_a_worker_that_slept_through_the_end_of_its_crawl_sends_nothing_more(desk: Desk) -> None:
    desk.push(b"more of start()")
    desk.commit(Verdict.LAPSED)
    desk.wire.answer(Joined(0, 0, StartRole.DONE, Controls(), is_over=True))
    assert desk.crawl.is_ended
    desk.push(b"still more")
    desk.clock.move(100)
    assert not desk.wire.waiting
    assert not desk.exchange.room.is_used_up


@pytest.mark.parametrize("before", [Verdict.ROLLED_BACK, Verdict.LAPSED])
def test_what_was_sent_before_a_first_rollback_or_lapse_is_sent_again_after_a_deeper_one(before: Verdict) -> None:
    desk = start_of(b"a", b"b")
    go_through(desk, before)
    desk.commit()
    desk.commit(Verdict.ROLLED_BACK, known=-1)
    desk.wire.answer(10)
    desk.wire.answer(())
    again = desk.commit(start=StartRole.YOURS)
    assert [push.body for push in again.pushes] == [b"a", b"b"]
    assert again.start_is_done
    assert desk.crawl.lost_starts == 0


@pytest.mark.parametrize("before", [Verdict.ROLLED_BACK, Verdict.LAPSED])
def test_start_runs_again_where_a_deeper_rollback_goes_behind_all_that_is_remembered(before: Verdict) -> None:
    desk = start_of(b"a", b"b")
    desk.clock.move(2 * JOURNAL_S)
    go_through(desk, before)
    desk.commit()
    desk.commit(Verdict.ROLLED_BACK, known=-1)
    desk.wire.answer(10)
    desk.wire.answer(())
    assert not desk.commit(start=StartRole.YOURS).start_is_done
    assert desk.crawl.lost_starts == 1


def test_a_commit_whose_answer_was_lost_before_a_lapse_is_not_sent_again(desk: Desk) -> None:
    desk.commit()
    desk.exchange.outbox.item(b"loose")
    desk.push(b"a")
    first = desk.commit(Verdict.LAPSED, known=2)
    assert (first.number, first.loose_items) == (2, (b"loose",))
    desk.wire.answer(Joined(8, 0, StartRole.DONE, Controls()))
    again = desk.commit()
    assert (again.pushes, again.loose_items) == ((), ())
    assert desk.crawl.confirmed == [b"a"]
    desk.commit(Verdict.ROLLED_BACK, known=-1)
    desk.wire.answer(9)
    desk.wire.answer(())
    assert desk.commit().loose_items == (b"loose",)


def test_a_worker_that_is_told_to_stop_while_it_waits_to_join_sends_nothing() -> None:
    desk = Desk()
    desk.wire.answer(Joined(0, 0, StartRole.WAIT, Controls(), again_s=5.0))
    desk.clock.move(4)
    assert not desk.joined.called
    desk.crawl.wanted = False
    desk.clock.move(1)
    assert desk.joined.called
    desk.clock.move(100)
    assert not desk.wire.waiting


def test_a_worker_that_may_not_join_yet_and_was_told_to_stop_sends_nothing() -> None:
    desk = Desk()
    desk.crawl.wanted = False
    desk.wire.answer(Joined(0, 0, StartRole.WAIT, Controls(), again_s=5.0))
    assert desk.joined.called
    desk.clock.move(100)
    assert not desk.wire.waiting


def start_of(*bodies: bytes) -> Desk:
    """Return a worker that has run `start()` to its end, with a commit for each of these."""
    desk = Desk().begin(start=StartRole.YOURS)
    for body in bodies:
        desk.push(body)
        desk.commit(start=StartRole.YOURS)
    desk.exchange.outbox.end_start()
    desk.exchange.added()
    desk.commit(start=StartRole.YOURS)
    return desk


def go_through(desk: Desk, verdict: Verdict) -> None:
    """Let a worker lapse, or its Redis come back a little older; it costs nothing that was sent."""
    known = desk.commit().number
    desk.commit(verdict, known=known)
    if verdict is Verdict.LAPSED:
        desk.wire.answer(Joined(8, 0, StartRole.DONE, Controls()))
    else:
        desk.wire.answer(9)
        desk.wire.answer(())
