"""A page of lines that is scrolled: the log of a job, its facts, the help. What it shows is text, and nothing else."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.strip import Strip
from textual.widget import Widget

from toolkit.top.columns import Cell
from toolkit.views.harmless import visible

MAX_LINES = 5_000
INDENT = "    "

Line = str | Cell | tuple[Cell, ...]


class LinesView(Widget, can_focus=True):
    """Lines, long ones folded. With `follows` its end stays in sight until somebody scrolls up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f,space", "page(1)", show=False),
        Binding("home,g", "end(-1)", show=False),
        Binding("end,G", "end(1)", show=False),
    ]

    def __init__(self, lines: Iterable[Line] = (), *, follows: bool = False, name: str | None = None) -> None:
        super().__init__(id=name)
        self._lines: deque[Line] = deque(lines, maxlen=MAX_LINES)
        self._folded: list[tuple[Cell, ...]] = []
        self._top = 0
        self._can_follow = follows
        self.is_following = follows

    def show(self, lines: Iterable[Line]) -> None:
        """Show other lines, from where the old ones were scrolled to."""
        self._lines = deque(lines, maxlen=MAX_LINES)
        self._fold()

    def add(self, lines: Sequence[Line]) -> None:
        """Add lines at the end; the first ones go beyond `MAX_LINES`."""
        if not lines:
            return
        is_full = len(self._lines) + len(lines) > MAX_LINES
        self._lines.extend(lines)
        if is_full:
            self._fold()
            return
        self._folded += [part for line in lines for part in folded(line, self.size.width)]
        self._settle()

    def action_move(self, by: int) -> None:
        """Scroll by so many lines."""
        self._go(self._top + by)

    def action_page(self, by: int) -> None:
        """Scroll by so many screens."""
        self._go(self._top + by * max(1, self.size.height - 1))

    def action_end(self, to: int) -> None:
        """Scroll to the first line or the last."""
        self._go(0 if to < 0 else self._last_top)

    def on_mouse_scroll_down(self) -> None:
        """Scroll down."""
        self.action_move(3)

    def on_mouse_scroll_up(self) -> None:
        """Scroll up."""
        self.action_move(-3)

    def on_resize(self) -> None:
        """Fold the lines anew."""
        self._fold()

    def render_line(self, y: int) -> Strip:
        """Make one line of the screen."""
        place = self._top + y
        cells = self._folded[place] if place < len(self._folded) else ()
        segments = [Segment(cell.text, Style.parse(cell.style) if cell.style else Style.null()) for cell in cells]
        return Strip(segments).adjust_cell_length(self.size.width)

    @property
    def _last_top(self) -> int:
        return max(0, len(self._folded) - self.size.height)

    def _fold(self) -> None:
        self._folded = [part for line in self._lines for part in folded(line, self.size.width)]
        self._settle()

    def _settle(self) -> None:
        self._top = self._last_top if self.is_following else min(self._top, self._last_top)
        self.refresh()

    def _go(self, top: int) -> None:
        self._top = max(0, min(top, self._last_top))
        self.is_following = self._can_follow and self._top == self._last_top
        self.refresh()


def folded(line: Line, width: int) -> list[tuple[Cell, ...]]:
    """Cut a line into as many as it takes; those after the first are indented. Pure."""
    cells = line if isinstance(line, tuple) else (line if isinstance(line, Cell) else Cell(line),)
    cells = tuple(Cell(visible(cell.text).expandtabs().replace("\n", " "), cell.style) for cell in cells)
    if sum(cell_len(cell.text) for cell in cells) <= width or width <= len(INDENT) + 1:
        return [cells]
    style = cells[-1].style
    head, text = cells[:-1], cells[-1].text
    room = width - sum(cell_len(cell.text) for cell in head)
    if room < 1:
        head, room, text = (), width, "".join(cell.text for cell in cells)
    first = chop_cells(text, room)[0] if text else ""
    rest = chop_cells(text[len(first) :], width - len(INDENT)) if len(first) < len(text) else []
    return [(*head, Cell(first, style)), *((Cell(INDENT + part, style),) for part in rest)]
