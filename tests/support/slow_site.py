"""A site for tests of running crawls: every page takes its time, and who asked when, and how many at once, is known."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: spiders that are killed in the middle of a page are what the site is for."""


class SlowSite:
    """Answers every path with a small page, `page_s` seconds later; open from entering the context to leaving it."""

    def __init__(self, *, page_s: float = 0.05) -> None:
        self.page_s = page_s
        self._lock = threading.Lock()
        self._asked = 0
        self._at_once = 0
        self._most_at_once = 0
        self._server = _Server(("127.0.0.1", 0), self._answers())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """The site's address, without a slash at its end."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def asked(self) -> int:
        """How many pages were asked for so far."""
        with self._lock:
            return self._asked

    @property
    def at_once(self) -> int:
        """How many pages are being answered now."""
        with self._lock:
            return self._at_once

    def most_at_once(self) -> int:
        """Return how many pages were answered at once at most since this was last called."""
        with self._lock:
            most, self._most_at_once = self._most_at_once, self._at_once
        return most

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answers(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Answer(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with site._lock:
                    site._asked += 1
                    site._at_once += 1
                    site._most_at_once = max(site._most_at_once, site._at_once)
                time.sleep(site.page_s)
                with site._lock:
                    site._at_once -= 1
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", "11")
                self.end_headers()
                self.wfile.write(b"<p>page</p>")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                pass

        return Answer
