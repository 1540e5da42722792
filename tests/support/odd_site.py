"""A site on which every request ends in a way of its own; what was asked for, and how often, is known."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: connections are dropped on purpose."""


class OddSite:
    """`/redirect/PATH` leads to `/PATH`, `/flaky/` fails once, `/status/CODE/`, `/drop/` breaks off, `/hang/` waits.

    Everything else is a small page; below `/denied/` nothing may be fetched, says `/robots.txt`. Open from entering
    the context to leaving it.
    """

    def __init__(self, *, hang_s: float = 30.0) -> None:
        self._closing = threading.Event()
        self._hang_s = hang_s
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()
        self._server = _Server(("127.0.0.1", 0), self._answers())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """The site's address, without a slash at its end."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def asked(self) -> Counter[str]:
        """Return how often each path was asked for so far."""
        with self._lock:
            return Counter(self._asked)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def _note(self, path: str) -> int:
        with self._lock:
            self._asked[path] += 1
            return self._asked[path]

    def _answers(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Answer(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                count = site._note(self.path)
                kind, _, rest = self.path[1:].partition("/")
                if kind == "drop":
                    self.close_connection = True
                    return
                if kind == "hang":
                    site._closing.wait(site._hang_s)
                self._say(*_answer(self.path, kind, rest, count))

            def _say(self, status: int, text: str, location: str | None) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "text/plain" if "Disallow" in text else "text/html")
                self.send_header("Content-Length", str(len(text)))
                if location is not None:
                    self.send_header("Location", location)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                pass

        return Answer


def _answer(path: str, kind: str, rest: str, count: int) -> tuple[int, str, str | None]:
    """Return the status, the text, and where the page has gone to."""
    if kind == "redirect":
        return 302, "", f"/{rest}"
    if kind == "status":
        return int(rest.partition("/")[0]), "", None
    if kind == "flaky" and count == 1:
        return 503, "", None
    return 200, "User-agent: *\nDisallow: /denied/\n" if path == "/robots.txt" else "<p>page</p>", None
