"""One history of the shared queue: nodes, jobs and faults that a seed decides, and what must be true of it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from simulation.history import History, Trouble, step_s
from simulation.machines import Host, Process
from simulation.nodes import PROJECT, SPIDER, VERSION, Node
from simulation.programs import Life, Spider
from simulation.server import Door, Link, Real
from simulation.world import Owner

from toolkit.model.errors import CrawlctlError, StoreUnreachableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import DEFAULT_CLUSTER, JobId, NodeName
from toolkit.runs.folder import RunFolder
from toolkit.store.keys import Keys
from toolkit.store.redis_store import RedisStore

LEASE_S = 15.0
CLOSES = "node closes"
FAULTS_END_S = 150.0
STOP_TIMEOUT_S = 10.0
"""How long a container has to stop before all of its processes are killed, as `docker stop` counts."""
KEYS = Keys(DEFAULT_CLUSTER)


@dataclass
class Ordered:
    """A job that an operator has asked for, and what came of that. Times are the world's."""

    job: Job
    attempts: int
    run_s: float
    accepted_at: float | None = None
    cancelled_at: float | None = None
    """When a cancel was accepted."""
    was_pending: bool = False
    """It was pending then."""
    told: list[tuple[float, str, str]] = field(default_factory=list)
    """What nodes were told that became of it: when, under which token, which state."""


