"""What an operator does to a cluster from a face that stays; every act is in the audit, under who did it.

As on the command line, a result says only what was verified: `cancelled` is a process that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime

from toolkit.cluster import crawls, crons, node_life
from toolkit.cluster.cancel import Cancelled
from toolkit.cluster.choice import choose, choose_queued
from toolkit.cluster.crawls import Obeyed
from toolkit.cluster.desk import Desk
from toolkit.cluster.enqueue import enqueue
from toolkit.cluster.everywhere import cancel_everywhere, find_everywhere
from toolkit.cluster.membership import Way, registered, route
from toolkit.cluster.node_life import Drained
from toolkit.cluster.queued import HEARD_WITHIN_S, fresh, put_back, queued_jobs, refuse_unless_active, wish_paused
from toolkit.cluster.schedule import Placed
from toolkit.cluster.schedule import schedule as send
from toolkit.model.audit import AuditEntry
from toolkit.model.crawls import Controls, DomainLimit, EntryId
from toolkit.model.crons import CronView, Firing, FiringState
from toolkit.model.errors import CrawlctlError, RefusedError, StoreUnreachableError
from toolkit.model.jobs import Job
from toolkit.model.names import NodeName
from toolkit.model.orders import Order

GRACE_S = 30.0
"""How long a cancelled spider may take to close, unless something else is asked for."""

MAX_NAMED = 20


class Acts:
    """Changes the cluster that a desk looks at, for one person. Any thread may call; acts wait for what they verify.

    `who` stands in the audit and on what is scheduled, as in `alice@web`.
    """

    def __init__(self, desk: Desk, *, who: str) -> None:
        self.desk = desk
        self.who = who

    def cancel(self, prefixes: Sequence[str], *, grace_s: float = GRACE_S) -> list[Cancelled]:
        """Cancel jobs and return what became of each; one with an error is not proven to be gone."""
        desk = self.desk
        jobs = [find_everywhere(desk.nodes, desk.open_store, prefix).job for prefix in prefixes]
        with self.audited("cancel", _named(jobs), jobs=jobs) as entry:
            done = cancel_everywhere(desk.nodes, desk.open_store, jobs, grace_s=grace_s)
            entry.fail_if([each.error for each in done])
        return done

    def retry(self, prefixes: Sequence[str]) -> list[Job]:
        """Put jobs that failed, were lost or cancelled back into the queue; return them as they are now.

        Raises:
            RefusedError: one is in another state; the others were put back.

        """
        jobs = self._queued(prefixes)
        with self.audited("jobs retry", _named(jobs), jobs=jobs):
            done = put_back(self.desk.shared, [job.id for job in jobs])
            now = fresh(self.desk.store.jobs, jobs)
            if left := [job for job in now if job.id not in done]:
                told = ", ".join(f"{job.id} is {job.state.value}" for job in left[:MAX_NAMED])
                raise RefusedError(
                    f"{len(left)} of {len(jobs)} job(s) could not be put back: {told}",
                    hint="only a failed, lost or cancelled job can be retried",
                )
        return now

    def pause_job(self, prefix: str) -> Job:
        """Let a running spider begin no new download, and wait until it has obeyed.

        Raises:
            RefusedError: it does not run.
            NodesFailedError: its spider has not heard of it yet; the wish stays.

        """
        return self._wish_paused(prefix, is_paused=True)

    def resume_job(self, prefix: str) -> Job:
        """Let a paused spider go on; as `pause_job`."""
        return self._wish_paused(prefix, is_paused=False)

    def tune_job(self, prefix: str, *, concurrency: int | None, delay_s: float | None) -> Job:
        """Wish a running spider another concurrency or delay (`None`: as it is); it obeys within seconds."""
        (job,) = self._queued([prefix])
        told = f"concurrency {concurrency}, delay {delay_s} s".replace("None", "as it is")
        with self.audited("jobs tune", job.id, jobs=[job], detail=told):
            refuse_unless_active(
                job, self.desk.shared.queue.tune(job.id, concurrency=concurrency, delay_s=delay_s), "tuned"
            )
        return fresh(self.desk.store.jobs, [job])[0]

    def schedule(
        self,
        spider: str,
        *,
        project: str | None = None,
        version: str | None = None,
        on: Sequence[str] | None = None,
        is_unique: bool = False,
        change: Callable[[Order], Order] = lambda order: order,
    ) -> list[Placed]:
        """Schedule a spider of the active release, or of a version: by the queue, or on the least busy stock nodes.

        `on` names the only nodes that may take it; `change` lays arguments, settings and the like on the plain order.
        With `is_unique` a job like one that has not ended is refused; stock nodes know nothing of that.

        Raises:
            NotFoundError, UsageError: there is no such spider, or several projects have one.

        """
        store = self.desk.store
        records = registered(store)
        now = store.now()
        way = route(None if on is None else [NodeName(name) for name in on], records)
        if way.way is Way.QUEUE:
            plain = choose_queued(store.releases, records, spider, project=project, version=version)
            order = change(plain)
            with self.audited("schedule", f"{order.project}/{order.spider} {order.version}") as entry:
                jobs = enqueue(store, [order], on=way.on, is_unique=is_unique, now=now, who=self.who)
                placed = [Placed(job) for job in jobs]
                entry.detail = f"{len(placed)} job(s): {_named([each.job for each in placed])}"
            return placed
        nodes = self.desk.nodes if on is None else self.desk.nodes.only(NodeName(name) for name in on)
        choice = choose(nodes, store.releases, spider, project=project, version=version)
        order = change(Order(choice.project, choice.spider, choice.version))
        with self.audited("schedule", f"{order.project}/{order.spider} {order.version}") as entry:
            placed = send(choice.nodes, store.jobs, order, now=now)
            entry.fail_if([each.error for each in placed])
        return placed

    def drain(self, names: Sequence[str]) -> list[Drained]:
        """Let nodes take no new job; what they run goes on to its end."""
        nodes = [NodeName(name) for name in names]
        with self.audited("nodes drain", " ".join(nodes), nodes=nodes):
            return node_life.drain(self.desk.store, nodes, who=self.who)

    def resume_nodes(self, names: Sequence[str]) -> list[NodeName]:
        """Let drained nodes take jobs again."""
        nodes = [NodeName(name) for name in names]
        with self.audited("nodes resume", " ".join(nodes), nodes=nodes):
            return node_life.resume(self.desk.store, nodes)

    def pause_crawl(self, crawl: str, *, is_paused: bool = True) -> Obeyed:
        """Pause a crawl, or let it go on, and say how many of its workers have heard of it."""
        with self.audited("crawls pause" if is_paused else "crawls resume", crawl):
            return crawls.pause(self.desk.shared.crawls, crawl, is_paused=is_paused, within_s=HEARD_WITHIN_S)

    def tune_crawl(self, crawl: str, *, concurrency: int | None, delay_s: float | None) -> Controls:
        """Change how hard each worker of a crawl works; a negative number is what its spider says."""
        with self.audited("crawls tune", crawl, detail=f"concurrency {concurrency}, delay {delay_s}"):
            plan = crawls.look(self.desk.shared.crawls, crawl).plan
            return self.desk.shared.crawls.control(plan.crawl, concurrency=concurrency, delay_s=delay_s)

    def limit_crawl(
        self, crawl: str, domain: str, *, per_second: float | None, concurrency: int | None
    ) -> Sequence[DomainLimit]:
        """Set what all workers together may ask of a domain; without numbers, take its limit away."""
        wanted = crawls.domain_limit(domain, per_second=per_second, concurrency=concurrency)
        detail = f"{domain}: per second {per_second}, concurrency {concurrency}"
        with self.audited("crawls limit", crawl, detail=detail):
            plan = crawls.look(self.desk.shared.crawls, crawl).plan
            return self.desk.shared.crawls.limit(plan.crawl, wanted)

    def block(self, crawl: str, patterns: Sequence[str]) -> Controls:
        """Let no worker fetch from domains, or what matches a pattern."""
        wanted = [crawls.block_pattern(text) for text in patterns]
        with self.audited("crawls block", crawl, detail=" ".join(patterns)):
            return self.desk.shared.crawls.block(crawls.look(self.desk.shared.crawls, crawl).plan.crawl, wanted)

    def unblock(self, crawl: str, patterns: Sequence[str] = ()) -> int:
        """Lift blocks (all without any named); return how many entries went back into the queue."""
        with self.audited("crawls unblock", crawl, detail=" ".join(patterns or ["all"])):
            view = crawls.look(self.desk.shared.crawls, crawl)
            wanted = crawls.blocks_to_lift(view, [crawls.block_pattern(text) for text in patterns])
            return self.desk.shared.crawls.unblock(view.plan.crawl, wanted)

    def requeue_dead(self, crawl: str, entries: Sequence[EntryId] | None = None) -> int:
        """Put entries of the dead list back into the queue (`None`: all); return how many."""
        with self.audited("crawls requeue", crawl):
            plan = crawls.look(self.desk.shared.crawls, crawl).plan
            return self.desk.shared.crawls.requeue(plan.crawl, entries)

    def pause_cron(self, name: str) -> CronView:
        """Let a cron fire no more until it is resumed."""
        with self.audited("cron pause", name):
            return crons.pause(self.desk.shared, name, by=self.who, now=self.desk.store.now())

    def resume_cron(self, name: str) -> CronView:
        """Let a paused cron fire again, from its next due time on."""
        with self.audited("cron resume", name):
            return crons.resume(self.desk.shared, name, by=self.who, now=self.desk.store.now())

    def run_cron(self, name: str) -> Firing | None:
        """Fire a cron now; `None`: it waits for the end of the one before. A firing may be skipped: see its state."""
        with self.audited("cron run", name) as entry:
            firing = crons.run_now(self.desk.store, self.desk.shared, name, by=self.who)
            entry.detail = None if firing is None else firing.reason or ", ".join(firing.jobs[:MAX_NAMED])
            if firing is not None and firing.state is not FiringState.FIRED:
                entry.result = "refused"
            return firing

    @contextmanager
    def audited(
        self,
        action: str,
        subject: str,
        *,
        nodes: Sequence[NodeName] = (),
        jobs: Sequence[Job] = (),
        detail: str | None = None,
    ) -> Iterator[Entry]:
        """Write one entry of the audit when the block is left, with how it went; other acts of a face use it too."""
        entry = Entry(detail)
        written = AuditEntry(
            at=datetime.now(UTC),  # the store puts its own time there
            who=self.who,
            action=action,
            subject=subject,
            nodes=(*nodes, *sorted({job.node for job in jobs if job.node})),
            result="done",
        )
        try:
            yield entry
        except BaseException as error:
            # What went wrong counts, not that it could not be written down besides.
            with suppress(StoreUnreachableError):
                self._note(_broken_off(written, error))
            raise
        try:
            self._note(replace(written, result=entry.result, detail=entry.detail))
        except StoreUnreachableError as error:
            error.message = f"{action} {subject} was done, but it is not in the audit: {error.message}"
            error.args = (error.message,)
            raise

    def _note(self, entry: AuditEntry) -> None:
        self.desk.store.audit.note(entry)

    def _queued(self, prefixes: Sequence[str]) -> list[Job]:
        _ = self.desk.shared
        return queued_jobs(self.desk.store.jobs, prefixes)

    def _wish_paused(self, prefix: str, *, is_paused: bool) -> Job:
        (job,) = self._queued([prefix])
        with self.audited("jobs pause" if is_paused else "jobs resume", job.id, jobs=[job]):
            job, error = wish_paused(self.desk.shared.queue, self.desk.store.jobs, job, is_paused=is_paused)
            if error is not None:
                raise error
        return job


class Entry:
    """What is going to be in the audit."""

    def __init__(self, detail: str | None) -> None:
        self.detail = detail
        self.result = "done"

    def fail_if(self, errors: Sequence[CrawlctlError | None]) -> None:
        """Call it failed if there is any error."""
        if failed := [error for error in errors if error is not None]:
            self.result, self.detail = "failed", failed[0].message


def _broken_off(entry: AuditEntry, error: BaseException) -> AuditEntry:
    """Return the entry of an act that an error has ended."""
    if not isinstance(error, CrawlctlError):
        return replace(entry, result="interrupted")
    return replace(entry, result="refused" if isinstance(error, RefusedError) else "failed", detail=error.message)


def _named(jobs: Sequence[Job]) -> str:
    return ", ".join(job.id for job in jobs[:MAX_NAMED])
