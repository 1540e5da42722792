"""How rollouts in waves are shown: one line each, or one with its waves and the nodes that did not make it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolkit.model.rollouts import RolloutState, Wave, WaveRollout
from toolkit.views.contract import time_text
from toolkit.views.contract_rollouts import wave_rollout_object, wave_rollout_row
from toolkit.views.harmless import visible
from toolkit.views.rollouts import results_table
from toolkit.views.view import FittedTable, Styled, View, plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_FAILED = 20
_STYLES = {"running": "cyan", "held": "yellow", "left": "yellow", "done": "green", "passed": "green", "begun": "cyan"}


def wave_rollouts_view(rollouts: Sequence[tuple[WaveRollout, bool]]) -> View:
    """Show rollouts, each with whether it was left by whoever was at it."""
    data = [wave_rollout_row(rollout, is_left=is_left) for rollout, is_left in rollouts]
    rows = [
        (
            row["id"],
            row["project"],
            row["version"],
            _state(row["state"]),
            f"{row['wave'] or row['waves']}/{row['waves']}",
            f"{row['tried'] - row['failed']}/{row['nodes']}",
            row["began_at"],
            row["by"],
            row["why"],
        )
        for row in data
    ]
    columns = ("ID", "PROJECT", "VERSION", "STATE", "WAVE", "NODES", "BEGAN", "BY", "WHY")
    return View(data, lambda: plain_table(*columns, rows=rows, spare=("BY", "BEGAN", "PROJECT")))


def wave_rollout_view(rollout: WaveRollout, *, is_left: bool) -> View:
    """Show one rollout: how it stands, its waves, and the nodes on which it did not work."""
    return View(wave_rollout_object(rollout, is_left=is_left), lambda: _screen(rollout, is_left=is_left))


def _screen(rollout: WaveRollout, *, is_left: bool) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    state = "left" if is_left else rollout.state.value
    lines = [
        f"{rollout.id}: {rollout.project} {rollout.version}, {state}{f': {rollout.why}' if rollout.why else ''}",
        f"began {time_text(rollout.began_at)}, last changed {time_text(rollout.changed_at)} by {rollout.who}",
    ]
    if rollout.state in {RolloutState.RUNNING, RolloutState.HELD} and (is_left or state == "held"):
        lines.append(
            f"crawlctl rollouts resume {rollout.id} finishes it, crawlctl rollouts undo {rollout.id} takes it back"
        )
    parts: list[RenderableType] = [*(Text(visible(line)) for line in lines), Text(), _waves_table(rollout)]
    if failed := [each for each in rollout.results if not each.ok]:
        parts += [Text(), results_table(failed[:MAX_FAILED])]
    if len(failed) > MAX_FAILED:
        parts.append(Text(f"… and {len(failed) - MAX_FAILED} more; --output json shows them", style="dim"))
    return Group(*parts)


def _waves_table(rollout: WaveRollout) -> FittedTable:
    rows = [
        (
            at,
            _state("accepted" if wave.is_accepted else wave.state.value),
            len(wave.nodes),
            sum(each.ok for each in wave.results) if wave.results else None,
            sum(not each.ok for each in wave.results) if wave.results else None,
            _check(wave),
            wave.why,
        )
        for at, wave in enumerate(rollout.waves, start=1)
    ]
    columns = ("WAVE", "STATE", "NODES", "OK", "FAILED", "CHECK", "WHY")
    return plain_table(*columns, rows=rows, right=("WAVE", "NODES", "OK", "FAILED"))


def _check(wave: Wave) -> str | None:
    smoke = wave.smoke
    if smoke is None:
        return None
    return f"{smoke.job} on {smoke.node}: {'failed' if smoke.error else f'{smoke.items} items'}"


def _state(state: str) -> Styled:
    return Styled(state, _STYLES.get(state, "dim" if state in {"waiting", "undone", "abandoned"} else "red"))
