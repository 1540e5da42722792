"""The command that starts jobs: schedule, into the shared queue or straight to stock nodes."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli import completion
from toolkit.cli.command import JOBS, OnOption, ProjectOption, command
from toolkit.cli.durations import moment, moment_text, seconds
from toolkit.cli.session import Session
from toolkit.model.errors import UsageError
from toolkit.model.jobs import DEFAULT_ATTEMPTS, JobState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from toolkit.cluster.membership import Route
    from toolkit.cluster.nodes import Nodes
    from toolkit.cluster.schedule import Placed
    from toolkit.model.jobs import Job
    from toolkit.model.names import JobId
    from toolkit.model.orders import Order

# What a screen shows of the jobs that are waited for, and a message of those that failed.
MAX_LIVE = 20
MAX_TOLD = 10


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says of the jobs, before it is known where they go."""

    spider: str | None
    project: str | None
    version: str | None
    args: dict[str, str]
    settings: dict[str, str]
    priority: float
    count: int
    job_id: JobId | None
    file: Path | None
    is_unique: bool
    attempts: int | None
    retries_failed: bool
    timeout_s: float | None
    due_at: datetime | None

    def refuse_mixture(self) -> None:
        """Refuse a command line that names a file and also what its lines say, or neither a file nor a spider."""
        if self.file is None and self.spider is None:
            raise UsageError("name a spider, or a file of them with --from")
        own = (self.spider, self.version, self.args, self.settings, self.priority, self.job_id)
        if self.file is not None and (any(own) or self.count > 1):
            text = (
                "with --from, the lines of the file say spider, version, arguments, settings (with them the crawl), "
                "priority, id and number"
            )
            raise UsageError(text, hint="-p, --on and the other options are given beside it")

    def refuse_queue_options(self) -> None:
        """Refuse what a stock node knows nothing of."""
        wishes = {
            "--from": self.file,
            "--unique": self.is_unique,
            "--attempts": self.attempts,
            "--retry-failed": self.retries_failed,
            "--timeout": self.timeout_s,
            "--delay and --at": self.due_at,
        }
        if asked := [name for name, value in wishes.items() if value is not None and value is not False]:
            text = f"{', '.join(asked)} need(s) the shared queue, and only stock nodes are there"
            raise UsageError(
                text, hint="crawlctl docs node says how a node joins it; crawlctl nodes lists those that did"
            )

    def laid_on(self, order: Order) -> Order:
        """Return the order with what holds for every job of this command."""
        return replace(
            order,
            attempts=self.attempts or DEFAULT_ATTEMPTS,
            retries_failed=self.retries_failed,
            timeout_s=self.timeout_s,
            due_at=self.due_at,
        )


def add_to(app: typer.Typer) -> None:
    """Register this command."""
    command(
        app,
        "crawlctl schedule products",
        "crawlctl schedule products -p shop -a category=books -s DOWNLOAD_DELAY=1 --wait",
        "crawlctl schedule products --workers 3 --on eu",
        "crawlctl schedule products --workers 3 --crawl autumn",
        "crawlctl schedule products --unique --timeout 2h --attempts 3 --at 21:30",
        "crawlctl schedule -p shop --from jobs.jl",
        panel=JOBS,
        audit="schedule",
    )(schedule)


