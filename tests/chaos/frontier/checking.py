"""Compares what the site saw, the workers' journal and what lies in Redis with the site itself; touches nothing.

A page is lost when it was never fetched, or fetched and never processed, or when its item is not in Redis.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from chaos.frontier.graph import Graph
from chaos.frontier.journal import Ending
from chaos.frontier.plan import FaultKind
from chaos.frontier.site import Fetch

FINISHED = "finished"
TOLD = 5
"""So many pages of each kind of loss are named."""
IN_HAND_S = 15.0
"""No page is in a worker's hands longer than that, Redis being away for the longest included."""
UNAWARE_S = 1.5
"""So long after a fault a worker may still work on what others have by now, since nobody has told it."""
_CLOCK_SLACK_S = 0.5
_HARMLESS = frozenset({FaultKind.SHORT_FREEZE})


@dataclass(frozen=True, slots=True)
class Hit:
    """A fault as it happened, from when to when, and to which workers; to all of them when none is named.

    `rolled_back_to` is the time as of which Redis came back.
    """

    kind: FaultKind
    begin: float
    end: float
    workers: tuple[str, ...] = ()
    rolled_back_to: float | None = None

    def explains(self, first: Fetch, second: Fetch) -> bool:
        """Return whether it may be why a page that had been fetched was fetched again."""
        since = self.begin if self.rolled_back_to is None else self.rolled_back_to
        was_in_hand = since - IN_HAND_S <= first.at <= self.end + UNAWARE_S and since - _CLOCK_SLACK_S <= second.at
        was_unaware = self.begin <= second.at <= self.end + UNAWARE_S
        return (self._hits(first.worker) and was_in_hand) or (self._hits(second.worker) and was_unaware)

    def _hits(self, worker: str) -> bool:
        return not self.workers or worker in self.workers


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it lies in Redis: of which page, and which links it tells."""

    page: int
    links: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What the frontier still has when nobody works any more; `dead` tells why each of those entries died."""

    is_over: bool = True
    counts: Mapping[str, int] = field(default_factory=dict)
    dead: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Life:
    """One worker's process: when it was started, its exit code if it ended before it was made to, its own last word."""

    worker: str
    started_at: float
    code: int | None = None
    ending: Ending | None = None
    was_hit: bool = False
    """Something was done to end it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known at the end of a run."""

    graph: Graph
    fetches: Sequence[Fetch]
    processed: Mapping[int, int]
    items: Sequence[Item]
    lives: Sequence[Life]
    hits: Sequence[Hit]
    leftovers: Leftovers
    in_hand: int
    """How many pages one worker has in its hands at most."""
    workers: int
    ends_within_s: float
    """So long after the last page and the last fault all have ended."""
    last_page_at: float

    @property
    def has_rollback(self) -> bool:
        """Return whether Redis came back older."""
        return any(hit.rolled_back_to is not None for hit in self.hits)


@dataclass(slots=True)
class Verdict:
    """What was found: each broken promise in a sentence, and the figures."""

    broken: list[str] = field(default_factory=list)
    never_fetched: int = 0
    never_processed: int = 0
    items_missing: int = 0
    items_twice: int = 0
    items_wrong: int = 0
    seeds_twice: int = 0
    """Items of seeds twice since Redis had forgotten that they were taken: a seed has no name before that."""
    refetched: int = 0
    refetched_at_most: int = 0
    refetched_unexplained: int = 0
    ended_by_itself: bool = False
    ended_within_s: float | None = None
    dead: int = 0


def judge(evidence: Evidence) -> Verdict:
    """Hold the frontier to its promises."""
    verdict = Verdict()
    _check_pages(evidence, verdict)
    _check_items(evidence, verdict)
    _check_refetches(evidence, verdict)
    _check_endings(evidence, verdict)
    leftovers = evidence.leftovers
    verdict.dead = len(leftovers.dead)
    verdict.broken += [f"on the dead list: {each}" for each in leftovers.dead[:TOLD]]
    verdict.broken += [f"left over: {count} {what}" for what, count in leftovers.counts.items()]
    if not leftovers.is_over:
        verdict.broken.append("Redis does not think that the crawl is over")
    return verdict


def _check_pages(evidence: Evidence, verdict: Verdict) -> None:
    every = range(evidence.graph.pages)
    fetched = {fetch.page for fetch in evidence.fetches}
    never_fetched = [page for page in every if page not in fetched]
    never_processed = [page for page in every if page not in evidence.processed]
    verdict.never_fetched, verdict.never_processed = len(never_fetched), len(never_processed)
    _tell(verdict, "never fetched", never_fetched)
    _tell(verdict, "never processed", never_processed)


