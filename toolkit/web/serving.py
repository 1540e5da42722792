"""The process that serves the pages: its place on the network, and its orderly end."""

from __future__ import annotations

import errno
import ipaddress
import logging
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI

from toolkit.model.errors import ConfigurationError, RefusedError, UsageError
from toolkit.web.connection import Connection

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8800
GRACE_S = 5
MAX_AT_ONCE, MAX_THREADS = 1000, 100
BACKLOG = 128
MAX_PORT = 65535
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the pages are served: a numeric address or a name of this machine, and a port; 0 takes a free one."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT

    @property
    def is_loopback(self) -> bool:
        """Say whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate, with those of its issuers, and its key, as PEM files."""

    cert: Path
    key: Path


def place_of(text: str) -> Place:
    """Return the place that `HOST`, `HOST:PORT`, `:PORT` or `[V6]:PORT` names.

    Raises:
        UsageError: it names none.

    """
    problem = UsageError(f"{text[:100]!r} is no place to listen at", hint="as in 0.0.0.0:8800, or [::]:8800")
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
    elif text.count(":") > 1:
        host, colon, port = text, "", ""
    else:
        host, colon, port = text.partition(":")
    if colon not in {"", ":"} or (colon and not (port.isdecimal() and port.isascii())):
        raise problem
    number = int(port) if port else DEFAULT_PORT
    if number > MAX_PORT or any(char.isspace() or char == "/" for char in host):
        raise problem
    return Place(host or DEFAULT_HOST, number)


def listen(place: Place) -> socket.socket:
    """Return a socket that listens there; nobody is answered yet.

    Raises:
        RefusedError: another process has the port.
        ConfigurationError: the address is none of this machine's, or the port is not for this user.

    """
    try:
        family, _, _, _, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
        # With the protocol named, asyncio turns Nagle off: else each answer waits 40 ms for an acknowledgement.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        where = f"{place.host}:{place.port}"
        if error.errno == errno.EADDRINUSE:
            raise RefusedError(
                f"{where} is taken by another process", hint="--listen :8801 takes another port; is it running already?"
            ) from error
        raise ConfigurationError(
            f"nothing can be served at {where}: {error.strerror or error}",
            hint="--listen names an address of this machine, and a port above 1023",
        ) from error
    return listening


def check_tls(tls: Tls) -> None:
    """Make sure that the certificate and its key can be read and belong together.

    Raises:
        ConfigurationError: they cannot be, or do not.

    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.cert, tls.key, password=_no_password)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigurationError(
            f"TLS with {tls.cert} and {tls.key} cannot be: {why}",
            hint="PEM files are needed, the key without a password",
        ) from error


def serve(
    app: FastAPI,
    listening: socket.socket,
    *,
    stopping: threading.Event,
    tls: Tls | None = None,
    proxies: Sequence[str] = (),
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGINT or SIGTERM; what is being answered then is answered, for five seconds at most.

    A second signal ends it at once. `on_ready` is called when the first request could be answered. `proxies` are the
    addresses whose word on who asks, and how, is believed.
    """
    server = server_of(app, tls=tls, proxies=proxies, on_ready=on_ready)
    with _ended_by_signals(server, stopping), listening:
        server.run(sockets=[listening])


def server_of(
    app: FastAPI,
    *,
    tls: Tls | None = None,
    proxies: Sequence[str] = (),
    on_ready: Callable[[], None] = lambda: None,
) -> uvicorn.Server:
    """Return a server that ends when its `should_exit` is set; signals mean nothing to it."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        limit_concurrency=MAX_AT_ONCE,
        timeout_graceful_shutdown=GRACE_S,
        ssl_certfile=None if tls is None else str(tls.cert),
        ssl_keyfile=None if tls is None else str(tls.key),
    )
    return _Server(config, on_ready)


class _Server(uvicorn.Server):
    """A server whose signals are somebody else's, and which says when it is ready."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        current_default_thread_limiter().total_tokens = MAX_THREADS
        await super().startup(sockets)
        self._on_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def _ended_by_signals(server: uvicorn.Server, stopping: threading.Event) -> Iterator[None]:
    def end(_signal: int, _frame: FrameType | None) -> None:
        server.force_exit = server.should_exit
        server.should_exit = True
        stopping.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        stopping.set()


def _no_password() -> str:
    # Else OpenSSL asks the terminal, where nobody may sit.
    return ""


def log_to_stderr() -> None:
    """Let what the server says of itself go to standard error, a line each with its time in UTC."""
    shown = logging.StreamHandler()
    formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    shown.setFormatter(formatter)
    for name, level in (("crawlctl.web", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(shown)
        logger.setLevel(level)
        logger.propagate = False
