"""The site that every crawl of the frontier's benchmark walks: the same links in every run, and each fetch is counted.

A process of its own (`python frontier_site.py PAGES`), so that it is no part of what is measured; `Site` starts it. All
pages link to seven others and take about 1.9 KB; page 0 leads to all.
"""

from __future__ import annotations

import asyncio
import http.client
import random
import subprocess
import sys
from types import TracebackType
from typing import Self

LINKS = 7
CHILDREN = 4
PAGE_BYTES = 1900
_PAGE = b"/articles/2026-11-21/"
_PATIENCE_S = 10.0


def page_url(port: int, number: int) -> str:
    """Return a page's address: 81 characters, as long as those of real sites."""
    path = f"{_PAGE.decode()}{number:08}/of-nodes-and-their-neighbours"
    return f"http://127.0.0.1:{port}{path}"


def links(number: int, pages: int) -> list[int]:
    """Return the pages that one links to: its four children in a tree of all, and others drawn as by chance."""
    found = [child for child in range(CHILDREN * number + 1, CHILDREN * number + CHILDREN + 1) if child < pages]
    chance = random.Random(number)  # noqa: S311 - the same site in every run
    return found + [chance.randrange(pages) for _ in range(LINKS - len(found))]


class Site:
    """The site's process, from entering the context to leaving it."""

    def __init__(self, *, pages: int) -> None:
        self.pages = pages
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, __file__, str(self.pages)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def fetched(self) -> int:
        """Return how many pages were fetched so far."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE_S)
        try:
            connection.request("GET", "/fetched")
            return int(connection.getresponse().read())
        finally:
            connection.close()


class _Pages:
    """The pages as they are sent, each written once, and how many were."""

    def __init__(self, pages: int) -> None:
        self.port = 0
        self.fetched = 0
        self._sent: dict[bytes, bytes] = {}
        self._pages = pages

    def page(self, path: bytes) -> bytes:
        self.fetched += 1
        answer = self._sent.get(path)
        if answer is None:
            answer = self._sent[path] = self._written(int(path[len(_PAGE) : len(_PAGE) + 8]))
        return answer

    def _written(self, number: int) -> bytes:
        anchors = "".join(
            f'<li class="next"><a href="{page_url(self.port, to)}">Article {to}</a></li>\n'
            for to in links(number, self._pages)
        )
        head = f"<!DOCTYPE html>\n<html><head><title>Article {number}</title></head>\n<body><h1>Article {number}</h1>\n"
        text = "<p>It stands between its neighbours, as articles do.</p>\n"
        filler = text * ((PAGE_BYTES - len(head) - len(anchors)) // len(text))
        return _answer(f"{head}{filler}<ul>\n{anchors}</ul></body></html>\n".encode(), b"text/html; charset=utf-8")


class _Connection(asyncio.Protocol):
    def __init__(self, pages: _Pages) -> None:
        self._pages = pages
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        # A request comes in one piece: it is short, and the client is on this machine.
        assert self._transport is not None
        path = data[4 : data.index(b" ", 4)]
        if path.startswith(_PAGE):
            self._transport.write(self._pages.page(path))
        else:
            self._transport.write(_answer(b"%d" % self._pages.fetched, b"text/plain"))


def _answer(body: bytes, kind: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (kind, len(body), body)


async def _serve(count: int) -> None:
    pages = _Pages(count)
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(pages), "127.0.0.1", 0)
    pages.port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"{pages.port}\n")
    sys.stdout.flush()
    # The end of the input is the end of whoever started us.
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
