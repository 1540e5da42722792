"""The part of the application that a command line needs: to make all commands ready takes longer than most of them."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from toolkit.cli.command import HELP_OPTIONS

if TYPE_CHECKING:
    from typer.models import CommandInfo, TyperInfo


def narrowed(app: typer.Typer, argv: Sequence[str]) -> typer.Typer:
    """Return an application that answers this command line as the whole one does.

    Left in it is what the first words name, and all that is below that; everything, where they name nothing, or where
    a shell asks how a word might go on. To list the commands, those inside groups are not needed.
    """
    if "_CRAWLCTL_COMPLETE" in os.environ:
        return app
    if argv and argv[0] in HELP_OPTIONS:
        return _with(
            app, app.registered_commands, [_containing(each, _with(_inside(each))) for each in app.registered_groups]
        )
    return _named_by(app, argv)


def _named_by(app: typer.Typer, words: Sequence[str]) -> typer.Typer:
    if not words:
        return app
    for group in app.registered_groups:
        if group.name == words[0]:
            return _with(app, groups=[_containing(group, _named_by(_inside(group), words[1:]))])
    commands = [each for each in app.registered_commands if each.name == words[0]]
    return _with(app, commands) if commands else app


def _inside(group: TyperInfo) -> typer.Typer:
    return group.typer_instance or typer.Typer()


def _with(app: typer.Typer, commands: Sequence[CommandInfo] = (), groups: Sequence[TyperInfo] = ()) -> typer.Typer:
    part = copy.copy(app)
    part.registered_commands, part.registered_groups = list(commands), list(groups)
    return part


def _containing(group: TyperInfo, app: typer.Typer) -> TyperInfo:
    part = copy.copy(group)
    part.typer_instance = app
    return part
