"""A site of linked pages for tests of shared crawls: what was fetched, how often and when is known."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

BRANCHES = 4
_ALWAYS = ("/robots.txt", "/sitemap")


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: spiders that are killed in the middle of a page are what the site is for."""


class LinkedSite:
    """Pages `/p/0` … in a tree, each also linked from elsewhere; `/sitemap.xml` names all, any other path is empty.

    Open from entering the context to leaving it; a page comes `page_s` seconds after it was asked for. While it holds,
    it only takes note of what it is asked for: so a crawl is in its middle for as long as a test needs it to be.
    """

    def __init__(self, pages: int = 40, *, page_s: float = 0.02, crawl_delay_s: float | None = None) -> None:
        self.pages = pages
        self.page_s = page_s
        self.crawl_delay_s = crawl_delay_s
        self._lock = threading.Lock()
        self._fetched: list[tuple[str, float]] = []
        self._left: float = math.inf
        self._may_go_on = threading.Condition()
        self._server = _Server(("127.0.0.1", 0), self._answers())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """The site's address, without a slash at its end."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def all_pages(self) -> set[str]:
        """The paths of all pages."""
        return {f"/p/{number}" for number in range(self.pages)}

    def fetched(self) -> Counter[str]:
        """Return how often each path was asked for so far, `robots.txt` and the sitemap left out."""
        with self._lock:
            return Counter(path for path, _ in self._fetched if not path.startswith(_ALWAYS))

    def times(self, path: str) -> list[float]:
        """Return when a path was asked for, by `time.time`."""
        with self._lock:
            return [at for asked, at in self._fetched if asked == path]

    def hold(self, *, after: int = 0) -> None:
        """Answer so many pages more, and no further one before `release`; `robots.txt` and the sitemap always come."""
        with self._may_go_on:
            self._left = after
            self._may_go_on.notify_all()

    def release(self) -> None:
        """Answer everything again, and what waits at once."""
        with self._may_go_on:
            self._left = math.inf
            self._may_go_on.notify_all()

    def _wait_for_turn(self) -> None:
        with self._may_go_on:
            self._may_go_on.wait_for(lambda: self._left > 0)
            self._left -= 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def _answer(self, path: str) -> tuple[str, str]:
        if path == "/robots.txt":
            delay = "" if self.crawl_delay_s is None else f"Crawl-delay: {self.crawl_delay_s:g}\n"
            return "text/plain", f"User-agent: *\n{delay}Sitemap: {self.url}/sitemap.xml\n"
        if path == "/sitemap.xml":
            entries = "".join(f"<url><loc>{self.url}{page}</loc></url>" for page in sorted(self.all_pages))
            return "text/xml", f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
        number = path.removeprefix("/p/")
        links = self._links(int(number)) if path.startswith("/p/") and number.isdigit() else []
        return "text/html", "<p>page</p>" + "".join(f'<a href="/p/{link}">{link}</a>' for link in links)

    def _links(self, number: int) -> list[int]:
        children = range(number * BRANCHES + 1, (number + 1) * BRANCHES + 1)
        return [link for link in (*children, (number * 7 + 3) % self.pages) if link < self.pages]

    def _answers(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Answer(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with site._lock:
                    site._fetched.append((self.path, time.time()))
                if not self.path.startswith(_ALWAYS):
                    site._wait_for_turn()
                time.sleep(site.page_s)
                kind, text = site._answer(self.path)
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                pass

        return Answer
