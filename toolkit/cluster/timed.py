"""Connections that keep a deadline: each wait on the socket gets what is left of the call's time.

urllib3 alone would give every byte of an answer the whole time again, and every part of an upload only the time meant
for connecting.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

_ENDS_AT: ContextVar[float] = ContextVar("ends_at")


@contextmanager
def ending_within(seconds: float) -> Iterator[None]:
    """Give the call made in this block, by this thread, so much time in all."""
    token = _ENDS_AT.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _ENDS_AT.reset(token)


def left_s() -> float:
    """Return the seconds that the call has left.

    Raises:
        TimeoutError: none.

    """
    left = _ENDS_AT.get() - time.monotonic()
    if left <= 0:
        raise TimeoutError("the call's time is over")
    return left


class _TimedReads(io.RawIOBase):
    """A socket's bytes, each read of them within what is left of the call's time."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        self._raw = raw
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(left_s())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    """An answer whose head and body are read in time."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_TimedReads(self.fp.detach(), sock))


class _TimedConnection(HTTPConnection):
    response_class = _TimedResponse

    def send(self, data: Any) -> None:
        _send_in_time(self)
        super().send(data)


class _TimedSecureConnection(HTTPSConnection):
    response_class = _TimedResponse

    def send(self, data: Any) -> None:
        _send_in_time(self)
        super().send(data)


class TimedPool(HTTPConnectionPool):
    """Connections to one server; every call is made within `ending_within`."""

    ConnectionCls = _TimedConnection


class TimedSecurePool(HTTPSConnectionPool):
    """The same over TLS."""

    ConnectionCls = _TimedSecureConnection


def _send_in_time(connection: HTTPConnection) -> None:
    """Connect in the time meant for that, then let the body take what is left."""
    if connection.sock is None:
        connection.connect()
    connection.sock.settimeout(left_s())
