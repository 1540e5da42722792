"""The commands about this machine's own nodes: demo, up, down."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.command import ON_THIS_MACHINE, OnOption, command
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from toolkit.model.outcomes import Outcomes
    from toolkit.model.servers import LocalProcess


def add_to(app: typer.Typer) -> None:
    """Register these commands."""
    command(app, "crawlctl demo", panel=ON_THIS_MACHINE)(demo)
    command(
        app,
        "crawlctl up",
        "crawlctl up && crawlctl deploy projects/shop && crawlctl schedule products",
        panel=ON_THIS_MACHINE,
    )(up)
    command(app, "crawlctl down", "crawlctl down --on node-3", panel=ON_THIS_MACHINE)(down)


def demo(
    session: Session,
    pages: Annotated[int, typer.Option(min=10, help="How many product pages the sample shop has.")] = 1000,
) -> None:
    """See it all on this machine: a Redis, three nodes, a deploy, a crawl, its result; then everything is stopped."""
    from toolkit.cli.demo import run_demo

    run_demo(session, pages=pages)


def up(session: Session, on: OnOption = None) -> None:
    """Start the inventory's local hosts, and its Redis if that is on this machine; keep them running."""
    from toolkit.model.errors import NotFoundError
    from toolkit.provision.local_cluster import up as start
    from toolkit.views.local import servers_view

    wanted = replace(session.inventory, hosts=session.hosts(on))
    with session.printer.busy(lambda: "waiting until all of them answer"):
        done = start(wanted, session.state_folder, environ=os.environ)
    if not done.each:
        raise NotFoundError("the inventory has no local host", hint="a host of this machine has `connection: local`")
    session.printer.show(servers_view(done))
    end_by_servers(session, done, "started")


def down(
    session: Session,
    on: OnOption = None,
    grace: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long spiders may take to close.")] = 30.0,
) -> None:
    """Stop what `up` started, spiders included; nothing of it is left running. The data stay."""
    from toolkit.provision.local_cluster import down as stop
    from toolkit.views.local import servers_view

    only = None if on is None else {host.name for host in session.hosts(on)}
    with session.printer.busy(lambda: f"waiting for spiders and servers to end; spiders have {grace:g} s"):
        done = stop(session.state_folder, only=only, grace_s=grace)
    session.printer.show(servers_view(done))
    end_by_servers(session, done, "stopped")


def end_by_servers(session: Session, done: Outcomes[LocalProcess], what: str) -> None:
    """Raise the exit that fits the servers' failures; do nothing when there are none."""
    from toolkit.model.errors import NodesFailedError

    if done.failed:
        first = done.failed[0].error
        hint = first.hint if first else None
        raise session.failed(
            NodesFailedError(f"{len(done.failed)} of {len(done)} could not be {what}: {first}", hint=hint)
        )
