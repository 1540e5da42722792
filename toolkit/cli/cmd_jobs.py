"""The commands about jobs wherever they are: jobs list, jobs show, cancel, items."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli import cmd_queue, completion
from toolkit.cli.command import JOBS, OnOption, YesOption, command, subcommands
from toolkit.cli.session import Session
from toolkit.model.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolkit.cluster.nodes import Nodes
    from toolkit.model.errors import CrawlctlError, StoreUnreachableError
    from toolkit.model.jobs import Job, JobFilter
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
OfCrawlOption = Annotated[
    str | None, typer.Option("--crawl", help="Only jobs of this crawl.", autocompletion=completion.crawls)
]
EVERY_JOB = 1_000_000


def add_to(app: typer.Typer) -> None:
    """Register these commands."""
    jobs = subcommands(
        app,
        "jobs",
        "List jobs, as `crawlctl jobs` alone does, show one, or change how one waits or runs.",
        panel=JOBS,
        default="list",
    )
    command(
        jobs,
        "crawlctl jobs list --state running",
        "crawlctl jobs list --spider products --since 2h --output json",
        "crawlctl jobs list --limit 100 --page 2",
        name="list",
    )(list_)
    command(jobs, "crawlctl jobs show 3f2a91c", name="show")(show)
    cmd_queue.add_to(jobs)
    command(app, "crawlctl why 3f2a91c", panel=JOBS)(why)
    command(
        app,
        "crawlctl cancel 3f2a91c",
        "crawlctl cancel --spider products --grace 60",
        "crawlctl cancel --crawl products --yes",
        "crawlctl cancel --all --yes",
        panel=JOBS,
        audit="cancel",
    )(cancel)


def add_items_to(items: typer.Typer) -> None:
    """Register the command for the items of one job, which `crawlctl items ID` means too."""
    command(items, "crawlctl items 3f2a91c > items.jl", "crawlctl items 3f2a91c -f | jq .price", name="job")(items_of)


def list_(
    session: Session,
    state: Annotated[
        list[JobState] | None, typer.Option("--state", help="Only jobs in this state; repeatable.")
    ] = None,
    spider: SpiderOption = None,
    project: OfProjectOption = None,
    crawl: OfCrawlOption = None,
    on: OnOption = None,
    since: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only jobs scheduled within this time: 30s, 15m, 2h, 7d.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many to show, newest first.")] = 50,
    page: Annotated[
        int, typer.Option(min=1, metavar="N", help="The first --limit jobs, the next ones, and so on.")
    ] = 1,
) -> None:
    """List the newest jobs of the whole cluster."""
    from toolkit.cli.durations import ago
    from toolkit.cluster.everywhere import list_everywhere
    from toolkit.model.jobs import JobFilter
    from toolkit.views.jobs import jobs_view, utc_now

    nodes = session.nodes(on)
    wanted = JobFilter(
        states=frozenset(state or ()),
        spider=spider,
        project=project,
        nodes=frozenset(nodes.names) if on else frozenset(),
        since=ago(since, now=utc_now()),
        crawl=crawl,
    )
    found = list_everywhere(nodes, lambda: session.store, wanted, limit=limit, offset=(page - 1) * limit)
    session.printer.show(jobs_view(found.jobs, now=utc_now()))
    _end_by_note(session, found.note)
    _end_by_unseen(session, found.unseen, len(nodes))


def show(session: Session, job: JobArgument) -> None:
    """Show all that is known of one job; of one that failed, also the end of its log."""
    from toolkit.cluster.everywhere import find_everywhere
    from toolkit.cluster.why import log_end
    from toolkit.views.jobs import job_view

    nodes = session.nodes()
    found = find_everywhere(nodes, lambda: session.store, job)
    lines, error = (
        log_end(nodes, found.job, lambda: session.store)
        if found.job.state is JobState.FAILED
        else ((), "it is not asked for")
    )
    session.printer.show(job_view(found.job, log=None if error else lines))
    _end_by_note(session, found.note)


def why(session: Session, job: JobArgument) -> None:
    """Explain why a job waits, node by node, or how it came to its end."""
    from toolkit.cluster.everywhere import find_everywhere
    from toolkit.cluster.why import why as explain
    from toolkit.views.why import why_view

    nodes = session.nodes()
    found = find_everywhere(nodes, lambda: session.store, job)
    session.printer.show(why_view(explain(session.store, found.job, nodes)))


def cancel(
    session: Session,
    job: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Job ids, or their first characters.", autocompletion=completion.jobs),
    ] = None,
    spider: SpiderOption = None,
    project: OfProjectOption = None,
    crawl: OfCrawlOption = None,
    on: OnOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Every pending and running job.")] = False,
    grace: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long a spider may take to close.")] = 30.0,
    yes: YesOption = False,
) -> None:
    """Stop jobs: ask, insist, kill; say `cancelled` only when the process is gone. Bulk asks first."""
    from toolkit.cli.queued import saying_unkept
    from toolkit.cluster.everywhere import cancel_everywhere
    from toolkit.model.errors import UsageError
    from toolkit.model.jobs import JobFilter
    from toolkit.views.jobs import cancelled_view

    is_bulk = bool(spider or project or crawl or on or everything)
    if bool(job) == is_bulk:
        raise UsageError("name jobs by their ids, or choose by --spider, --project, --crawl, --on or --all")
    nodes = session.nodes(on)
    jobs = (
        _alive(session, nodes, JobFilter(spider=spider, project=project, crawl=crawl), is_whole=on is None)
        if is_bulk
        else _named(session, nodes, job or [])
    )
    if is_bulk and jobs and not yes and not session.printer.confirm(f"Cancel {len(jobs)} job(s)?"):
        raise session.failed(UsageError("nothing was cancelled", hint="--yes says it beforehand"))
    session.audit(
        ", ".join(job.id for job in jobs[:20]),
        nodes=sorted({job.node for job in jobs if job.node}),
        detail=f"{len(jobs)} job(s)",
    )
    alive = sum(not job.state.is_final for job in jobs)
    waiting = f"waiting for {alive} job(s) to end; what still runs after {grace:g} s is told again, then killed"
    try:
        with session.printer.busy(lambda: waiting):
            done = cancel_everywhere(
                nodes, lambda: session.store, jobs, grace_s=grace, on_unkept=saying_unkept(session, "cancel")
            )
    except KeyboardInterrupt:
        if any(job.is_queued for job in jobs):
            session.printer.say("what plug-in nodes were asked to end, they end all the same; crawlctl jobs shows it")
        raise
    session.printer.show(cancelled_view(done))
    _end_by_failures(session, [each.error for each in done if each.error])


def items_of(
    session: Session,
    job: JobArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
) -> None:
    """Print the items of a job, one JSON object a line, as its node keeps them; `crawlctl items ID` does the same.

    If the file has fewer items than the job counted, it says so on standard error.
    """
    from toolkit.cluster.files import ItemLines, item_parts
    from toolkit.cluster.job_log import JobLogs

    nodes = session.nodes()
    reader = JobLogs(nodes, lambda: session.store, say=session.printer.say)
    found = found_job(session, nodes, job)
    if follow:
        found = taken(session, found, what="items")
    items = ItemLines()
    session.printer.stream(items.of(reader.follow_items(found) if follow else item_parts(reader.files(found), found)))
    for text in items.missing(found_job(session, nodes, found.id) if follow else found):
        session.printer.say(text, style="yellow")


def _end_by_note(session: Session, note: StoreUnreachableError | None) -> None:
    """End as a store that is away ends every command; what could be shown without it is on stdout already."""
    if note is not None:
        raise session.failed(note)


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


def _alive(session: Session, nodes: Nodes, chosen: JobFilter, *, is_whole: bool) -> list[Job]:
    """Return the jobs that have not ended: all of the queue's, or those on the picked nodes."""
    from toolkit.cluster.everywhere import list_everywhere

    states = frozenset(state for state in JobState if not state.is_final)
    picked = frozenset() if is_whole else frozenset(nodes.names)
    wanted = replace(chosen, states=states, nodes=picked)
    found = list_everywhere(nodes, lambda: session.store, wanted, limit=EVERY_JOB).jobs
    # A job that was sent to a stock node which has left the inventory is out of reach.
    return [job for job in found if job.is_queued or job.node in nodes]


