"""Hearing of the end of a process that is not our child: by a descriptor of the process, or by looking now and then."""

from __future__ import annotations

import os
from collections.abc import Callable

from twisted.internet.interfaces import IReadDescriptor
from zope.interface import implementer  # type: ignore[import-untyped]

from toolkit.node.reactor import reactor
from toolkit.runs import process

LOOK_EVERY_S = 0.5


def watch_exit(pid: int, start: str, on_exit: Callable[[], None]) -> None:
    """Call `on_exit` once on the reactor's thread, never at once, when that very process has ended."""
    main = reactor()
    descriptor = process.watch(pid, start)
    if descriptor is not None:
        main.addReader(_Ended(descriptor, on_exit))
        return

    def look() -> None:
        if process.is_alive(pid, start):
            main.callLater(LOOK_EVERY_S, look)
        else:
            on_exit()

    main.callLater(0, look)


@implementer(IReadDescriptor)
class _Ended:
    """A process' descriptor, which becomes readable when the process ends."""

    def __init__(self, descriptor: int, on_exit: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_exit = on_exit

    def fileno(self) -> int:
        return self._descriptor

    def doRead(self) -> None:  # noqa: N802 - Twisted's name
        reactor().removeReader(self)
        os.close(self._descriptor)
        self._on_exit()

    def connectionLost(self, reason: object) -> None:  # noqa: N802 - Twisted's name
        """Nothing to give back: the reactor is ending, and the process goes on."""

    def logPrefix(self) -> str:  # noqa: N802 - Twisted's name
        return "process"
