"""The fleet's one process: a listener a node, a hand-written HTTP protocol, and the faults put on single nodes.

Run as `python -m support.fleet`. Besides Scrapyd's endpoints each listener answers `/fleet.json`, by which a test sees
what the node was asked and holds (GET) and changes its faults (POST, a JSON object from endpoint or `*` to fault).
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.faulty_server import WHOLE_ANSWERS
from support.fleet_fields import Fields
from support.fleet_node import SimulatedNode

_HEAD = (
    "HTTP/1.1 {status}\r\nServer: TwistedWeb/26.10.0\r\nContent-Type: {kind}\r\n{more}Content-Length: {length}\r\n\r\n"
)
_NOT_FOUND = b"<html><head><title>404 - No Such Resource</title></head><body>No Such Resource</body></html>\n"
_CORS = (
    "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Methods: {methods}\r\n"
    "Access-Control-Allow-Headers: X-Requested-With\r\n"
)
_ASK_WHO = 'WWW-Authenticate: basic realm="Scrapyd"\r\n'
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_KIND = re.compile(rb"\r\ncontent-type:\s*([^\r]+)", re.IGNORECASE)
_AUTHORIZATION = re.compile(rb"\r\nauthorization:\s*([^\r]+)", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:\s*close", re.IGNORECASE)
_PART_NAME = re.compile(rb'\bname="([^"]*)"')
DRIP_PAUSE_S = 1.0


@dataclass(slots=True)
class Seat:
    """One node's place in the fleet: its state, its service times, its faults and what it was asked."""

    node: SimulatedNode
    service_s: Mapping[str, float]
    slow_s: float = 5.0
    authorization: bytes | None = None
    faults: dict[str, str] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    busy_until: float = 0.0

    def fault_of(self, endpoint: str) -> str | None:
        """Return the fault that this endpoint has now."""
        return self.faults.get(endpoint, self.faults.get("*"))

    def admits(self, head: bytes) -> bool:
        """Tell whether the call carries the node's credentials, if it wants any."""
        if self.authorization is None:
            return True
        found = _AUTHORIZATION.search(head)
        return found is not None and found[1].strip() == self.authorization

    def report(self) -> dict[str, Any]:
        """Return what a test may want to know of the node."""
        eggs = {
            project: {version: {"digest": egg.digest, "size": egg.size_bytes} for version, egg in held.items()}
            for project, held in self.node.eggs.items()
        }
        return {"name": self.node.name, "calls": dict(self.calls), "eggs": eggs, "faults": self.faults}


