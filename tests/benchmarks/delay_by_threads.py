"""What `delay.c` does, where there is no C compiler: `python delay_by_threads.py TARGET_PORT ONE_WAY_US`.

Two threads for each direction of a connection: one reads and notes when, the other sleeps and passes on.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable

_CHUNK_BYTES = 64 * 1024


class _RoundTrips:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def add(self) -> None:
        with self._lock:
            self._count += 1

    def __int__(self) -> int:
        return self._count


class _Pair:
    """One client's connection and ours to the server."""

    def __init__(self, client: socket.socket, server: socket.socket, trips: _RoundTrips) -> None:
        self._client = client
        self._server = server
        self._trips = trips
        self._is_waiting = False

    def start(self, one_way_s: float) -> None:
        _pass_on(self._client, self._server, self._asked, one_way_s=one_way_s)
        _pass_on(self._server, self._client, self._answered, one_way_s=one_way_s)

    def _asked(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._trips.add()

    def _answered(self) -> None:
        self._is_waiting = False


def _pass_on(source: socket.socket, to: socket.socket, came: Callable[[], None], *, one_way_s: float) -> None:
    due: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def read() -> None:
        part = b"-"
        while part:
            try:
                part = source.recv(_CHUNK_BYTES)
            except OSError:
                part = b""
            if part:
                came()
            due.put((time.monotonic() + one_way_s, part))

    def write() -> None:
        with contextlib.suppress(OSError):
            while True:
                at_s, part = due.get()
                time.sleep(max(0.0, at_s - time.monotonic()))
                if not part:
                    to.shutdown(socket.SHUT_WR)
                    return
                to.sendall(part)

    for work in (read, write):
        threading.Thread(target=work, daemon=True).start()


def _serve(listener: socket.socket, target_port: int, trips: _RoundTrips, *, one_way_s: float) -> None:
    while True:
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", target_port))
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _Pair(client, server, trips).start(one_way_s)


def _main(target_port: int, one_way_us: int) -> None:
    trips = _RoundTrips()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _say(listener.getsockname()[1])
        serving = threading.Thread(
            target=_serve, args=(listener, target_port, trips), kwargs={"one_way_s": one_way_us / 1e6}, daemon=True
        )
        serving.start()
        for _ in sys.stdin:
            _say(int(trips))


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
