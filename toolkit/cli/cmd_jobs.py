"""The commands about jobs: schedule, jobs, cancel, logs, items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli import completion
from toolkit.cli.command import JOBS, OnOption, ProjectOption, YesOption, command, subcommands
from toolkit.cli.session import Session
from toolkit.model.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolkit.cluster.nodes import Nodes
    from toolkit.cluster.schedule import Order, Placed
    from toolkit.cluster.scrapyd import ScrapydNode
    from toolkit.model.errors import CrawlctlError
    from toolkit.model.jobs import Job
    from toolkit.model.names import NodeName

JobArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The job's id, or its first characters.", autocompletion=completion.jobs)
]
SpiderOption = Annotated[
    str | None, typer.Option("--spider", help="Only jobs of this spider.", autocompletion=completion.spiders)
]
OfProjectOption = Annotated[
    str | None,
    typer.Option("--project", "-p", help="Only jobs of this project.", autocompletion=completion.projects),
]
EVERY_JOB = 1_000_000


def add_to(app: typer.Typer) -> None:
    """Register these commands."""
    command(
        app,
        "crawlctl schedule products",
        "crawlctl schedule products -p shop -a category=books -s DOWNLOAD_DELAY=1 --wait",
        "crawlctl schedule products --workers 3 --on eu",
        panel=JOBS,
    )(schedule)
    jobs = subcommands(
        app, "jobs", "List jobs, as `crawlctl jobs` alone does, or show one.", panel=JOBS, default="list"
    )
    command(
        jobs,
        "crawlctl jobs list --state running",
        "crawlctl jobs list --spider products --since 2h --output json",
        name="list",
    )(list_)
    command(jobs, "crawlctl jobs show 3f2a91c", name="show")(show)
    command(
        app,
        "crawlctl cancel 3f2a91c",
        "crawlctl cancel --spider products --grace 60",
        "crawlctl cancel --all --yes",
        panel=JOBS,
    )(cancel)
    command(app, "crawlctl logs 3f2a91c -n 50", "crawlctl logs 3f2a91c -f", panel=JOBS)(logs)
    command(app, "crawlctl items 3f2a91c > items.jl", panel=JOBS)(items)


def schedule(
    session: Session,
    spider: Annotated[
        str, typer.Argument(metavar="SPIDER", help="The spider's name.", autocompletion=completion.spiders)
    ],
    project: ProjectOption = None,
    argument: Annotated[
        list[str] | None, typer.Option("--argument", "-a", metavar="K=V", help="A spider argument; repeatable.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--setting", "-s", metavar="K=V", help="A Scrapy setting; repeatable.")
    ] = None,
    on: OnOption = None,
    workers: Annotated[int, typer.Option(min=1, help="How many jobs, spread over the least busy nodes.")] = 1,
    priority: Annotated[float, typer.Option(help="Among a node's pending jobs, the greater goes first.")] = 0.0,
    job_id: Annotated[str | None, typer.Option("--id", help="The job's id; refused when it is known already.")] = None,
    version: Annotated[
        str | None,
        typer.Option(
            help="Run this version instead of the active release; needs -p.", autocompletion=completion.versions
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end; exit code 8 when a job did not finish well.")
    ] = False,
) -> None:
    """Run a spider of the active release on the least busy nodes."""
    from toolkit.cluster.choice import choose
    from toolkit.cluster.schedule import Order
    from toolkit.cluster.schedule import schedule as start
    from toolkit.model.names import check_job_id
    from toolkit.views.jobs import scheduled_view

    choice = choose(session.nodes(on), session.store.releases, spider, project=project, version=version)
    order = Order(
        project=choice.project,
        spider=choice.spider,
        version=choice.version,
        args=_pairs(argument, "-a"),
        settings=_pairs(setting, "-s"),
        priority=priority,
        count=workers,
        job_id=None if job_id is None else check_job_id(job_id),
    )
    placed = start(choice.nodes, session.store.jobs, order, now=session.store.now())
    if wait:
        _wait(session, choice.nodes, placed)
        return
    session.printer.show(scheduled_view(placed))
    _end_by_placement(session, placed, order)


def list_(
    session: Session,
    state: Annotated[
        list[JobState] | None, typer.Option("--state", help="Only jobs in this state; repeatable.")
    ] = None,
    spider: SpiderOption = None,
    project: OfProjectOption = None,
    on: OnOption = None,
    since: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only jobs scheduled within this time: 30s, 15m, 2h, 7d.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many to show, newest first.")] = 50,
) -> None:
    """List the newest jobs of the whole cluster."""
    from toolkit.cli.durations import ago
    from toolkit.cluster.jobs import list_jobs
    from toolkit.model.jobs import JobFilter
    from toolkit.views.jobs import jobs_view, utc_now

    nodes = session.nodes(on)
    wanted = JobFilter(
        states=frozenset(state or ()),
        spider=spider,
        project=project,
        nodes=frozenset(nodes.names) if on else frozenset(),
        since=ago(since, now=utc_now()),
    )
    found = list_jobs(nodes, session.store.jobs, wanted, now=session.store.now(), limit=limit)
    session.printer.show(jobs_view(found.jobs, now=utc_now()))
    _end_by_unseen(session, found.unseen, len(nodes))


def show(session: Session, job: JobArgument) -> None:
    """Show all that is known of one job."""
    from toolkit.cluster.jobs import find_job
    from toolkit.views.jobs import job_view

    session.printer.show(job_view(find_job(session.nodes(), session.store.jobs, job, now=session.store.now())))


def cancel(
    session: Session,
    job: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Job ids, or their first characters.", autocompletion=completion.jobs),
    ] = None,
    spider: SpiderOption = None,
    project: OfProjectOption = None,
    on: OnOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Every pending and running job.")] = False,
    grace: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long a spider may take to close.")] = 30.0,
    yes: YesOption = False,
) -> None:
    """Stop jobs: ask, insist, kill; say `cancelled` only when the process is gone. Bulk asks first."""
    from toolkit.cluster.cancel import cancel as stop
    from toolkit.model.errors import UsageError
    from toolkit.views.jobs import cancelled_view

    is_bulk = bool(spider or project or on or everything)
    if bool(job) == is_bulk:
        raise UsageError("name jobs by their ids, or choose by --spider, --project, --on or --all")
    nodes = session.nodes(on)
    jobs = _alive(session, nodes, spider=spider, project=project) if is_bulk else _named(session, nodes, job or [])
    if is_bulk and jobs and not yes and not session.printer.confirm(f"Cancel {len(jobs)} job(s)?"):
        raise session.failed(UsageError("nothing was cancelled"))
    done = stop(nodes, session.store.jobs, jobs, grace_s=grace, now=session.store.now())
    session.printer.show(cancelled_view(done))
    _end_by_failures(session, [each.error for each in done if each.error])


def logs(
    session: Session,
    job: JobArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", min=0, help="Only the last N lines; with -f, 10 unless given.")
    ] = None,
) -> None:
    """Print a job's log."""
    from toolkit.cluster.files import follow_log, read_log
    from toolkit.cluster.jobs import find_job

    nodes = session.nodes()
    found = find_job(nodes, session.store.jobs, job, now=session.store.now())
    node = _node_of(nodes, found)
    parts = (
        follow_log(node, found, last_lines=10 if lines is None else lines)
        if follow
        else read_log(node, found, last_lines=lines)
    )
    session.printer.stream(parts, field="line")


