"""Where coroutines wait for a condition that somebody else makes true."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from toolkit.spider.leases import Leases
from toolkit.spider.outbox import Outbox


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


class Room:
    """How much more a worker may collect; `size` counts requests, endings and items."""

    def __init__(self, outbox: Outbox, leases: Leases, *, size: int) -> None:
        self._outbox, self._leases, self._size = outbox, leases, size
        self._gate = Gate()
        self._is_given_up = False

    @property
    def is_used_up(self) -> bool:
        """So much waits for Redis that whoever brings more should wait; never where nobody will take it any more."""
        return self._outbox.is_full and not self._is_given_up

    @property
    def is_short(self) -> bool:
        """So much waits, for Redis or for the end of its page, that no further page should be begun."""
        return self._outbox.is_full or self._leases.gathered >= self._size

    def wait(self) -> Deferred[None]:
        """Fire when there is room again."""
        return self._gate.wait(is_open=not self.is_used_up)

    def look(self) -> None:
        """Let those go on who wait, if there is room."""
        if not self.is_used_up:
            self._gate.open()

    def give_up(self) -> None:
        """Let nobody wait any more: nothing that is collected from now on will be sent."""
        self._is_given_up = True
        self._gate.open()
