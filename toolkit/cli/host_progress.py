"""What people see while hosts are worked on: a line for each host on a terminal, a line for each step elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolkit.views.view import Styled, plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from toolkit.cli.printer import Printer
    from toolkit.model.names import NodeName
    from toolkit.model.outcomes import Outcome

MAX_LINES = 30


class HostProgress:
    """Keeps where each host is; hosts tell it from threads of their own, one at a time."""

    def __init__(self, printer: Printer, names: Sequence[NodeName]) -> None:
        self._printer = printer
        self._steps: dict[NodeName, str] = dict.fromkeys(names, "waiting")
        self._begun: dict[NodeName, float] = {}
        self._ended: dict[NodeName, tuple[Styled, float]] = {}
        self._is_live = printer.err.is_terminal

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show it while the block runs."""
        with self._printer.live(self._table):
            yield

    def step(self, name: NodeName, text: str) -> None:
        """Hear what a host is at."""
        self._begun.setdefault(name, time.monotonic())
        if not self._is_live and self._printer.is_for_people and not text.endswith("%") and text != self._steps[name]:
            self._printer.say(f"{name}: {text}")
        self._steps[name] = text

    def done(self, outcome: Outcome[Any]) -> None:
        """Hear of a host's end."""
        verdict = Styled("done", "green") if outcome.ok else Styled("failed", "red")
        self._ended[outcome.node] = (verdict, outcome.seconds)
        if not self._is_live and self._printer.is_for_people and outcome.error is not None:
            self._printer.say(str(outcome.error), style="red")

    def _table(self) -> RenderableType:
        now = time.monotonic()
        under_way = [name for name in self._steps if name not in self._ended]
        shown = [*[name for name in under_way if name in self._begun], *self._ended][:MAX_LINES]
        rows = []
        for name in shown:
            verdict, seconds = self._ended.get(name, (self._steps[name], now - self._begun.get(name, now)))
            rows.append((name, verdict, f"{seconds:.0f} s"))
        count = f"{len(self._ended)} of {len(self._steps)}"
        return plain_table("HOST", count, "", rows=rows)