def _named(session: Session, nodes: Nodes, prefixes: Sequence[str]) -> list[Job]:
    return list({job.id: job for job in (found_job(session, nodes, prefix) for prefix in prefixes)}.values())


def found_job(session: Session, nodes: Nodes, prefix: str) -> Job:
    """Return the job that is meant; where the store is away, what is missing is said and the rest goes on."""
    from toolkit.cluster.everywhere import find_everywhere

    found = find_everywhere(nodes, lambda: session.store, prefix)
    if found.note is not None:
        session.printer.say(found.note.message, style="yellow")
    return found.job


def taken(session: Session, job: Job, *, what: str) -> Job:
    """Wait until a job of the queue is no longer pending, also while the store is away; say what is waited for."""
    from toolkit.cli.queued import waiting_for_store
    from toolkit.cluster.queued import look_until
    from toolkit.cluster.waiting import patiently

    def look() -> Job:
        return look_until(session.store.jobs, job, lambda job: job.state is not JobState.PENDING, within_s=1)

    if job.is_queued and job.state is JobState.PENDING:
        session.printer.say(f"{job.id} is pending; its {what} follow when a node has taken it (crawlctl why {job.id})")
    while job.is_queued and job.state is JobState.PENDING:
        job = patiently(look, on_away=waiting_for_store(session))
    return job
