"""The duties that this node takes turns at: what each is called, how often, and what one turn does. A table.

A new duty is a line in `turns`: its decision lies in `toolkit/duties`, its guard (so that a turn taken twice, or by two
nodes at once, does no harm) inside Redis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twisted.logger import Logger

from toolkit.duties import expire, judge, requeue, sample, watch
from toolkit.node.alerting import Alerting
from toolkit.node.firing import Firing
from toolkit.node.membership import Membership, shared_of
from toolkit.store.interfaces import Store

_log = Logger()


@dataclass(frozen=True, slots=True)
class Pace:
    """What a wait goes by: how many nodes live, how long their lease is, and a random number from 0 to 1."""

    live_nodes: int
    lease_s: float
    chance: float


@dataclass(frozen=True, slots=True)
class Turn:
    """One duty as this node does it.

    `take` runs in a thread, which it may keep waiting, never twice at a time; it returns in how many seconds it wants
    the next turn, or `None`: after the usual wait, as also before the first one and after one that failed.
    """

    name: str
    usual_s: Callable[[Pace], float]
    take: Callable[[Store], float | None]


def turns(member: Membership) -> tuple[Turn, ...]:
    """Return every duty that this node takes turns at."""
    settings = member.settings
    firing = Firing(settings.name, member.machine)

    def drop(store: Store) -> None:
        shared = shared_of(store)
        keep_logs_s = settings.shipping.terms.keep_s if settings.shipping is not None else None
        expire.expire(
            shared,
            history_days=settings.history_days,
            history_jobs=settings.history_jobs,
            keep_logs_s=keep_logs_s,
        )

    def look(store: Store) -> None:
        watch.watch(store, shared_of(store), lease_s=settings.lease_s)

    alerting = Alerting(member)
    return (
        Turn("requeue", _requeue_in_s, _requeue),
        Turn("fire", lambda pace: firing.wait_s(live_nodes=pace.live_nodes, chance=pace.chance), firing.take),
        Turn("expire", lambda pace: expire.interval_s(live_nodes=pace.live_nodes, chance=pace.chance), drop),
        Turn("sample", lambda pace: sample.interval_s(live_nodes=pace.live_nodes, chance=pace.chance), _sample),
        Turn("watch", _watch_in_s, look),
        Turn("judge", lambda pace: judge.interval_s(live_nodes=pace.live_nodes, chance=pace.chance), _judge),
        Turn("tell", lambda pace: alerting.wait_s(live_nodes=pace.live_nodes, chance=pace.chance), alerting.take),
    )


def _requeue_in_s(pace: Pace) -> float:
    return requeue.interval_s(live_nodes=pace.live_nodes, lease_s=pace.lease_s, chance=pace.chance)


def _watch_in_s(pace: Pace) -> float:
    return watch.interval_s(live_nodes=pace.live_nodes, lease_s=pace.lease_s, chance=pace.chance)


def _sample(store: Store) -> None:
    sample.sample(shared_of(store))


def _judge(store: Store) -> None:
    judge.judge(store, shared_of(store))


def _requeue(store: Store) -> None:
    for job_id, state in requeue.requeue(shared_of(store)).items():
        _log.warn("The node of job {job} was lost: it is {state} now", job=job_id, state=state.value)