def items(session: Session, job: JobArgument) -> None:
    """Print the items of a job, one JSON object a line, as its node keeps them."""
    from toolkit.cluster.files import read_items
    from toolkit.cluster.jobs import find_job

    nodes = session.nodes()
    found = find_job(nodes, session.store.jobs, job, now=session.store.now())
    session.printer.stream(read_items(_node_of(nodes, found), found))


def _pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    from toolkit.model.errors import UsageError

    pairs: dict[str, str] = {}
    for text in texts or ():
        name, mark, value = text.partition("=")
        if not mark or not name:
            raise UsageError(f"{option} {text!r} is not of the form NAME=VALUE")
        if name in pairs:
            raise UsageError(f"{option} {name!r} is given twice")
        pairs[name] = value
    return pairs


def _wait(session: Session, nodes: Nodes, placed: Sequence[Placed]) -> None:
    """Follow the jobs to their end; Ctrl-C ends the waiting, not the jobs."""
    from toolkit.cluster.waiting import wait_for
    from toolkit.model.errors import JobFailedError
    from toolkit.views.jobs import jobs_table, jobs_view, utc_now

    current: list[Job] = [each.job for each in placed]
    try:
        with session.printer.live(lambda: jobs_table(current, now=utc_now())):
            ended = wait_for(
                nodes,
                session.store.jobs,
                current,
                clock=session.store.now,
                on_change=lambda jobs: current.__setitem__(slice(None), jobs),
            )
    except KeyboardInterrupt:
        session.printer.say("the jobs go on; crawlctl cancel ID stops one: " + ", ".join(job.id for job in current))
        raise
    session.printer.show(jobs_view(ended, now=utc_now()))
    if bad := [job for job in ended if job.state is not JobState.FINISHED]:
        told = ", ".join(f"{job.id} {job.state.value} ({job.finish_reason})" for job in bad)
        raise session.failed(JobFailedError(f"{len(bad)} of {len(ended)} job(s) did not finish well: {told}"))


