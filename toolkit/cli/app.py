"""The commands, as one Typer application."""

from __future__ import annotations

from typing import Annotated

import typer

from toolkit.cli.command import HELP_OPTIONS, InventoryOption, OutputOption
from toolkit.cli.printer import Output
from toolkit.cli.session import GlobalOptions

app = typer.Typer(
    name="crawlctl",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": list(HELP_OPTIONS)},
    epilog="Begin with: crawlctl demo, crawlctl init, crawlctl docs. Exit codes: crawlctl docs exit-codes.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"crawlctl {version('crawlctl')}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    inventory: InventoryOption = None,
    output: OutputOption = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Ship Scrapy projects to many Scrapyd nodes, run them as one cluster, see them, stop them."""
    ctx.obj = GlobalOptions(inventory, output or Output.TABLE)


def _register() -> None:
    """Add the commands; each module brings its own to the app."""
    from toolkit.cli import (
        cmd_alerts,
        cmd_crawls,
        cmd_cron,
        cmd_deploy,
        cmd_docs,
        cmd_doctor,
        cmd_events,
        cmd_hosts,
        cmd_inventory,
        cmd_jobs,
        cmd_lifecycle,
        cmd_local,
        cmd_logs,
        cmd_metrics,
        cmd_nodes,
        cmd_provision,
        cmd_redial,
        cmd_rollouts,
        cmd_schedule,
        cmd_security,
        cmd_status,
        cmd_top,
        cmd_web,
    )

    jobs, cluster = (
        (cmd_schedule, cmd_jobs, cmd_logs, cmd_cron),
        (
            cmd_crawls,
            cmd_status,
            cmd_top,
            cmd_events,
            cmd_alerts,
            cmd_metrics,
            cmd_doctor,
            cmd_nodes,
            cmd_security,
            cmd_web,
        ),
    )
    added = {
        module: module.add_to(app)
        for module in (cmd_local, cmd_deploy, cmd_rollouts, *jobs, *cluster, cmd_inventory, cmd_docs)
    }
    for module in (cmd_hosts, cmd_provision, cmd_lifecycle, cmd_redial):
        module.add_to_nodes(added[cmd_nodes])


_register()
