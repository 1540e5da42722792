"""The door before nodes that misbehave: every fault has its own typed error, in time, and no write is sent twice."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

import pytest
from support.certificates import make_certificate
from support.doors import door_at, host_of
from support.eggs import small_egg
from support.faulty_server import Fault, FaultProxy, FaultyNode
from support.raw_http import RawServer, Request, answer_bytes, json_bytes
from support.require import require
from support.scrapyd_node import ScrapydNode
from urllib3.util import wait_for_read

from toolkit.cluster import transport
from toolkit.cluster.scrapyd import ScrapydNode as Door
from toolkit.model.errors import (
    NodeAnswerError,
    NodeBrokenError,
    NodeError,
    NodeRefusedError,
    NodeTimeoutError,
    NodeUnauthorizedError,
    NodeUnreachableError,
)
from toolkit.model.hosts import Host
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName

SMALL, V1 = ProjectName("small"), VersionName("v1")
JOB = Job(JobId("one"), SMALL, SpiderName("alpha"), JobState.PENDING, version=V1)
OK = {"status": "ok", "node_name": "scripted", "pending": 0, "running": 0, "finished": 0}

READS: dict[str, Callable[[Door], Any]] = {
    "daemonstatus.json": Door.load,
    "listprojects.json": Door.projects,
    "listversions.json": lambda door: door.versions(SMALL),
    "listspiders.json": lambda door: door.spiders(SMALL, V1),
    "status.json": lambda door: door.state_of(JOB.id),
    "listjobs.json": Door.jobs,
    "one.log": lambda door: door.log(JOB),
    "one.jl": lambda door: door.items(JOB),
}
WRITES: dict[str, Callable[[Door], Any]] = {
    "addversion.json": lambda door: door.upload(SMALL, V1, small_egg()),
    "delversion.json": lambda door: door.remove(SMALL, V1),
    "schedule.json": lambda door: door.start(JOB),
    "cancel.json": lambda door: door.signal(JOB, "INT"),
}
CALLS = {**READS, **WRITES}
FILES = {"one.log", "one.jl"}

ERRORS: dict[Fault, tuple[type[NodeError], str]] = {
    "refuse": (NodeUnreachableError, "connection refused"),
    "hang": (NodeTimeoutError, "did not answer in time"),
    "drip": (NodeTimeoutError, "did not answer in time"),
    "reset": (NodeBrokenError, "the connection to .* broke: connection reset by peer"),
    "500": (NodeAnswerError, "HTTP 500"),
    "401": (NodeUnauthorizedError, "it wants a username and password"),
    "404": (NodeAnswerError, "HTTP 404"),
    "html": (NodeAnswerError, "It works!"),
    "bad_json": (NodeAnswerError, "not Scrapyd's answer"),
    "no_status": (NodeAnswerError, "not Scrapyd's answer"),
    "empty": (NodeAnswerError, "not Scrapyd's answer"),
    "half": (NodeAnswerError, "broke off half way"),
    "error": (NodeRefusedError, "this node says no"),
}
# A file may hold anything, and may be missing.
GOOD_FOR_FILES = {"404", "html", "bad_json", "no_status", "empty", "error"}
EVERY_FAULT_OF_EVERY_CALL = [
    (fault, endpoint) for fault in ERRORS for endpoint in CALLS if endpoint not in FILES or fault not in GOOD_FOR_FILES
]
SOON_S = 20.0
QUICK = 0.4
UNANSWERED = {"hang", "drip"}


@pytest.mark.parametrize(("fault", "endpoint"), EVERY_FAULT_OF_EVERY_CALL)
def test_every_fault_of_every_call_has_its_own_error(fault: Fault, endpoint: str) -> None:
    kind, words = ERRORS[fault]
    # An upload gets six times the time; what is answered at all shall not be late on a slow machine.
    quick = QUICK / 4 if endpoint == "addversion.json" else QUICK
    with FaultyNode(fault) as node, pytest.raises(kind, match=words) as caught:
        CALLS[endpoint](door_at(node.port, timeout_s=quick if fault in UNANSWERED else SOON_S))
    assert type(caught.value) is kind
    assert caught.value.node == "node-1"


@pytest.mark.parametrize("endpoint", CALLS)
def test_a_broken_read_is_sent_once_more_and_a_broken_write_never(endpoint: str) -> None:
    with FaultyNode("reset") as node, pytest.raises(NodeBrokenError):
        CALLS[endpoint](door_at(node.port))
    assert node.calls == {endpoint: 2 if endpoint in READS else 1}


@pytest.mark.parametrize("fault", ["hang", "half", "500", "401", "error", "html"])
@pytest.mark.parametrize("endpoint", ["daemonstatus.json", "schedule.json"])
def test_what_was_answered_or_waited_for_is_not_sent_again(endpoint: str, fault: Fault) -> None:
    with FaultyNode(fault) as node, pytest.raises(NodeError):
        CALLS[endpoint](door_at(node.port, timeout_s=2.0 if fault in UNANSWERED else SOON_S))
    assert node.calls == {endpoint: 1}


@pytest.mark.parametrize("endpoint", ["daemonstatus.json", "schedule.json"])
def test_a_refused_connection_is_tried_again_since_nothing_was_sent(endpoint: str) -> None:
    with FaultyNode("refuse") as node:
        began = time.monotonic()
        with pytest.raises(NodeUnreachableError) as caught:
            CALLS[endpoint](door_at(node.port))
        assert time.monotonic() - began >= sum(transport.CONNECT_RETRY_PAUSES_S)
    assert not isinstance(caught.value, NodeBrokenError)


def test_a_node_that_comes_up_meanwhile_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    with Scripted([json_bytes({**OK, "jobid": "one"})], port=FaultyNode("refuse").port) as server:
        port = server.port
    up = Scripted([json_bytes({**OK, "jobid": "one"})], port=port)

    def start_it(_: float) -> None:
        monkeypatch.undo()
        up.__enter__()

    monkeypatch.setattr("time.sleep", start_it)
    try:
        door_at(port).start(JOB)
        assert up.calls == {"schedule.json": 1}
    finally:
        up.__exit__(None, None, None)


def test_a_drip_fed_head_and_a_drip_fed_body_are_both_cut_in_time() -> None:
    for head in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n"):
        with Dripping(head) as server:
            began = time.monotonic()
            with pytest.raises(NodeTimeoutError):
                door_at(server.port, timeout_s=QUICK).load()
            # Either would go on for minutes.
            assert time.monotonic() - began < SOON_S


def test_a_node_that_reads_an_upload_late_still_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_CONNECT_S", 0.2)
    with SlowReader(pause_s=0.8, answer=json_bytes({**OK, "spiders": 2})) as server:
        assert door_at(server.port, timeout_s=5).upload(SMALL, V1, bytes(12_000_000)) == 2


def test_an_upload_that_is_never_read_times_out_and_is_not_called_broken() -> None:
    with SlowReader(pause_s=60, answer=b"") as server:
        began = time.monotonic()
        with pytest.raises(NodeTimeoutError):
            door_at(server.port, timeout_s=0.1).upload(SMALL, V1, bytes(12_000_000))
        assert 0.5 < time.monotonic() - began < SOON_S


@pytest.mark.parametrize(
    ("endpoint", "factor"), [("addversion.json", 6), ("listspiders.json", 6), ("schedule.json", 1)]
)
def test_a_call_that_makes_the_node_list_spiders_gets_six_times_the_time(endpoint: str, factor: int) -> None:
    with FaultyNode("hang") as node:
        began = time.monotonic()
        with pytest.raises(NodeTimeoutError):
            CALLS[endpoint](door_at(node.port, timeout_s=0.5))
        assert factor * 0.5 <= time.monotonic() - began < 5 * factor * 0.5


# Answers that look right at first.


class Scripted(RawServer):
    """Gives these answers in turn, the last one for ever; keeps what it was asked."""

    def __init__(self, answers: list[bytes], *, port: int | None = None) -> None:
        super().__init__(port)
        self.requests: list[Request] = []
        self._answers = answers

    def answer(self, connection: socket.socket, request: Request) -> None:
        self.requests.append(request)
        connection.sendall(self._answers[min(len(self.requests), len(self._answers)) - 1])


class Dripping(RawServer):
    """Sends a byte every 50 ms after the head that it is given, for ever."""

    def __init__(self, head: bytes) -> None:
        super().__init__()
        self._head = head

    def answer(self, connection: socket.socket, request: Request) -> None:
        del request
        connection.sendall(self._head)
        while not self.closing.wait(0.05):
            connection.sendall(b"H")


class SlowReader(RawServer):
    """Takes the connection and reads nothing of it for a while, as a Scrapyd does that lists another egg's spiders."""

    def __init__(self, *, pause_s: float, answer: bytes) -> None:
        super().__init__()
        self._pause_s = pause_s
        self._answer = answer

    def answer(self, connection: socket.socket, request: Request) -> None:
        del request
        connection.sendall(self._answer)

    def _serve(self, connection: socket.socket) -> None:
        self.closing.wait(self._pause_s)
        super()._serve(connection)


