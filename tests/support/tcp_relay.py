"""A TCP relay before a real server: it cuts connections, holds up what they bring, or drops all, as a network may."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from types import TracebackType
from typing import Self

from support.ports import free_port


class TcpRelay:
    """Forwards `port` to a port of this machine: `with TcpRelay(server.port) as relay: ... relay.cut()`.

    While it `holds`, nothing arrives; what was sent arrives when that is over, also when its sender is gone by then.
    """

    def __init__(self, target_port: int) -> None:
        self.port = free_port()
        self.swallows = False
        self.holds = False
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []

    def cut(self) -> None:
        """End every connection through here at once; new ones are forwarded again."""
        for pair in self._pairs:
            for each in pair:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self._pairs.clear()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.holds = False
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target_port))
            self._pairs.append((client, server))
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError), client, server:
            while True:
                for each in select.select([client, server], [], [], 1)[0]:
                    part = each.recv(1 << 16)
                    if not part:
                        return
                    while self.holds:
                        time.sleep(0.01)
                    if not self.swallows:
                        (server if each is client else client).sendall(part)
