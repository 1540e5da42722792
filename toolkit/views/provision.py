"""How provisioning is shown: the plan of each host with its differences, and what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from toolkit.model.outcomes import Outcome, Outcomes
from toolkit.model.provisioning import Change, Provisioned, Wheelhouse
from toolkit.views.view import Styled, View, plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType


UNCHANGED = "nothing to change"


def provisioned_view(done: Outcomes[Provisioned]) -> View:
    """Show what was done on each host, and where it failed."""
    data = [provisioned_row(each, is_dry=False) for each in done]
    rows = [
        (
            row["name"],
            _verdict(each),
            len(row["steps"]),
            f"{row['seconds']:.1f}",
            _joined([*_failure(each), *row["notes"]]),
        )
        for row, each in zip(data, done, strict=True)
    ]
    columns = ("HOST", "RESULT", "STEPS", "SECONDS", "NOTE")
    return View(data, lambda: plain_table(*columns, rows=rows, right=("STEPS", "SECONDS"), optional=("NOTE",)))


def plans_view(planned: Outcomes[Provisioned]) -> View:
    """Show what would be done on each host, with the lines of files that would change."""
    return View([provisioned_row(each, is_dry=True) for each in planned], lambda: _plans(planned))


def provisioned_row(outcome: Outcome[Provisioned], *, is_dry: bool) -> dict[str, Any]:
    """Show one host to programs; `changed` says that anything was done, never true of a dry run."""
    done = outcome.value
    return {
        "name": outcome.node,
        "ok": outcome.ok,
        "changed": done is not None and done.is_changed and not is_dry,
        "steps": [] if done is None else [step_row(step) for step in done.steps],
        "notes": [] if done is None else list(done.notes),
        "seconds": round(outcome.seconds, 3),
        "error": None if outcome.error is None else str(outcome.error),
        "hint": None if outcome.error is None else outcome.error.hint,
    }


def step_row(step: Change) -> dict[str, Any]:
    """Show one step."""
    return {"kind": step.kind.value, "target": step.target, "why": step.why, "diff": list(step.diff)}


def step_line(step: Change) -> str:
    """Show one step as a line."""
    return f"{step.kind.value:<8} {step.target}: {step.why}"


def _verdict(outcome: Outcome[Provisioned]) -> Styled:
    if outcome.value is None:
        return Styled("failed", "red")
    return Styled("changed", "green") if outcome.value.is_changed else Styled(UNCHANGED, "dim")


def _failure(outcome: Outcome[Provisioned]) -> list[str]:
    """Say why a host failed and what to do, without its name, which stands beside it."""
    error = outcome.error
    if error is None:
        return []
    why = str(error).removeprefix(f"{outcome.node}: ")
    return [why] if error.hint is None else [why, f"-> {error.hint}"]


def _joined(notes: Sequence[str]) -> str | None:
    return "\n".join(notes) or None


def _plans(planned: Outcomes[Provisioned]) -> RenderableType:
    from rich.console import Group

    return Group(*(line for outcome in planned for line in _plan(outcome)))


def _plan(outcome: Outcome[Provisioned]) -> Iterator[RenderableType]:
    from rich.text import Text

    from toolkit.views.harmless import visible

    done = outcome.value
    yield Text(str(outcome.node), style="bold")
    if done is None:
        for line in _failure(outcome):
            yield Text(f"  {visible(line)}", style="red")
        return
    if not done.steps:
        yield Text(f"  {UNCHANGED}", style="dim")
    for step in done.steps:
        yield Text(f"  {visible(step_line(step))}")
        for line in step.diff:
            yield Text(f"      {visible(line)}", style={"+": "green", "-": "red"}.get(line[:1], "dim"))
    for note in done.notes:
        yield Text(f"  note: {visible(note)}", style="yellow")


def wheelhouse_view(filled: Wheelhouse) -> View:
    """Show what a wheelhouse holds now."""
    data = {
        "folder": str(filled.folder),
        "python": filled.python,
        "platform": filled.platform,
        "packages": filled.packages,
        "fetched": filled.fetched,
        "size_bytes": filled.size_bytes,
    }
    size = f"{filled.size_bytes / 1_000_000:.0f} MB"
    row = (filled.folder, filled.platform, filled.python, filled.packages, filled.fetched, size)
    columns = ("WHEELHOUSE", "PLATFORM", "PYTHON", "PACKAGES", "FETCHED", "SIZE")
    return View(data, lambda: plain_table(*columns, rows=[row], right=columns[3:]))