def schedule(
    session: Session,
    spider: Annotated[
        str | None, typer.Argument(metavar="SPIDER", help="The spider's name.", autocompletion=completion.spiders)
    ] = None,
    project: ProjectOption = None,
    argument: Annotated[
        list[str] | None, typer.Option("--argument", "-a", metavar="K=V", help="A spider argument; repeatable.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--setting", "-s", metavar="K=V", help="A Scrapy setting; repeatable.")
    ] = None,
    on: OnOption = None,
    workers: Annotated[int, typer.Option(min=1, help="How many jobs; they are spread over the nodes.")] = 1,
    crawl: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            show_default="the spider's name; with -a, and a digest of the arguments",
            help="The crawl that the jobs share, if the spider uses the frontier.",
            autocompletion=completion.crawls,
        ),
    ] = None,
    priority: Annotated[float, typer.Option(help="Among the pending jobs, the greater goes first.")] = 0.0,
    job_id: Annotated[str | None, typer.Option("--id", help="The job's id; refused when it is known already.")] = None,
    version: Annotated[
        str | None,
        typer.Option(
            help="Run this version instead of the active release; needs -p.", autocompletion=completion.versions
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Schedule every line of a file of JSON lines; - is stdin."),
    ] = None,
    unique: Annotated[
        bool,
        typer.Option("--unique", help="Refuse when such a job, same spider and arguments, is pending or active."),
    ] = False,
    attempts: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", show_default="2", help="How often it is begun at most, if its node is lost."),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Use up the attempts also when the job failed by itself.")
    ] = False,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Stop it when it has run so long: 90s, 30m, 2h.")
    ] = None,
    delay: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Let it be taken only after this time: 90s, 30m, 2h.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Let it be taken only from then on: 21:30 or ISO; local time if no zone."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end; exit code 8 when a job did not finish well.")
    ] = False,
) -> None:
    """Run a spider of the active release: by the shared queue, or on the least busy stock nodes."""
    from toolkit.cluster.crawl_jobs import crawl_settings
    from toolkit.cluster.membership import Way, registered, route
    from toolkit.model.names import check_crawl, check_job_id

    crawl_id = None if crawl is None else check_crawl(crawl)
    wanted = Wanted(
        spider,
        project,
        version,
        args=_pairs(argument, "-a"),
        settings=crawl_settings(_pairs(setting, "-s"), crawl_id, workers=workers),
        priority=priority,
        count=workers,
        job_id=None if job_id is None else check_job_id(job_id),
        file=file,
        is_unique=unique,
        attempts=attempts,
        retries_failed=retry_failed,
        timeout_s=None if timeout is None else float(seconds(timeout)),
        due_at=_due_at(session, delay, at),
    )
    wanted.refuse_mixture()
    picked = session.nodes(on)
    way = route(picked.names if on else None, registered(session.store))
    if way.way is Way.QUEUE:
        _queue(session, wanted, way, wait=wait)
    else:
        _send(session, wanted, picked, wait=wait)


def _queue(session: Session, wanted: Wanted, way: Route, *, wait: bool) -> None:
    from toolkit.cli.queued import saying_unkept
    from toolkit.cluster.enqueue import enqueue
    from toolkit.cluster.schedule import Placed
    from toolkit.rollout.lock import operator
    from toolkit.views.jobs import scheduled_view

    store = session.store
    orders = _orders(session, wanted)
    _join_crawl(session, orders)
    _audit(session, orders)
    jobs = enqueue(
        store,
        orders,
        on=way.on,
        is_unique=wanted.is_unique,
        now=store.now(),
        who=operator(),
        on_unkept=saying_unkept(session, "schedule"),
    )
    with _telling_that_they_go_on(session, jobs):
        session.audit(detail=_ids(jobs))
        _say_what_is_special(session, wanted, way)
        if wait:
            _wait(session, session.nodes(), jobs)
            return
        session.printer.show(scheduled_view([Placed(job) for job in jobs]))


def _orders(session: Session, wanted: Wanted) -> list[Order]:
    from toolkit.cluster.choice import choose_queued
    from toolkit.cluster.membership import registered
    from toolkit.cluster.order_file import orders_from_file

    releases, records = session.store.releases, registered(session.store)
    if wanted.file is not None:
        found = orders_from_file(wanted.file, releases, records, project=wanted.project)
        return [wanted.laid_on(order) for order in found]
    plain = choose_queued(releases, records, wanted.spider or "", project=wanted.project, version=wanted.version)
    order = replace(
        plain,
        args=wanted.args,
        settings=wanted.settings,
        priority=wanted.priority,
        count=wanted.count,
        job_id=wanted.job_id,
    )
    return [wanted.laid_on(order)]


def _say_what_is_special(session: Session, wanted: Wanted, way: Route) -> None:
    """Tell what the operator may not expect, so that a job that waits is no riddle."""
    say = session.printer.say
    if wanted.due_at is not None:
        is_past = wanted.due_at <= session.store.now()
        say(f"to be taken from {moment_text(wanted.due_at)} on{', which is past: now' if is_past else ''}")
    if way.left_out:
        say(f"stock nodes take nothing from the queue, so these get no job: {', '.join(way.left_out)}", style="yellow")
    if not way.takers:
        say("no live node is there to take it now; it waits in the queue (crawlctl nodes)", style="yellow")


def _send(session: Session, wanted: Wanted, picked: Nodes, *, wait: bool) -> None:
    from toolkit.cluster.choice import choose
    from toolkit.cluster.schedule import schedule as start
    from toolkit.model.orders import Order
    from toolkit.views.jobs import scheduled_view

    wanted.refuse_queue_options()
    spider = wanted.spider or ""
    choice = choose(picked, session.store.releases, spider, project=wanted.project, version=wanted.version)
    order = Order(
        project=choice.project,
        spider=choice.spider,
        version=choice.version,
        args=wanted.args,
        settings=wanted.settings,
        priority=wanted.priority,
        count=wanted.count,
        job_id=wanted.job_id,
    )
    _join_crawl(session, [order])
    _audit(session, [order])
    placed = start(choice.nodes, session.store.jobs, order, now=session.store.now())
    jobs = [each.job for each in placed]
    with _telling_that_they_go_on(session, jobs):
        session.audit(detail=_ids(jobs), nodes=sorted({job.node for job in jobs if job.node}))
        if wait:
            _wait(session, choice.nodes, jobs)
            return
        session.printer.show(scheduled_view(placed))
    _end_by_placement(session, placed)


