"""The command that gives nodes another address: nodes redial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.command import OnOption, YesOption, command
from toolkit.cli.durations import seconds
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from toolkit.model.nodes import NodeRecord


def add_to_nodes(nodes: typer.Typer) -> None:
    """Register the command among those of nodes."""
    command(
        nodes,
        "crawlctl nodes redial --on node-3",
        "crawlctl nodes redial --on dial-up --share 20% --wait --timeout 30m --yes",
        audit="nodes redial",
    )(redial)


def redial(
    session: Session,
    on: OnOption = None,
    share: Annotated[
        str | None,
        typer.Option(metavar="N%", help="How many of the live nodes may be at it at once; else as each node is told."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Ask those again that may not yet, until --timeout.")] = False,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long it may take altogether, as in 90s, 30m.")
    ] = "5m",
    yes: YesOption = False,
) -> None:
    """Give nodes another address by the redial_command of each, through Redis; what runs there goes on."""
    from toolkit.cluster.redialling import redial as redial_nodes
    from toolkit.cluster.redialling import unchanged
    from toolkit.model.errors import UsageError
    from toolkit.views.redial import redials_view

    limit, patience_s = _share(share), float(seconds(timeout))
    records = _picked(session, on)
    if len(records) > 1 and not yes and not session.printer.confirm(f"Give {len(records)} nodes another address?"):
        raise session.failed(UsageError("no node was asked", hint="--yes says it beforehand"))
    session.audit(nodes=[record.name for record in records], detail=f"at once: {share}" if share else None)
    left = len(records)

    def count_down(_: object) -> None:
        nonlocal left
        left -= 1

    with session.printer.busy(lambda: f"waiting for {left} node(s) to come back under another address"):
        rows = redial_nodes(session.shared, records, share=limit, timeout_s=patience_s, waits=wait, on_row=count_down)
    session.printer.show(redials_view(rows))
    if (error := unchanged(rows)) is not None:
        raise session.failed(error)


def _share(text: str | None) -> float | None:
    from toolkit.model.errors import UsageError

    if text is None:
        return None
    number = text.removesuffix("%")
    if not text.endswith("%") or not number.isdecimal() or not 1 <= int(number) <= 100:  # noqa: PLR2004 - per cent
        raise UsageError(f"{text!r} is no share", hint="write 1% to 100%; one node may always")
    return int(number) / 100


def _picked(session: Session, on: str | None) -> list[NodeRecord]:
    """Return the registered nodes that the pattern means; they need not be in the inventory.

    Raises:
        NotFoundError: it means a host that is no plug-in node, or nothing.

    """
    from toolkit.config.inventory.patterns import pick
    from toolkit.model.errors import NotFoundError
    from toolkit.model.hosts import Host

    records = {record.name: record for record in session.shared.nodes.all()}
    inventory = session.inventory
    listed = {host.name for host in inventory.hosts}
    unlisted = [Host(name, labels=record.report.labels) for name, record in records.items() if name not in listed]
    if on is None:
        names = list(records)
    else:
        names = [host.name for host in pick(on, [*inventory.hosts, *unlisted], inventory.groups)]
    if not names:
        raise NotFoundError("there is no plug-in node", hint="crawlctl docs node says how to make one")
    if strangers := [name for name in names if name not in records]:
        raise NotFoundError(
            f"no plug-in node {', '.join(strangers)} is registered", hint="crawlctl nodes list shows them"
        )
    return [records[name] for name in names]
