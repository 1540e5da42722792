"""Enqueue: put jobs into the shared queue, under ids and versions of our own, for the first fit node to take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from toolkit.model.errors import ConflictError, RefusedError, StoreUnreachableError
from toolkit.model.jobs import Job
from toolkit.model.names import NodeName
from toolkit.model.orders import Order, check_queued, queued_job
from toolkit.model.queue import place_of
from toolkit.store.interfaces import Store

JOBS_A_CALL = 1000


@dataclass(frozen=True, slots=True)
class Sender:
    """What all jobs of one command share: since when, on whose word, and which nodes alone may take them."""

    now: datetime
    who: str
    on: tuple[NodeName, ...] | None = None


def enqueue(
    store: Store,
    orders: Iterable[Order],
    *,
    on: Sequence[NodeName] | None = None,
    is_unique: bool = False,
    now: datetime,
    who: str,
    on_unkept: Callable[[], object] = lambda: None,
) -> list[Job]:
    """Put the jobs of all orders into the queue, in their order; return them.

    Every order is checked before anything is put there. `on` names the only nodes that may take the jobs, `who` is
    the operator. The queue takes 1,000 jobs at once, all or none; when it refuses some, those before them are in it,
    and the error says how many. With `is_unique`, jobs that differ in nothing but their ids are refused. `on_unkept` is
    called, once, if jobs are in the queue but no replica of Redis has them yet.

    Raises:
        UsageError: see `check_queued`.
        ConflictError: an id is known already, or with `is_unique` such a job is pending or active.
        RefusedError: the store is no Redis, so that there is no queue.

    """
    if store.shared is None:
        raise RefusedError("there is no shared queue without a Redis", hint="name one in the inventory: redis: URL")
    jobs = jobs_of(orders, Sender(now, who, None if on is None else tuple(sorted(on))))
    done = 0
    unkept: list[None] = []
    try:
        for begin in range(0, len(jobs), JOBS_A_CALL):
            some = jobs[begin : begin + JOBS_A_CALL]
            store.shared.queue.add(some, is_unique=is_unique, on_unkept=lambda: unkept.append(None))
            done = begin + JOBS_A_CALL
    except (ConflictError, StoreUnreachableError) as error:
        if done:
            error.message = f"{error.message}; the {done} jobs before are in the queue"
            error.args = (error.message,)
        raise
    if unkept:
        on_unkept()
    return jobs


def jobs_of(orders: Iterable[Order], sender: Sender) -> list[Job]:
    """Make the pending jobs that orders stand for. Pure but for the ids, which are random where none is given.

    Raises:
        UsageError: see `check_queued`.

    """
    found = list(orders)
    for order in found:
        check_queued(order)
    place = place_of(sender.on)
    return [
        queued_job(order, at=sender.now, who=sender.who, on=sender.on, place=place)
        for order in found
        for _ in range(order.count)
    ]
