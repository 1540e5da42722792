"""The commands about alerts: alerts list, show, apply, test, silence, unsilence, failed."""

from __future__ import annotations

from typing import Annotated

import typer

from toolkit.cli import completion
from toolkit.cli.command import CLUSTER, command, subcommands
from toolkit.cli.session import Session

RuleArgument = Annotated[str, typer.Argument(metavar="RULE", help="The rule's name.", autocompletion=completion.rules)]
SinkArgument = Annotated[str, typer.Argument(metavar="SINK", help="The sink's name.", autocompletion=completion.sinks)]


def add_to(app: typer.Typer) -> None:
    """Register these commands."""
    summary = "Who is told of what: sinks and rules; `crawlctl alerts` alone lists them."
    group = subcommands(app, "alerts", summary, default="list", panel=CLUSTER)
    command(group, "crawlctl alerts list", "crawlctl alerts list --output json", name="list")(list_)
    command(group, "crawlctl alerts show failures", "crawlctl alerts show ops-hook")(show)
    command(group, "crawlctl alerts apply --dry-run", "crawlctl alerts apply", audit="alerts apply")(apply)
    command(group, "crawlctl alerts test ops-hook", name="test", audit="alerts test")(trial)
    command(group, "crawlctl alerts silence slow --for 2h", audit="alerts silence")(silence)
    command(group, "crawlctl alerts unsilence slow", audit="alerts unsilence")(unsilence)
    command(group, "crawlctl alerts failed")(failed)


def list_(session: Session) -> None:
    """List sinks and rules as they were applied last: who tells each sink, what fires, what is silent."""
    from toolkit.cluster.alerts import overview
    from toolkit.views.alerts import alerts_view

    session.printer.show(alerts_view(overview(session.shared)))


def show(session: Session, name: Annotated[str, typer.Argument(metavar="NAME", help="A rule, or a sink.")]) -> None:
    """Show one rule or sink in whole, its secrets masked."""
    from toolkit.cluster.alerts import overview, require_rule
    from toolkit.views.alerts import rule_view, sink_view

    seen = overview(session.shared)
    sink = seen.alerts.sinks.get(name)
    if sink is not None and name not in seen.alerts.rules:
        session.printer.show(sink_view(sink, seen.sinks.get(name)))
    else:
        session.printer.show(rule_view(require_rule(seen.alerts, name), seen))


def apply(
    session: Session,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
) -> None:
    """Make the sinks and rules of the inventory the cluster's, all of them; nodes go by them within a second."""
    from toolkit.cluster.alerts import apply_alerts, differences
    from toolkit.config.inventory.alerts import load_alerts
    from toolkit.model.errors import ConfigurationError
    from toolkit.rollout.lock import operator
    from toolkit.views.alerts import changes_view

    wanted = load_alerts(session.inventory.path) if session.inventory.has_alerts else None
    if wanted is None:
        raise ConfigurationError(
            "the inventory has no section alerts", hint="crawlctl docs alerts has some to begin with"
        )
    changes = differences(session.shared.alerts.read(), wanted)
    session.audit(subject=", ".join(f"{each.action} {each.what} {each.name}" for each in changes))
    if dry_run or not changes:
        session.audit_nothing()
    else:
        apply_alerts(session.shared, wanted, changes, by=operator())
    session.printer.show(changes_view(changes))
    session.printer.say("nothing was changed" if dry_run or not changes else f"{len(changes)} change(s) made")


def trial(
    session: Session,
    sink: SinkArgument,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long to wait for it to arrive.")] = "30s",
) -> None:
    """Send a message to a sink on the way that every message takes, and wait until it has arrived."""
    from toolkit.cli.durations import seconds
    from toolkit.cluster.alerts import try_sink
    from toolkit.rollout.lock import operator
    from toolkit.views.alerts import arrived_view

    wait_s = float(seconds(timeout))
    session.audit(subject=sink)
    with session.printer.busy(lambda: f"waiting for a node to tell {sink}"):
        took_s = try_sink(session.shared, sink, by=operator(), timeout_s=wait_s)
    session.printer.show(arrived_view(sink, took_s))


def silence(
    session: Session,
    rule: RuleArgument,
    for_: Annotated[str, typer.Option("--for", metavar="DURATION", help="For how long, as in 30m, 2h, 1d.")],
) -> None:
    """Tell nobody of a rule for a while, and let it do nothing; what happens meanwhile is never told."""
    from toolkit.cli.durations import seconds
    from toolkit.cluster.alerts import require_rule
    from toolkit.rollout.lock import operator
    from toolkit.views.alerts import silence_view

    for_s = float(seconds(for_))
    require_rule(session.shared.alerts.read(), rule)
    session.audit(subject=rule, detail=f"for {for_}")
    session.printer.show(silence_view(session.shared.alerts.silence(rule, for_s=for_s, by=operator())))


def unsilence(session: Session, rule: RuleArgument) -> None:
    """Let a silent rule speak again."""
    from toolkit.cluster.alerts import require_rule
    from toolkit.views.alerts import unsilenced_view

    require_rule(session.shared.alerts.read(), rule)
    session.audit(subject=rule)
    session.printer.show(unsilenced_view(rule, was_silent=session.shared.alerts.unsilence(rule)))


def failed(
    session: Session,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
) -> None:
    """Show the messages that were given up: to which sink, about what, and why."""
    from toolkit.views.alerts import failed_view

    session.printer.show(failed_view(session.shared.alerts.failed(limit=limit)))
