"""The command that prints the documentation: docs."""

from __future__ import annotations

from typing import Annotated

import typer

from toolkit.cli import completion
from toolkit.cli.command import READING, command
from toolkit.cli.session import Session


def add_to(app: typer.Typer) -> None:
    """Register this command."""
    command(app, "crawlctl docs", "crawlctl docs inventory", "crawlctl docs exit-codes", panel=READING)(docs)


def docs(
    session: Session,
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC", help="What to read; all topics are listed without it.", autocompletion=completion.topics
        ),
    ] = None,
) -> None:
    """Read the documentation on the terminal."""
    from toolkit.cli.topics import read_topic, topics_view

    if topic is None:
        session.printer.show(topics_view())
    else:
        session.printer.show(read_topic(topic))
