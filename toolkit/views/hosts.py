"""How what was done on hosts over SSH is shown: a command's ends, lines of logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from toolkit.views.view import Styled, View, plain_table

if TYPE_CHECKING:
    from toolkit.model.executed import Executed, LogLine
    from toolkit.model.outcomes import Outcome, Outcomes
    from toolkit.views.view import FittedTable


def executed_view(outcomes: Outcomes[Executed]) -> View:
    """Show how a command ended on each host; what it wrote is in the data only."""
    return View([_row(outcome) for outcome in outcomes], lambda: _table(outcomes))


def log_view(lines: Iterable[LogLine]) -> View:
    """Show lines of logs to programs; people get them as they come."""
    data = [_line_row(line) for line in lines]
    return View(data, lambda: plain_table("NODE", "", rows=[tuple(row.values()) for row in data]))


def log_line_view(line: LogLine) -> View:
    """Show one line, as it comes."""
    row = _line_row(line)
    return View(row, lambda: plain_table("NODE", "", rows=[tuple(row.values())]))


def _line_row(line: LogLine) -> dict[str, str]:
    return {"name": line.host, "line": line.text}


def _row(outcome: Outcome[Executed]) -> dict[str, Any]:
    done = outcome.value
    return {
        "name": outcome.node,
        "ok": is_good(outcome),
        "exit_code": None if done is None else done.exit_code,
        "stdout": None if done is None else done.stdout,
        "stderr": None if done is None else done.stderr,
        "cut": False if done is None else done.is_cut,
        "seconds": round(outcome.seconds, 3),
        "error": None if outcome.error is None else outcome.error.message,
    }


def is_good(outcome: Outcome[Executed]) -> bool:
    """Tell whether the command ran there and ended with 0."""
    return outcome.value is not None and outcome.value.ok


def _table(outcomes: Outcomes[Executed]) -> FittedTable:
    rows = [
        (
            outcome.node,
            None if outcome.value is None else _exit_text(outcome.value),
            f"{outcome.seconds:.1f} s",
            _error_text(outcome),
        )
        for outcome in outcomes
    ]
    return plain_table("NODE", "EXIT", "TIME", "ERROR", rows=rows, right=("EXIT", "TIME"), optional={"ERROR"})


def _exit_text(done: Executed) -> Styled:
    return Styled(str(done.exit_code), "green" if done.ok else "bold red")


def _error_text(outcome: Outcome[Executed]) -> Styled | None:
    if outcome.error is None:
        return None
    text = outcome.error.message.removeprefix(f"{outcome.node}: ")
    return Styled(text if outcome.error.hint is None else f"{text} ({outcome.error.hint})", "red")
