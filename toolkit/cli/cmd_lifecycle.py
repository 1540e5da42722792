"""The commands that roll through hosts: nodes restart, upgrade, stop, start, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.cmd_provision import WheelhouseOption, provisioning_of
from toolkit.cli.command import OnOption, YesOption, command
from toolkit.cli.durations import seconds
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolkit.model.hosts import Host
    from toolkit.model.names import NodeName
    from toolkit.model.rolls import Rolled
    from toolkit.provision.lifecycle import HostChange
    from toolkit.provision.rolling import Care

BatchOption = Annotated[
    str,
    typer.Option("--batch", metavar="N|N%", help="How many hosts at a time; it stops after a batch with a failure."),
]
DrainOption = Annotated[
    str,
    typer.Option(
        "--drain-timeout", metavar="DURATION", help="How long jobs that would be ended may take to end first."
    ),
]
HealthOption = Annotated[
    str,
    typer.Option("--health-timeout", metavar="DURATION", help="How long a node may take to be well again afterwards."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Go on although jobs have not ended in time.")]


def add_to_nodes(nodes: typer.Typer) -> None:
    """Register these commands among those of nodes."""
    command(
        nodes, "crawlctl nodes restart --on node-1", "crawlctl nodes restart --batch 25% --yes", audit="nodes restart"
    )(restart)
    command(
        nodes, "crawlctl nodes upgrade --batch 10%", "crawlctl nodes upgrade --on canary --yes", audit="nodes upgrade"
    )(upgrade)
    command(
        nodes,
        "crawlctl nodes stop --on node-3",
        "crawlctl nodes stop --on eu --drain-timeout 2h --yes",
        audit="nodes stop",
    )(stop)
    command(nodes, "crawlctl nodes start --on node-3", audit="nodes start")(start)
    command(
        nodes,
        "crawlctl nodes remove --on node-9",
        "crawlctl nodes remove --on old --keep-files --yes",
        audit="nodes remove",
    )(remove)


def restart(
    session: Session,
    on: OnOption = None,
    batch: BatchOption = "1",
    drain_timeout: DrainOption = "30m",
    health_timeout: HealthOption = "1m",
    force: ForceOption = False,
    yes: YesOption = False,
) -> None:
    """Start nodes anew, some at a time, each seen well before the next; spiders of plug-in nodes go on meanwhile."""
    from toolkit.provision.lifecycle import restart as restart_host
    from toolkit.provision.rolling import Care

    care = Care(survive=True, drain_s=seconds(drain_timeout), health_s=seconds(health_timeout), is_forced=force)
    _roll(session, on, "restart", restart_host, care=care, batch=batch, yes=yes)


def upgrade(
    session: Session,
    on: OnOption = None,
    wheelhouse: WheelhouseOption = None,
    batch: BatchOption = "1",
    drain_timeout: DrainOption = "30m",
    health_timeout: HealthOption = "2m",
    force: ForceOption = False,
    yes: YesOption = False,
) -> None:
    """Bring nodes to this crawlctl and to the newest packages that their constraints allow, some at a time."""
    from toolkit.provision.lifecycle import upgrade_by
    from toolkit.provision.rolling import Care

    care = Care(survive=True, drain_s=seconds(drain_timeout), health_s=seconds(health_timeout), is_forced=force)
    with provisioning_of(session, wheelhouse, chooses_anew=True) as provisioning:
        _roll(session, on, "upgrade", upgrade_by(provisioning), care=care, batch=batch, yes=yes)


def stop(
    session: Session,
    on: OnOption = None,
    batch: BatchOption = "100%",
    drain_timeout: DrainOption = "30m",
    force: ForceOption = False,
    yes: YesOption = False,
) -> None:
    """Stop nodes when what they run has ended; they stay drained until `crawlctl nodes start`."""
    from toolkit.provision.lifecycle import stop as stop_host
    from toolkit.provision.rolling import Care

    care = Care(drain_s=seconds(drain_timeout), is_forced=force, ends_up=False)
    _roll(session, on, "stop", stop_host, care=care, batch=batch, yes=yes)


def start(session: Session, on: OnOption = None, health_timeout: HealthOption = "1m") -> None:
    """Start stopped nodes, and let them take jobs again once they are well."""
    from toolkit.provision.lifecycle import start as start_host
    from toolkit.provision.rolling import Care

    care = Care(survive=True, health_s=seconds(health_timeout), resumes=True)
    _roll(session, on, "start", start_host, care=care, batch="100%", yes=True)


def remove(
    session: Session,
    on: Annotated[str, typer.Option("--on", metavar="PATTERN", help="The hosts to clean up.")],
    batch: BatchOption = "100%",
    drain_timeout: DrainOption = "30m",
    keep_files: Annotated[
        bool, typer.Option("--keep-files", help="Leave the node's logs, items and eggs there.")
    ] = False,
    force: ForceOption = False,
    yes: YesOption = False,
) -> None:
    """Take nodes off their hosts: drained, stopped, forgotten, and everything of theirs removed."""
    from toolkit.provision.lifecycle import remove_with
    from toolkit.provision.rolling import Care

    care = Care(drain_s=seconds(drain_timeout), is_forced=force, ends_up=False, forgets=True)
    _roll(
        session,
        on,
        "remove",
        remove_with(session.state_folder, keeps_files=keep_files),
        care=care,
        batch=batch,
        yes=yes,
    )


def _roll(
    session: Session,
    on: str | None,
    verb: str,
    change: HostChange,
    *,
    care: Care,
    batch: str,
    yes: bool,
) -> None:
    """Ask, roll, show, and end with the exit code that fits."""
    from toolkit.model.errors import RefusedError
    from toolkit.provision.connect import connector
    from toolkit.provision.lifecycle import on_each
    from toolkit.provision.rolling import InterruptedRollError, batch_size, drainer, roll
    from toolkit.rollout.lock import operator
    from toolkit.views.rolling import rolled_view, rolling_table

    hosts = session.hosts(on)
    size = batch_size(batch, of=len(hosts))
    if not yes and not session.printer.confirm(f"{verb} {_counted(hosts)}?"):
        raise RefusedError(f"nothing was done: {verb} was not confirmed")
    session.audit(subject=on or "all", nodes=[host.name for host in hosts])
    steps: dict[NodeName, str] = {}
    connect = connector(session.state_folder)
    try:
        with session.printer.live(lambda: rolling_table([host.name for host in hosts], steps)):
            rolled = roll(
                hosts,
                on_each(connect, change),
                batch=size,
                care=care,
                store=session.store,
                nodes=session.nodes(on),
                who=drainer(operator(), verb),
                on_step=steps.__setitem__,
                on_done=lambda each: steps.__setitem__(each.host, each.step),
            )
    except InterruptedRollError as interrupted:
        session.printer.show(rolled_view(interrupted.rolled))
        raise session.interrupted() from None
    session.printer.show(rolled_view(rolled))
    _conclude(session, rolled, verb)


def _counted(hosts: Sequence[Host]) -> str:
    names = ", ".join(host.name for host in hosts[:5])
    return f"{names} and {len(hosts) - 5} more" if len(hosts) > 5 else names  # noqa: PLR2004 - a line's worth


def _conclude(session: Session, rolled: Sequence[Rolled], verb: str) -> None:
    from toolkit.model.errors import HostUnreachableError, NodesFailedError, NothingReachableError

    failed = [each for each in rolled if not each.ok]
    if not failed:
        return
    begun = [each for each in failed if each.error is not None]
    if len(begun) == len(rolled) and all(isinstance(each.error, HostUnreachableError) for each in begun):
        raise session.failed(NothingReachableError(f"{verb}: no host could be reached", hint="crawlctl doctor"))
    left = len(failed) - len(begun)
    rest = f"; {left} host(s) were not begun" if left else ""
    raise session.failed(NodesFailedError(f"{verb} failed on {len(begun)} of {len(rolled)} host(s){rest}"))
