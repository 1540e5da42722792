"""One connection of a browser or a program: how long it may take to ask, and whose address it has."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

ASKED_WITHIN_S = 30.0
"""So long may a request take to come, its body included; else whoever says nothing would keep others out."""
_COMING = (h11.IDLE, h11.SEND_BODY)


class Connection(H11Protocol):
    """A connection that is closed when no whole request has come in time.

    Between two requests the server's shorter time for idle connections holds. An IPv4 address that comes by an IPv6
    socket is the IPv4 address: so it is known by its name, as a proxy, and in the audit.
    """

    _asking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.client, self.server = _plain(self.client), _plain(self.server)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what came; once it is a whole request there is time."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.transport.is_closing() or self.conn.their_state not in _COMING:
            self._unwatch()
        elif self._asking is None:
            self._asking = self.loop.call_later(ASKED_WITHIN_S, self.transport.abort)

    def _unwatch(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None


def _plain(place: Any) -> Any:
    if place is None:
        return None
    try:
        mapped = getattr(ipaddress.ip_address(place[0]), "ipv4_mapped", None)
    except ValueError:
        return place
    return place if mapped is None else (str(mapped), place[1])
