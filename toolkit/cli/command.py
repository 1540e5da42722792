"""How a command is declared: a function of a session and its options; those of all commands are added here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from toolkit.cli import completion
from toolkit.cli.printer import Output
from toolkit.cli.session import GlobalOptions, Session

EVERYWHERE = "Options of every command"

InventoryOption = Annotated[
    Path | None,
    typer.Option(
        "--inventory",
        "-i",
        help="The inventory; else $CRAWLCTL_INVENTORY, else inventory.yaml here or above.",
        show_default=False,
        rich_help_panel=EVERYWHERE,
    ),
]
OutputOption = Annotated[
    Output | None,
    typer.Option("--output", help="How results are shown.", show_default="table", rich_help_panel=EVERYWHERE),
]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="PATTERN",
        help="Only these hosts, as in 'eu:&big:!node-3', 'node-*', 'disk=ssd'.",
        autocompletion=completion.hosts,
    ),
]
ProjectOption = Annotated[
    str | None, typer.Option("--project", "-p", help="The project.", autocompletion=completion.projects)
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def command(
    app: typer.Typer, *examples: str, name: str | None = None, passes_on: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command; its first argument becomes a `Session`, its docstring the help.

    `examples` are shown below the help. With `passes_on` the command takes further words as they are.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]

        @functools.wraps(function)
        def run(
            ctx: typer.Context, /, *args: Any, inventory: Path | None, output: Output | None, **options: Any
        ) -> None:
            before = ctx.find_object(GlobalOptions) or GlobalOptions()
            session = Session(GlobalOptions(inventory or before.inventory, output or before.output))
            try:
                function(session, *args, **options)
            finally:
                session.close()

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
            *(parameter.replace(kind=keyword) for parameter in own),
            inspect.Parameter("inventory", keyword, default=None, annotation=InventoryOption),
            inspect.Parameter("output", keyword, default=None, annotation=OutputOption),
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        epilog = "\n\n".join(["Examples:", *(f"  {example}" for example in examples)]) if examples else None
        settings = {"ignore_unknown_options": True} if passes_on else None
        app.command(name or function.__name__, epilog=epilog, context_settings=settings)(run)
        return run

    return register


def subcommands(
    app: typer.Typer, name: str, help_text: str, *, default: Callable[..., None] | None = None
) -> typer.Typer:
    """Add a group of commands; without a word after its name it runs `default`, or shows its help."""
    group = typer.Typer(
        help=help_text,
        no_args_is_help=default is None,
        invoke_without_command=default is not None,
        rich_markup_mode="rich",
    )
    if default is not None:

        @group.callback()
        def _run_default(ctx: typer.Context) -> None:
            if ctx.invoked_subcommand is None:
                default_command = ctx.command.get_command(ctx, default_name)  # type: ignore[attr-defined]
                with default_command.make_context(default_name, [], parent=ctx) as below:
                    default_command.invoke(below)

        default_name = default.__name__.rstrip("_")
        _run_default.__doc__ = help_text
    app.add_typer(group, name=name)
    return group
