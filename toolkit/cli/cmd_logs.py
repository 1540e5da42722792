"""The command that reads jobs' logs: of one as its node keeps it, of many as one stream."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli import completion
from toolkit.cli.cmd_jobs import OfCrawlOption, OfProjectOption, SpiderOption, found_job, taken
from toolkit.cli.command import JOBS, OnOption, command
from toolkit.cli.session import Session
from toolkit.model.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolkit.cluster.job_log import JobLogs
    from toolkit.cluster.log_lines import EntryFilter
    from toolkit.cluster.log_merge import JobEntry
    from toolkit.cluster.many_logs import ManyLogs
    from toolkit.cluster.nodes import Nodes
    from toolkit.model.errors import CrawlctlError
    from toolkit.model.jobs import Job, JobFilter

LAST_FOLLOWED = 10
"""How many lines of each log come before what is followed, unless it is said."""


class Level(StrEnum):
    """The levels of Scrapy's log, as the command line has them."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


def add_to(app: typer.Typer) -> None:
    """Register this command."""
    command(
        app,
        "crawlctl logs 3f2a91c -n 50",
        "crawlctl logs 3f2a91c -f",
        "crawlctl logs -f --crawl products",
        "crawlctl logs --spider products --level error --since 2h",
        panel=JOBS,
    )(logs)