ODD: tuple[Any, ...] = (None, 7, "shop", {"v": 1}, [None])

ODD_ANSWERS: dict[str, list[Any]] = {
    "daemonstatus.json": [
        {"status": "ok"},
        {**OK, "pending": None},
        {**OK, "running": "many"},
        {**OK, "finished": float("inf")},
        {**OK, "finished": [1]},
    ],
    "listprojects.json": [{"status": "ok"}, *({"status": "ok", "projects": odd} for odd in ODD)],
    "listversions.json": [{"status": "ok"}, *({"status": "ok", "versions": odd} for odd in ODD)],
    "listspiders.json": [{"status": "ok"}, *({"status": "ok", "spiders": odd} for odd in ODD)],
    "status.json": [{"status": "ok"}, *({"status": "ok", "currstate": odd} for odd in ODD[1:])],
    "schedule.json": [{"status": "ok"}, {"status": "ok", "jobid": "another"}, {"status": "ok", "jobid": None}],
    "cancel.json": [{"status": "ok"}, *({"status": "ok", "prevstate": odd} for odd in ODD[1:])],
    "addversion.json": [{"status": "ok"}, *({"status": "ok", "spiders": odd} for odd in ODD if odd != 7)],
    "listjobs.json": [
        {"status": "ok"},
        {"status": "ok", "pending": [], "running": []},
        {"status": "ok", "pending": None, "running": [], "finished": []},
        *(
            {"status": "ok", "pending": [], "running": [], "finished": [row]}
            for row in (
                None,
                {},
                {"id": "a", "project": "b"},
                {"id": "a", "project": "b", "spider": "c", "start_time": "yesterday"},
                {"id": "a", "project": "b", "spider": "c", "end_time": 5},
                {"id": "a", "project": "b", "spider": "c", "end_time": "2026-11-20T10:00:00+01:00"},
                {"id": "a", "project": "b", "spider": "c", "settings": ["A=b"]},
                {"id": "a", "project": "b", "spider": "c", "args": "x"},
            )
        ),
    ],
}


