"""The commands about rollouts in waves, rollouts list, show, resume, undo; and audit, who changed what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli import completion
from toolkit.cli.command import CLUSTER, RELEASES, command, subcommands
from toolkit.cli.durations import ago
from toolkit.cli.session import Session
from toolkit.cli.waves import carry_on

if TYPE_CHECKING:
    from toolkit.model.rollouts import WaveRollout

IdArgument = Annotated[
    str | None,
    typer.Argument(metavar="ID", help="The rollout's id, or its first characters; not needed where one is open."),
]
StealOption = Annotated[bool, typer.Option("--steal", help="Take the lock over from whoever is at the rollout.")]


def add_to(app: typer.Typer) -> None:
    """Register these commands."""
    rollouts = subcommands(
        app,
        "rollouts",
        "List rollouts in waves, as `crawlctl rollouts` alone does, show one, finish it or take it back.",
        panel=RELEASES,
        default="list",
    )
    command(rollouts, "crawlctl rollouts", "crawlctl rollouts list --output json", name="list")(list_)
    command(rollouts, "crawlctl rollouts show", "crawlctl rollouts show 7c1f", name="show")(show)
    command(
        rollouts, "crawlctl rollouts resume 7c1f", "crawlctl rollouts resume 7c1f --accept", audit="rollouts resume"
    )(resume)
    command(rollouts, "crawlctl rollouts undo 7c1f", audit="rollouts undo")(undo)
    command(
        app,
        "crawlctl audit",
        "crawlctl audit --since 2h --node node-3",
        "crawlctl audit --who ann --action deploy -n 20",
        panel=CLUSTER,
    )(audit)


def list_(
    session: Session,
    all_: Annotated[bool, typer.Option("--all", help="Also those that are over.")] = False,
) -> None:
    """List the rollouts in waves that are under way, held or left."""
    from toolkit.views.wave_rollouts import wave_rollouts_view

    found = session.store.rollouts.recent(limit=1000)
    shown = [each for each in found if all_ or each.state.is_open]
    session.printer.show(wave_rollouts_view([(each, _is_left(session, each)) for each in shown]))


def show(session: Session, rollout: IdArgument = None) -> None:
    """Show one rollout: its waves, what each node said, what the gate said, and how to go on."""
    from toolkit.rollout.unfinished import find_rollout
    from toolkit.views.wave_rollouts import wave_rollout_view

    found = find_rollout(session.store, rollout, only_open=False)
    session.printer.show(wave_rollout_view(found, is_left=_is_left(session, found)))


def resume(
    session: Session,
    rollout: IdArgument = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Let the wave that failed count as passed, and go on with the next.")
    ] = False,
    steal: StealOption = False,
) -> None:
    """Go on with a rollout that is held or was left; the wave that it is in is tried again."""
    from toolkit.rollout import in_waves

    found, nodes = _open(session, rollout), session.nodes()
    carry_on(
        session,
        nodes,
        lambda watch: in_waves.resume(nodes, session.store, found.id, steal=steal, accepts=accept, watch=watch),
    )


def undo(session: Session, rollout: IdArgument = None, steal: StealOption = False) -> None:
    """Take a rollout that is held or was left back from every node; the active release is as it was."""
    from toolkit.rollout import in_waves

    found, nodes = _open(session, rollout), session.nodes()
    carry_on(
        session,
        nodes,
        lambda watch: in_waves.undo(nodes, session.store, found.id, steal=steal, watch=watch),
        is_undo=True,
    )


def audit(
    session: Session,
    since: Annotated[str | None, typer.Option(metavar="DURATION", help="Only what is not older: 30m, 2h, 7d.")] = None,
    who: Annotated[str | None, typer.Option(metavar="TEXT", help="Only by whom this is a part of.")] = None,
    action: Annotated[str | None, typer.Option(metavar="WORDS", help="Only commands that begin so.")] = None,
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what touched this node.", autocompletion=completion.nodes)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many entries at most.")] = 100,
) -> None:
    """Show who changed what, from where, on which nodes, and with what result, newest first."""
    from toolkit.cluster.audit_trail import AuditFilter, audit_trail
    from toolkit.views.audit import audit_view

    store = session.store
    wanted = AuditFilter(since=ago(since, now=store.now()), who=who, action=action, node=node)
    session.printer.show(audit_view(audit_trail(store, wanted, limit=limit)))


def _open(session: Session, rollout_id: str | None) -> WaveRollout:
    from toolkit.rollout.unfinished import find_rollout

    found = find_rollout(session.store, rollout_id, only_open=True)
    session.audit(f"{found.project} {found.version}", detail=f"rollout {found.id}")
    return found


def _is_left(session: Session, rollout: WaveRollout) -> bool:
    from toolkit.model.rollouts import RolloutState, is_left

    if rollout.state is not RolloutState.RUNNING:
        return False
    return is_left(rollout, session.store.releases.holder(rollout.project))
