"""The commands on jobs of the shared queue: hold, release, move, prioritise, pause, resume, tune, retry, limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli import completion
from toolkit.cli.command import OnOption, command
from toolkit.cli.queued import fresh, plug_in_names, queued_jobs
from toolkit.cli.session import Session
from toolkit.config.nearest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from toolkit.model.jobs import Job
    from toolkit.model.names import JobId
    from toolkit.model.queue import Cap

JobsArgument = Annotated[
    list[str],
    typer.Argument(metavar="ID", help="Job ids, or their first characters.", autocompletion=completion.jobs),
]
OneJobArgument = Annotated[
    str, typer.Argument(metavar="ID", help="The job's id, or its first characters.", autocompletion=completion.jobs)
]
CapProjectArgument = Annotated[
    str, typer.Argument(metavar="PROJECT", help="The project's name.", autocompletion=completion.projects)
]
CapSpiderArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SPIDER", help="Only this spider; without it, all of the project.", autocompletion=completion.spiders
    ),
]


def add_to(jobs: typer.Typer) -> None:
    """Register these commands below `jobs`."""
    command(jobs, "crawlctl jobs hold 3f2a91c 77ab01d", audit="jobs hold")(hold)
    command(jobs, "crawlctl jobs release 3f2a91c", audit="jobs release")(release)
    command(
        jobs, "crawlctl jobs prioritise 3f2a91c 10", "crawlctl jobs prioritise 3f2a91c -- -5", audit="jobs prioritise"
    )(prioritise)
    command(
        jobs, "crawlctl jobs move 3f2a91c --on 'eu:!node-3'", "crawlctl jobs move 3f2a91c --on all", audit="jobs move"
    )(move)
    command(jobs, "crawlctl jobs pause 3f2a91c", audit="jobs pause")(pause)
    command(jobs, "crawlctl jobs resume 3f2a91c", audit="jobs resume")(resume)
    command(jobs, "crawlctl jobs tune 3f2a91c --concurrency 4 --delay 0.5", audit="jobs tune")(tune)
    command(jobs, "crawlctl jobs retry 3f2a91c", audit="jobs retry")(retry)
    command(
        jobs,
        "crawlctl jobs limit shop --cluster 20 --per-node 4",
        "crawlctl jobs limit shop products --cluster 1",
        "crawlctl jobs limit shop --none",
        audit="jobs limit",
    )(limit)
    command(jobs, "crawlctl jobs limits --output json")(limits)


def hold(session: Session, job: JobsArgument) -> None:
    """Keep pending jobs from being taken, until they are released."""
    jobs = _audited(session, queued_jobs(session, job))
    _tell(session, jobs, session.shared.queue.hold(_ids(jobs)), "held", "only a pending job can be held")


def release(session: Session, job: JobsArgument) -> None:
    """Let held or delayed jobs be taken now, at their old place in the queue."""
    jobs = _audited(session, queued_jobs(session, job))
    _tell(session, jobs, session.shared.queue.release(_ids(jobs)), "released", "only a pending job can be released")


def prioritise(
    session: Session,
    job: OneJobArgument,
    priority: Annotated[
        float, typer.Argument(metavar="N", help="The new priority, -1000 to 1000; the greater goes first.")
    ],
) -> None:
    """Give a pending job another priority."""
    from toolkit.model.orders import check_priority

    check_priority(priority)
    jobs = _audited(session, queued_jobs(session, [job]), f"priority {priority:g}")
    done = session.shared.queue.reprioritise(_ids(jobs), priority)
    _tell(session, jobs, done, "given another priority", "only a pending job waits in the queue")


def move(session: Session, job: JobsArgument, on: OnOption = None) -> None:
    """Choose anew which nodes may take pending jobs; `--on all` lets every node."""
    from toolkit.model.errors import UsageError

    if on is None:
        raise UsageError("say which nodes may take the job", hint="--on PATTERN; --on all lets every node")
    jobs = _audited(session, queued_jobs(session, job))
    done = session.shared.queue.move(_ids(jobs), None if on == "all" else plug_in_names(session, on))
    _tell(session, jobs, done, "moved", "only a pending job can be moved")


def pause(session: Session, job: OneJobArgument) -> None:
    """Let a running spider begin no new download, until it is resumed; its process stays."""
    _wish_paused(session, job, is_paused=True)


def resume(session: Session, job: OneJobArgument) -> None:
    """Let a paused spider go on."""
    _wish_paused(session, job, is_paused=False)


def tune(
    session: Session,
    job: OneJobArgument,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many requests at once, of each slot of the downloader.")
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, max=86_400, help="How long between two requests to the same site."),
    ] = None,
) -> None:
    """Change how hard a running spider works, without a restart."""
    from toolkit.cluster.queued import refuse_unless_active
    from toolkit.model.errors import UsageError
    from toolkit.views.jobs import job_view

    if concurrency is None and delay is None:
        raise UsageError("there is nothing to change", hint="give --concurrency N, --delay SECONDS or both")
    told = f"concurrency {concurrency}, delay {delay} s".replace("None", "as it is")
    (found,) = _audited(session, queued_jobs(session, [job]), told)
    before = session.shared.queue.tune(found.id, concurrency=concurrency, delay_s=delay)
    refuse_unless_active(found, before, "tuned")
    session.printer.say(f"{found.node} was told; the spider obeys within seconds")
    session.printer.show(job_view(fresh(session, [found])[0]))


def retry(session: Session, job: JobsArgument) -> None:
    """Put jobs that failed, were lost or were cancelled back into the queue, with all their attempts."""
    from toolkit.cluster.queued import put_back

    jobs = _audited(session, queued_jobs(session, job))
    done = put_back(session.shared, _ids(jobs))
    _tell(session, jobs, done, "put back", "only a failed, lost or cancelled job can be retried")


def limit(
    session: Session,
    project: CapProjectArgument,
    spider: CapSpiderArgument = None,
    cluster: Annotated[int | None, typer.Option(min=0, help="How many at once in the whole cluster.")] = None,
    per_node: Annotated[int | None, typer.Option(min=0, help="How many at once on one node.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Take the cap away.")] = False,
) -> None:
    """Set the cap of a project, or of one spider: how many of its jobs may be active. It replaces the one before."""
    from toolkit.model.errors import UsageError
    from toolkit.model.names import SpiderName, check_project
    from toolkit.model.queue import Cap
    from toolkit.views.jobs import caps_view

    if none is (cluster is not None or per_node is not None):
        raise UsageError("give --cluster N, --per-node N or both, or --none alone")
    session.audit(" ".join(filter(None, [project, spider])), detail=f"cluster {cluster}, per node {per_node}")
    cap = Cap(check_project(project), None if spider is None else SpiderName(spider), cluster, per_node)
    session.shared.queue.set_cap(cap)
    if not none:
        _say_if_it_caps_nothing(session, cap)
    session.printer.show(caps_view(session.shared.queue.caps()))


def limits(session: Session) -> None:
    """List the caps of projects and spiders."""
    from toolkit.views.jobs import caps_view

    session.printer.show(caps_view(session.shared.queue.caps()))


def _say_if_it_caps_nothing(session: Session, cap: Cap) -> None:
    """Tell of a name that no release has: it may be misspelt, or still to come."""
    releases = session.store.releases
    if cap.project not in releases.projects():
        session.printer.say(f"no release of {cap.project} is known, so the cap holds nothing back yet", style="yellow")
        return
    active = releases.active(cap.project)
    if cap.spider is not None and active is not None and cap.spider not in active.spiders:
        nearest = did_you_mean(cap.spider, active.spiders)
        text = f"no spider {cap.spider} is in the active release of {cap.project}, so the cap holds nothing back yet"
        session.printer.say(text + nearest, style="yellow")


def _audited(session: Session, jobs: list[Job], detail: str | None = None) -> list[Job]:
    """Tell the audit which jobs are meant."""
    nodes = sorted({job.node for job in jobs if job.node})
    session.audit(", ".join(job.id for job in jobs[:20]), nodes=nodes, detail=detail)
    return jobs


def _ids(jobs: Sequence[Job]) -> list[JobId]:
    return [job.id for job in jobs]


def _tell(session: Session, jobs: Sequence[Job], done: Collection[JobId], what: str, why: str) -> None:
    """Show the jobs as they are now, and end by those with which it could not be done."""
    from toolkit.model.errors import RefusedError
    from toolkit.views.jobs import jobs_view, utc_now

    current = fresh(session, jobs)
    session.printer.show(jobs_view(current, now=utc_now()))
    if left := [job for job in current if job.id not in done]:
        told = ", ".join(f"{job.id} is {job.state.value}" for job in left[:5])
        raise session.failed(RefusedError(f"{len(left)} of {len(jobs)} job(s) could not be {what}: {told}", hint=why))


def _wish_paused(session: Session, prefix: str, *, is_paused: bool) -> None:
    """Ask, look until the spider says that it has obeyed, and show the job all the same when it has not."""
    from toolkit.cluster.queued import wish_paused
    from toolkit.views.jobs import job_view

    (found,) = _audited(session, queued_jobs(session, [prefix]))
    job, error = wish_paused(session.shared.queue, session.store.jobs, found, is_paused=is_paused)
    session.printer.show(job_view(job))
    if error is not None:
        raise session.failed(error)
