"""The time that one attempt may take in all: a server that answers byte by byte does not stretch it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toolkit.model.errors import SinkError


class Deadline:
    """A moment of this process' own clock after which nothing more is sent."""

    def __init__(self, within_s: float) -> None:
        self.within_s = within_s
        self._ends_at = time.monotonic() + within_s

    def left_s(self) -> float:
        """Return the seconds left.

        Raises:
            SinkError: there are none.

        """
        left_s = self._ends_at - time.monotonic()
        if left_s <= 0:
            raise SinkError(f"no answer within {self.within_s:g} s")
        return left_s

    @contextmanager
    def cutting(self, connection: Callable[[], socket.socket | None]) -> Iterator[None]:
        """Cut the connection when the time is up, whatever it is waiting for; what then fails says so.

        `connection` is asked for the socket then, since TLS lays another around the first one.
        """
        timer = threading.Timer(self.left_s(), lambda: _cut(connection()))
        timer.daemon = True
        timer.start()
        try:
            yield
        except SinkError:
            raise
        except Exception:
            self.left_s()  # says that the time is up, if it is
            raise
        finally:
            timer.cancel()
        # What was cut in the middle may look like an answer.
        self.left_s()


def _cut(connection: socket.socket | None) -> None:
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