def _end_by_placement(session: Session, placed: Sequence[Placed], order: Order) -> None:
    from toolkit.model.errors import NodesFailedError

    failed = [each for each in placed if each.error is not None]
    if failed:
        ids = ", ".join(each.job.id for each in failed)
        error = NodesFailedError(
            f"{len(failed)} of {len(placed)} job(s) of {order.spider} may not run: {ids}: {failed[0].error}",
            hint="crawlctl jobs show ID tells whether a node took it after all",
        )
        raise session.failed(error)


def _end_by_unseen(session: Session, unseen: Mapping[NodeName, str], of: int) -> None:
    from toolkit.model.errors import NodesFailedError, NothingReachableError

    if unseen:
        kind = NothingReachableError if len(unseen) == of else NodesFailedError
        first = next(iter(unseen.values()))
        raise session.failed(
            kind(f"{len(unseen)} of {of} node(s) could not be asked; their jobs are as last known: {first}")
        )


def _end_by_failures(session: Session, errors: Sequence[CrawlctlError]) -> None:
    from toolkit.model.errors import NodesFailedError

    if errors:
        raise session.failed(
            NodesFailedError(f"{len(errors)} job(s) are not proven to be gone: {errors[0]}", hint=errors[0].hint)
        )


def _alive(session: Session, nodes: Nodes, *, spider: str | None, project: str | None) -> list[Job]:
    from toolkit.cluster.jobs import list_jobs
    from toolkit.model.jobs import JobFilter

    states = frozenset({JobState.PENDING, JobState.RUNNING})
    wanted = JobFilter(states=states, spider=spider, project=project, nodes=frozenset(nodes.names))
    return list(list_jobs(nodes, session.store.jobs, wanted, now=session.store.now(), limit=EVERY_JOB).jobs)


def _named(session: Session, nodes: Nodes, prefixes: Sequence[str]) -> list[Job]:
    from toolkit.cluster.jobs import find_job

    found = [find_job(nodes, session.store.jobs, prefix, now=session.store.now()) for prefix in prefixes]
    return list({job.id: job for job in found}.values())


def _node_of(nodes: Nodes, job: Job) -> ScrapydNode:
    from toolkit.model.errors import NotFoundError

    if job.node is None or job.node not in nodes:
        raise NotFoundError(f"the node of {job.id}, {job.node or 'none'}, is not in the inventory")
    return nodes[job.node]
