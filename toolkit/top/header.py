"""The lines above the tables: the cluster in numbers, its speed, what needs attention, and the tabs. Pure but for one.

`Bar` is the widget that shows such lines; it draws a line only when that says something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from toolkit.cluster.rates import Rates
from toolkit.model.snapshot import NodeState
from toolkit.top.columns import Cell, plain, sized
from toolkit.top.seen import Seen
from toolkit.top.sparklines import meter, rate_text, sparkline
from toolkit.views.nodes import STYLES

METER = 10
RATE_WIDTH = 6
MAX_SPARK = 36
SPACE = Cell("  ")

BarLine = tuple[Cell, ...]


class Bar(Widget):
    """Some lines of text that change now and then."""

    def __init__(self, lines: int = 1, *, name: str) -> None:
        super().__init__(id=name)
        self._lines: list[BarLine] = [()] * lines
        self.styles.height = lines

    @property
    def text(self) -> str:
        """What it says, without the styles."""
        return "\n".join("".join(cell.text for cell in line) for line in self._lines)

    def show(self, *lines: BarLine) -> None:
        """Say something else; lines that are not given are empty."""
        for y, before in enumerate(self._lines):
            line = lines[y] if y < len(lines) else ()
            if line != before:
                self._lines[y] = line
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """Make one line of the screen."""
        line = self._lines[y] if y < len(self._lines) else ()
        segments = [Segment(cell.text, Style.parse(cell.style) if cell.style else Style.null()) for cell in line]
        return Strip(segments).adjust_cell_length(self.size.width)


def title_line(name: str, seen: Seen | None, trouble: str | None, *, width: int) -> BarLine:
    """Say which cluster this is, whether it is heard, and when it was last. Pure."""
    left = Cell(f" crawlctl top  {plain(name)}", "bold")
    if trouble is not None:
        told = "nothing is known yet " if seen is None else f"AS OF {_clock(seen.at)}, waiting for an answer "
        style = "bold reverse red"
    elif seen is None:
        told, style = "looking … ", "dim"
    else:
        told, style = f"{_store_words(seen)}  {_clock(seen.at)} ", ""
    room = max(0, width - cell_len(left.text) - 1)
    right = sized(told, min(room, cell_len(told)))
    return (left, Cell(" " * (width - cell_len(left.text) - cell_len(right))), Cell(right, style))


def totals_line(seen: Seen) -> BarLine:
    """Count nodes, slots and jobs. Pure."""
    states = Counter(node.state for node in seen.nodes)
    cells = [Cell(" nodes ", "dim"), Cell(f"{len(seen.nodes)}", "bold")]
    for state in NodeState:
        if states[state] and not (state is NodeState.LIVE and states[state] == len(seen.nodes)):
            cells += [Cell(f" {states[state]} "), Cell(state.value, STYLES[state])]
    slots = sum(node.slots or 0 for node in seen.nodes if node.state is not NodeState.LOST)
    running, pending, ended = job_counts(seen)
    if slots:
        cells += [SPACE, Cell("slots ", "dim"), Cell(meter(running / slots, METER)), Cell(f" {running:,}/{slots:,}")]
    cells += [SPACE, Cell("running ", "dim"), Cell(f"{running:,}", "bold")]
    cells += [SPACE, Cell("pending ", "dim"), Cell(f"{pending:,}", "bold")]
    return (*cells, SPACE, Cell("ended ", "dim"), Cell(f"{ended:,}"))


def job_counts(seen: Seen) -> tuple[int, int, int]:
    """Count the jobs that run, wait and have ended: the queue by its own counts, the others as they are known. Pure."""
    others = [job.state for job in seen.board.jobs.values() if not (job.is_queued and seen.board.counts)]
    active = sum(state.is_active for state in others)
    ended = sum(state.is_final for state in others)
    counts = seen.board.counts
    return (
        counts.get("active", 0) + active,
        counts.get("pending", 0) + len(others) - active - ended,
        counts.get("ended", 0) + ended,
    )


def speed_line(history: Sequence[Rates], *, width: int) -> BarLine:
    """Show pages, items and errors a second, now and lately. Pure."""
    now = history[-1] if history else Rates()
    room = max(0, min(MAX_SPARK, (width - 1) // 3 - len(" errors/s ") - RATE_WIDTH - 2))
    cells: list[Cell] = []
    for word, rate, past, style in (
        ("pages/s", now.pages, [each.pages for each in history], "cyan"),
        ("items/s", now.items, [each.items for each in history], "green"),
        ("errors/s", now.errors, [each.errors for each in history], "red"),
    ):
        is_wrong = word == "errors/s" and rate > 0
        cells += [
            Cell(f" {word} ", "dim"),
            Cell(f"{rate_text(rate):>{RATE_WIDTH - 1}} ", "bold red" if is_wrong else "bold"),
            Cell(sparkline(past, room) + " ", style),
        ]
    return tuple(cells)


def attention_line(seen: Seen | None, trouble: str | None, *, width: int) -> BarLine:
    """Say why what is shown is old, or else the first thing that needs attention, and how many more there are. Pure."""
    if trouble is not None:
        return (Cell(sized(f" {plain(trouble)}", width), "bold red"),)
    if seen is None:
        return ()
    if not seen.attention:
        return (Cell(" nothing needs attention", "dim"),)
    first, more = seen.attention[0], len(seen.attention) - 1
    command = f" → {first.command}" if first.command else ""
    tail = f"  (+{more} more: !)" if more else "  (!)"
    text = sized(plain(f" ! {first.message}{command}"), max(0, width - cell_len(tail) - 1)).rstrip()
    return (Cell(text, "bold yellow"), Cell(tail, "dim"))


def tabs_line(names: Sequence[tuple[str, int | None]], current: str, position: str, *, width: int) -> BarLine:
    """Show the tabs with how many rows each has, the present one marked, and what is told of its rows. Pure."""
    cells: list[Cell] = []
    for number, (name, count) in enumerate(names, 1):
        told = f"{number} {name}" + ("" if count is None else f" {count:,}")
        cells.append(Cell(f"[{told}]", "bold reverse") if name == current else Cell(f" {told} "))
    taken = sum(cell_len(cell.text) for cell in cells)
    right = sized(position, min(max(0, width - taken - 1), cell_len(position)))
    return (*cells, Cell(" " * max(0, width - taken - cell_len(right))), Cell(right, "dim"))


def footer_line(keys: Sequence[tuple[str, str]]) -> BarLine:
    """Show keys and their words. Pure."""
    return (Cell(" "), *(cell for key, word in keys for cell in (Cell(key, "bold"), Cell(f" {word}  ", "dim"))))


def _store_words(seen: Seen) -> str:
    return "" if seen.has_queue else "no Redis: nodes are asked one by one"


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S} UTC"