@pytest.mark.parametrize(("endpoint", "answer"), [(name, odd) for name, odds in ODD_ANSWERS.items() for odd in odds])
def test_an_answer_of_another_shape_is_not_scrapyds(endpoint: str, answer: Any) -> None:
    with Scripted([json_bytes(answer)]) as server, pytest.raises(NodeAnswerError):
        CALLS[endpoint](door_at(server.port))


@pytest.mark.parametrize("status", [None, "fine", 1, {}])
def test_without_scrapyds_status_it_is_not_scrapyd(status: Any) -> None:
    with Scripted([json_bytes({**OK, "status": status})]) as server, pytest.raises(NodeAnswerError):
        door_at(server.port).load()


def test_json_without_end_is_no_bug_of_ours() -> None:
    with Scripted([answer_bytes(b"[" * 200_000)]) as server, pytest.raises(NodeAnswerError):
        door_at(server.port).load()


def test_scrapyds_error_counts_whatever_the_http_code() -> None:
    answer = json_bytes({"status": "error", "message": "no such thing"}, status="500 Internal Server Error")
    with Scripted([answer]) as server, pytest.raises(NodeRefusedError, match="no such thing"):
        door_at(server.port).load()


def test_good_json_under_another_http_code_is_not_taken() -> None:
    with Scripted([json_bytes(OK, status="502 Bad Gateway")]) as server, pytest.raises(NodeAnswerError, match="502"):
        door_at(server.port).load()


