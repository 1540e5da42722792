"""What every face is made of: the data as JSON shows them, and a table for people that is only made when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolkit.views.harmless import visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text


@dataclass(frozen=True, slots=True)
class View:
    """One result in both its shapes. `data` holds only what JSON can; a list gives one line a row as `jsonl`."""

    data: Any
    table: Callable[[], RenderableType]


def plain_table(*columns: str, rows: Sequence[Sequence[object]], right: Sequence[str] = ()) -> Table:
    """Lay rows out in columns as the terminal likes them: no lines, a bold head, unknown values as a dash."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    return table


def cell(value: object) -> Text:
    """Show one value as it is: neither as markup nor as commands to the terminal."""
    from rich.text import Text

    if value is None:
        return Text("-", style="dim")
    if isinstance(value, Styled):
        return Text(visible(value.text), style=value.style)
    return Text(visible(str(value)))


@dataclass(frozen=True, slots=True)
class Styled:
    """A text with one of rich's styles."""

    text: str
    style: str
