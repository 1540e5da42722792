"""Columns of a table: what a cell says, by what a column sorts, and which columns fit a screen. Pure, no Textual."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from rich.cells import cell_len, set_cell_size

from toolkit.views.harmless import visible

Row = TypeVar("Row")
GAP = 1
BREAKS = str.maketrans({"\n": " ", "\t": " "})


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one place of a table; `style` is one of rich's."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column of a table.

    It takes `width` characters, and up to `most` where there is room. A narrow screen leaves out first what has the
    highest `spare`; what has none stays. Where a column sorts from the greatest on at first, `falls`.
    """

    title: str
    width: int
    cell: Callable[[Row, datetime], Cell | str | None]
    order: Callable[[Row], Any]
    most: int = 0
    spare: int = 0
    is_right: bool = False
    falls: bool = False


@dataclass(frozen=True, slots=True)
class Sorting:
    """By which column a table is sorted, and in which direction."""

    title: str
    falls: bool = False


def fitting(columns: Sequence[Column[Row]], width: int) -> list[tuple[Column[Row], int]]:
    """Return the columns that fit so many characters, each with its width. Pure."""
    shown = list(columns)
    while _least(shown) > width and any(column.spare for column in shown):
        shown.remove(max(shown, key=lambda column: column.spare))
    widths = [column.width for column in shown]
    left = width - _least(shown)
    while left > 0 and (growing := [at for at, column in enumerate(shown) if widths[at] < column.most]):
        for at in growing[:left]:
            widths[at] += 1
        left -= len(growing)
    return list(zip(shown, widths, strict=True))


def in_order(rows: Iterable[Row], columns: Sequence[Column[Row]], sorting: Sorting) -> list[Row]:
    """Sort rows by a column; what is not known comes last, whichever the direction. Pure."""
    column = next((each for each in columns if each.title == sorting.title), columns[0])
    known: list[tuple[Any, Row]] = []
    unknown: list[tuple[Any, Row]] = []
    for row in rows:
        key = column.order(row)
        (unknown if key is None else known).append((key, row))
    known.sort(key=lambda pair: pair[0], reverse=sorting.falls)
    return [row for _, row in (*known, *unknown)]


def next_sorting(columns: Sequence[Column[Row]], sorting: Sorting, by: int = 1) -> Sorting:
    """Return the sorting by the next column, or the one before. Pure."""
    titles = [column.title for column in columns]
    at = titles.index(sorting.title) if sorting.title in titles else 0
    column = columns[(at + by) % len(columns)]
    return Sorting(column.title, column.falls)


def plain(text: str) -> str:
    """Return a text of somebody else's as one line that does nothing to a terminal."""
    return visible(text).translate(BREAKS)


def sized(text: str, width: int, *, is_right: bool = False) -> str:
    """Return a text cut or filled to so many places of a terminal, with an ellipsis where it was cut."""
    taken = cell_len(text)
    if taken > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    gap = " " * (width - taken)
    return gap + text if is_right else text + gap


def _least(columns: Sequence[Column[Row]]) -> int:
    return sum(column.width for column in columns) + GAP * max(0, len(columns) - 1)
