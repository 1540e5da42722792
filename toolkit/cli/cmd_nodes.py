"""The commands about nodes: nodes list, show, drain, resume, forget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli import completion
from toolkit.cli.command import CLUSTER, OnOption, command, subcommands
from toolkit.cli.durations import seconds
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolkit.model.names import NodeName
    from toolkit.model.nodes import NodeRecord

NamesArgument = Annotated[
    list[str], typer.Argument(metavar="NAME", help="Names of nodes.", autocompletion=completion.nodes)
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The node's name.", autocompletion=completion.nodes)]


def add_to(app: typer.Typer) -> typer.Typer:
    """Register these commands, and return their group for those that other modules add to it."""
    nodes = subcommands(
        app,
        "nodes",
        "List nodes, as `crawlctl nodes` alone does, show one, or keep it from taking jobs.",
        panel=CLUSTER,
        default="list",
    )
    command(nodes, "crawlctl nodes list", "crawlctl nodes list --on eu --output json", name="list")(list_)
    command(nodes, "crawlctl nodes show node-1", name="show")(show)
    command(
        nodes,
        "crawlctl nodes drain node-1",
        "crawlctl nodes drain node-1 node-2 --wait --timeout 30m",
        audit="nodes drain",
    )(drain)
    command(nodes, "crawlctl nodes resume node-1", audit="nodes resume")(resume)
    command(nodes, "crawlctl nodes forget node-9", audit="nodes forget")(forget)
    return nodes


def list_(session: Session, on: OnOption = None) -> None:
    """List nodes of both kinds, with their load, and when they were last heard of."""
    from toolkit.cluster.node_life import list_nodes
    from toolkit.views.nodes import nodes_view

    nodes = session.nodes(on)
    session.printer.show(nodes_view(list_nodes(session.store, nodes, is_whole=on is None)))


def show(session: Session, name: NameArgument) -> None:
    """Show all that is known of one node: load, versions, software, what it lacks and why."""
    from toolkit.cluster.node_life import show_node
    from toolkit.views.nodes import node_view

    session.printer.show(node_view(show_node(session.store, session.nodes(), name)))


def drain(
    session: Session,
    name: NamesArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until they run nothing any more.")] = False,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long --wait waits, as in 90s, 30m, 1h30m; then exit code 4.")
    ] = "1h",
) -> None:
    """Let nodes take no new job; what they run goes on to its end."""
    from toolkit.cli.queued import waiting_for_store
    from toolkit.cluster.node_life import drain as drain_nodes
    from toolkit.model.errors import NodesFailedError
    from toolkit.rollout.lock import operator
    from toolkit.views.nodes import drained_view

    names = _names(name)
    session.audit(" ".join(names), nodes=names)
    looks: list[NodeRecord] = []
    done = None
    try:
        with session.printer.busy(lambda: _what_drains(looks)):
            done = drain_nodes(
                session.store,
                names,
                who=operator(),
                wait_s=float(seconds(timeout)) if wait else 0.0,
                on_look=lambda records: looks.__setitem__(slice(None), records),
                on_away=waiting_for_store(session) if wait else None,
            )
    finally:
        if done is None and looks:
            command = f"crawlctl nodes resume {' '.join(names)}"
            session.printer.say(f"drained all the same: {', '.join(names)}; {command} undoes it")
    session.printer.show(drained_view(done))
    if late := [each.error for each in done if each.error is not None]:
        raise session.failed(NodesFailedError(f"{len(late)} of {len(done)} node(s) are not empty: {late[0]}"))


def _what_drains(records: Sequence[NodeRecord]) -> str:
    busy = [f"{each.name}: {each.report.running}" for each in records if each.report.running]
    return f"waiting for the jobs that still run: {', '.join(busy)}" if busy else "waiting for the nodes to tell"


def resume(session: Session, name: NamesArgument) -> None:
    """Let drained nodes take jobs again."""
    from toolkit.cluster.node_life import resume as resume_nodes
    from toolkit.views.nodes import names_view

    session.audit(" ".join(name), nodes=name)
    session.printer.show(names_view(resume_nodes(session.store, _names(name)), "resumed"))


def forget(session: Session, name: NamesArgument) -> None:
    """Drop nodes from the cluster's memory that are lost for good; a live one is refused."""
    from toolkit.cluster.node_life import forget as forget_nodes
    from toolkit.views.nodes import names_view

    session.audit(" ".join(name), nodes=name)
    session.printer.show(names_view(forget_nodes(session.store, _names(name)), "forgotten"))


def _names(texts: list[str]) -> list[NodeName]:
    from toolkit.model.names import NodeName

    return [NodeName(text) for text in dict.fromkeys(texts)]
