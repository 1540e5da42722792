"""A table for thousands of rows: only the lines on the screen are made, and of these only those that changed are drawn.

The cursor stays on its row, by the row's key, wherever sorting takes it: a key pressed acts on what was looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, ClassVar, Generic

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from toolkit.top.columns import Cell, Column, Row, Sorting, fitting, in_order, plain, sized

HEAD = 1
MARK_WIDTH = 2


class RowTable(Widget, Generic[Row], can_focus=True):
    """Rows in columns, with a cursor, marks and a sorting."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("home,g", "end(-1)", show=False),
        Binding("end,G", "end(1)", show=False),
        Binding("space", "mark", show=False),
        Binding("enter", "choose", show=False),
    ]

    class Chosen(Message):
        """The row under the cursor is to be opened."""

        def __init__(self, table: RowTable[Any]) -> None:
            super().__init__()
            self.table = table

    class Moved(Message):
        """Cursor, marks or the part that is seen have changed."""

    class HeadClicked(Message):
        """The rows are to be sorted by this column."""

        def __init__(self, title: str) -> None:
            super().__init__()
            self.title = title

    def __init__(
        self, columns: Sequence[Column[Row]], *, key: Callable[[Row], str], sorting: Sorting, empty: str, name: str
    ) -> None:
        super().__init__(id=name)
        self.columns = columns
        self.sorting = sorting
        self.marked: set[str] = set()
        self._key = key
        self.empty = empty
        self._rows: list[Row] = []
        self._places: dict[str, int] = {}
        self._cursor_key: str | None = None
        self._cursor = 0
        self._top = 0
        self._now: datetime | None = None
        self._shown: list[tuple[Column[Row], int]] = []
        self._drawn: dict[int, tuple[Any, ...]] = {}

    @property
    def rows(self) -> Sequence[Row]:
        """The rows, in their order."""
        return self._rows

    @property
    def shown_columns(self) -> Sequence[Column[Row]]:
        """The columns that fit the screen."""
        return [column for column, _ in self._shown] or self.columns

    @property
    def current(self) -> Row | None:
        """The row under the cursor."""
        return self._rows[self._cursor] if self._rows else None

    @property
    def chosen(self) -> list[Row]:
        """The marked rows, or else the one under the cursor."""
        marked = [row for row in self._rows if self._key(row) in self.marked]
        return marked or ([] if self.current is None else [self.current])

    @property
    def seen(self) -> Sequence[Row]:
        """The rows that are on the screen."""
        return self._rows[self._top : self._top + self._page]

    def show(self, rows: Sequence[Row], *, now: datetime) -> None:
        """Show these rows from now on, in the table's own order."""
        self._rows = in_order(rows, self.columns, self.sorting)
        self._now = now
        self._places = {self._key(row): at for at, row in enumerate(self._rows)}
        self.marked &= self._places.keys()
        self._find_cursor()
        self._redraw()

    def sort(self, sorting: Sorting) -> None:
        """Sort anew; the cursor goes to the top."""
        self.sorting = sorting
        self._cursor_key, self._top = None, 0
        if self._now is not None:
            self.show(self._rows, now=self._now)

    def action_move(self, by: int) -> None:
        """Move the cursor by so many rows."""
        self._go(self._cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by so many screens."""
        self._go(self._cursor + by * max(1, self._page - 1))

    def action_end(self, to: int) -> None:
        """Move the cursor to the first or the last row."""
        self._go(0 if to < 0 else len(self._rows) - 1)

    def action_mark(self) -> None:
        """Mark the row under the cursor, or take its mark away, and go on to the next."""
        if (row := self.current) is not None:
            self.marked ^= {self._key(row)}
            self._go(self._cursor + 1)

    def action_choose(self) -> None:
        """Ask for the row under the cursor to be opened."""
        if self.current is not None:
            self.post_message(self.Chosen(self))

    def unmark(self) -> None:
        """Take all marks away."""
        self.marked.clear()
        self._redraw()

    def go_to(self, key: str) -> bool:
        """Put the cursor on the row with this key, if it is there."""
        if (place := self._places.get(key)) is not None:
            self._go(place)
        return place is not None

    def on_resize(self) -> None:
        """Choose the columns that fit now."""
        self._shown = fitting(self.columns, self.size.width - MARK_WIDTH)
        self._drawn.clear()
        self._keep_cursor_seen()
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where it was clicked; a second click opens the row. The head sorts."""
        if event.y < HEAD:
            at = MARK_WIDTH
            for column, width in self._shown:
                if at <= event.x < at + width:
                    self.post_message(self.HeadClicked(column.title))
                at += width + 1
            return
        place = self._top + event.y - HEAD
        if place < len(self._rows):
            is_again = place == self._cursor
            self._go(place)
            if is_again:
                self.action_choose()

    def on_mouse_scroll_down(self) -> None:
        """Move down."""
        self.action_move(3)

    def on_mouse_scroll_up(self) -> None:
        """Move up."""
        self.action_move(-3)

    def on_focus(self) -> None:
        """Show the cursor."""
        self._redraw()

    def render_line(self, y: int) -> Strip:
        """Make one line of the screen."""
        content = self._line(y)
        self._drawn[y] = content
        segments = [Segment(text, Style.parse(style) if style else Style.null()) for text, style in content]
        return Strip(segments).adjust_cell_length(self.size.width)

    @property
    def _page(self) -> int:
        return max(1, self.size.height - HEAD)

    def _go(self, place: int) -> None:
        if not self._rows:
            return
        self._cursor = max(0, min(place, len(self._rows) - 1))
        self._cursor_key = self._key(self._rows[self._cursor])
        self._keep_cursor_seen()
        self._redraw()
        self.post_message(self.Moved())

    def _find_cursor(self) -> None:
        """Follow the cursor's row to its new place, and keep it at its line of the screen if that can be."""
        line = self._cursor - self._top
        if self._cursor_key is None or self._cursor_key not in self._places:
            self._cursor = max(0, min(self._cursor if self._cursor_key else 0, len(self._rows) - 1))
            if self._cursor_key is not None:
                self._cursor_key = self._key(self._rows[self._cursor]) if self._rows else None
        else:
            self._cursor = self._places[self._cursor_key]
            self._top = self._cursor - line
        self._keep_cursor_seen()

    def _keep_cursor_seen(self) -> None:
        most = max(0, len(self._rows) - self._page)
        self._top = max(self._cursor - self._page + 1, min(self._top, self._cursor))
        self._top = max(0, min(self._top, most))

    def _redraw(self) -> None:
        """Draw those lines of the screen that say something else than before."""
        for y in range(self.size.height):
            if self._drawn.get(y) != self._line(y):
                self.refresh(Region(0, y, self.size.width, 1))

    def _line(self, y: int) -> tuple[tuple[str, str], ...]:
        """Say what stands in a line of the screen, with the styles of its parts."""
        if y < HEAD:
            return self._head()
        place = self._top + y - HEAD
        if place >= len(self._rows):
            return ((f"  {self.empty}", "dim"),) if not self._rows and y == HEAD + 1 else ()
        row = self._rows[place]
        is_marked = self._key(row) in self.marked
        # No colours under the cursor: turned round they would be as many backgrounds.
        is_current = place == self._cursor and self.has_focus
        ground = (
            "reverse bold" if is_current and is_marked else "reverse" if is_current else "bold" if is_marked else ""
        )
        parts = [("● " if is_marked else "  ", ground)]
        assert self._now is not None  # noqa: S101 - rows come with the time
        for column, width in self._shown:
            cell = column.cell(row, self._now)
            told = cell if isinstance(cell, Cell) else Cell("-", "dim") if cell is None else Cell(cell)
            text = sized(plain(told.text), width, is_right=column.is_right)
            parts.append((f"{text} ", ground if is_current else f"{ground} {told.style}".strip()))
        rest = self.size.width - sum(cell_len(text) for text, _ in parts)
        return (*parts, (" " * rest, ground)) if is_current and rest > 0 else tuple(parts)

    def _head(self) -> tuple[tuple[str, str], ...]:
        parts = [("  ", "bold")]
        for column, width in self._shown:
            is_sorted = column.title == self.sorting.title
            arrow = ("▼" if self.sorting.falls else "▲") if is_sorted else ""
            text = sized(f"{arrow}{column.title}", width, is_right=column.is_right)
            parts.append((f"{text} ", "bold cyan" if is_sorted else "bold"))
        return tuple(parts)
