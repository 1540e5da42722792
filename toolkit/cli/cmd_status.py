"""The command that shows the whole cluster: status."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.command import CLUSTER, OnOption, command
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from toolkit.cluster.nodes import Nodes
    from toolkit.model.errors import StoreUnreachableError
    from toolkit.model.snapshot import Snapshot


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
    from toolkit.views.status import status_view

    nodes = session.nodes(on)
    if watch:
        _watch(session, nodes, every_s=every, is_whole=on is None, shows_all=all_nodes)
        return
    snapshot, store_error = _look(session, nodes, is_whole=on is None)
    session.printer.show(status_view(snapshot, shows_all=all_nodes))
    _end_by(session, snapshot)
    if store_error is not None:
        raise session.failed(store_error)


def _look(session: Session, nodes: Nodes, *, is_whole: bool) -> tuple[Snapshot, StoreUnreachableError | None]:
    from toolkit.cluster.snapshot import recall, take_snapshot

    known = recall(lambda: session.store)
    return take_snapshot(nodes, known, is_whole=is_whole), known.error


def _watch(session: Session, nodes: Nodes, *, every_s: float, is_whole: bool, shows_all: bool) -> None:
    """Redraw one region of a terminal; elsewhere print one result after another."""
    from toolkit.views.status import status_view

    while True:
        snapshot, _ = _look(session, nodes, is_whole=is_whole)
        session.printer.redraw(status_view(snapshot, shows_all=shows_all))
        time.sleep(every_s)


def _end_by(session: Session, snapshot: Snapshot) -> None:
    from toolkit.model.errors import NodesFailedError, NothingReachableError
    from toolkit.model.snapshot import NodeState

    silent = [node for node in snapshot.nodes if node.state in {NodeState.UNREACHABLE, NodeState.LOST}]
    refusing = [node for node in snapshot.nodes if node.state is NodeState.UNAUTHORIZED]
    if silent or refusing:
        kind = NothingReachableError if len(silent) == len(snapshot.nodes) else NodesFailedError
        what = f"{len(silent) + len(refusing)} of {len(snapshot.nodes)} node(s) could not be asked, or are lost"
        raise session.failed(kind(what, hint="the table says why, node by node"))
