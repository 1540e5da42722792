"""The site as a process of its own: `python -m chaos.frontier.server --port P ...`; it notes every fetch of every page.

`/fetches` tells who fetched which page when, `/progress` how many pages were fetched so far. It speaks as much HTTP/1.1
as spiders need, since it shares two processors with them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import defaultdict

from chaos.frontier.graph import Graph, Shape, page_of

IS_OPEN = "is open"


class Pages:
    """What the server answers, and what it was asked."""

    def __init__(self, graph: Graph, latency_s: float) -> None:
        self.fetches: dict[int, list[tuple[float, str]]] = defaultdict(list)
        self._graph = graph
        self._latency_s = latency_s
        self._shied: set[int] = set()

    def answer(self, path: str, worker: str) -> tuple[float, bytes]:
        """Return in how many seconds to answer, and what."""
        if path == "/fetches":
            return 0.0, _message("200 OK", json.dumps(self.fetches).encode())
        if path == "/progress":
            return 0.0, _message("200 OK", str(len(self.fetches)).encode())
        try:
            page = page_of(path)
        except ValueError:
            return 0.0, _message("404 Not Found", b"")
        delay_s = self._latency_s * self._graph.delay_share(page)
        if path.startswith("/moved/"):
            return delay_s, _message("302 Found", b"", f"Location: /pages/{page}\r\n")
        if self._graph.is_shy(page) and page not in self._shied:
            self._shied.add(page)
            return delay_s, _message("503 Service Unavailable", b"")
        self.fetches[page].append((time.time(), worker))
        return delay_s, _message("200 OK", self._body(page))

    def _body(self, page: int) -> bytes:
        links = "".join(f'<li><a href="{self._graph.path(to)}">{to}</a></li>' for to in self._graph.links(page))
        return f"<!DOCTYPE html><html><body><h1>{page}</h1><ul>{links}</ul></body></html>".encode()


def _message(status: str, body: bytes, more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


class Connection(asyncio.Protocol):
    """One connection: one request after the other."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._read = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the way back to the client."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request that has come whole."""
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            lines = self._read[:end].decode("latin-1").split("\r\n")
            self._read = self._read[end + 4 :]
            path = lines[0].split(" ")[1]
            workers = (line[10:] for line in lines if line.lower().startswith("x-worker: "))
            delay_s, message = self._pages.answer(path, next(workers, ""))
            asyncio.get_running_loop().call_later(delay_s, self._send, message)

    def _send(self, message: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(message)


async def _serve(port: int, pages: Pages) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Connection(pages), "127.0.0.1", port, backlog=512)
    sys.stdout.write(f"{IS_OPEN}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser()
    for name in ("port", "pages", "roots", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--shape", type=Shape, required=True)
    parser.add_argument("--latency-ms", type=float, required=True)
    given = parser.parse_args()
    graph = Graph(given.pages, given.roots, given.shape, given.seed)
    asyncio.run(_serve(given.port, Pages(graph, given.latency_ms / 1000)))


if __name__ == "__main__":
    main()
