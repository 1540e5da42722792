"""A thread-per-connection HTTP server on bare sockets, for tests that must break an answer at any byte of it."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections import Counter
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from support.ports import free_port


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came: `head` is everything up to and with the empty line."""

    method: str
    target: str
    head: bytes
    body: bytes

    @property
    def endpoint(self) -> str:
        """The last part of the path, such as `listjobs.json`."""
        return urlsplit(self.target).path.rsplit("/", 1)[-1]


class RawServer:
    """Reads whole requests, counts them by endpoint, and leaves each answer to `answer`; closes after each."""

    def __init__(self, port: int | None = None) -> None:
        self.port = port or free_port()
        self.calls: Counter[str] = Counter()
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    def answer(self, connection: socket.socket, request: Request) -> None:
        """Answer the request, or break it, on its connection."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", self.port))
        self._listener.listen(256)
        self._run(self._accept, self._listener)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.closing.set()
        assert self._listener is not None
        # Closing alone would leave the accepting thread asleep.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _run(self, work: Any, connection: socket.socket) -> None:
        thread = threading.Thread(target=work, args=(connection,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while not self.closing.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections.add(connection)
            self._run(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError):
                request = read_request(connection)
                if request is not None:
                    with self._lock:
                        self.calls[request.endpoint] += 1
                    self.answer(connection, request)
        finally:
            with self._lock:
                self._connections.discard(connection)


def read_request(connection: socket.socket) -> Request | None:
    """Read one request with its body; `None` if the caller hung up or did not speak HTTP."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    length = next((int(line.partition(":")[2]) for line in lines[1:] if line.lower().startswith("content-length:")), 0)
    pieces = [body]
    missing = length - len(body)
    while missing > 0:
        piece = connection.recv(1 << 20)
        if not piece:
            return None
        pieces.append(piece)
        missing -= len(piece)
    return Request(words[0], words[1] if len(words) > 1 else "", head + b"\r\n\r\n", b"".join(pieces))


def answer_bytes(
    body: bytes, *, status: str = "200 OK", kind: str = "application/json", length: int | None = None, extra: str = ""
) -> bytes:
    """Return a whole answer; `length` is what Content-Length claims, if it is not to tell the truth."""
    claimed = len(body) if length is None else length
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {claimed}\r\nConnection: close\r\n{extra}\r\n"
    return head.encode() + body


def json_bytes(value: Any, *, status: str = "200 OK") -> bytes:
    """Return a whole answer with the value as Scrapyd writes JSON."""
    return answer_bytes(json.dumps(value).encode() + b"\n", status=status)


def reset(connection: socket.socket) -> None:
    """Close the connection with RST, as a process that was killed does with unread bytes."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
