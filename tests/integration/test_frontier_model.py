"""Whatever workers, their deaths and an operator do to a crawl, the frontier is as a plain model of it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.crawl_desk import CrawlDesk, Worker, a_plan, crawl_desk, fingerprint_of
from support.crawl_model import CrawlModel, Known, Place
from support.waiting import wait_until

from toolkit.model.crawls import (
    Answer,
    Commit,
    Disposition,
    DomainLimit,
    Done,
    EntryId,
    Filter,
    Leased,
    Push,
    QueueOrder,
    SeenKind,
    Verdict,
)

DOMAINS = ["a.example", "b.example", "c.example"]
MOST_WORKERS = 4
MOST_EXAMPLES = 50
ENDINGS = [Disposition.ACKNOWLEDGED] * 5 + [*Disposition]
Drawn = tuple[int, Filter, int, str]
"""Which fingerprint, how it is filtered, its priority, its domain."""
PUSHES: st.SearchStrategy[list[Drawn]] = st.lists(
    st.tuples(st.integers(0, 25), st.sampled_from(Filter), st.integers(-1, 2), st.sampled_from(DOMAINS)),
    min_size=1,
    max_size=8,
)
WANT = st.integers(1, 6)
HEARD = st.sampled_from([True, True, False])
WHO = st.integers(0, MOST_WORKERS - 1)


class LifeOfACrawl(RuleBasedStateMachine):
    """A crawl, what its workers believe, and what the model says."""

    desk: ClassVar[CrawlDesk]

    def __init__(self) -> None:
        super().__init__()
        self.model = CrawlModel(QueueOrder.PRIORITY, 5)
        self.workers: dict[str, Worker] = {}
        self.unanswered: dict[str, Commit] = {}
        self.ghosts: list[Worker] = []
        self.lapsed: set[str] = set()
        self.limits: dict[str, int] = {}
        self.was_limited = False
        self.joined = self.made = 0

    @initialize(
        order=st.sampled_from(QueueOrder), seen=st.sampled_from(SeenKind), max_deaths=st.sampled_from([1, 2, 3, 5])
    )
    def begin(self, order: QueueOrder, seen: SeenKind, max_deaths: int) -> None:
        self.desk.redis.flushdb()
        self.desk.plan = a_plan(order=order, seen=seen, max_deliveries=max_deaths)
        self.model = CrawlModel(order, max_deaths)
        self.join()

    # --- workers

    @precondition(lambda self: len(self.workers) < MOST_WORKERS)
    @rule()
    def join(self) -> None:
        self.joined += 1
        self._join(self.desk.stranger(f"w{self.joined}"), is_new_life=True)

    @precondition(lambda self: self.ghosts and len(self.workers) < MOST_WORKERS)
    @rule()
    def join_again(self) -> None:
        self._join(self.ghosts.pop(0), is_new_life=False)

    def _join(self, worker: Worker, *, is_new_life: bool) -> None:
        self._end_lapsed()
        is_first, pending = not self.model.workers, len(self.model.at(Place.WAITING))
        joined = worker.join(is_new_life=is_new_life)
        assert joined.start == self.model.join(worker.name, is_new_life=is_new_life)
        assert (joined.is_first, joined.pending) == (is_first, pending)
        self.workers[worker.name] = worker

    @rule(who=WHO, pushes=PUSHES, has_more=st.booleans(), lingers=st.booleans())
    def push(self, *, who: int, pushes: list[Drawn], has_more: bool, lingers: bool) -> None:
        self._do(self._who(who), pushes=pushes, has_more=has_more, lingers=lingers)

    @rule(who=WHO, want=WANT, is_heard=HEARD)
    def take(self, *, who: int, want: int, is_heard: bool) -> None:
        self._do(self._who(who), want=want, is_heard=is_heard)

    @rule(who=WHO, endings=st.lists(st.sampled_from(ENDINGS), max_size=8), n_items=st.integers(0, 2), is_heard=HEARD)
    def finish(self, *, who: int, endings: list[Disposition], n_items: int, is_heard: bool) -> None:
        self._do(self._who(who), endings=endings, n_items=n_items, is_heard=is_heard)

    @rule(who=WHO, pushes=PUSHES, want=WANT, n_items=st.integers(0, 2), is_heard=HEARD)
    def do_pages(self, *, who: int, pushes: list[Drawn], want: int, n_items: int, is_heard: bool) -> None:
        endings = [Disposition.ACKNOWLEDGED] * 100
        self._do(self._who(who), pushes=pushes, endings=endings, want=want, n_items=n_items, is_heard=is_heard)

    @rule(who=WHO, want=WANT, times=st.integers(1, 6))
    def take_and_die(self, *, who: int, want: int, times: int) -> None:
        for _ in range(times):
            if not self.workers:
                self.join()
            worker = self._who(who)
            self._do(worker, want=want)
            if worker is not None:
                self.desk.kill(worker)
                self._bury(worker.name)

    def _do(
        self,
        worker: Worker | None,
        *,
        pushes: Sequence[Drawn] = (),
        endings: Sequence[Disposition] = (),
        want: int = 0,
        n_items: int = 0,
        has_more: bool = False,
        lingers: bool = False,
        is_heard: bool = True,
    ) -> None:
        if worker is None:
            return
        done = [
            Done(entry, how, items=tuple(b"%s #%d" % (leased.body, each) for each in range(n_items)))
            for (entry, leased), how in zip(worker.in_hand.items(), endings, strict=False)
        ]
        new = [self._push(*push) for push in pushes]
        commit = worker.draft(*new, done=done, want=want, has_more=has_more, is_starting=lingers)
        answer = worker.frontier.commit(commit)
        self._check(worker, commit, answer, [domain for *_, domain in pushes])
        if is_heard:
            self._hear(worker, commit, answer)
        else:
            self.unanswered[worker.name] = commit

    @precondition(lambda self: self.unanswered)
    @rule()
    def send_again(self) -> None:
        name, commit = next(iter(self.unanswered.items()))
        del self.unanswered[name]
        worker = self.workers[name]
        self.lapsed.discard(name)
        answer = worker.send(commit)
        assert (answer.verdict, answer.known) == (Verdict.REPEATED, commit.number)
        held = {entry: self._held(entry, worker) for entry in worker.frontier.held(worker.name, worker.token)}
        expected = [known.body for known in self.model.at(Place.IN_HAND, worker=name)]
        assert sorted(leased.body for leased in held.values()) == sorted(expected)
        unknown = [entry for entry in held if entry not in worker.in_hand]
        worker.in_hand = held
        self._commit(worker, done=[Done(entry, Disposition.BACK) for entry in unknown])

    @rule(who=WHO)
    def die(self, who: int) -> None:
        worker = self._any(who)
        if worker is not None:
            self.desk.kill(worker)
            self._bury(worker.name)

    @rule(who=WHO)
    def lapse(self, who: int) -> None:
        worker = self._any(who)
        if worker is not None:
            self.desk.lapse(worker)
            self.lapsed.add(worker.name)

    @rule(who=WHO)
    def leave(self, who: int) -> None:
        worker = self._any(who)
        if worker is None:
            return
        assert not worker.leave()
        self._forget(worker.name)
        self.model.lose(worker.name, is_death=False)
        self._end_lapsed()

    @precondition(lambda self: self.ghosts)
    @rule(which=st.integers(0, 9), number=st.sampled_from([-1, 0, 1, 2]))
    def come_late(self, which: int, number: int) -> None:
        ghost = self.ghosts[which % len(self.ghosts)]
        ghost.number += number
        late = ghost.draft(
            Push(b"late", 0, fingerprint_of("late"), Filter.SEEN),
            done=[Done(entry, items=(b"late",)) for entry in ghost.in_hand],
            want=3,
            loose_items=[b"late"],
        )
        ghost.number -= number
        assert ghost.frontier.commit(late).verdict == Verdict.LAPSED
        assert not ghost.frontier.renew(ghost.name, ghost.token, ttl_s=100)

    # --- operators

    @rule(number=st.integers(1, 3))
    def seed(self, number: int) -> None:
        for _ in range(number):
            self.made += 1
            body = f"seed {self.made} http://{DOMAINS[self.made % 3]}/".encode()
            self.desk.crawls.seed(self.desk.plan.crawl, [body])
            self.model.seeds.append(body)

    @rule(is_paused=st.booleans())
    def pause(self, *, is_paused: bool) -> None:
        self.desk.crawls.control(self.desk.plan.crawl, is_paused=is_paused)
        self.model.is_paused = is_paused

    @rule()
    def unblock(self) -> None:
        blocked = self.model.at(Place.BLOCKED)
        assert self.desk.crawls.unblock(self.desk.plan.crawl, []) == len(blocked)
        for each in blocked:
            each.place = Place.WAITING

    @rule()
    def requeue(self) -> None:
        dead = self.model.at(Place.DEAD)
        assert self.desk.crawls.requeue(self.desk.plan.crawl) == len(dead)
        for each in dead:
            each.place, each.deaths = Place.WAITING, 0

    @rule(domain=st.sampled_from([*DOMAINS, "*"]), concurrency=st.sampled_from([None, 1, 2, 5]))
    def limit(self, domain: str, concurrency: int | None) -> None:
        self.was_limited = True
        self.desk.crawls.limit(self.desk.plan.crawl, DomainLimit(domain, concurrency=concurrency))
        self.limits.pop(domain, None)
        if concurrency is not None:
            self.limits[domain] = concurrency

    # --- what always holds

    @invariant()
    def is_as_expected(self) -> None:
        if self.workers or self.ghosts:
            self.model.check(self.desk.view())

    def teardown(self) -> None:
        """Let everything be worked off, and see that each entry was done once, or is put away."""
        if not self.joined:
            return
        self.pause(is_paused=False)
        while self.unanswered:
            self.send_again()
        if not self.workers:
            self.join()

        def is_worked_off() -> bool:
            rounds = [
                self._commit(worker, done=[Done(entry) for entry in worker.in_hand], want=4)
                for worker in list(self.workers.values())
                if worker.name in self.workers
            ]
            return all(answer.is_over for answer in rounds)

        # A domain without room is looked at again after a second at most.
        wait_until(is_worked_off, deadline_s=20, what="the end of the crawl", pause_s=0)
        assert self.model.is_over
        places = Counter(each.place for each in self.model.entries.values())
        assert set(places) <= {Place.DONE, Place.DEAD, Place.BLOCKED}
        records = self.desk.item_records()
        assert sorted(body for _, body in records) == sorted(self.model.items)
        assert len({key for key, _ in records}) == len(records)

    # --- how it is done

    def _push(self, which: int, filter_: Filter, priority: int, domain: str) -> Push:
        self.made += 1
        fingerprint = b"" if filter_ == Filter.NONE else fingerprint_of(which)
        return Push(f"page {self.made} http://{domain}/".encode(), priority, fingerprint, filter_)

    def _any(self, who: int) -> Worker | None:
        return list(self.workers.values())[who % len(self.workers)] if self.workers else None

    def _who(self, who: int) -> Worker | None:
        worker = self._any(who)
        return None if worker is None or worker.name in self.unanswered else worker

    def _commit(self, worker: Worker, *, done: list[Done], want: int = 0) -> Answer:
        commit = worker.draft(done=done, want=want)
        answer = worker.frontier.commit(commit)
        self._check(worker, commit, answer, [])
        self._hear(worker, commit, answer)
        return answer

    def _hear(self, worker: Worker, commit: Commit, answer: Answer) -> None:
        number = worker.number
        worker.number = commit.number
        assert worker.number == number + 1
        for done in commit.done:
            worker.in_hand.pop(done.entry)
        worker.in_hand.update((leased.entry, leased) for leased in answer.leased)
        worker.controls = answer.controls or worker.controls
        worker.start, worker.has_run_start = answer.start, commit.start_is_done

    def _check(self, worker: Worker, commit: Commit, answer: Answer, domains: list[str]) -> None:
        """Carry the commit out in the model, and compare the answer."""
        model = self.model
        assert (answer.verdict, answer.known, answer.refused) == (Verdict.DONE, commit.number, 0)
        assert answer.duplicates == model.push(commit.pushes, domains=domains)
        for done in commit.done:
            self._end(model.entries[worker.in_hand[done.entry].body], done)
        self.lapsed.discard(worker.name)
        self._end_lapsed()
        model.workers[worker.name] = commit.has_more
        if commit.start_is_done and model.start in {"", worker.name}:
            model.start = "!"
        model.start = model.start or worker.name
        assert answer.start == model.role_of(worker.name)
        self._check_leased(worker, commit, answer.leased)
        assert answer.workers == len(model.workers)
        assert answer.pending == len(model.at(Place.WAITING))
        assert answer.is_over == model.is_over

    def _end(self, known: Known, done: Done) -> None:
        known.worker = ""
        if done.disposition == Disposition.ACKNOWLEDGED:
            self.model.pages += 1
            self.model.items += done.items
        known.place = {
            Disposition.ACKNOWLEDGED: Place.DONE,
            Disposition.BACK: Place.WAITING,
            Disposition.DEAD: Place.DEAD,
            Disposition.BLOCKED: Place.BLOCKED,
        }[done.disposition]

    def _check_leased(self, worker: Worker, commit: Commit, leased: tuple[Leased, ...]) -> None:
        model = self.model
        in_hand = model.at(Place.IN_HAND, worker=worker.name)
        line, suspects = model.line(), [each for each in model.at(Place.WAITING) if each.is_suspect]
        is_alone = any(each.is_suspect for each in in_hand)
        assert len(leased) <= (0 if model.is_paused or is_alone else min(commit.want, model.share()))
        may_lease = commit.want > 0 and not model.is_paused and not is_alone
        is_bound = self.was_limited and model.at(Place.IN_HAND)
        if may_lease and not suspects and not is_bound and (line or model.seeds):
            assert leased, "nothing came, and something waits that no budget forbids"
        for each in leased:
            if each.is_seed and each.body in model.seeds:
                model.seeds.remove(each.body)
                model.entries[each.body] = Known(each.body, 0, len(model.entries), is_seed=True)
            known = model.entries[each.body]
            assert known.place == Place.WAITING
            assert (known.deaths, known.is_seed) == (each.deaths, each.is_seed)
        taken = [model.entries[each.body] for each in leased]
        if any(each.is_suspect for each in taken):
            assert len(taken) == 1
            assert not in_hand
        elif not self.was_limited:
            assert [each for each in taken if not each.is_seed] == [each for each in line if not each.is_seed][
                : len([each for each in taken if not each.is_seed])
            ]
        for known in taken:
            known.place, known.worker = Place.IN_HAND, worker.name
        self._check_budgets(taken)

    def _check_budgets(self, taken: list[Known]) -> None:
        for domain in {each.domain for each in taken if not each.is_seed and not each.is_suspect}:
            most = self.limits.get(domain, self.limits.get("*"))
            busy = [each for each in self.model.at(Place.IN_HAND) if each.domain == domain and not each.is_suspect]
            assert most is None or len(busy) <= most

    def _held(self, entry: EntryId, worker: Worker) -> Leased:
        """Return an entry in the worker's hands, also one that it never heard of."""
        if entry in worker.in_hand:
            return worker.in_hand[entry]
        held = self.desk.redis.hget(f"{self.desk.plan.keys.requests}:inflight:{worker.name}", entry)
        assert isinstance(held, bytes)
        mine = self.model.at(Place.IN_HAND, worker=worker.name)
        known = next(each for each in mine if held.endswith(each.body))
        return Leased(entry, known.body, is_seed=known.is_seed, deaths=known.deaths)

    def _end_lapsed(self) -> None:
        for name in sorted(self.lapsed):
            self._bury(name)

    def _bury(self, name: str) -> None:
        self.model.lose(name, is_death=True)
        self.ghosts.append(self._forget(name))

    def _forget(self, name: str) -> Worker:
        self.lapsed.discard(name)
        self.unanswered.pop(name, None)
        return self.workers.pop(name)


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[CrawlDesk]:
    with crawl_desk(redis_url, tmp_path / "state") as desk:
        yield desk


def test_any_history_of_a_crawl_is_as_the_model_says(desk: CrawlDesk) -> None:
    class OnThisRedis(LifeOfACrawl):
        pass

    OnThisRedis.desk = desk
    run_state_machine_as_test(
        OnThisRedis,
        settings=settings(
            max_examples=MOST_EXAMPLES,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            # A history that fails is shown as it is: to find a shorter one takes minutes on a real Redis.
            phases=[Phase.generate],
            database=None,
        ),
    )
