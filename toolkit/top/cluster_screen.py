"""The screen of the tables: header, tabs, filter, and which rows the keys mean. It draws what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Input

from toolkit.top import keys
from toolkit.top.background import is_there
from toolkit.top.columns import Cell, Sorting, next_sorting, plain
from toolkit.top.crawls_tab import TAB as CRAWLS
from toolkit.top.events_tab import TAB as EVENTS
from toolkit.top.filters import Words, shown_words
from toolkit.top.header import Bar, attention_line, footer_line, speed_line, tabs_line, title_line, totals_line
from toolkit.top.jobs_tab import TAB as JOBS
from toolkit.top.jobs_tab import JobRow
from toolkit.top.nodes_tab import TAB as NODES
from toolkit.top.queue_tab import TAB as QUEUE
from toolkit.top.seen import Seen, Tab
from toolkit.top.tables import RowTable

HEADER_LINES = 4
ENOUGH_LINES = 14


class ClusterScreen(Screen[None]):
    """The tables of a cluster, one at a time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"tab('{name}')", show=False) for number, name in enumerate(keys.TABS, 1)),
        Binding("tab", "next_tab(1)", show=False),
        Binding("shift+tab", "next_tab(-1)", show=False),
        Binding("slash", "filter", show=False),
        Binding("escape", "back", show=False),
        Binding("s", "sort(1)", show=False),
        Binding("S", "turn", show=False),
    ]

    class TabShown(Message):
        """Another tab is looked at, which may need what was not read for the one before."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._cluster = name
        self._seen: Seen | None = None
        self._trouble: str | None = None
        self._tabs: dict[str, Tab[Any]] = {tab.name: tab for tab in (NODES, JOBS, CRAWLS, QUEUE, EVENTS)}
        self._tables: dict[str, RowTable[Any]] = {
            tab.name: RowTable(tab.columns, key=tab.key, sorting=tab.sorting, empty="looking …", name=tab.name)
            for tab in self._tabs.values()
        }
        self._current = JOBS.name
        self._filters: dict[str, str] = dict.fromkeys(self._tabs, "")
        self._counts: dict[str, tuple[int, int]] = {}

    def compose(self) -> ComposeResult:
        """Lay out header, tabs, tables, the line for what is told, and the footer."""
        yield Bar(HEADER_LINES, name="header")
        yield Bar(1, name="tabs")
        with ContentSwitcher(initial=self._current, id="tables"):
            yield from self._tables.values()
        yield Input(id="filter", compact=True, placeholder="words that must be there; -word must not")
        yield Bar(1, name="message")
        yield Bar(1, name="footer")

    def on_mount(self) -> None:
        """Begin with the table in focus."""
        self.query_one("#filter").display = False
        self.table.focus()
        self._draw_bars()

    def on_resize(self) -> None:
        """Lay the lines out anew; where there are few, the tables come first."""
        self.query_one("#header", Bar).styles.height = HEADER_LINES if self.size.height >= ENOUGH_LINES else 1
        self.call_after_refresh(self._draw_bars)

    # --- what the app asks

    @property
    def tab(self) -> Tab[Any]:
        """The tab that is looked at."""
        return self._tabs[self._current]

    @property
    def table(self) -> RowTable[Any]:
        """Its table."""
        return self._tables[self.tab.name]

    @property
    def visible_jobs(self) -> Sequence[JobRow]:
        """The jobs that are on the screen."""
        return self._tables[JOBS.name].seen if self.tab is JOBS else ()

    def show(self, seen: Seen) -> None:
        """Show what a look has seen."""
        self._seen, self._trouble = seen, None
        self._draw()

    def tell_trouble(self, trouble: str) -> None:
        """Say why what is shown is not of now."""
        self._trouble = trouble
        self._draw_bars()

    def show_tab(self, name: str, *, words: str | None = None) -> None:
        """Go to a tab, and filter it if words are given."""
        if words is not None:
            self._filters[name] = words
        self._current = name
        self.query_one("#tables", ContentSwitcher).current = name
        self.query_one("#filter").display = False
        self.table.focus()
        self._draw()
        self.post_message(self.TabShown())

    # --- keys

    def action_tab(self, name: str) -> None:
        """Go to a tab."""
        self.show_tab(name)

    def action_next_tab(self, by: int) -> None:
        """Go to the next tab, or the one before."""
        self.show_tab(keys.TABS[(keys.TABS.index(self.tab.name) + by) % len(keys.TABS)])

    def action_sort(self, by: int) -> None:
        """Sort by the next column that is on the screen."""
        self._sort(next_sorting(self.table.shown_columns, self.table.sorting, by))

    def action_turn(self) -> None:
        """Turn the order of the sorting."""
        self._sort(Sorting(self.table.sorting.title, not self.table.sorting.falls))

    def action_filter(self) -> None:
        """Ask for the words of a filter."""
        box = self.query_one("#filter", Input)
        box.display = True
        box.value = self._filters[self.tab.name]
        box.focus()

    def action_back(self) -> None:
        """Leave the filter, or else the marks."""
        box = self.query_one("#filter", Input)
        if box.display or self._filters[self.tab.name]:
            box.display = False
            self._filters[self.tab.name] = ""
            self.query_one("#message", Bar).show()
        else:
            self.table.unmark()
        self.table.focus()
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed."""
        if event.input.display:
            self._filters[self.tab.name] = event.value
            self._draw()

    def on_input_submitted(self) -> None:
        """Keep the filter and go on in the table."""
        self.query_one("#filter").display = False
        self.table.focus()
        if words := self._filters[self.tab.name].strip():
            self.query_one("#message", Bar).show((Cell(f" only rows with {plain(words)}; Esc shows all again", "dim"),))

    def on_row_table_moved(self) -> None:
        """Tell how many rows are marked."""
        self._draw_bars()

    def on_row_table_head_clicked(self, event: RowTable.HeadClicked) -> None:
        """Sort by the column, or turn the order if it is sorted by it already."""
        if event.title == self.table.sorting.title:
            self.action_turn()
            return
        column = next(each for each in self.table.columns if each.title == event.title)
        self._sort(Sorting(column.title, column.falls))

    # --- drawing

    def _sort(self, sorting: Sorting) -> None:
        self.table.sort(sorting)
        self._draw_bars()

    def _draw(self) -> None:
        """Show what was seen last; only the tab that is looked at is made."""
        if not is_there(self):
            return
        tab, table, seen = self.tab, self.table, self._seen
        if seen is not None:
            words = Words.of(self._filters[tab.name])
            rows = list(tab.rows(seen))
            shown = [row for row in rows if words.admits(tab.texts(row))] if words else rows
            self._counts[tab.name] = (len(shown), len(rows))
            table.empty = "no row has these words; Esc shows all again" if words and rows else _empty(tab, seen)
            table.show(shown, now=seen.at)
        self._draw_bars()

    def _draw_bars(self) -> None:
        if not is_there(self):
            return
        width, seen = self.size.width, self._seen
        lines = [title_line(self._cluster, seen, self._trouble, width=width)]
        lines += [(), ()] if seen is None else [totals_line(seen), speed_line(seen.history, width=width)]
        lines.append(attention_line(seen, self._trouble, width=width))
        self.query_one("#header", Bar).show(*lines)
        self.query_one("#tabs", Bar).show(tabs_line(self._totals(), self.tab.name, self._position(), width=width))
        self.query_one("#footer", Bar).show(footer_line(keys.footer(self.tab.name, width)))

    def _totals(self) -> list[tuple[str, int | None]]:
        seen = self._seen
        if seen is None:
            return [(name, None) for name in self._tabs]
        crawls = None if seen.crawls is None else len(seen.crawls)
        pending = seen.board.counts.get("pending", 0)
        counts = (len(seen.nodes), len(seen.board.jobs), crawls, pending, len(seen.events))
        return list(zip(self._tabs, counts, strict=True))

    def _position(self) -> str:
        found, of = self._counts.get(self.tab.name, (0, 0))
        words = self._filters[self.tab.name]
        marked = (f"{len(self.table.marked)} marked",) if self.table.marked else ()
        return "  ".join((*marked, *(shown_words(words, found, of) if words.strip() else ()))) + " "


def _empty(tab: Tab[Any], seen: Seen) -> str:
    if tab is CRAWLS and seen.crawls is None:
        return "looking …"
    return tab.empty if seen.has_queue or not tab.empty_without_queue else tab.empty_without_queue
