"""The commands about the inventory: init, and inventory check, show, list, schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolkit.cli import completion
from toolkit.cli.command import CLUSTER, command, subcommands
from toolkit.cli.session import Session

PatternArgument = Annotated[
    str | None,
    typer.Argument(metavar="PATTERN", help="Only these hosts, as in --on.", autocompletion=completion.hosts),
]


def add_to(app: typer.Typer) -> None:
    """Register these commands."""
    summary = "List the inventory's hosts, as `crawlctl inventory` alone does, check them, or show all of them."
    group = subcommands(app, "inventory", summary, default="list", panel=CLUSTER)
    command(group, "crawlctl inventory check", "crawlctl inventory check -i staging.yaml")(check)
    command(group, "crawlctl inventory show node-1")(show)
    command(group, "crawlctl inventory list", "crawlctl inventory list 'eu:&big'", name="list")(list_)
    command(group, "crawlctl inventory schema > inventory.schema.json")(schema)
    command(app, "crawlctl init", "crawlctl init --from scrapy.cfg", panel=CLUSTER)(init)


def check(session: Session) -> None:
    """Find every mistake in the inventory: file, line, column, and the nearest right word."""
    from datetime import UTC, datetime

    from toolkit.cluster.cron_file import crons_of_file
    from toolkit.config.inventory.alerts import load_alerts
    from toolkit.views.local import checked_view

    inventory = session.inventory
    if inventory.has_alerts:
        load_alerts(inventory.path)
    if inventory.has_crons:
        crons_of_file(inventory.path, inventory, now=datetime.now(UTC))
    session.printer.show(checked_view(inventory))


def show(session: Session, pattern: PatternArgument = None) -> None:
    """Show every variable that hosts end up with; secrets are masked."""
    from toolkit.views.local import host_details_view

    session.printer.show(host_details_view(session.hosts(pattern)))


def list_(session: Session, pattern: PatternArgument = None) -> None:
    """List hosts, a line each."""
    from toolkit.views.local import hosts_view

    session.printer.show(hosts_view(session.hosts(pattern)))


def schema(session: Session) -> None:
    """Print the inventory's JSON Schema, for editors."""
    import json

    from toolkit.config.inventory.schema import json_schema
    from toolkit.views.view import View

    data = json_schema()
    session.printer.show(View(data, lambda: json.dumps(data, indent=2)))


def init(
    session: Session,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="SCRAPY_CFG", help="Take the hosts from this file's deploy targets."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")] = Path("inventory.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write an annotated inventory: three nodes on this machine, or the targets of a scrapy.cfg."""
    from toolkit.config.inventory.sample import annotated_inventory
    from toolkit.config.project import read_targets
    from toolkit.model.errors import ConfigurationError, ConflictError
    from toolkit.views.view import View, plain_table

    text = annotated_inventory(read_targets(source) if source else ())
    if out.exists() and not force:
        raise ConflictError(f"{out} is there already", hint="--force writes over it; --out FILE chooses another")
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{out} cannot be written: {error.strerror}") from error
    rows = [("written", out), ("next", "crawlctl up" if source is None else f"crawlctl status -i {out}")]
    session.printer.show(View({"file": str(out)}, lambda: plain_table("INVENTORY", "", rows=rows)))
