"""The small windows: one that asks whether to do what it names, one for a job's concurrency and delay."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from toolkit.top.acting import MAX_NAMED, Act
from toolkit.top.columns import plain

MAX_CONCURRENCY = 100_000
MAX_DELAY_S = 86_400.0


class ConfirmScreen(ModalScreen[bool]):
    """Names what will be done, to what, and what that means; only `y` does it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,q", "answer(False)", show=False),
    ]

    def __init__(self, act: Act) -> None:
        super().__init__()
        self.act = act

    def compose(self) -> ComposeResult:
        """Lay out the question."""
        subjects = self.act.subjects
        more = len(subjects) - MAX_NAMED
        with Vertical(classes="window"):
            yield Label(plain(self.act.question), classes="question", markup=False)
            for subject in subjects[:MAX_NAMED]:
                yield Label(f"  {plain(subject)}", markup=False)
            if more > 0:
                yield Label(f"  and {more:,} more", markup=False)
            if self.act.note:
                yield Label(plain(self.act.note), classes="note", markup=False)
            yield Label("y  yes, do it      n  no", classes="answers", markup=False)

    def action_answer(self, is_yes: bool) -> None:  # noqa: FBT001 - as Textual passes it
        """Close with the answer."""
        self.dismiss(is_yes)


class TuneScreen(ModalScreen[tuple[int | None, float | None] | None]):
    """Asks for a concurrency and a delay; what is left empty stays as it is."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def compose(self) -> ComposeResult:
        """Lay out the two fields."""
        with Vertical(classes="window"):
            yield Label(f"Tune {plain(self._what)}", classes="question", markup=False)
            yield Label("requests at once (empty: as it is)", markup=False)
            yield Input(id="concurrency", type="integer", compact=True, select_on_focus=False)
            yield Label("seconds between two requests to a domain (empty: as it is)", markup=False)
            yield Input(id="delay", type="number", compact=True, select_on_focus=False)
            yield Label("", id="problem", markup=False)
            yield Label("Enter  go on      Esc  leave it", classes="answers", markup=False)

    def on_input_submitted(self) -> None:
        """Go on with what was typed, or say what is wrong with it."""
        concurrency = read_concurrency(self.query_one("#concurrency", Input).value)
        delay_s = read_delay(self.query_one("#delay", Input).value)
        problem = next((each for each in (concurrency, delay_s) if isinstance(each, str)), None)
        if problem is None and concurrency is None and delay_s is None:
            problem = "nothing is wished yet"
        if problem is not None:
            self.query_one("#problem", Label).update(problem)
            return
        assert not isinstance(concurrency, str)  # noqa: S101 - told above
        assert not isinstance(delay_s, str)  # noqa: S101 - told above
        self.dismiss((concurrency, delay_s))

    def action_cancel(self) -> None:
        """Leave everything as it is."""
        self.dismiss(None)


def read_concurrency(text: str) -> int | str | None:
    """Return the number, `None` for an empty text, or what is wrong with it. Pure."""
    if not text.strip():
        return None
    try:
        number = int(text)
    except ValueError:
        return f"{text!r} is no whole number"
    return number if 1 <= number <= MAX_CONCURRENCY else f"requests at once: 1 to {MAX_CONCURRENCY:,}"


def read_delay(text: str) -> float | str | None:
    """Return the seconds, `None` for an empty text, or what is wrong with it. Pure."""
    if not text.strip():
        return None
    try:
        number = float(text)
    except ValueError:
        return f"{text!r} is no number"
    return number if 0 <= number <= MAX_DELAY_S else f"a delay is 0 to {MAX_DELAY_S:,.0f} seconds"
