"""The commands about jobs that recur: cron list, show, add, edit, remove, pause, resume, run, next, history, apply."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.command import JOBS, OnOption, ProjectOption, YesOption, command, subcommands
from toolkit.cli.cron_options import (
    AfterOption,
    ArgumentOption,
    AtOption,
    AttemptsOption,
    CommentOption,
    CrawlOption,
    CronNameArgument,
    CronNamesArgument,
    CronWords,
    EndOption,
    JitterOption,
    LateOption,
    NewNameArgument,
    OverlapOption,
    PausedOption,
    PriorityOption,
    SettingOption,
    SpiderArgument,
    SpiderOption,
    StartOption,
    TimeoutOption,
    TimezoneOption,
    WithoutOption,
    WorkersOption,
)
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from toolkit.cluster.cron_file import CronPlan
    from toolkit.model.crons import Cron

MAX_NAMED = 10


def add_to(app: typer.Typer) -> None:
    """Register these commands."""
    crons = subcommands(
        app,
        "cron",
        "List the jobs that recur, as `crawlctl cron` alone does, define, pause and run them, and show what they did.",
        panel=JOBS,
        default="list",
    )
    command(crons, "crawlctl cron", "crawlctl cron list --output json", name="list")(list_)
    command(crons, "crawlctl cron show nightly")(show)
    command(
        crons,
        "crawlctl cron add nightly products --at '30 3 * * *' --timezone Europe/Berlin",
        "crawlctl cron add recent products --at @hourly -a 'since={last_success:2026-01-01}' --jitter 5m",
        "crawlctl cron add prices prices --after 'products success'",
        audit="cron add",
    )(add)
    command(
        crons,
        "crawlctl cron edit nightly --at '0 4 * * 1-5'",
        "crawlctl cron edit nightly --overlap queue -a region=eu --without since",
        audit="cron edit",
    )(edit)
    command(crons, "crawlctl cron remove nightly", "crawlctl cron remove old-1 old-2 --yes", audit="cron remove")(
        remove
    )
    command(crons, "crawlctl cron pause nightly", audit="cron pause")(pause)
    command(crons, "crawlctl cron resume nightly", audit="cron resume")(resume)
    command(crons, "crawlctl cron run nightly", "crawlctl cron run nightly --anyway", audit="cron run")(run)
    command(crons, "crawlctl cron next nightly", "crawlctl cron next nightly -n 20", name="next")(next_)
    command(crons, "crawlctl cron history nightly", "crawlctl cron history nightly --output jsonl")(history)
    command(
        crons,
        "crawlctl cron apply --dry-run",
        "crawlctl cron apply -f crons.yaml --prune --yes",
        audit="cron apply",
    )(apply)


def list_(session: Session) -> None:
    """List all crons: when each fires next and what became of its last due time, in this machine's time zone."""
    from toolkit.views.crons import crons_view

    views = session.shared.crons.all()
    session.printer.show(crons_view(views, now=session.store.now()))


def show(session: Session, name: CronNameArgument) -> None:
    """Show all of one cron."""
    from toolkit.cluster.crons import find
    from toolkit.views.crons import cron_view

    session.printer.show(cron_view(find(session.shared, name)))


def add(
    session: Session,
    name: NewNameArgument,
    spider: SpiderArgument,
    at: AtOption = None,
    after: AfterOption = None,
    project: ProjectOption = None,
    timezone: TimezoneOption = None,
    jitter: JitterOption = None,
    start: StartOption = None,
    end: EndOption = None,
    argument: ArgumentOption = None,
    setting: SettingOption = None,
    on: OnOption = None,
    priority: PriorityOption = None,
    attempts: AttemptsOption = None,
    timeout: TimeoutOption = None,
    workers: WorkersOption = None,
    crawl: CrawlOption = None,
    overlap: OverlapOption = None,
    late: LateOption = None,
    paused: PausedOption = None,
    comment: CommentOption = None,
) -> None:
    """Define a cron: a spider that runs at times, or after another spider's jobs."""
    from toolkit.model.crons import Cron
    from toolkit.model.errors import ConflictError
    from toolkit.model.names import SpiderName

    words = CronWords(
        *(at, after, project, timezone, jitter, start, end, argument, setting, on, priority, attempts, timeout),
        *(workers, crawl, overlap, late, paused, comment),
    )
    cron = words.laid_on(session, Cron(name, SpiderName(spider)))
    if session.shared.crons.get(name) is not None:
        raise ConflictError(f"there is a cron {name} already; nothing was changed", hint=f"crawlctl cron edit {name}")
    _define(session, cron, expected="")