class QueueHistory(History):
    """Plays one history, and returns what is broken in it."""

    FAULTS: ClassVar = {
        "cut": 3,
        "cut near a lease": 3,
        "answers lost": 1,
        "slow": 1,
        "machine freezes": 2,
        "machine dies": 2,
        "Scrapyd dies": 2,
        "Scrapyd restarts": 1,
        CLOSES: 2,
        "spider dies": 1,
        "clock steps": 1,
        "Redis restarts": 2,
        "Redis older": 4,
        "Redis away": 2,
        "Redis away and older": 3,
        "Redis freezes": 1,
        "Redis clock steps": 1,
    }

    def __init__(self, seed: int, real: Real, folder: Path, *, say: Callable[[str], None] | None = None) -> None:
        super().__init__(seed, real, folder, say=say, lease_s=LEASE_S, faults_end_s=FAULTS_END_S)
        self.lives: list[Life] = []
        self.orders: dict[str, Ordered] = {}
        self.nodes: dict[str, Node] = {}
        self._desk: Any = None
        self._stopped: set[int] = set()

    def begin(self) -> None:
        """Bring up nodes, and an operator who orders jobs and cancels some."""
        chance = self.chance
        for number in range(chance.choice((1, 2, 2, 3, 3, 4))):
            self._add_node(f"node-{number + 1}")
        link = Link(self.world, self.server, self.orderly, name="operator")

        def open_desk() -> None:
            self._desk = RedisStore(Door(link))

        self.world.task(self.orderly, open_desk)
        names = sorted(self.nodes)
        for number in range(chance.choice((3, 5, 8, 12))):
            at = chance.choice((0.5, chance.uniform(0, 100)))
            attempts = chance.choice((1, 1, 2, 2, 3))
            job = Job(
                id=JobId(f"job-{number}"),
                project=PROJECT,
                spider=SPIDER,
                state=JobState.PENDING,
                version=VERSION,
                args={"number": str(number)},
                settings={},
                priority=0.0,
                on=(NodeName(chance.choice(names)),) if chance.random() < 0.25 else None,
                attempts=attempts,
                retries_failed=chance.random() < 0.1,
                scheduled_by="simulation",
            )
            run_s = chance.choice((chance.uniform(0.2, 4), chance.uniform(1, 40)))
            ordered = self.orders[job.id] = Ordered(job, attempts, run_s)
            self.later(at, self._ordering(ordered))
            if chance.random() < 0.15:
                self.later(at + chance.uniform(0, 30), self._cancelling(ordered))

    def links(self) -> dict[str, Link]:
        """Return whose way to Redis can be cut."""
        return {name: node.host.link for name, node in self.nodes.items()}

    def end(self) -> None:
        """Let go of the nodes' folders."""
        for node in self.nodes.values():
            node.kill()

    def _add_node(self, name: str) -> None:
        chance = self.chance
        owner = Owner(name)
        link = Link(self.world, self.server, owner, name=name)
        host = Host(self.world, name, link)
        link.owner = host
        folder = self.folder / name
        node = Node(
            host,
            folder,
            slots=chance.choice((1, 2, 2, 3)),
            lease_s=LEASE_S,
            program=lambda p, f: self._program(name, p, f),
        )
        self.nodes[name] = node
        self.later(chance.uniform(0, 0.4), lambda: self._start(node))

    def _program(self, node: str, process: Process, folder: RunFolder) -> Spider:
        job_id = folder.path.name.rpartition("~")[0]
        run_s = self.orders[job_id].run_s
        return Watched(self.world, process, folder, self.lives, node=node, run_s=run_s, watch=self._watch)

    # What an operator does.

    def _ordering(self, ordered: Ordered) -> Callable[[], None]:
        def order() -> None:
            for _ in range(40):
                try:
                    self._desk.shared.queue.add([ordered.job])
                except StoreUnreachableError:
                    self.world.sleep(1.0)
                    continue
                except CrawlctlError:
                    pass  # It came through, and the answer was lost.
                ordered.accepted_at = self.world.now
                self.world.say("{} is accepted, attempts {}", ordered.job.id, ordered.job.attempts)
                return

        return lambda: self.world.task(self.orderly, order)

    def _cancelling(self, ordered: Ordered) -> Callable[[], None]:
        grace_s = self.chance.choice((0.0, 1.0, 5.0))

        def cancel() -> None:
            try:
                states = self._desk.shared.queue.cancel([ordered.job.id], grace_s=grace_s)
            except CrawlctlError:
                return
            before = states.get(ordered.job.id)
            if before is not None and not before.is_final:
                ordered.cancelled_at, ordered.was_pending = self.world.now, before is JobState.PENDING
                self.world.say("{} is to be cancelled: it was {}", ordered.job.id, before.value)

        return lambda: self.world.task(self.orderly, cancel)

    # What goes wrong.

    def fault(self, kind: str, name: str, *, length: float, which: float) -> None:
        """Do one of the faults of machines, Scrapyds and spiders."""
        node, host = self.nodes[name], self.nodes[name].host
        if kind == "clock steps":
            by_s = step_s(length)
            self.note(kind, f"{name} {by_s:+.0f} s", 0.0)
            host.offset_s += by_s
        elif kind == "spider dies":
            living = [life for life in self.lives if life.ended_at is None and life.node == name]
            if living:
                life = living[int(which * len(living))]
                self.note(kind, life.claim.job_id, 0.0)
                host.processes[life.pid].exit(signal=signal.SIGKILL)
        elif host.holder() is not None:
            return
        elif kind == "machine freezes":
            for_s = LEASE_S * (0.2 + 2 * length)
            self.note(kind, name, for_s)
            host.freeze()
            self.later_s(for_s, lambda: host.thaw(self.world))
        elif node.is_running and not (kind == CLOSES and node.is_closing):
            self._take_down(kind, node, length=length)

    def _take_down(self, kind: str, node: Node, *, length: float) -> None:
        lives = node.lives
        if kind == "Scrapyd restarts":
            for_s = 4.0
            node.stop()
            self.later_s(for_s, node.kill)
        elif kind == CLOSES:
            for_s = STOP_TIMEOUT_S + LEASE_S * length
            node.close()
            self.later_s(STOP_TIMEOUT_S, lambda: self._end_container(node, lives))
        elif kind == "Scrapyd dies":
            for_s = max(0.0, length - 0.5) * 3.2 * LEASE_S + 0.1
            node.kill()
        else:
            for_s = LEASE_S * (0.1 + 2 * length)
            self._end_container(node, lives)
        self.note(kind, node.host.name, for_s)
        self.later_s(for_s, lambda: self._start(node))

    def _end_container(self, node: Node, lives: int) -> None:
        """Kill all that runs there, unless it has been started since."""
        if node.lives == lives:
            for process in list(node.host.processes.values()):
                process.exit(signal=signal.SIGKILL)
            node.kill()

    def _start(self, node: Node) -> None:
        if not node.is_running and node.host.holder() is None:
            node.start()
        elif not node.is_running:
            self.later_s(1.0, lambda: self._start(node))

    def mend(self) -> None:
        """Bring everything back that is away."""
        for node in self.nodes.values():
            if node.host.holder() is not None:
                node.host.thaw(self.world)
            self._start(node)

    # What must be true.

    def _watch(self, life: Life, what: str) -> None:
        """Look at what happens to a process in the moment in which it does."""
        job_id, token = life.claim.job_id, life.claim.token
        if what == "begun":
            twins = [
                other
                for other in self.lives
                if other is not life
                and other.claim.job_id == job_id
                and other.ended_at is None
                and other.node == life.node
            ]
            if twins:
                self.broken.append(f"two processes of {job_id} at a time on {life.node}")
        elif what == "signalled" and id(life) not in self._stopped:
            # What follows the first signal follows from it, whatever a Redis that came back older says by then.
            self._stopped.add(id(life))
            owner = self.real.text.hget(KEYS.owners, job_id)
            if life.stopped_for == "stale" and owner == token:
                self.broken.append(f"the right process of {job_id} was stopped on {life.node}")

    def _states(self) -> dict[str, Any]:
        bodies: Any = self.real.text.hgetall(KEYS.jobs)
        return {name: json.loads(body) for name, body in bodies.items()}

    def is_settled(self) -> bool:
        states = self._states()
        return (
            all(job["state"] in {"finished", "failed", "cancelled", "lost"} for job in states.values())
            and all(life.ended_at is not None for life in self.lives)
            and all(order.accepted_at is not None for order in self.orders.values())
        )

    def judge(self, *, is_settled: bool) -> None:
        states = self._states()
        if not is_settled:
            open_jobs = {name: job["state"] for name, job in states.items() if job["state"] not in FINAL}
            self.broken.append(f"it never came to rest: {open_jobs}")
        for job_id, order in self.orders.items():
            self._judge_job(job_id, order, states.get(job_id))
        if is_settled:
            self._judge_leftovers(states)

    def _judge_job(self, job_id: str, order: Ordered, found: Any) -> None:
        if order.accepted_at is None:
            return
        lives = sorted((life for life in self.lives if life.claim.job_id == job_id), key=lambda life: life.at)
        if found is None:
            is_forgotten = any(since < order.accepted_at < back for back, since in self.server.rollbacks)
            if lives or not is_forgotten:
                self.broken.append(f"{job_id} has no record")
            return
        excused = sum(life.stopped_for == "node" or self._may_be_begun_again(life, order) for life in lives)
        if len(lives) > order.attempts + excused:
            self.broken.append(f"{job_id} was begun {len(lives)} times, with attempts={order.attempts}")
        self._judge_finished(job_id, found, lives)
        self._judge_closed(job_id, lives)
        if found["state"] == "lost":
            self._judge_lost(job_id, found, lives)
        if order.cancelled_at is not None:
            self._judge_cancel(job_id, order, found["state"], lives)

    def _judge_finished(self, job_id: str, found: Any, lives: list[Life]) -> None:
        done = [life for life in lives if life.why == "finished"]
        if not done:
            if found["state"] == "finished":
                self.broken.append(f"{job_id} is finished, and no process of it was")
            return
        first, ended_at = done[0], done[0].ended_at or 0.0
        later = [life for life in lives if life.at > ended_at]
        if later and not self._was_in_trouble(first, until=later[0].at):
            self.broken.append(f"{job_id} was begun again after it had finished")
        is_told = not self._was_in_trouble(first, until=ended_at + 2 * LEASE_S)
        if is_told and found["state"] not in {"finished", "cancelled"}:
            self.broken.append(f"{job_id} finished, and is {found['state']}: {found.get('reason')}")

    def _judge_closed(self, job_id: str, lives: list[Life]) -> None:
        """Look whether the stop of a node that closes its spiders has used up an attempt."""
        for life, after in pairwise(lives):
            is_alone = not any(self._disturbs(each, life.at, after.at) for each in self.troubles)
            if life.stopped_for == "node" and is_alone and after.claim.attempt > life.claim.attempt:
                self.broken.append(f"the stop of {life.node} used up an attempt of {job_id}")

    def _judge_lost(self, job_id: str, found: Any, lives: list[Life]) -> None:
        if lives:
            last = lives[-1]
            is_excused = self._was_in_trouble(last, until=(last.ended_at or self.world.now) + LEASE_S)
        else:
            is_excused = bool(self.troubles)
        if not is_excused:
            self.broken.append(f"{job_id} is lost, though its node was there: {found.get('reason')}")

    def _judge_cancel(self, job_id: str, order: Ordered, state: str, lives: list[Life]) -> None:
        at = order.cancelled_at or 0.0
        is_forgotten = any(since < at < back for back, since in self.server.rollbacks)
        was_stopped = [life for life in lives if life.stopped_for == "cancel"]
        if state not in {"cancelled", "finished", "lost"} and (not is_forgotten or was_stopped):
            self.broken.append(f"{job_id} was cancelled, and is {state}")
        if was_stopped and state not in {"cancelled", "finished", "lost"}:
            self.broken.append(f"{job_id} was stopped for a cancel, and is {state}")

    def _may_be_begun_again(self, life: Life, order: Ordered) -> bool:
        """Tell whether Redis has forgotten this claim, and it was not one that may not be forgotten."""
        for back, since in self.server.rollbacks:
            if since <= life.at <= back:
                if order.attempts > 1 and life.claim.attempt < order.attempts:
                    return True
                return self._node_was_in_trouble(life.node, since, back + LEASE_S)
        return False

    def _was_in_trouble(self, life: Life, *, until: float) -> bool:
        return self._node_was_in_trouble(life.node, life.at - LEASE_S, until) or any(
            each.what == life.claim.job_id for each in self.troubles
        )

    def _node_was_in_trouble(self, node: str, begin: float, end: float) -> bool:
        return any(
            each.what == node and each.overlaps(begin, end) and not self._is_orderly(each) for each in self.troubles
        )

    def _is_orderly(self, trouble: Trouble) -> bool:
        """Tell whether a node was closed while nothing else was wrong: nothing may come of that."""
        return trouble.kind == CLOSES and not any(
            self._disturbs(each, trouble.begin, trouble.end) for each in self.troubles
        )

    def _disturbs(self, trouble: Trouble, begin: float, end: float) -> bool:
        return trouble.kind != CLOSES and trouble.overlaps(begin - LEASE_S, end + LEASE_S)

    def _judge_leftovers(self, states: dict[str, Any]) -> None:
        text = self.real.text
        left = {
            "owners": text.hgetall(KEYS.owners),
            "leases": text.zrange(KEYS.leases, 0, -1),
            "busy": text.hgetall(KEYS.busy),
            "wishes": text.hgetall(KEYS.wishes),
            "lines": text.smembers(KEYS.lines),
            "same": text.hgetall(KEYS.same),
        }
        for name, what in left.items():
            if what:
                self.broken.append(f"{name} are left: {what}")
        counted = text.hmget(KEYS.clock, "open", "ended")
        if [int(number or 0) for number in counted] != [0, len(states)]:
            self.broken.append(f"open and ended are counted as {counted}, of {len(states)} jobs")
        for name, node in self.nodes.items():
            folders = [path.name for path in (node.folder / "runs").iterdir()]
            if folders:
                self.broken.append(f"{name} keeps run folders: {folders}")


FINAL = frozenset({"finished", "failed", "cancelled", "lost"})


class Watched(Spider):
    """A spider of which the history hears in the moment in which something happens to it."""

    def __init__(self, *args: Any, watch: Callable[[Life, str], None], **more: Any) -> None:
        super().__init__(*args, **more)
        self._watch_life = watch

    def work(self) -> None:
        assert self.life is not None
        self.life.folder = self.folder
        self._watch_life(self.life, "begun")
        super().work()

    def signalled(self, number: int) -> None:
        if self.life is not None:
            self.life.stopped_for = (self.folder.read("stop.json") or {}).get("cause")
            self._watch_life(self.life, "signalled")
        super().signalled(number)
