"""What Scrapyd's web server does with a request before any endpoint sees it: bound its size, and spare the memory.

An upload that is too large is refused on its Content-Length: the answer goes out at once, what still comes is thrown
away as it comes. Installed on Scrapyd's site by the way that Twisted has for it (`Site.requestFactory`).
"""

# mypy: disable-error-code="no-untyped-call"
# Twisted says of itself that it is typed, and mostly is not.

from __future__ import annotations

import io
import json
from typing import Any, BinaryIO

from twisted.application.service import IServiceCollection
from twisted.web import http, server

from toolkit.node.forms import FormError, read_form
from toolkit.node.machine import later
from toolkit.node.shelf import too_large

MAX_FORM_BYTES = 4_000_000
"""The largest form without a file: a job's arguments are at most 1 MB, and thrice that when percent-encoded.

A larger one is read by the endpoint that expects a file, and by it alone.
"""

LINGER_S = 30.0
"""How long what nobody reads may still come, so that its sender can read the answer; then the connection is cut."""


class BoundedRequest(server.Request):
    """A request of at most `max_body_bytes`; a large form is read by the endpoint that wants it (`read`)."""

    content: BinaryIO
    max_body_bytes = 0
    max_egg_bytes = 0
    node_name = ""

    def __init__(self, channel: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(channel, *args, **{**kwargs, "parsePOSTFormSubmission": False})
        self._is_refused = False
        self._lingering: Any = None

    def gotLength(self, length: int | None) -> None:  # noqa: N802 - Twisted's name
        """Refuse what says that it is too large, before a byte of it is read."""
        super().gotLength(length)
        if length is not None and length > self.max_body_bytes:
            self._refuse(too_large(length, self.max_egg_bytes))

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Keep a piece of the body, on disk when it is long; refuse what grows too large without having said so."""
        if self._is_refused:
            return
        super().handleContentChunk(data)
        size = self.content.tell()
        if size > self.max_body_bytes:
            self._refuse(too_large(size, self.max_egg_bytes))

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:  # noqa: N802 - Twisted's name
        """Go on with a whole request, or be done with a refused one."""
        if not self._is_refused:
            super().requestReceived(command, path, version)
            return
        self._let_go()
        self.method, self.uri, self.clientproto = command, path, version
        self.finish()

    def process(self) -> None:
        """Read a form that is small, then do as Scrapyd does."""
        problem = self._read_small_form() if self.method == b"POST" else None
        if problem is None:
            super().process()
        else:
            self._answer(problem)
            self.finish()

    def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
        """Forget it."""
        self._let_go()
        super().connectionLost(reason)

    @property
    def content_type(self) -> str:
        """What kind of body it says to have."""
        return (self.getHeader("Content-Type") or "").strip()

    def read(self) -> None:
        """Read a large form into `args`, its long values as `Part`. Once; in a thread.

        Raises:
            FormError: it is no such form.

        """
        if self._is_large:
            self.args.update(read_form(self.content, self.content_type))

    @property
    def _is_large(self) -> bool:
        return self._body_bytes > MAX_FORM_BYTES and self.content_type.lower().startswith("multipart/form-data")

    @property
    def _body_bytes(self) -> int:
        size = self.content.seek(0, io.SEEK_END)
        self.content.seek(0)
        return int(size)

    def _read_small_form(self) -> str | None:
        """Read the fields as Twisted would; return what is wrong with them."""
        size, kind = self._body_bytes, self.content_type.lower()
        if size == 0 or self._is_large:
            return None
        try:
            if kind.startswith("multipart/form-data"):
                self.args.update(read_form(self.content, self.content_type))
            elif kind.startswith("application/x-www-form-urlencoded"):
                if size > MAX_FORM_BYTES:
                    return (
                        f"the form is larger than {MAX_FORM_BYTES // 1_000_000} MB; send a file as multipart/form-data"
                    )
                self.args.update(http.parse_qs(self.content.read(), keep_blank_values=True))
                self.content.seek(0)
        except (FormError, ValueError) as error:
            return f"the form cannot be read: {error}"
        return None

    def _refuse(self, message: str) -> None:
        """Answer now, and let what still comes fall."""
        self._is_refused = True
        self.content.close()
        self.content = io.BytesIO()
        # Who asked whether to go on has the answer: the channel must not say that it may.
        self.requestHeaders.removeHeader(b"Expect")
        self.channel.persistent = False
        self.method, self.clientproto = b"POST", b"HTTP/1.1"
        self.setHeader(b"Connection", b"close")
        self._answer(message)
        self._lingering = later(LINGER_S, self.channel.forceAbortClient)

    def _answer(self, message: str) -> None:
        body = json.dumps({"status": "error", "message": message, "node_name": self.node_name}).encode() + b"\n"
        # Scrapyd's clients read the JSON and not the code.
        self.setResponseCode(http.OK)
        self.setHeader(b"Content-Type", b"application/json")
        self.setHeader(b"Content-Length", b"%d" % len(body))
        self.write(body)

    def _let_go(self) -> None:
        if self._lingering is not None and self._lingering.active():
            self._lingering.cancel()


def bound_requests(app: Any, *, node_name: str, max_egg_bytes: int) -> None:
    """Let every site of Scrapyd's application bound its requests, so that an egg of that size just gets through."""
    egg_bytes, name = max_egg_bytes, node_name

    class NodeRequest(BoundedRequest):
        max_body_bytes = max(egg_bytes, MAX_FORM_BYTES) + 1_000_000
        max_egg_bytes = egg_bytes
        node_name = name

    services: Any = IServiceCollection(app)
    for service in services:
        for argument in getattr(service, "args", ()):
            if isinstance(argument, server.Site):
                argument.requestFactory = NodeRequest