def edit(
    session: Session,
    name: CronNameArgument,
    spider: SpiderOption = None,
    at: AtOption = None,
    after: AfterOption = None,
    project: ProjectOption = None,
    timezone: TimezoneOption = None,
    jitter: JitterOption = None,
    start: StartOption = None,
    end: EndOption = None,
    argument: ArgumentOption = None,
    setting: SettingOption = None,
    without: WithoutOption = None,
    on: OnOption = None,
    priority: PriorityOption = None,
    attempts: AttemptsOption = None,
    timeout: TimeoutOption = None,
    workers: WorkersOption = None,
    crawl: CrawlOption = None,
    overlap: OverlapOption = None,
    late: LateOption = None,
    comment: CommentOption = None,
) -> None:
    """Change what is given, and nothing else; an empty text takes a choice back. It is due next by the new words."""
    from toolkit.cluster.crons import find

    words = CronWords(
        *(at, after, project, timezone, jitter, start, end, argument, setting, on, priority, attempts, timeout),
        *(workers, crawl, overlap, late, None, comment),
        spider=spider,
        without=without,
    )
    view = find(session.shared, name)
    _define(session, words.laid_on(session, view.cron), expected=view.revision)


def remove(session: Session, names: CronNamesArgument, yes: YesOption = False) -> None:
    """Take crons away, with their history; jobs that they have started go on."""
    from toolkit.cluster.crons import find
    from toolkit.cluster.crons import remove as remove_crons
    from toolkit.model.errors import UsageError
    from toolkit.views.crons import removed_view

    for name in names:
        find(session.shared, name)
    if not yes and not session.printer.confirm(f"Remove {_named(names)}?"):
        raise session.failed(UsageError("nothing was removed", hint="--yes says it beforehand"))
    session.audit(_named(names))
    session.printer.show(removed_view(sorted(remove_crons(session.shared, names))))


def pause(session: Session, names: CronNamesArgument) -> None:
    """Let crons fire no more until they are resumed; firings that wait for the one before them are given up."""
    from toolkit.cluster.crons import pause as pause_cron
    from toolkit.rollout.lock import operator
    from toolkit.views.crons import crons_view

    session.audit(_named(names))
    now = session.store.now()
    views = [pause_cron(session.shared, name, by=operator(), now=now) for name in names]
    session.printer.show(crons_view(views, now=now))


def resume(session: Session, names: CronNamesArgument) -> None:
    """Let paused crons fire again, from their next due time on; what was due meanwhile is not made up for."""
    from toolkit.cluster.crons import resume as resume_cron
    from toolkit.rollout.lock import operator
    from toolkit.views.crons import crons_view

    session.audit(_named(names))
    now = session.store.now()
    views = [resume_cron(session.shared, name, by=operator(), now=now) for name in names]
    session.printer.show(crons_view(views, now=now))


def run(
    session: Session,
    name: CronNameArgument,
    anyway: Annotated[bool, typer.Option("--anyway", help="Also while a job of its last firing runs.")] = False,
) -> None:
    """Fire a cron now, paused or not; its due times stay as they are."""
    from toolkit.cli.queued import saying_unkept
    from toolkit.cluster.crons import run_now
    from toolkit.model.crons import FiringState
    from toolkit.model.errors import RefusedError
    from toolkit.rollout.lock import operator
    from toolkit.views.crons import firings_view

    session.audit(name)
    say_unkept = saying_unkept(session, "firing")
    told = run_now(session.store, session.shared, name, by=operator(), anyway=anyway, on_unkept=say_unkept)
    if told is None:
        session.printer.say(f"{name} waits until the job of its last firing has ended")
    session.printer.show(firings_view([] if told is None else [told], now=session.store.now()))
    if told is not None and told.state is FiringState.SKIPPED:
        raise session.failed(RefusedError(f"{name} was not run: {told.reason}", hint="--anyway runs it all the same"))
    session.audit(detail=None if told is None else f"job(s) {_named(told.jobs)}")


