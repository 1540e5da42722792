"""A webhook's receiving end for tests: it says what it got, when, how many at once, and fails as it is told to."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Posted:
    """One request: where to, its headers in lower case, its body as it came, and when by the system's clock."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float
    status: int

    @property
    def key(self) -> str:
        """The message's key."""
        return self.headers["x-crawlctl-event"]

    @property
    def json(self) -> dict[str, Any]:
        """The body."""
        content: dict[str, Any] = json.loads(self.body)
        return content

    @property
    def subjects(self) -> list[str]:
        """What its events are about, those of webhooks."""
        return [event["subject"] for event in self.json["events"]]


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that give up in the middle are what the server is for."""


class HookServer:
    """Takes every POST, from entering the context to leaving it; `answers` are statuses for the first requests.

    Each is answered after `takes_s` seconds. `headers` go with every answer. With `certificate` (PEM and key) it
    speaks TLS.
    """

    def __init__(
        self,
        *,
        answers: Sequence[int] = (),
        takes_s: float = 0.0,
        headers: dict[str, str] | None = None,
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        self.takes_s = takes_s
        self.posted: list[Posted] = []
        self.most_at_once: dict[str, int] = {}
        self._answers = list(answers)
        self._headers = headers or {}
        self._at_once: dict[str, int] = {}
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Its address, with a path that is a secret as Slack's are."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/hooks/T0P-S3CRET?x=1"

    @property
    def taken(self) -> list[Posted]:
        """The requests that were answered well."""
        return [each for each in list(self.posted) if each.status < 300]

    def mend(self) -> None:
        """Take everything from now on."""
        with self._lock:
            self._answers.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                key = headers.get("x-crawlctl-event", "")
                at = time.time()
                status = hook._begin(key)
                time.sleep(hook.takes_s)
                hook._end(key)
                hook.posted.append(Posted(self.path, headers, body, at, status))
                self.send_response(status)
                for name, value in hook._headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        return Handler

    def _begin(self, key: str) -> int:
        with self._lock:
            now = self._at_once.get(key, 0) + 1
            self._at_once[key] = now
            self.most_at_once[key] = max(now, self.most_at_once.get(key, 0))
            return self._answers.pop(0) if self._answers else 204

    def _end(self, key: str) -> None:
        with self._lock:
            self._at_once[key] -= 1