def test_a_redirect_is_not_followed_with_our_password() -> None:
    answer = answer_bytes(b"", status="302 Found", extra="Location: http://127.0.0.1:1/elsewhere\r\n")
    with Scripted([answer]) as server, pytest.raises(NodeAnswerError, match="302"):
        door_at(server.port).load()


def test_an_endless_answer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", 100_000)
    with Scripted([answer_bytes(b"x" * 300_000)]) as server, pytest.raises(NodeAnswerError, match="longer than"):
        door_at(server.port).load()
    assert server.calls == {"daemonstatus.json": 1}


@pytest.mark.parametrize("garbage", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\x00\xff\x1b[2J\r\n\r\n", b""])
def test_what_speaks_no_http_is_a_node_error(garbage: bytes) -> None:
    with Scripted([garbage]) as server, pytest.raises(NodeError):
        door_at(server.port).load()


def test_a_packed_answer_that_nobody_asked_for_is_not_unpacked() -> None:
    answer = answer_bytes(b"\x1f\x8b no gzip", extra="Content-Encoding: gzip\r\n")
    with Scripted([answer]) as server, pytest.raises(NodeAnswerError):
        door_at(server.port).load()


def test_a_server_that_knows_of_no_parts_gives_each_part_once() -> None:
    whole = answer_bytes(b"0123456789", kind="text/plain")
    with Scripted([whole]) as server:
        door = door_at(server.port)
        parts = [door.log(JOB, begin=begin, most=4) for begin in (0, 4, 8, 10, 99)]
    assert [(part.content, part.begins_at, part.size) for part in parts if part] == [
        (b"0123", 0, 10),
        (b"4567", 4, 10),
        (b"89", 8, 10),
        (b"", 10, 10),
        (b"", 99, 10),
    ]


# What is sent.


@pytest.mark.parametrize("priority", [0.0, 1234567.25, -0.1, 1e-07])
def test_a_priority_is_sent_exactly(priority: float) -> None:
    with Scripted([json_bytes({**OK, "jobid": "one"})]) as server:
        door_at(server.port).start(replace(JOB, priority=priority))
    (text,) = parse_qs(server.requests[0].body.decode())["priority"]
    assert float(text) == priority


def test_credentials_are_sent_only_when_there_are_both() -> None:
    with Scripted([json_bytes(OK)]) as server:
        Door(Host(NodeName("a"), port=server.port, username="crawler")).load()
    assert b"authorization" not in server.requests[0].head.lower()


# How a node is reached.


@pytest.mark.parametrize("endpoint", ["daemonstatus.json", "schedule.json"])
def test_a_kept_connection_that_the_node_dropped_is_replaced(endpoint: str) -> None:
    answer = b'{"status": "ok", "jobid": "one", "pending": 0, "running": 0, "finished": 0}'
    # It says nothing of closing, and closes.
    kept = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer)
    with Scripted([kept]) as server:
        door = door_at(server.port)
        for _ in range(5):
            CALLS[endpoint](door)
            for connection in door.transport._pool.pool.queue:  # type: ignore[union-attr] # it is open
                assert connection is None or connection.is_closed or wait_for_read(connection.sock, timeout=5)
    assert server.calls == {endpoint: 5}


def test_one_connection_serves_many_calls(scrapyd_node: ScrapydNode) -> None:
    door = Door(host_of(scrapyd_node, credentials=scrapyd_node.credentials))
    for _ in range(20):
        door.load()
    assert door.transport._pool.num_connections == 1
    door.close()


class PrefixProxy(FaultProxy):
    """Serves a node below a prefix, and nothing else."""

    def __init__(self, target_url: str, prefix: str) -> None:
        super().__init__(target_url)
        self._prefix = prefix

    def answer(self, connection: socket.socket, request: Request) -> None:
        if not request.target.startswith(self._prefix + "/"):
            connection.sendall(answer_bytes(b"nothing here", status="404 Not Found", kind="text/plain"))
            return
        head = request.head.replace(f" {self._prefix}/".encode(), b" /", 1)
        super().answer(connection, replace(request, head=head))


@pytest.mark.parametrize("prefix", ["/nodes/one", "/a%20b"])
def test_a_node_below_a_prefix_answers_every_call(scrapyd_node: ScrapydNode, prefix: str) -> None:
    with PrefixProxy(scrapyd_node.url, prefix) as proxy:
        door = Door(replace(host_of(scrapyd_node, credentials=scrapyd_node.credentials), port=proxy.port, path=prefix))
        assert door.upload(SMALL, V1, small_egg()) == 2
        assert door.versions(SMALL) == ("v1",)
        assert door.spiders(SMALL, V1) == ("alpha", "beta")
        door.start(JOB)
        assert door.state_of(JOB.id) is not None
        assert door.load().node_name == scrapyd_node.name
        assert [row.job.id for row in door.jobs()] == ["one"]
        assert door.log(replace(JOB, id=JobId("none"))) is None
        door.signal(JOB, "KILL")
        assert door.remove(SMALL, V1)
        assert door.projects() == ()


class SixthVersion(Scripted):
    """Listens on ::1."""

    def __enter__(self) -> Self:
        self._listener = socket.socket(socket.AF_INET6)
        self._listener.bind(("::1", self.port))
        self._listener.listen()
        self._run(self._accept, self._listener)
        return self


def test_a_node_may_have_an_address_of_ip_version_6() -> None:
    require(_has_ip6(), "no IPv6 loopback address")
    with SixthVersion([json_bytes(OK)]) as server:
        assert door_at(server.port, address="::1").load().node_name == "scripted"
    assert f"Host: [::1]:{server.port}".encode() in server.requests[0].head


def test_an_address_of_ip_version_6_is_told_with_brackets() -> None:
    require(_has_ip6(), "no IPv6 loopback address")
    port = FaultyNode("refuse").port
    with pytest.raises(NodeUnreachableError, match=rf"\[::1\]:{port}"):
        door_at(port, address="::1").load()


class Secured(Scripted):
    """Speaks TLS with a certificate that nobody signed."""

    def __init__(self, answers: list[bytes], folder: Path) -> None:
        super().__init__(answers)
        self.certificate, key = make_certificate(folder)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(self.certificate, key)

    def _serve(self, connection: socket.socket) -> None:
        try:
            super()._serve(self._tls.wrap_socket(connection, server_side=True))
        except OSError:
            connection.close()


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    transport._trust.cache_clear()
    with Secured([json_bytes(OK)], tmp_path) as server:
        yield server
    transport._trust.cache_clear()


def over_tls(port: int) -> Door:
    return Door(Host(NodeName("node-1"), scheme="https", port=port, timeout_s=SOON_S))


def test_a_certificate_that_nobody_signed_is_refused_in_clear_words(secured: Secured) -> None:
    with pytest.raises(NodeUnreachableError, match=r"TLS with .* failed: self-signed certificate") as caught:
        over_tls(secured.port).load()
    assert "SSL_CERT_FILE" in (caught.value.hint or "")
    assert secured.calls == {}


def test_a_certificate_that_the_machine_trusts_is_taken(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(secured.certificate))
    assert over_tls(secured.port).load().node_name == "scripted"


def test_tls_with_a_node_that_has_none_is_told_as_that(scrapyd_node: ScrapydNode) -> None:
    with pytest.raises(NodeUnreachableError, match="TLS with"):
        over_tls(scrapyd_node.port).load()


def test_plain_http_with_a_node_that_wants_tls_is_a_node_error(secured: Secured) -> None:
    with pytest.raises(NodeError):
        door_at(secured.port, timeout_s=SOON_S).load()


def test_a_name_without_address_is_told_as_that() -> None:
    with pytest.raises(NodeUnreachableError, match="no address is known for no-such-host"):
        door_at(6800, address="no-such-host.invalid").load()


def test_calls_from_several_threads_do_not_share_a_deadline() -> None:
    with FaultyNode("hang") as hanging, Scripted([json_bytes(OK)]) as server:
        errors: list[NodeError] = []

        def hang() -> None:
            try:
                door_at(hanging.port, timeout_s=0.3).load()
            except NodeError as error:
                errors.append(error)

        thread = threading.Thread(target=hang)
        thread.start()
        door = door_at(server.port)
        while thread.is_alive():
            door.load()
        thread.join()
        door.load()
    assert [type(error) for error in errors] == [NodeTimeoutError]


def _has_ip6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
