"""The keys: which there are, where they work, and what they do. Footer, help and bindings come from this one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

TABS = ("nodes", "jobs", "crawls", "queue", "events")


@dataclass(frozen=True, slots=True)
class Key:
    """One key: as it is written on the screen, its word in the footer, what it does, and in which tabs it does so.

    `name` is Textual's, where that is another. Without an `action` it is the table's own, and only told of.
    """

    key: str
    word: str
    what: str
    action: str = ""
    tabs: tuple[str, ...] = TABS
    name: str = ""
    is_told: bool = True

    @property
    def is_everywhere(self) -> bool:
        """It means something on the screen of a job too; the others are those of the tables alone."""
        return bool(self.action) and self.key not in {"/", "s", "S", "esc"}


KEYS = (
    Key("c", "cancel", "cancel the job, or all of the line", "act('cancel')", ("jobs", "queue")),
    Key("p", "pause", "pause the job, or the crawl", "act('pause')", ("jobs", "crawls")),
    Key("d", "drain", "let the node take no new job", "act('drain')", ("nodes",)),
    Key("u", "resume", "resume what is paused or drained", "act('resume')", ("nodes", "jobs", "crawls")),
    Key("t", "tune", "change the job's concurrency or delay", "act('tune')", ("jobs",)),
    Key("r", "retry", "put the job back that failed, was lost or cancelled", "act('retry')", ("jobs",)),
    Key("w", "why", "say why it waits, or how it ended", "why", ("jobs", "queue", "events")),
    Key("o", "its jobs", "show its jobs", "its_jobs", ("nodes", "crawls", "queue")),
    Key("/", "filter", "show only rows with these words; -word leaves out", "filter", name="slash"),
    Key("enter", "open", "open what is under the cursor"),
    Key("space", "mark", "mark a row: the acts then go to all that are marked", is_told=False),
    Key("s", "sort", "sort by the next column; S turns the order", "sort(1)"),
    Key("S", "turn", "turn the order of the sorting", "turn", is_told=False),
    Key("1-5", "tab", "nodes, jobs, crawls, queue, events; also Tab and Shift-Tab", is_told=False),
    Key("esc", "back", "leave the filter, the marks, a screen", "back", name="escape", is_told=False),
    Key("!", "attention", "all that needs attention", "attention", name="exclamation_mark", is_told=False),
    Key("a", "acts", "what was done here, and what came of it", "acts", is_told=False),
    Key("?", "help", "show this", "help", name="question_mark"),
    Key("q", "quit", "end", "quit"),
)

MOVES = (
    ("↑ ↓, k j", "one row"),
    ("PgUp PgDn", "one screen"),
    ("Home End, g G", "first and last row"),
)


def footer(tab: str, width: int) -> list[tuple[str, str]]:
    """Return the keys of a tab and their words, as many as fit: those that only this tab has come first. Pure."""
    own = [key for key in KEYS if key.is_told and tab in key.tabs]
    last = [key for key in own if key.action in {"help", "quit"}]
    first = [key for key in own if key not in last]
    shown: list[Key] = []
    left = width - 1 - sum(_room(key) for key in last)
    for key in first:
        left -= _room(key)
        if left < 0:
            break
        shown.append(key)
    return [(key.key, key.word) for key in (*shown, *last)]


def help_lines() -> Sequence[str]:
    """Return the lines of the help screen. Pure."""
    rows = [(key.key, key.what, "" if key.tabs == TABS else ", ".join(key.tabs)) for key in KEYS]
    lines = ["MOVING", *(f"  {key:<15}{what}" for key, what in MOVES), "", "KEYS"]
    for key, what, tabs in rows:
        where = f"   ({tabs})" if tabs else ""
        lines.append(f"  {key:<15}{what}{where}")
    return [
        *lines,
        "",
        "The mouse works too: a click puts the cursor there, a second one opens; a column's head sorts.",
        "Rates are those of the last half minute. Every act is asked about first, and is in the audit:",
        "crawlctl audit. More: crawlctl docs top.",
    ]


def _room(key: Key) -> int:
    return cell_len(key.key) + 1 + cell_len(key.word) + 2