class NodeProtocol(asyncio.Protocol):
    """One connection to one node: requests one after the other, answered in order."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._buffer = bytearray()
        self._is_answering = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the transport: an answer that is still to come goes nowhere."""
        del exc
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer once a request is whole."""
        self._buffer += data
        self._take_request()

    def _take_request(self) -> None:
        if self._is_answering:
            return
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end])
        found = _LENGTH.search(head)
        size = end + 4 + (int(found[1]) if found else 0)
        if len(self._buffer) < size:
            return
        body = bytes(self._buffer[end + 4 : size])
        del self._buffer[:size]
        self._is_answering = True
        self._serve(head, body)

    def _serve(self, head: bytes, body: bytes) -> None:
        method, target, *_ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        endpoint = urlsplit(target).path.lstrip("/")
        seat = self._seat
        if endpoint == "fleet.json":
            if method == "POST":
                seat.faults = json.loads(body)
            self._send(head, _json_answer(seat.report(), method))
            return
        seat.calls[endpoint] += 1
        fault = seat.fault_of(endpoint)
        if fault is not None and fault != "slow":
            self._break(fault)
            return
        if not seat.admits(head):
            self._send(head, _answer("401 Unauthorized", b"Unauthorized", kind="text/html", more=_ASK_WHO))
            return
        service_s = seat.service_s.get(endpoint, seat.service_s.get("*", 0.0)) + (seat.slow_s if fault else 0.0)
        answer = _node_answer(seat.node, method, target, head, body)
        # Scrapyd does one thing at a time: a call waits for the ones before it.
        loop = asyncio.get_running_loop()
        seat.busy_until = max(loop.time(), seat.busy_until) + service_s
        if seat.busy_until > loop.time():
            loop.call_at(seat.busy_until, self._send, head, answer)
        else:
            self._send(head, answer)

    def _send(self, head: bytes, answer: bytes) -> None:
        if self._transport is None:
            return
        self._transport.write(answer)
        self._is_answering = False
        if _CLOSE.search(head):
            self._transport.close()
        elif self._buffer:
            self._take_request()

    def _break(self, fault: str) -> None:
        if self._transport is None or fault == "hang":
            return
        if fault in WHOLE_ANSWERS:
            self._transport.write(WHOLE_ANSWERS[fault])
            self._transport.close()
        elif fault == "drip":
            self._drip(WHOLE_ANSWERS["error"], 0)
        else:
            _reset(self._transport)

    def _drip(self, answer: bytes, sent: int) -> None:
        if self._transport is None or sent == len(answer):
            return
        self._transport.write(answer[sent : sent + 1])
        asyncio.get_running_loop().call_later(DRIP_PAUSE_S, self._drip, answer, sent + 1)


async def listen(seats: Mapping[tuple[str, int], Seat]) -> list[asyncio.Server]:
    """Open one listener a seat, at its address and port."""
    loop = asyncio.get_running_loop()

    async def one(address: str, port: int, seat: Seat) -> asyncio.Server:
        return await loop.create_server(lambda: NodeProtocol(seat), address, port, backlog=512)

    return [await one(address, port, seat) for (address, port), seat in seats.items()]


def basic(username: str, password: str) -> bytes:
    """Return the value of the header that carries these credentials."""
    return b"Basic " + base64.b64encode(f"{username}:{password}".encode())


def now() -> float:
    """Return the clock of the fleet's jobs, in seconds since this module was loaded."""
    return time.monotonic() - _STARTED_AT


_STARTED_AT = time.monotonic()


def _node_answer(node: SimulatedNode, method: str, target: str, head: bytes, body: bytes) -> bytes:
    parts = urlsplit(target)
    if parts.path == "/":
        return _answer("200 OK", b"<!DOCTYPE html><html><body><h1>Scrapyd</h1></body></html>\n", kind="text/html")
    fields = _pairs(parts.query)
    if body:
        for name, values in _form(head, body).items():
            fields.setdefault(name, []).extend(values)
    answer = node.answer(method, parts.path.lstrip("/"), fields)
    if answer is None:
        return _answer("404 Not Found", _NOT_FOUND, kind="text/html; charset=utf-8")
    return _json_answer(answer, method)


def _form(head: bytes, body: bytes) -> Fields:
    found = _KIND.search(head)
    kind = found[1] if found else b""
    if not kind.startswith(b"multipart/form-data"):
        return _pairs(body.decode("latin-1"))
    fence = b"--" + kind.partition(b"boundary=")[2].strip(b'" ')
    fields: Fields = {}
    for part in body.split(fence)[1:-1]:
        part_head, _, content = part.partition(b"\r\n\r\n")
        name = _PART_NAME.search(part_head)
        if name:
            fields.setdefault(name[1].decode(), []).append(content[:-2])
    return fields


def _pairs(text: str) -> Fields:
    found = parse_qs(text, keep_blank_values=True, errors="surrogateescape")
    return {name: [value.encode("utf-8", "surrogateescape") for value in values] for name, values in found.items()}


def _json_answer(value: Any, method: str) -> bytes:
    cors = _CORS.format(methods=f"OPTIONS, HEAD, {method}")
    return _answer("200 OK", json.dumps(value).encode() + b"\n", kind="application/json", more=cors)


def _answer(status: str, body: bytes, *, kind: str, more: str = "") -> bytes:
    return _HEAD.format(status=status, kind=kind, more=more, length=len(body)).encode() + body


def _reset(transport: asyncio.Transport) -> None:
    connection: socket.socket = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
