"""How a command is declared: a function of a session and its options; those of all commands are added here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from toolkit.cli import completion
from toolkit.cli.auditing import auditing
from toolkit.cli.printer import Output
from toolkit.cli.session import GlobalOptions, Session

HELP_OPTIONS = ("-h", "--help")
EVERYWHERE = "Options of every command"
# The headings under which `crawlctl --help` lists the commands.
ON_THIS_MACHINE, RELEASES, JOBS = "A cluster on this machine", "Releases", "Jobs"
CRAWLS, CLUSTER, READING = "Crawls", "The whole cluster", "To read"

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
    str | None,
    typer.Option(
        "--project",
        "-p",
        help="The project's name; not needed where only one fits.",
        autocompletion=completion.projects,
    ),
]
CrawlArgument = Annotated[
    str, typer.Argument(metavar="CRAWL", help="The crawl's id.", autocompletion=completion.crawls)
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def command(
    app: typer.Typer,
    *examples: str,
    name: str | None = None,
    panel: str | None = None,
    passes_on: bool = False,
    audit: str | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command; its first argument becomes a `Session`, its docstring the help.

    `examples` are shown below the help; `panel` is the heading under which the command is listed. With `passes_on` it
    takes further words as they are. `audit` are the words of a command that changes something: it gets an entry in the
    audit, for which it says by `session.audit` what it is done to.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]

        @functools.wraps(function)
        def run(*, ctx: typer.Context, inventory: Path | None, output: Output | None, **options: Any) -> None:
            before = ctx.find_object(GlobalOptions) or GlobalOptions()
            session = Session(GlobalOptions(inventory or before.inventory, output or before.output), audit=audit)
            try:
                with auditing(session):
                    function(session, **options)
            except KeyboardInterrupt:
                # Told here, since the parser would make a silent end of it.
                raise session.interrupted() from None
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
        app.command(name or function.__name__, epilog=epilog, context_settings=settings, rich_help_panel=panel)(run)
        return run

    return register


def subcommands(
    app: typer.Typer, name: str, help_text: str, *, panel: str, default: str | None = None, otherwise: str | None = None
) -> typer.Typer:
    """Add a group of commands; with no word after its name it runs the `default` one, or shows its help.

    A first word that is none of its commands goes to the command `otherwise`, if one is named.
    """

    class Group(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """Read options without a command as those of the default command, and a word that is none as its own."""
            if not args:
                meant = default
            elif args[0] in self.commands or args[0] in HELP_OPTIONS:
                meant = None
            else:
                meant = default or otherwise if args[0].startswith("-") else otherwise
            return super().parse_args(ctx, args if meant is None else [meant, *args])

    group = typer.Typer(help=help_text, cls=Group, no_args_is_help=default is None, rich_markup_mode="rich")
    app.add_typer(group, name=name, rich_help_panel=panel)
    return group