def _check_items(evidence: Evidence, verdict: Verdict) -> None:
    graph = evidence.graph
    brought = Counter(item.page for item in evidence.items)
    missing = [page for page in range(graph.pages) if page not in brought]
    twice = [page for page, times in brought.items() if times > 1]
    if evidence.has_rollback:
        verdict.seeds_twice = sum(page in graph.seeds for page in twice)
        twice = [page for page in twice if page not in graph.seeds]
    wrong = [item.page for item in evidence.items if item.links != tuple(graph.links(item.page))]
    verdict.items_missing, verdict.items_twice, verdict.items_wrong = len(missing), len(twice), len(wrong)
    _tell(verdict, "without an item", missing)
    _tell(verdict, "with more than one item", twice)
    _tell(verdict, "with an item that is not theirs", wrong)


def _check_refetches(evidence: Evidence, verdict: Verdict) -> None:
    """See whether each second fetch has a fault before it, and all faults together could have caused so many."""
    fetches: dict[int, list[Fetch]] = defaultdict(list)
    for fetch in evidence.fetches:
        fetches[fetch.page].append(fetch)
    again = [pair for of_page in fetches.values() for pair in pairwise(of_page)]
    verdict.refetched = len(again)
    unexplained = [pair for pair in again if not any(hit.explains(*pair) for hit in evidence.hits)]
    verdict.refetched_unexplained = len(unexplained)
    for first, second in unexplained[:TOLD]:
        verdict.broken.append(
            f"page {first.page} was fetched by {first.worker} at {first.at:.2f} and again by {second.worker} "
            f"at {second.at:.2f}, and nothing had happened to the first"
        )
    verdict.refetched_at_most = sum(_refetches_of(hit, evidence) for hit in evidence.hits)
    if verdict.refetched > verdict.refetched_at_most:
        verdict.broken.append(f"{verdict.refetched} fetches too many, {verdict.refetched_at_most} at most were in hand")


def _refetches_of(hit: Hit, evidence: Evidence) -> int:
    if hit.kind in _HARMLESS:
        return 0
    rolled_back = 0
    if hit.rolled_back_to is not None:
        rolled_back = sum(hit.rolled_back_to <= fetch.at <= hit.end for fetch in evidence.fetches)
    return evidence.in_hand * (len(hit.workers) or evidence.workers) + rolled_back


def _check_endings(evidence: Evidence, verdict: Verdict) -> None:
    finished = [life for life in evidence.lives if life.ending is not None and life.ending.reason == FINISHED]
    last_ones = evidence.lives[-evidence.workers :]
    verdict.ended_by_itself = all(life in finished and life.code == 0 for life in last_ones) and bool(last_ones)
    if not verdict.ended_by_itself:
        verdict.broken.append(f"the crawl did not end by itself: {', '.join(map(_told, last_ones))}")
    verdict.broken += [
        f"nothing had been done to {_told(life)}"
        for life in evidence.lives
        if not life.was_hit and life not in finished
    ]
    first_fetches: dict[int, float] = {}
    for fetch in evidence.fetches:
        first_fetches.setdefault(fetch.page, fetch.at)
    found_last_at = max(first_fetches.values(), default=0.0)
    for life in finished:
        assert life.ending is not None
        if life.ending.at < found_last_at:
            verdict.broken.append(
                f"{_told(life)} {found_last_at - life.ending.at:.1f} s before the last page was found"
            )
    _check_time_to_end(evidence, verdict, finished)


def _check_time_to_end(evidence: Evidence, verdict: Verdict, finished: Iterable[Life]) -> None:
    quiet_since = max([evidence.last_page_at, *(hit.end for hit in evidence.hits)])
    # A process that was started after the last page has its own start to get through first.
    ends = [life.ending.at for life in finished if life.ending and life.started_at < evidence.last_page_at]
    if not ends:
        return
    verdict.ended_within_s = max(0.0, max(ends) - quiet_since)
    if verdict.ended_within_s > evidence.ends_within_s:
        verdict.broken.append(f"the last worker ended {verdict.ended_within_s:.1f} s after all was done")


def _told(life: Life) -> str:
    said = "said nothing" if life.ending is None else f"said {life.ending.reason!r}"
    left = "runs" if life.code is None else f"ended with {life.code}"
    return f"{life.worker} ({left}, {said})"


def _tell(verdict: Verdict, what: str, pages: Sequence[int]) -> None:
    if pages:
        some = ", ".join(map(str, pages[:TOLD]))
        verdict.broken.append(f"{len(pages)} pages {what}: {some}{' …' if len(pages) > TOLD else ''}")
