"""Full screens over the tables: pages of lines, such as the help, a node, a crawl, why a job waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from toolkit.model.errors import CrawlctlError
from toolkit.top.background import in_thread, is_there
from toolkit.top.columns import Cell, plain
from toolkit.top.header import Bar, footer_line
from toolkit.top.lines import Line, LinesView

BACK = (("↑↓ PgUp PgDn", "scroll"), ("esc", "back"))


class PageScreen(Screen[None]):
    """A title and lines; what takes time to read is read in a thread, and then shown."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,left", "leave", show=False)]

    def __init__(
        self, title: str, lines: Sequence[Line] = (), *, read: Callable[[], Sequence[Line]] | None = None
    ) -> None:
        super().__init__()
        self._title = title
        self._read = read
        self._lines: Sequence[Line] = lines or (("looking …",) if read else ())

    def compose(self) -> ComposeResult:
        """Lay out the page."""
        yield Bar(1, name="title")
        yield LinesView(self._lines, name="lines")
        yield Bar(1, name="footer")

    def on_mount(self) -> None:
        """Begin to read."""
        self.query_one("#title", Bar).show((Cell(f" {plain(self._title)}", "bold reverse"),))
        self.query_one("#footer", Bar).show(footer_line(BACK))
        self.query_one(LinesView).focus()
        if self._read is not None:
            in_thread(self.app, self._read, then=self._show, failed=self._failed)

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(None)

    def _failed(self, error: CrawlctlError) -> None:
        self._show([Cell(error.message, "red"), error.hint or ""])

    def _show(self, lines: Sequence[Line]) -> None:
        if is_there(self):
            self.query_one(LinesView).show(lines)


def fact_lines(facts: Sequence[tuple[str, object]]) -> list[Line]:
    """Lay out names and values; what is not known is left out. Pure."""
    known = [(name, value) for name, value in facts if value not in (None, "", (), {})]
    width = max((len(name) for name, _ in known), default=0) + 2
    return [
        (Cell(f" {name:<{width}}", "dim"), value if isinstance(value, Cell) else Cell(str(value)))
        for name, value in known
    ]
