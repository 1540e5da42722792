"""Where coroutines wait for a condition that somebody else makes true."""

from __future__ import annotations

from twisted.internet.defer import Deferred


class Gate:
    """Holds whoever waits until it is opened; those who come later wait for the next opening."""

    def __init__(self) -> None:
        self._waiting: list[Deferred[None]] = []

    def wait(self, *, is_open: bool) -> Deferred[None]:
        """Fire at the next opening, or at once where it `is_open`."""
        waiting: Deferred[None] = Deferred()
        if is_open:
            waiting.callback(None)
        else:
            self._waiting.append(waiting)
        return waiting

    def open(self) -> None:
        """Let all go that wait, the last one first; one that was cancelled meanwhile is left alone."""
        while self._waiting:
            waiting = self._waiting.pop()
            if not waiting.called:
                waiting.callback(None)
