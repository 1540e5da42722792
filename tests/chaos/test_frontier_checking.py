"""The judge of a frontier's chaos run sees each broken promise, and calls none broken that a fault excuses."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
from chaos.frontier.checking import Evidence, Hit, Item, Leftovers, Life, Verdict, judge
from chaos.frontier.graph import Graph, Shape, page_of
from chaos.frontier.journal import Ending
from chaos.frontier.plan import ROLLBACKS, FaultKind, faults, kind_of
from chaos.frontier.site import Fetch

GRAPH = Graph(pages=3)
ONE = Life("worker-1.1", 100.0, 0, Ending("worker-1.1", "finished", 106.0))
TWO = Life("worker-2.1", 100.0, 0, Ending("worker-2.1", "finished", 106.5))
GOOD = Evidence(
    graph=GRAPH,
    fetches=(Fetch(0, 101.0, ONE.worker), Fetch(1, 102.0, TWO.worker), Fetch(2, 103.0, ONE.worker)),
    processed={0: 1, 1: 1, 2: 1},
    items=(Item(0, (1, 2)), Item(1, ()), Item(2, ())),
    lives=(ONE, TWO),
    hits=(),
    leftovers=Leftovers(),
    in_hand=2,
    workers=2,
    ends_within_s=5.0,
    last_page_at=103.5,
)
AGAIN = (*GOOD.fetches, Fetch(2, 104.0, TWO.worker))


def a_hit(*workers: str, kind: FaultKind = FaultKind.WORKER_DIES, begin: float = 103.2, end: float = 103.3) -> Hit:
    return Hit(kind, begin, end, workers)


def only_complaint(evidence: Evidence) -> tuple[Verdict, str]:
    verdict = judge(evidence)
    assert len(verdict.broken) == 1, verdict.broken
    return verdict, verdict.broken[0]


def test_a_crawl_that_brought_every_page_once_and_ended_breaks_nothing() -> None:
    verdict = judge(GOOD)
    assert verdict.broken == []
    assert verdict.ended_by_itself
    assert verdict.ended_within_s == pytest.approx(3.0)


def test_a_page_that_was_never_fetched_is_seen() -> None:
    verdict, told = only_complaint(replace(GOOD, fetches=GOOD.fetches[:2]))
    assert verdict.never_fetched == 1
    assert told == "1 pages never fetched: 2"


def test_a_page_that_was_fetched_and_not_processed_is_seen() -> None:
    verdict, _ = only_complaint(replace(GOOD, processed={0: 1, 2: 1}))
    assert (verdict.never_fetched, verdict.never_processed) == (0, 1)


@pytest.mark.parametrize(
    ("items", "figures"),
    [
        (GOOD.items[:2], (1, 0, 0)),
        ((*GOOD.items, GOOD.items[0]), (0, 1, 0)),
        ((Item(0, (1,)), *GOOD.items[1:]), (0, 0, 1)),
    ],
    ids=["missing", "twice", "not as the page is"],
)
def test_items_are_held_to_once_and_whole(items: tuple[Item, ...], figures: tuple[int, int, int]) -> None:
    verdict, _ = only_complaint(replace(GOOD, items=items))
    assert (verdict.items_missing, verdict.items_twice, verdict.items_wrong) == figures


def test_a_second_fetch_without_a_fault_is_seen() -> None:
    verdict = judge(replace(GOOD, fetches=AGAIN))
    assert (verdict.refetched, verdict.refetched_at_most, verdict.refetched_unexplained) == (1, 0, 1)
    assert "nothing had happened to the first" in verdict.broken[0]


@pytest.mark.parametrize("workers", [(ONE.worker,), ()], ids=["the first", "all"])
def test_a_second_fetch_is_excused_by_a_fault_of_the_first_worker(workers: tuple[str, ...]) -> None:
    verdict = judge(replace(GOOD, fetches=AGAIN, hits=(a_hit(*workers),)))
    assert verdict.broken == []
    assert (verdict.refetched, verdict.refetched_at_most) == (1, 2 * (len(workers) or 2))


@pytest.mark.parametrize(
    "hit",
    [
        a_hit("worker-3.1"),
        a_hit(ONE.worker, begin=105.0, end=105.1),
        a_hit(ONE.worker, begin=101.0, end=101.3),
        a_hit(TWO.worker, begin=101.0, end=102.0),
        a_hit(TWO.worker, begin=104.1, end=104.2),
    ],
    ids=["another worker's", "after the second fetch", "before the first", "long mended", "of the second after it"],
)
def test_a_second_fetch_is_not_excused_by_any_fault(hit: Hit) -> None:
    assert judge(replace(GOOD, fetches=AGAIN, hits=(hit,))).refetched_unexplained == 1


def test_a_second_fetch_by_a_worker_that_did_not_know_yet_what_it_had_lost_is_excused() -> None:
    frozen = a_hit(TWO.worker, kind=FaultKind.WORKER_FREEZES, begin=100.0, end=103.9)
    assert judge(replace(GOOD, fetches=AGAIN, hits=(frozen,))).broken == []


def test_more_second_fetches_than_were_in_hand_are_too_many() -> None:
    fetches = (*GOOD.fetches, *(Fetch(page, 104.0, ONE.worker) for page in range(3)))
    hit = a_hit(ONE.worker, TWO.worker)
    assert judge(replace(GOOD, fetches=fetches, hits=(hit,))).broken == []
    _, told = only_complaint(replace(GOOD, fetches=fetches, hits=(hit,), in_hand=1))
    assert told == "3 fetches too many, 2 at most were in hand"


def test_a_short_freeze_excuses_no_second_fetch() -> None:
    hit = a_hit(ONE.worker, kind=FaultKind.SHORT_FREEZE)
    assert judge(replace(GOOD, fetches=AGAIN, hits=(hit,))).broken == ["1 fetches too many, 0 at most were in hand"]


def test_what_redis_forgot_may_be_fetched_again() -> None:
    hit = Hit(FaultKind.REDIS_OLDER, 103.2, 103.3, rolled_back_to=100.5)
    fetches = (*GOOD.fetches, *(Fetch(page, 104.0, ONE.worker) for page in range(3)))
    verdict = judge(replace(GOOD, fetches=fetches, hits=(hit,), in_hand=0))
    assert verdict.broken == []
    assert (verdict.refetched, verdict.refetched_at_most) == (3, 3)


def test_only_a_seed_may_be_there_twice_where_redis_forgot_that_it_was_taken() -> None:
    rolled_back = Hit(FaultKind.REDIS_OLDER, 103.2, 103.3, rolled_back_to=100.5)
    twice = replace(GOOD, graph=Graph(pages=3, roots=1), items=(*GOOD.items, GOOD.items[0]), hits=(rolled_back,))
    verdict = judge(twice)
    assert (verdict.broken, verdict.items_twice, verdict.seeds_twice) == ([], 0, 1)
    assert judge(replace(twice, graph=GRAPH)).items_twice == 1
    assert judge(replace(twice, graph=Graph(pages=3, roots=1, starts=1))).items_twice == 1
    assert judge(replace(twice, hits=())).items_twice == 1


@pytest.mark.parametrize(
    "life",
    [
        replace(TWO, code=None, ending=None),
        replace(TWO, ending=Ending(TWO.worker, "shutdown", 106.5), was_hit=True),
        replace(TWO, code=1),
    ],
    ids=["runs still", "was ended", "failed at the end"],
)
def test_a_crawl_has_ended_by_itself_only_when_every_worker_has(life: Life) -> None:
    verdict = judge(replace(GOOD, lives=(ONE, life)))
    assert not verdict.ended_by_itself
    assert "the crawl did not end by itself" in verdict.broken[0]


def test_a_worker_that_dies_of_itself_is_seen_although_another_took_its_place() -> None:
    fallen = Life("worker-2.0", 99.0, 1)
    _, told = only_complaint(replace(GOOD, lives=(fallen, ONE, TWO)))
    assert told == "nothing had been done to worker-2.0 (ended with 1, said nothing)"
    assert judge(replace(GOOD, lives=(replace(fallen, was_hit=True), ONE, TWO))).broken == []


def test_a_worker_that_finishes_before_the_last_page_is_found_is_seen() -> None:
    early = replace(ONE, ending=Ending(ONE.worker, "finished", 102.5))
    _, told = only_complaint(replace(GOOD, lives=(early, TWO)))
    assert "0.5 s before the last page was found" in told


def test_workers_that_wait_long_after_the_last_page_are_seen_unless_a_fault_came_meanwhile() -> None:
    late = replace(TWO, ending=Ending(TWO.worker, "finished", 110.0))
    _, told = only_complaint(replace(GOOD, lives=(ONE, late)))
    assert told == "the last worker ended 6.5 s after all was done"
    assert judge(replace(GOOD, lives=(ONE, late), hits=(a_hit(begin=104.0, end=106.0),))).broken == []


@pytest.mark.parametrize(
    "leftovers",
    [Leftovers(is_over=False), Leftovers(counts={"in flight": 1}), Leftovers(dead=("page 2: five workers died",))],
)
def test_what_the_frontier_has_left_over_is_seen(leftovers: Leftovers) -> None:
    only_complaint(replace(GOOD, leftovers=leftovers))


@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize("roots", [0, 1, 40])
def test_every_page_can_be_reached_from_the_roots(shape: Shape, roots: int) -> None:
    graph = Graph(pages=500, roots=roots, shape=shape, seed=7)
    reached = set(range(max(1, roots)))
    ahead = list(reached)
    while ahead:
        new = {to for page in ahead for to in graph.links(page)} - reached
        reached |= new
        ahead = list(new)
    assert reached == set(range(500))
    assert all(page_of(graph.path(page)) == page for page in reached)
    assert shape is Shape.DENSE or sum(len(graph.links(page)) for page in reached) == 500 - max(1, roots)


def test_nothing_links_to_a_seed() -> None:
    graph = Graph(pages=500, roots=40, shape=Shape.DENSE)
    assert min(to for page in range(500) for to in graph.links(page)) == 40


def test_the_same_seed_gives_the_same_plan_and_twenty_seeds_all_kinds() -> None:
    first, again, other = (list(islice(faults(seed, mean_s=1.5), 60)) for seed in (7, 7, 8))
    assert first == again != other
    assert {fault.kind for fault in first} == set(FaultKind) - set(ROLLBACKS)
    assert set(ROLLBACKS) < {fault.kind for fault in islice(faults(7, mean_s=1.5, with_rollback=True), 60)}
    kinds = [kind_of(seed) for seed in range(1, 21)]
    assert len({(kind.order, kind.seen) for kind in kinds}) == 9
    assert len({(kind.order, kind.shape) for kind in kinds}) == 6
    assert len({(kind.seen, kind.shape) for kind in kinds}) == 6
    assert len({(kind.begin, kind.shape) for kind in kinds}) == 8
    assert len({(kind.begin, kind.order) for kind in kinds}) == 12
