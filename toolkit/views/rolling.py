"""How a roll through hosts is shown: while it goes on, and what became of each host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolkit.model.names import NodeName
from toolkit.model.rolls import DONE, NOT_BEGUN, Rolled
from toolkit.views.view import Styled, View, plain_table

if TYPE_CHECKING:
    from toolkit.views.view import FittedTable

MARKS = {DONE: "green", NOT_BEGUN: "dim"}


def rolled_row(rolled: Rolled) -> dict[str, Any]:
    """Show what became of one host, to programs."""
    return {
        "host": rolled.host,
        "ok": rolled.ok,
        "step": rolled.step,
        "seconds": round(rolled.seconds, 3),
        "note": rolled.note,
        "error": None if rolled.error is None else str(rolled.error),
    }


def rolled_view(rolled: Sequence[Rolled]) -> View:
    """Show what became of each host."""
    return View([rolled_row(each) for each in rolled], lambda: _table(rolled))


def rolling_table(names: Sequence[NodeName], steps: Mapping[NodeName, str]) -> FittedTable:
    """Show where each host is now."""
    rows = [(name, Styled(steps.get(name, "waits"), MARKS.get(steps.get(name, ""), "yellow"))) for name in names]
    return plain_table("HOST", "STEP", rows=rows)


def _table(rolled: Sequence[Rolled]) -> FittedTable:
    rows = [
        (each.host, Styled(each.step, MARKS.get(each.step, "red")), _time_text(each), _words(each)) for each in rolled
    ]
    return plain_table("HOST", "STEP", "TIME", "", rows=rows, right=("TIME",))


def _time_text(rolled: Rolled) -> str | None:
    return f"{rolled.seconds:.1f} s" if rolled.seconds else None


def _words(rolled: Rolled) -> str | None:
    return "; ".join(str(each) for each in (rolled.error, rolled.note) if each) or None
