"""The command that shows what changed in the cluster: events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli import completion
from toolkit.cli.command import CLUSTER, command
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from toolkit.cluster.event_trail import EventFilter
    from toolkit.model.errors import StoreUnreachableError

SHOWN, SHOWN_BEFORE = 50, 10


def add_to(app: typer.Typer) -> None:
    """Register this command."""
    command(
        app,
        "crawlctl events --since 1h",
        "crawlctl events -f --kind 'node.*' --kind job.lost",
        "crawlctl events --subject node-1",
        panel=CLUSTER,
    )(events)


def events(
    session: Session,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C, oldest first.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Only what is not older, as in 30m, 2h, 7d.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="DURATION", help="Only what is older, as in 30m.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this kind, as in job.failed or 'node.*'; may be repeated.",
            autocompletion=completion.event_kinds,
        ),
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="Only about this job, node, release, crawl …: a name, or how it begins.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=0, help="At most so many that are past; 50 unless given, 10 with -f."),
    ] = None,
) -> None:
    """Show what changed, newest first: jobs, nodes, releases, crawls, the queue, crons and alerts."""
    from toolkit.cli.durations import ago
    from toolkit.cluster.event_trail import EventFilter, check_kinds, event_trail
    from toolkit.model.errors import UsageError
    from toolkit.views.events import events_view

    if follow and until is not None:
        raise UsageError("--follow goes on into the future, so it does not go with --until")
    kinds, shared, now = check_kinds(kind or ()), session.shared, session.store.now()
    wanted = EventFilter(ago(since, now=now), ago(until, now=now), kinds, subject)
    if follow:
        _follow(session, wanted, limit=SHOWN_BEFORE if limit is None else limit)
    else:
        found = event_trail(shared.events, wanted, limit=SHOWN if limit is None else limit)
        session.printer.show(events_view(found, cluster=session.inventory.cluster))


def _follow(session: Session, wanted: EventFilter, *, limit: int) -> None:
    from toolkit.cluster.event_trail import follow
    from toolkit.views.events import event_view

    printer, cluster = session.printer, session.inventory.cluster

    def say_away(error: StoreUnreachableError) -> None:
        printer.say(f"waiting for Redis: {error.message}", style="yellow")

    for event in follow(session.shared.events, wanted, limit=limit, on_away=say_away):
        view = event_view(event, cluster=cluster)
        if printer.is_for_people:
            printer.show(view)
        else:
            printer.redraw(view)