def _audit(session: Session, orders: Sequence[Order]) -> None:
    """Tell the audit what is scheduled; arguments and settings stay out of it, since they may hold anything."""
    kinds = dict.fromkeys(f"{order.project}/{order.spider} {order.version}" for order in orders)
    more = f" and {len(kinds) - 1} more kind(s)" if len(kinds) > 1 else ""
    session.audit(f"{next(iter(kinds), 'nothing')}{more}")


def _ids(jobs: Sequence[Job]) -> str:
    some = ", ".join(job.id for job in jobs[:MAX_TOLD])
    return f"{len(jobs)} job(s): {some}{', …' if len(jobs) > MAX_TOLD else ''}"


def _join_crawl(session: Session, orders: Sequence[Order]) -> None:
    """Refuse jobs that could not join the crawl they name, and tell which one they join; a file's rows tell it."""
    from toolkit.cluster.crawl_jobs import default_joined, refuse_to_join, what_is_joined
    from toolkit.model.jobs import CRAWL_SETTING, crawl_of

    if len(orders) != 1:
        return
    order = orders[0]
    crawl, is_named = crawl_of(order.spider, order.args, order.settings), bool(order.settings.get(CRAWL_SETTING))
    # Without a Redis of ours nothing is known.
    view = None if session.store.shared is None else session.store.shared.crawls.view(crawl)
    if is_named and view is not None:
        refuse_to_join(view, order.spider)
    told = what_is_joined(crawl, view, workers=order.count) if is_named else default_joined(order, crawl, view)
    if told is not None:
        session.printer.say(told)


def _due_at(session: Session, delay: str | None, at: str | None) -> datetime | None:
    from datetime import timedelta

    if delay is not None and at is not None:
        raise UsageError("--delay and --at both say when: give one of them")
    if delay is not None:
        return session.store.now().astimezone() + timedelta(seconds=seconds(delay))
    return None if at is None else moment(at, now=session.store.now())


def _pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, mark, value = text.partition("=")
        if not mark or not name:
            raise UsageError(f"{option} {text!r} is not of the form NAME=VALUE")
        if name in pairs:
            raise UsageError(f"{option} {name!r} is given twice")
        pairs[name] = value
    return pairs


@contextmanager
def _telling_that_they_go_on(session: Session, jobs: Sequence[Job]) -> Iterator[None]:
    """Say what becomes of jobs that were handed on, when Ctrl-C or a store that stays away ends what follows."""
    from toolkit.model.errors import StoreUnreachableError

    try:
        yield
    except (KeyboardInterrupt, StoreUnreachableError):
        some = ", ".join(job.id for job in jobs[:MAX_LIVE])
        session.printer.say(f"the jobs go on; crawlctl cancel ID stops one: {some}")
        raise


def _wait(session: Session, nodes: Nodes, jobs: Sequence[Job]) -> None:
    """Follow the jobs to their end."""
    from toolkit.cli.queued import waiting_for_store
    from toolkit.cluster.everywhere import wait_everywhere
    from toolkit.model.errors import JobFailedError
    from toolkit.views.jobs import jobs_table, jobs_view, utc_now

    current = list(jobs)
    with session.printer.live(lambda: jobs_table(current[:MAX_LIVE], now=utc_now())):
        ended = wait_everywhere(
            nodes,
            session.store,
            current,
            on_change=lambda jobs: current.__setitem__(slice(None), jobs),
            on_away=waiting_for_store(session),
        )
    session.printer.show(jobs_view(ended, now=utc_now()))
    if bad := [job for job in ended if job.state is not JobState.FINISHED]:
        told = ", ".join(f"{job.id} {job.state.value} ({job.finish_reason or job.reason})" for job in bad[:MAX_TOLD])
        text = f"{len(bad)} of {len(ended)} job(s) did not finish well: {told}"
        raise session.failed(JobFailedError(text, hint=f"crawlctl logs {bad[0].id} shows its log"))


def _end_by_placement(session: Session, placed: Sequence[Placed]) -> None:
    from toolkit.model.errors import NodesFailedError

    failed = [each for each in placed if each.error is not None]
    if failed:
        ids = ", ".join(each.job.id for each in failed)
        error = NodesFailedError(
            f"{len(failed)} of {len(placed)} job(s) of {failed[0].job.spider} may not run: {ids}: {failed[0].error}",
            hint="crawlctl jobs show ID tells whether a node took it after all",
        )
        raise session.failed(error)
