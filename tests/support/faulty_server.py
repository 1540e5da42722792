"""Nodes that misbehave, on real sockets: one that only has a fault, and a proxy that puts faults before a real node."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self, get_args
from urllib.parse import urlsplit

from support.ports import free_port
from support.raw_http import RawServer, Request, answer_bytes, json_bytes, reset

Fault = Literal[
    "refuse", "hang", "500", "401", "404", "html", "bad_json", "no_status", "empty", "half", "drip", "error", "reset"
]
FAULTS: tuple[Fault, ...] = get_args(Fault)

_HTML = b"<!DOCTYPE html><html><body><h1>It works!</h1></body></html>"
_GOOD = b'{"node_name": "faulty", "status": "ok", "pending": 0, "running": 0, "finished": 0, "spiders": 2}\n'

WHOLE_ANSWERS: Mapping[str, bytes] = {
    "500": answer_bytes(
        b"<html><body>Internal Server Error</body></html>", status="500 Server Error", kind="text/html"
    ),
    "401": answer_bytes(
        b"Unauthorized",
        status="401 Unauthorized",
        kind="text/html",
        extra='WWW-Authenticate: basic realm="Scrapyd"\r\n',
    ),
    "404": answer_bytes(b"<html><body>No Such Resource</body></html>", status="404 Not Found", kind="text/html"),
    "html": answer_bytes(_HTML, kind="text/html"),
    "bad_json": answer_bytes(b'{"node_name": "faulty", "status": '),
    "no_status": json_bytes(["not", "Scrapyd"]),
    "empty": answer_bytes(b""),
    "half": answer_bytes(_GOOD[:30], length=len(_GOOD)),
    "error": json_bytes({"node_name": "faulty", "status": "error", "message": "this node says no"}),
}


def break_answer(connection: socket.socket, fault: Fault, closing: threading.Event) -> None:
    """Answer a request that was read whole with the fault; a hang ends when `closing` is set."""
    if fault in WHOLE_ANSWERS:
        connection.sendall(WHOLE_ANSWERS[fault])
    elif fault == "hang":
        closing.wait()
    elif fault == "drip":
        for byte in answer_bytes(_GOOD):
            connection.sendall(bytes([byte]))
            if closing.wait(1):
                return
    else:
        # "refuse" comes here from a proxy, which has accepted already: the nearest it can do.
        reset(connection)


class FaultyNode(RawServer):
    """A node with one fault for every call: `with FaultyNode("hang") as node: ... node.url, node.calls`.

    refuse: nothing listens. hang: accepts, reads, never answers. half: Content-Length says more than comes. drip: a
    byte a second. error: Scrapyd's own way to say no. reset: RST after the request was read. no_status: good JSON that
    is not Scrapyd's. The others say what they are.
    """

    def __init__(self, fault: Fault, *, port: int | None = None) -> None:
        super().__init__(port)
        self.fault = fault
        self._held: socket.socket | None = None

    def answer(self, connection: socket.socket, request: Request) -> None:
        """Break every answer in the same way."""
        del request
        break_answer(connection, self.fault, self.closing)

    def __enter__(self) -> Self:
        if self.fault != "refuse":
            return super().__enter__()
        # Bound but not listening: connections are refused, and no other test is given the port.
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", self.port))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._held is not None:
            self._held.close()
        else:
            super().__exit__(kind, error, at)


@dataclass(frozen=True, slots=True)
class Break:
    """What a proxy does with one endpoint: after `delay_s`, forward or not, then answer with the fault, if any."""

    fault: Fault | None
    forwards: bool = True
    delay_s: float = 0.0
    times: int | None = None


class FaultProxy(RawServer):
    """Forwards to a real node except for the endpoints that `break_endpoint` named.

    `calls` counts what came in, `forwarded` what the node behind it got.
    """

    def __init__(self, target_url: str, *, port: int | None = None) -> None:
        super().__init__(port or free_port())
        target = urlsplit(target_url)
        assert target.hostname is not None
        self._target = (target.hostname, target.port or 80)
        self._breaks: dict[str, Break] = {}
        self._rules = threading.Lock()
        self.forwarded: list[str] = []
        self.on_call: Callable[[str], None] | None = None

    def break_endpoint(
        self,
        endpoint: str,
        fault: Fault | None,
        *,
        forwards: bool = True,
        delay_s: float = 0.0,
        times: int | None = None,
    ) -> None:
        """Give calls of the endpoint (`addversion.json`, or `*` for all others) the fault, the first `times` if given.

        With `forwards` the node acts and only its answer is lost; without, it never hears of the call. A fault of
        `None` passes the node's answer on, late by `delay_s`.
        """
        with self._rules:
            self._breaks[endpoint] = Break(fault, forwards, delay_s, times)

    def mend(self, endpoint: str) -> None:
        """Forward calls of the endpoint untouched again."""
        with self._rules:
            self._breaks.pop(endpoint, None)

    def answer(self, connection: socket.socket, request: Request) -> None:
        """Forward the request, and pass on the answer or the fault in its place."""
        if self.on_call is not None:
            self.on_call(request.endpoint)
        rule = self._rule_for(request.endpoint)
        if rule.delay_s and self.closing.wait(rule.delay_s):
            return
        answer = self._forward(request) if rule.forwards else b""
        if rule.fault is None:
            connection.sendall(answer)
        else:
            break_answer(connection, rule.fault, self.closing)

    def _rule_for(self, endpoint: str) -> Break:
        with self._rules:
            name = endpoint if endpoint in self._breaks else "*"
            rule = self._breaks.get(name, Break(None))
            if rule.times == 0:
                return Break(None)
            if rule.times is not None:
                self._breaks[name] = Break(rule.fault, rule.forwards, rule.delay_s, rule.times - 1)
            return rule

    def _forward(self, request: Request) -> bytes:
        self.forwarded.append(request.endpoint)
        lines = request.head.decode("latin-1").split("\r\n")
        kept = [line for line in lines[:-2] if not line.lower().startswith("connection:")]
        head = "\r\n".join([*kept, "Connection: close", "", ""]).encode("latin-1")
        pieces: list[bytes] = []
        with contextlib.suppress(ConnectionError), socket.create_connection(self._target, timeout=120) as node:
            node.sendall(head + request.body)
            while piece := node.recv(1 << 16):
                pieces.append(piece)
        return b"".join(pieces)
