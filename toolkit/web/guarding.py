"""What every request passes before the app sees it: the name it is asked for by, where it comes from, how big it is.

And what every answer carries: the headers that keep a browser from doing more with a page than it should.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 1_000_000
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CONTENT_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: with that, browsers send forms with `Origin: null`, as if they came from nowhere.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_log = logging.getLogger("crawlctl.web")
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """The outermost layer. `names` are the host names, beside the loopback's, under which it may be asked for.

    A bug in the app is logged, and answered by what `on_bug` returns.
    """

    def __init__(self, app: ASGIApp, *, names: Iterable[str] = (), on_bug: Callable[[Request], Response]) -> None:
        self._app = app
        self._on_bug = on_bug
        self._names = frozenset(name.lower().rstrip(".") for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what may not pass, and hand on the rest."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # There are no web sockets here.
            await send({"type": "websocket.close", "code": 1008})
            return
        sending = _Sending(send)
        if (refusal := self.refusal_of(scope)) is not None:
            status, text = refusal
            await PlainTextResponse(text + "\n", status)(scope, receive, sending)
            return
        try:
            await self._app(scope, _bounded(receive), sending)
        except ClientDisconnect:
            # Whoever asked went before the question was complete: nobody waits for an answer.
            return
        except Exception:
            _log.exception("a request failed by a bug: %s %r", scope["method"], scope["path"])
            if sending.has_begun:
                raise
            # It asks the file of sessions, which may be slow: nobody else is to wait for that.
            answer = await run_in_threadpool(self._on_bug, Request(scope))
            await answer(scope, receive, sending)

    def refusal_of(self, scope: Scope) -> tuple[int, str] | None:
        """Say with which status and words a request is refused, if it is."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or (asked := host_name(hosts[0])) is None:
            return 400, "a request needs one Host header with a host's name"
        server = scope.get("server") or ("", None)
        if asked not in LOOPBACK_NAMES | self._names | {_plain(str(server[0]))}:
            # Else another site could bind its name to our address, and read our pages as its own (DNS rebinding).
            return 421, f"nothing is served here as {asked[:100]}: crawlctl web --name {asked[:100]} would allow it"
        if scope["method"] not in SAFE_METHODS and not _is_own(headers, f"{scope['scheme']}://{hosts[0]}"):
            return 403, "this came from another site, or the proxy before us does not say how it was asked (--proxy)"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            return 413, f"at most {MAX_BODY_BYTES} bytes can be sent"
        return None


def host_name(host: str) -> str | None:
    """Return the name or address of a Host header in small letters, without its port; `None`: it is none."""
    try:
        parts = urlsplit(f"//{host}")
        name, _ = parts.hostname, parts.port
    except ValueError:
        return None
    return _plain(name) if name and _HOST.fullmatch(host) else None


def own_names() -> frozenset[str]:
    """Return the names by which this machine calls itself."""
    name = socket.gethostname().lower()
    return frozenset({name, name.partition(".")[0]}) - {""}


def _plain(name: str) -> str:
    bare = name.lower().rstrip(".")
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return bare


def _is_own(headers: Headers, here: str) -> bool:
    """Say whether a request that changes something comes from a page of ours, as far as its browser tells."""
    site = headers.get("sec-fetch-site", "same-origin")
    if site not in {"same-origin", "none"}:
        return False
    origin = headers.get("origin")
    # A program sends none; what signs it in by a cookie needs the form's token as well.
    return origin is None or _origin(origin) == _origin(here)


def _origin(text: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(text)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        return None
    return None if parts.hostname is None else (parts.scheme, _plain(parts.hostname), port)


class _Sending:
    """Sends an answer with the headers that each carries."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await self._send(message)


def _bounded(receive: Receive) -> Receive:
    came = 0

    async def receiving() -> Message:
        nonlocal came
        message = await receive()
        came += len(message.get("body", b""))
        if came > MAX_BODY_BYTES:
            raise HTTPException(413, f"at most {MAX_BODY_BYTES} bytes can be sent")
        return message

    return receiving
