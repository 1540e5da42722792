"""The command that shows the cluster on the whole terminal: top."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from toolkit.cli.command import CLUSTER, OnOption, command
from toolkit.cli.session import Session


def add_to(app: typer.Typer) -> None:
    """Register this command."""
    command(app, "crawlctl top", "crawlctl top --on eu", "crawlctl top --every 5s", panel=CLUSTER)(top)


def top(
    session: Session,
    on: OnOption = None,
    every: Annotated[str, typer.Option(metavar="SPAN", help="How often it looks: 1s, 5s, 1m.")] = "2s",
) -> None:
    """Show nodes, jobs, crawls, queue and events on the whole terminal, and act on them; `?` shows the keys."""
    from toolkit.cli.durations import seconds
    from toolkit.model.errors import UsageError

    every_s = seconds(every)
    if every_s < 1:
        raise UsageError(f"--every {every}: it looks once a second at most", hint="--every 2s, unless said otherwise")
    if not (sys.stdin.isatty() and sys.stdout.isatty() and session.printer.is_for_people):
        hint = "crawlctl status --watch, or crawlctl status --output json"
        raise UsageError("crawlctl top needs a terminal to draw on, and somebody at it", hint=hint)
    from toolkit.cluster.acts import Acts
    from toolkit.cluster.desk import Desk
    from toolkit.cluster.job_log import JobLogs
    from toolkit.rollout.lock import operator
    from toolkit.top.app import Top
    from toolkit.top.watcher import Watcher

    desk = Desk(session.nodes(on), lambda: session.store, is_whole=on is None)
    logs = JobLogs(desk.nodes, desk.open_store, place=session.inventory.shipped_logs)
    acts = Acts(desk, who=operator())
    ended = Top(Watcher(desk), acts, name=session.inventory.cluster, every_s=every_s, logs=logs).run()
    if ended is not None:
        raise ended