def next_(
    session: Session,
    name: CronNameArgument,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="How many times to show.")] = 5,
) -> None:
    """Show when a cron fires next, its jitter counted in."""
    from toolkit.cluster.crons import find, upcoming
    from toolkit.views.crons import upcoming_view

    cron = find(session.shared, name).cron
    times = upcoming(cron, now=session.store.now(), count=count)
    if not times:
        follows = cron.after is not None
        why = (
            "it is paused" if cron.is_paused else "it follows a spider's jobs" if follows else "it has come to its end"
        )
        session.printer.say(f"{name} is not due at any time: {why}")
    session.printer.show(upcoming_view(cron, times))


def history(
    session: Session,
    name: CronNameArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many firings at most.")] = 20,
) -> None:
    """Show what became of a cron's due times, newest first, with the job of each."""
    from toolkit.cluster.crons import find
    from toolkit.views.crons import firings_view

    find(session.shared, name)
    session.printer.show(firings_view(session.shared.crons.firings(name, limit=limit), now=session.store.now()))


def apply(
    session: Session,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="A file of crons.", show_default="the inventory"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove the crons that are not in the file.")] = False,
    yes: YesOption = False,
) -> None:
    """Make the crons as a file says: `crons:` in the inventory, or a file of their own. Others are left alone."""
    from toolkit.cluster.cron_file import crons_of_file, planned
    from toolkit.views.crons import changes_view

    written = crons_of_file(file or session.inventory.path, session.inventory, now=session.store.now())
    plan = planned(written, session.shared.crons.all(), prunes=prune)
    session.printer.show(changes_view(plan.changes))
    _tell_of_missing(session, plan.writes)
    if not plan.changes:
        session.printer.say("every cron is as the file says")
    if dry_run or not plan.changes:
        session.audit_nothing()
        return
    _carry_out(session, plan, yes=yes)


def _carry_out(session: Session, plan: CronPlan, *, yes: bool) -> None:
    from toolkit.cluster.crons import define
    from toolkit.cluster.crons import remove as remove_crons
    from toolkit.model.errors import UsageError
    from toolkit.rollout.lock import operator

    if plan.removes and not yes and not session.printer.confirm(f"Remove {_named(plan.removes)}?"):
        raise session.failed(UsageError("nothing was changed", hint="--yes says it beforehand"))
    told = f"{len(plan.writes)} written, {len(plan.removes)} removed"
    session.audit(_named([change.name for change in plan.changes]), detail=told)
    define(session.shared, plan.writes, by=operator(), now=session.store.now(), expected=plan.revisions)
    remove_crons(session.shared, plan.removes)
    session.printer.say(told)


def _define(session: Session, cron: Cron, *, expected: str) -> None:
    from toolkit.cluster.crons import define, find
    from toolkit.rollout.lock import operator
    from toolkit.views.crons import cron_view

    store = session.store
    session.audit(cron.name, detail=f"{cron.spider} {cron.at or 'after another'}")
    define(session.shared, [cron], by=operator(), now=store.now(), expected={cron.name: expected})
    session.printer.show(cron_view(find(session.shared, cron.name)))
    _tell_of_missing(session, [cron])


def _tell_of_missing(session: Session, crons: Sequence[Cron]) -> None:
    """Warn of what would fail if it fired now; it may be defined before the deploy that makes it right."""
    from toolkit.crons.firing import shortcoming

    releases = session.store.releases.actives() if crons else {}
    for cron in crons:
        if why := shortcoming(cron, releases=releases):
            session.printer.say(f"{cron.name} would fail now: {why}")


def _named(names: object) -> str:
    words = [str(name) for name in names] if isinstance(names, list | tuple) else [str(names)]
    more = f" and {len(words) - MAX_NAMED} more" if len(words) > MAX_NAMED else ""
    return f"{', '.join(words[:MAX_NAMED])}{more}"
