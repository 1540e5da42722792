"""A worker of a tree of pages that recovers as the scheduler does: from lost answers, lapsed leases, an older Redis."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from support.crawl_desk import CrawlDesk, Worker, a_push, acknowledge, fingerprint_of

from toolkit.model.crawls import Answer, Commit, Disposition, Done, Filter, Leased, Push, StartRole, Taken, Verdict

Site = Mapping[str, Sequence[str]]
"""The links of each page, by its path."""


def a_site(pages: int, *, seed: int) -> Site:
    """Return a tree of pages, some linked a second time from elsewhere."""
    draw = random.Random(seed)  # noqa: S311 - only has to be varied
    links: dict[str, list[str]] = {"p0": []}
    for number in range(1, pages):
        links[f"p{draw.randrange(max(0, number - 30), number)}"].append(f"p{number}")
        links[f"p{number}"] = []
    for _ in range(pages // 5):
        links[f"p{draw.randrange(pages)}"].append(f"p{draw.randrange(pages)}")
    return links


@dataclass(frozen=True)
class Entry:
    """What one commit did, kept so that it can be done again."""

    number: int
    commit: Commit
    leased: tuple[Leased, ...]


class Player:
    """One process of the crawl; whatever happens to it, it does what keeps the crawl whole."""

    def __init__(self, desk: CrawlDesk, name: str, site: Site, draw: random.Random) -> None:
        self.worker: Worker = desk.stranger(name)
        self.site = site
        self.draw = draw
        self.is_over = False
        self.finished: list[tuple[Leased, tuple[Push, ...]]] = []
        self.journal: list[Entry] = []
        self.replay: list[tuple[tuple[Push, ...], tuple[Done, ...]]] = []
        self.has_pushed_root = False
        self.worker.join()

    def step(self, *, is_heard: bool = True, want: int | None = None) -> None:
        """Do some of the pages in hand, and commit; without an answer, ask again."""
        commit = self._draft(self.draw.randrange(6) if want is None else want)
        answer = self.worker.frontier.commit(commit)
        if not is_heard:
            answer = self.worker.frontier.commit(commit)
        if answer.verdict == Verdict.LAPSED:
            self._begin_again()
        elif answer.verdict == Verdict.ROLLED_BACK:
            self._recover(answer.known)
        else:
            self._heard(commit, answer)

    def _draft(self, want: int) -> Commit:
        worker = self.worker
        if self.replay:
            again, ends = self.replay[0]
            return worker.draft(*again, done=ends, has_more=True, is_starting=worker.start == StartRole.YOURS)
        chosen = [leased for leased in worker.in_hand.values() if self.draw.random() < 0.6]
        pushes = tuple(
            a_push(child, filter=Filter.SEEN, priority=self.draw.randrange(3))
            for leased in chosen
            for child in self.site[leased.body.decode()]
        )
        if worker.start == StartRole.YOURS:
            pushes = (a_push("p0", filter=Filter.START), *pushes)
        done = [each for leased in chosen for each in acknowledge(leased, items=[leased.body])]
        return worker.draft(*pushes, done=done, want=want)

    def _heard(self, commit: Commit, answer: Answer) -> None:
        worker = self.worker
        worker.number = commit.number
        for done in commit.done:
            worker.in_hand.pop(done.entry, None)
        self.journal.append(Entry(commit.number, commit, answer.leased))
        worker.in_hand.update((leased.entry, leased) for leased in answer.leased)
        if self.replay:
            self.replay.pop(0)
        self.is_over = answer.is_over
        if answer.verdict == Verdict.DONE:
            worker.start, worker.has_run_start = answer.start, commit.start_is_done
        else:
            self._hand_back_unknown()

    def _hand_back_unknown(self) -> None:
        held = self.worker.frontier.held(self.worker.name, self.worker.token)
        unknown = [Done(entry, Disposition.BACK) for entry in held if entry not in self.worker.in_hand]
        if unknown:
            self.replay.append(((), tuple(unknown)))

    def _begin_again(self) -> None:
        self.replay = []
        self.worker.join(is_new_life=False)

    def _recover(self, known: int) -> None:
        worker = self.worker
        since = [entry for entry in self.journal if entry.number > known]
        taken = {leased.entry: leased for entry in since for leased in entry.leased} | worker.in_hand
        worker.token = worker.frontier.rejoin(
            worker.name,
            worker.token,
            number=worker.number,
            ttl_s=worker.ttl_s,
            taken=[Taken(leased, fingerprint_of(leased.body)) for leased in taken.values()],
        )
        for done in (done for entry in since for done in entry.commit.done):
            taken.pop(done.entry, None)
        worker.in_hand = taken
        again = [(entry.commit.pushes, entry.commit.done) for entry in since]
        self.replay = [*again, *self.replay]
        mine = {done.entry for entry in since for done in entry.commit.done} | taken.keys()
        held = worker.frontier.held(worker.name, worker.token)
        unknown = tuple(Done(entry, Disposition.BACK) for entry in held if entry not in mine)
        if unknown:
            self.replay.append(((), unknown))


def players(desk: CrawlDesk, site: Site, draw: random.Random) -> Iterator[Player]:
    """Return players of one crawl, as many as are asked for; each has a name of its own."""
    number = 0
    while True:
        number += 1
        yield Player(desk, f"w{number}", site, draw)
