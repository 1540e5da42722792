"""The commands that give numbers to others: metrics, metrics dashboard, metrics rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolkit.cli.command import CLUSTER, command, subcommands
from toolkit.cli.session import Session


def add_to(app: typer.Typer) -> None:
    """Register these commands."""
    metrics = subcommands(
        app,
        "metrics",
        "Tell the cluster's numbers for Prometheus, as `crawlctl metrics` alone does; its dashboard and alerts.",
        panel=CLUSTER,
        default="show",
    )
    command(
        metrics,
        "crawlctl metrics",
        "crawlctl metrics --textfile /var/lib/node_exporter/crawlctl.prom",
        name="show",
    )(show)
    command(metrics, "crawlctl metrics dashboard > crawlctl.json")(dashboard)
    command(
        metrics,
        "crawlctl metrics rules > crawlctl-rules.yml",
        "crawlctl metrics rules --runbook-url https://wiki.example.com/crawlctl",
    )(rules)


def show(
    session: Session,
    textfile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write them to this file, for node_exporter; its name ends in .prom."),
    ] = None,
) -> None:
    """Tell the cluster's numbers: nodes, jobs, crawls, Redis. `crawlctl web` serves the same at /metrics."""
    from toolkit.cluster.desk import Desk
    from toolkit.cluster.reading import take_reading
    from toolkit.views.metrics import exposition, metrics_view, written_view
    from toolkit.views.textfile import check_name, write_textfile

    if textfile is not None:
        check_name(textfile)
    reading = take_reading(Desk(session.nodes(), lambda: session.store))
    if textfile is not None:
        write_textfile(textfile, exposition(reading))
        session.printer.show(written_view(textfile, reading))
    elif session.printer.is_for_people:
        session.printer.stream([exposition(reading)])
    else:
        session.printer.show(metrics_view(reading))
    if reading.error is not None:
        raise session.failed(reading.error)


def dashboard(session: Session) -> None:
    """Print the dashboard for Grafana, which imports it as it is."""
    import json

    from toolkit.views.metric_dashboard import dashboard_object

    session.printer.stream([json.dumps(dashboard_object(), indent=2).encode() + b"\n"])


def rules(
    session: Session,
    runbook_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where the topic runbook can be read: each alert then leads to its entry."),
    ] = None,
) -> None:
    """Print the alert rules for Prometheus, as YAML for its rule_files; --output json is a form that it reads too."""
    from toolkit.views.metric_alerts import rules_object, rules_text
    from toolkit.views.view import View

    if session.printer.is_for_people:
        session.printer.stream([rules_text(runbook_url=runbook_url).encode()])
    else:
        session.printer.show(View(rules_object(runbook_url=runbook_url), lambda: ""))
