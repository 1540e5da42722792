"""What every face is made of: the data as JSON shows them, and a table for people that is only made when asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from toolkit.views.harmless import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.text import Text

GAP = 2
MIN_LAST_WIDTH = 24


@dataclass(frozen=True, slots=True)
class View:
    """One result in both its shapes. `data` holds only what JSON can; a list gives one line a row as `jsonl`."""

    data: Any
    table: Callable[[], RenderableType]


def plain_table(
    *columns: str,
    rows: Sequence[Sequence[object]],
    right: Sequence[str] = (),
    spare: Sequence[str] = (),
    optional: Collection[str] = (),
) -> FittedTable:
    """Lay rows out in columns as the terminal likes them: no lines, a bold head, unknown values as a dash.

    Where the terminal is too narrow, the `spare` columns are left out, the first named first, until the rest fits;
    then the last column is folded. Ids, names and versions stay whole, so that they can be copied. An `optional` column
    is there only if any row has a value in it.
    """
    kept = [at for at, name in enumerate(columns) if name not in optional or any(row[at] is not None for row in rows)]
    names = [columns[at] for at in kept]
    cells = [[cell(row[at]) for at in kept] for row in rows]
    return FittedTable(names, cells, frozenset(right), [name for name in spare if name in names])


class FittedTable:
    """A table that decides on its columns when it sees the width that it has."""

    def __init__(
        self, columns: Sequence[str], rows: Sequence[Sequence[Text]], right: Collection[str], spare: Sequence[str]
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.caption: str | None = None
        self._right = right
        self._spare = spare

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Give rich the table that fits."""
        from rich.table import Table
        from rich.text import Text

        shown = self.fitting(options.max_width)
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
        for at in shown:
            column, is_last = self.columns[at], at == shown[-1]
            justify: Literal["left", "right"] = "right" if column in self._right else "left"
            table.add_column(column, justify=justify, overflow="fold", no_wrap=not is_last)
        for row in self.rows:
            table.add_row(*(row[at] for at in shown))
        yield table
        if self.caption is not None:
            # Beside the table, not in it: a narrow table would fold it.
            yield Text(self.caption, style="italic")

    def fitting(self, width: int) -> list[int]:
        """Return the places of the columns to show within so many characters."""
        widths = [
            max([len(column), *(line.cell_len for row in self.rows for line in row[at].split())])
            for at, column in enumerate(self.columns)
        ]
        # The last column may be folded, down to a width that can still be read.
        widths[-1] = min(widths[-1], MIN_LAST_WIDTH)
        shown = list(range(len(self.columns)))
        for name in self._spare:
            if sum(widths[at] for at in shown) + GAP * (len(shown) - 1) <= width:
                break
            shown.remove(self.columns.index(name))
        return shown


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
