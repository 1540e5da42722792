"""The command that shows the whole cluster: status."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.command import CLUSTER, OnOption, command
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolkit.cluster.nodes import Nodes
    from toolkit.model.errors import StoreUnreachableError
    from toolkit.model.snapshot import NodeState
    from toolkit.views.view import View


def add_to(app: typer.Typer) -> None:
    """Register this command."""
    command(app, "crawlctl status", "crawlctl status --watch", "crawlctl status --on eu --output json", panel=CLUSTER)(
        status
    )


def status(
    session: Session,
    on: OnOption = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.2, help="How often --watch looks.")] = 2.0,
    all_nodes: Annotated[bool, typer.Option("--all", help="Show every node, however many.")] = False,
) -> None:
    """Show nodes, jobs, active releases, and what needs attention."""
    nodes = session.nodes(on)
    if watch:
        _watch(session, nodes, every_s=every, shows_all=all_nodes)
        return
    view, failed, store_error = _look(session, nodes, shows_all=all_nodes)
    session.printer.show(view)
    _end_by(session, failed, len(nodes))
    if store_error is not None:
        raise session.failed(store_error)


def _look(
    session: Session, nodes: Nodes, *, shows_all: bool
) -> tuple[View, Sequence[NodeState], StoreUnreachableError | None]:
    from toolkit.cluster.snapshot import recall, take_snapshot
    from toolkit.model.snapshot import NodeState
    from toolkit.views.status import status_view

    known = recall(lambda: session.store)
    snapshot = take_snapshot(nodes, known)
    failed = [node.state for node in snapshot.nodes if node.state is not NodeState.LIVE]
    return status_view(snapshot, shows_all=shows_all), failed, known.error


def _watch(session: Session, nodes: Nodes, *, every_s: float, shows_all: bool) -> None:
    """Redraw one region of a terminal; elsewhere print one result after another."""
    while True:
        view, _, _ = _look(session, nodes, shows_all=shows_all)
        session.printer.redraw(view)
        time.sleep(every_s)


def _end_by(session: Session, failed: Sequence[NodeState], of: int) -> None:
    from toolkit.model.errors import NodesFailedError, NothingReachableError
    from toolkit.model.snapshot import NodeState

    if failed:
        away = sum(state is NodeState.UNREACHABLE for state in failed)
        kind = NothingReachableError if away == of else NodesFailedError
        what = f"{len(failed)} of {of} node(s) could not be asked"
        raise session.failed(kind(what, hint="the table says why, node by node"))
