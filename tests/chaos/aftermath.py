"""Looks at what is left when every job has its outcome: each slot must still be good, and nothing may lie about."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import redis
from chaos.machines import Machines
from chaos.operating import probe, rooms
from chaos.watching import Watcher
from support.waiting import wait_until

from toolkit.model.jobs import JobState
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.node.delivery import REMEMBERED_LEASES
from toolkit.runs.folder import ENDING
from toolkit.store.interfaces import Store
from toolkit.store.keys import Keys

KILLED_WITHIN_S = 12.0
"""How long a process may take from the first signal to the last."""
PROBED_WITHIN_S = 45.0


def aftermath(
    machines: Machines, store: Store, watcher: Watcher, journal: Path, *, lease_s: float, say: Callable[[str], None]
) -> list[str]:
    """Return each promise that is broken at the end; waits as long as the product may take."""
    since = time.time()
    broken = _processes_left(machines, within_s=2 * lease_s + KILLED_WITHIN_S)
    say("probing each slot")
    broken += _slots_lost(machines, store, watcher, journal)
    broken += _processes_left(machines, within_s=5.0)
    broken += _folders_left(machines, since=since, within_s=(REMEMBERED_LEASES + 1) * lease_s)
    broken += _keys_left(machines.redis.url)
    broken += [f"{each.name} still says that it runs {each.report.running} jobs" for each in _busy(store)]
    return broken


def _within(condition: Callable[[], bool], *, within_s: float, what: str) -> bool:
    try:
        wait_until(condition, deadline_s=within_s, what=what, pause_s=0.1)
    except AssertionError:
        return False
    return True


def _processes_left(machines: Machines, *, within_s: float) -> list[str]:
    def left() -> list[str]:
        return [
            f"process {process.pid} is left on {machine.name}"
            for machine in machines.all
            for process in machine.processes()
        ]

    return [] if _within(lambda: not left(), within_s=within_s, what="no process left") else left()


def _slots_lost(machines: Machines, store: Store, watcher: Watcher, journal: Path) -> list[str]:
    """Fill every slot of every node at once, and see whether all of them run at the same time."""
    slots = {each.name: each.report.slots for each in rooms(store).nodes.all()}
    missing = {machine.name for machine in machines.all} - set(map(str, slots))
    jobs = {job.id for job in probe(store, slots, journal, prefix="probe")}
    most: Counter[NodeName] = Counter()

    def are_full() -> bool:
        now = Counter(tenure.node for tenure in watcher.tenures_now() if tenure.job in jobs)
        for node, count in now.items():
            most[node] = max(most[node], count)
        return most == Counter(slots)

    _within(are_full, within_s=PROBED_WITHIN_S, what="all slots in use")
    broken = [f"{name} is not registered any more" for name in sorted(missing)]
    broken += [
        f"{name} runs {most[name]} jobs at once, not {count}" for name, count in slots.items() if most[name] < count
    ]

    def ended() -> list[JobState]:
        return [job.state for job in store.jobs.get_many(list(jobs)).values() if job.state is JobState.FINISHED]

    if not _within(lambda: len(ended()) == len(jobs), within_s=PROBED_WITHIN_S, what="the probes' end"):
        broken.append(f"only {len(ended())} of {len(jobs)} jobs finished when all was well again")
    return broken


def _folders_left(machines: Machines, *, since: float, within_s: float) -> list[str]:
    """Find run folders that were not removed. Those of the probes are kept for a while, with an ending in each."""

    def is_kept(path: Path) -> bool:
        ending = path / ENDING
        return ending.exists() and ending.stat().st_mtime > since

    def left() -> list[str]:
        paths = [path for machine in machines.all for path in machine.scrapyd.runs.glob("*")]
        return [f"{path} is left" for path in paths if not is_kept(path)]

    return [] if _within(lambda: not left(), within_s=within_s, what="no folder of a run left") else left()


def _keys_left(url: str) -> list[str]:
    keys = Keys()
    must_be_gone = (
        *(keys.owners, keys.leases, keys.progress, keys.wishes, keys.busy),
        *(keys.lines, keys.delayed, keys.same, keys.unfinished_jobs),
    )
    with redis.Redis.from_url(url, decode_responses=True) as client:
        lines = [str(key) for key in client.scan_iter(f"{keys.prefix}line:*")]
        return [f"Redis still has {key}" for key in (*must_be_gone, *lines) if client.exists(key)]


def _busy(store: Store) -> list[NodeRecord]:
    def busy() -> list[NodeRecord]:
        return [each for each in rooms(store).nodes.all() if each.report.running]

    return [] if _within(lambda: not busy(), within_s=5.0, what="idle nodes") else busy()