def logs(
    session: Session,
    job: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Job ids, or their first characters.", autocompletion=completion.jobs),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until every job has ended, with those that begin meanwhile.")
    ] = False,
    crawl: OfCrawlOption = None,
    spider: SpiderOption = None,
    project: OfProjectOption = None,
    on: OnOption = None,
    state: Annotated[
        list[JobState] | None, typer.Option("--state", help="Only jobs in this state; repeatable.")
    ] = None,
    level: Annotated[Level | None, typer.Option("--level", help="Only what is of this level or above.")] = None,
    grep: Annotated[
        str | None, typer.Option("--grep", metavar="TEXT", help="Only what holds this text, in letters of any case.")
    ] = None,
    regex: Annotated[
        str | None, typer.Option("--regex", metavar="PATTERN", help="Only what this regular expression finds.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="AGE", help="Only what is not older: 30s, 10m, 2h, 7d.")] = None,
    lines: Annotated[
        int | None,
        typer.Option("--lines", "-n", min=0, help="Only the last N lines of each job; with -f, 10 unless given."),
    ] = None,
    no_prefix: Annotated[bool, typer.Option("--no-prefix", help="Leave out whose line it is.")] = False,
) -> None:
    """Print the log of a job, or those of many jobs and nodes as one, in the order of time.

    What a node has shipped (crawlctl docs logs) is read where the node, or its file, is gone.
    """
    from toolkit.cluster.job_log import JobLogs
    from toolkit.cluster.log_stream import LogWish
    from toolkit.cluster.many_logs import ManyLogs

    wanted = _filter(level, grep, regex, since)
    nodes = session.nodes()
    reader = JobLogs(nodes, lambda: session.store, place=session.inventory.shipped_logs, say=session.printer.say)
    is_chosen = any((crawl, spider, project, on, state))
    if len(job or ()) == 1 and not is_chosen and wanted.is_open and since is None:
        _one(session, reader, found_job(session, nodes, (job or [""])[0]), follow=follow, lines=lines)
        return
    jobs, chosen = _jobs(session, nodes, job or [], _chosen(session, crawl, spider, project, on, state), follow=follow)
    last = LAST_FOLLOWED if follow and lines is None and since is None else lines
    many = ManyLogs(reader, LogWish(wanted, last), say=lambda text: session.printer.say(text, style="yellow"))
    entries = _followed(session, nodes, many, jobs, chosen) if follow else many.past(jobs)
    _show(session, entries, has_prefix=not no_prefix and (len(jobs) > 1 or chosen is not None))
    if not follow:
        _end_by_unread(session, many.unread, of=len(jobs))


def _one(session: Session, reader: JobLogs, job: Job, *, follow: bool, lines: int | None) -> None:
    """Pass one job's log on as it is, byte by byte."""
    from toolkit.cluster.files import read_log

    if follow:
        job = taken(session, job, what="log lines")
    parts = (
        reader.follow(job, last_lines=LAST_FOLLOWED if lines is None else lines)
        if follow
        else read_log(reader.files(job), job, last_lines=lines)
    )
    session.printer.stream(parts, field="line")


def _filter(level: Level | None, grep: str | None, regex: str | None, since: str | None) -> EntryFilter:
    import re

    from toolkit.cli.durations import ago
    from toolkit.cluster.log_lines import EntryFilter
    from toolkit.model.errors import UsageError
    from toolkit.views.jobs import utc_now

    if grep is not None and regex is not None:
        raise UsageError("--grep and --regex both say what to look for; give one")
    try:
        pattern = re.compile(re.escape(grep), re.IGNORECASE) if grep is not None else regex and re.compile(regex)
    except re.error as error:
        raise UsageError(f"{regex!r} is no regular expression: {error}", hint="--grep takes a text as it is") from error
    return EntryFilter(None if level is None else level.name, pattern or None, ago(since, now=utc_now()))


def _chosen(
    session: Session,
    crawl: str | None,
    spider: str | None,
    project: str | None,
    on: str | None,
    state: list[JobState] | None,
) -> JobFilter:
    from toolkit.model.jobs import JobFilter

    names = frozenset(session.nodes(on).names) if on else frozenset()
    return JobFilter(states=frozenset(state or ()), spider=spider, project=project, nodes=names, crawl=crawl)


def _jobs(
    session: Session, nodes: Nodes, named: Sequence[str], chosen: JobFilter, *, follow: bool
) -> tuple[list[Job], JobFilter | None]:
    """Return the jobs to begin with, and what others that join them have in common; those that are named are all."""
    from toolkit.cluster.followed_jobs import jobs_to_read
    from toolkit.model.errors import NotFoundError, UsageError

    if named and not chosen.is_open:
        raise UsageError("name jobs by their ids, or choose by --crawl, --spider, --project, --on or --state")
    if named:
        return list({job.id: job for job in (found_job(session, nodes, each) for each in named)}.values()), None
    if chosen.is_open and not follow:
        raise UsageError(
            "say whose logs: jobs by their ids, or --crawl, --spider, --project, --on or --state",
            hint="crawlctl logs -f follows all that runs",
        )
    found = jobs_to_read(nodes, lambda: session.store, chosen, follow=follow)
    if found.is_cut:
        session.printer.say(
            f"the logs of the newest {len(found.jobs)} jobs; choose fewer to see others", style="yellow"
        )
    if not found.jobs and chosen.is_open:
        session.printer.say("nothing runs now; the logs of jobs that begin follow, until Ctrl-C")
    elif not found.jobs:
        raise NotFoundError("no such job runs" if follow else "there is no such job", hint="crawlctl jobs lists them")
    return list(found.jobs), chosen


def _followed(
    session: Session, nodes: Nodes, many: ManyLogs, jobs: Sequence[Job], chosen: JobFilter | None
) -> Iterable[JobEntry]:
    from toolkit.cluster.followed_jobs import FollowedJobs
    from toolkit.cluster.many_logs import MAX_STREAMS

    begun_at = session.store.now()
    seen = FollowedJobs(nodes, lambda: session.store, chosen, begun_at=begun_at, limit=MAX_STREAMS)
    return many.follow(jobs, seen, goes_on=chosen is not None and chosen.is_open)


def _end_by_unread(session: Session, unread: Sequence[CrawlctlError], *, of: int) -> None:
    """End well where every log was read, or is known to be there no more beside others that are."""
    from toolkit.model.errors import NodesFailedError, NotFoundError

    failed = [error for error in unread if not isinstance(error, NotFoundError)]
    if failed:
        raise session.failed(NodesFailedError(f"{len(failed)} of {of} log(s) could not be read: {failed[0].message}"))
    if len(unread) == of:
        raise session.failed(unread[0])


def _show(session: Session, entries: Iterable[JobEntry], *, has_prefix: bool) -> None:
    from toolkit.cli.prefixed import PrefixedLines
    from toolkit.views.logs import log_entry_view, prefix_of

    prefixed = PrefixedLines(session.printer)
    for each in entries:
        if not session.printer.is_for_people:
            session.printer.redraw(log_entry_view(each))
            continue
        for line in each.entry.lines:
            if has_prefix:
                prefixed.print(prefix_of(each), line)
            else:
                session.printer.line(line)
