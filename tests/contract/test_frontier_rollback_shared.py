"""Redis came back older, and what one worker brings back was pushed by another: each is done once, whoever is first."""

from __future__ import annotations

import pytest
from support.crawl_desk import CrawlDesk, Worker, a_plan, a_push, acknowledge, fingerprint_of

from toolkit.model.crawls import Filter, Leased, QueueOrder, Taken, Verdict


def go_on(worker: Worker, *taken: Leased) -> None:
    """Let a worker find out about the rollback, and bring back what it had in hand."""
    assert worker.send(worker.draft()).verdict == Verdict.ROLLED_BACK
    worker.token = worker.frontier.rejoin(
        worker.name,
        worker.token,
        number=worker.number,
        ttl_s=worker.ttl_s,
        taken=[Taken(leased, fingerprint_of(leased.body)) for leased in taken],
    )


@pytest.mark.parametrize("filter_", [Filter.SEEN, Filter.NONE])
@pytest.mark.parametrize("order", list(QueueOrder))
@pytest.mark.parametrize("is_pusher_first", [True, False])
def test_what_one_worker_pushed_and_another_had_is_there_once_after_both_came_back(
    crawl: CrawlDesk, order: QueueOrder, filter_: Filter, *, is_pusher_first: bool
) -> None:
    crawl.plan = a_plan(order=order)
    pusher, doer = crawl.workers(2)
    pusher.push("parent", filter=Filter.SEEN)
    parent = pusher.take_one()
    if filter_ is Filter.NONE:
        # As a retry is: the page has been seen, and is pushed again.
        pusher.push("child", filter=Filter.SEEN)
        pusher.finish(*pusher.take())
    dump = crawl.dump()
    the_push, its_end = a_push("child", filter=filter_), acknowledge(parent)
    pusher.commit(the_push, done=its_end)
    child = doer.take_one()
    assert child.body == b"child"
    crawl.restore(dump)

    def pusher_replays() -> None:
        go_on(pusher, parent)
        pusher.commit(the_push, done=its_end)

    if is_pusher_first:
        pusher_replays()
        go_on(doer, child)
    else:
        go_on(doer, child)
        pusher_replays()
    doer.finish(child, items=[b"item"])
    while leased := pusher.take():
        pusher.finish(*leased, items=[b"item"])
    assert crawl.items() == [b"item"]
    assert pusher.commit().is_over
