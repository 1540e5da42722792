"""What somebody hostile, or an operator on a bad day, does to the pages; each of it broke something once."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import httpx
import pytest
from argon2 import PasswordHasher
from support.ports import free_port
from support.web_server import PASSWORD, Clock, WebServer, form_token, web_server

from toolkit.cluster.board import Board, BoardView
from toolkit.cluster.desk import Desk
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.reading import ClusterReading, take_reading
from toolkit.model.errors import RefusedError, StoreUnreachableError, UsageError
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName
from toolkit.model.snapshot import Snapshot
from toolkit.store.interfaces import Store
from toolkit.store.open import open_store
from toolkit.web import connection, feed, live, numbers, pages_nodes, serving
from toolkit.web.fields import whole
from toolkit.web.lookout import Lookout, fresh_for_s, overview_of
from toolkit.web.passwords import MAX_AT_ONCE, Passwords
from toolkit.web.serving import Place
from toolkit.web.sessions import SEEN_EVERY_S
from toolkit.web.starting import Wanted, start
from toolkit.web.visitor import Visitor
from toolkit.web.words import clock as by_the_clock


def until_closed(slow: socket.socket) -> None:
    """Wait until the other side has had enough."""
    with suppress(ConnectionResetError):
        while slow.recv(65536):
            pass


@pytest.mark.parametrize("days", ["99999999", "9" * 18, "9" * 400])
def test_a_token_that_outlasts_the_calendar_is_refused_and_the_page_of_users_stays(web: WebServer, days: str) -> None:
    ada = web.signed_in("ada")
    form = {"form_token": form_token(ada), "label": "too long", "days": days}
    assert ada.post("/users/ada/tokens", data=form).headers["location"] == "/users"
    assert "too long" not in ada.get("/users").text
    assert ada.get("/users").status_code == httpx.codes.OK


@pytest.mark.parametrize("text", ["000000001" + "9" * 5000, "00000000199999999999", "0", "-1", "1000000", "\u0661"])
def test_a_number_that_is_too_great_is_no_number(text: str) -> None:
    with pytest.raises(UsageError, match="whole number"):
        whole(text, "concurrency")
    assert whole(" 0012 ", "concurrency") == 12


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T23:59:59Z"])
def test_a_moment_beyond_the_calendar_is_refused_in_every_place(web: WebServer, moment: str) -> None:
    program = web.program("ada")
    cron = {"spider": "books", "at": "* * * * *"}
    for answer in (
        program.get("/api/v1/events", params={"until": moment}),
        program.get("/api/v1/jobs", params={"since": moment}),
        program.post("/api/v1/jobs", json={"spider": "books", "at": moment}),
        program.put("/api/v1/crons/nightly", json=cron | {"starts_at": moment}),
        program.put("/api/v1/crons/nightly", json=cron | {"ends_at": moment}),
    ):
        assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY
        assert "moments from 1970" in answer.text


def test_a_password_asked_for_by_a_proxy_keeps_nobody_out(web: WebServer) -> None:
    browser = web.signed_in("ada")
    behind = {"Authorization": "Basic b3BzOm9wcw=="}
    assert browser.get("/account", headers=behind).status_code == httpx.codes.OK
    assert web.client().get("/account", headers=behind).status_code == httpx.codes.SEE_OTHER
    assert browser.post("/sign-out", headers=behind).status_code == httpx.codes.FORBIDDEN, "it stands for no form"


def test_a_crowd_that_sets_passwords_takes_no_more_memory_than_one_that_signs_in() -> None:
    begun, end = threading.Semaphore(0), threading.Event()

    class Slow(PasswordHasher):
        def hash(self, password: str | bytes, *, salt: bytes | None = None) -> str:
            if password != "nobody has this password":
                begun.release()
                end.wait(60)
            return super().hash(password, salt=salt)

    passwords = Passwords(Slow(1, 8, 1), patience_s=0.05)
    with ThreadPoolExecutor(MAX_AT_ONCE) as crowd:
        under_way = [crowd.submit(passwords.hash, PASSWORD) for _ in range(MAX_AT_ONCE)]
        for _ in under_way:
            assert begun.acquire(timeout=60)
        with pytest.raises(RefusedError, match="too many"):
            passwords.hash(PASSWORD)
        end.set()
        assert all(each.result() for each in under_way)


def test_many_who_ask_for_the_numbers_share_one_reading(
    tmp_path: Path, local_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    def counted(desk: Desk) -> ClusterReading:
        taken.append(desk)
        return take_reading(desk)

    monkeypatch.setattr(numbers, "take_reading", counted)
    with web_server(tmp_path, lambda: local_store, is_metrics_open=True) as web, ThreadPoolExecutor(10) as crowd:
        browsers = [web.client() for _ in range(10)]
        found = list(crowd.map(lambda browser: browser.get("/metrics").status_code, browsers))
    assert found == [httpx.codes.OK] * 10
    assert len(taken) < len(found)


def test_whoever_asks_nothing_or_half_a_question_is_not_waited_for(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ASKED_WITHIN_S", 0.2)
    half = [
        b"",
        b"GET /sign-in HTTP/1.1\r\nHost: loc",
        b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\nname=",
    ]
    for begun in half:
        with socket.create_connection(("127.0.0.1", web.served.port), timeout=60) as slow:
            slow.sendall(begun)
            until_closed(slow)
    # So long may a whole question take here to be sent.
    monkeypatch.setattr(connection, "ASKED_WITHIN_S", 5.0)
    with socket.create_connection(("127.0.0.1", web.served.port), timeout=60) as later:
        later.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert later.recv(65536).startswith(b"HTTP/1.1 200")
        later.sendall(b"GET /sign-in HTTP")
        until_closed(later)
    assert web.client().get("/healthz").status_code == httpx.codes.OK


def test_a_server_of_both_kinds_of_addresses_knows_ipv4_ones_by_their_name(tmp_path: Path, local_store: Store) -> None:
    with web_server(tmp_path, lambda: local_store, place=Place("::", 0)) as web:
        browser = web.client()
        browser.post("/sign-in", data={"name": "ada", "password": PASSWORD})
        assert browser.get("/account").status_code == httpx.codes.OK
    told = local_store.audit.entries(limit=1)
    assert told[0].detail == "from 127.0.0.1"


@pytest.mark.parametrize("proxy", ["*", "proxy.example.com", "", "127.0.0.1:8080"])
def test_a_proxy_that_has_no_address_is_refused_before_anything_is_served(tmp_path: Path, proxy: str) -> None:
    with pytest.raises(UsageError, match="no address of a proxy"):
        start(
            Wanted(Place(port=0), proxies=[proxy]),
            desk=Desk(Nodes.of([]), lambda: open_store(None, tmp_path)),
            folder=tmp_path,
            cluster="main",
            say=lambda _: None,
        )


def test_a_file_of_sessions_that_cannot_be_written_to_keeps_nobody_from_looking(
    tmp_path: Path, local_store: Store
) -> None:
    clock = Clock()
    with web_server(tmp_path, lambda: local_store, clock=clock, has_pages=False) as web:
        browser, program = web.signed_in("alice"), web.program("alice")
        assert program.get("/api/v1/whoami").status_code == httpx.codes.OK
        with web.served.accounts.file.reading() as full:
            full.execute("PRAGMA query_only = 1")
        clock.at += 2 * SEEN_EVERY_S
        assert browser.get("/account").status_code == httpx.codes.OK
        assert program.get("/api/v1/whoami").status_code == httpx.codes.OK
        refused = web.client().post("/sign-in", data={"name": "ada", "password": PASSWORD})
        assert refused.status_code == httpx.codes.SERVICE_UNAVAILABLE
        assert "web.sqlite3" in refused.text


def test_a_node_that_hangs_while_its_logs_are_open_holds_up_no_other_page(
    tmp_path: Path, local_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, hanging = threading.Event(), threading.Semaphore(0)

    def hang(_course: object) -> None:
        hanging.release()
        over.wait(100)

    monkeypatch.setattr(serving, "MAX_THREADS", 4)
    monkeypatch.setattr(feed, "MAX_LOG_READERS", 5)
    monkeypatch.setattr("toolkit.web.live._Course._log", hang)
    with web_server(tmp_path, lambda: local_store) as web, ExitStack() as open_pages:
        open_pages.callback(over.set)
        pages = []
        for number in range(6):
            page = open_pages.enter_context(web.signed_in("alice").stream("GET", "/live", params={"job": f"{number}"}))
            pages.append(page.iter_lines())
            next(pages[-1])
        for _ in range(5):
            assert hanging.acquire(timeout=60)
        assert web.signed_in("ada").get("/account").status_code == httpx.codes.OK


def test_one_user_s_pages_take_no_other_s_place(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_STREAMS_A_USER", 1)
    alice = web.signed_in("alice")
    with alice.stream("GET", "/live") as first:
        lines = first.iter_lines()
        next(lines)
        assert alice.get("/live").status_code == httpx.codes.SERVICE_UNAVAILABLE
        with web.signed_in("ada").stream("GET", "/live") as other:
            assert other.status_code == httpx.codes.OK
        next(lines)


def test_a_stream_whose_session_cannot_be_asked_about_ends_in_order(
    web: WebServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live, "WELCOME_EVERY_S", 0.0)
    with web.signed_in("alice").stream("GET", "/live") as stream:
        lines = stream.iter_lines()
        next(lines)

        def gone(_visitor: Visitor) -> bool:
            raise StoreUnreachableError("the file is gone")

        monkeypatch.setattr(Visitor, "is_welcome", gone)
        assert "event: bye" not in list(lines)
    assert "bug" not in caplog.text


def test_a_place_in_a_log_writes_no_event_of_its_own(web: WebServer) -> None:
    alice = web.signed_in("alice")
    for place in ("\nevent: tick", "5@node\r\ndata: x", "node", "5@node\n"):
        assert alice.get("/live", params={"at": place}).status_code == httpx.codes.UNPROCESSABLE_ENTITY
    with alice.stream("GET", "/live", params={"at": "5@Knoten \u00e4"}) as stream:
        assert stream.status_code == httpx.codes.OK


def test_a_moment_of_any_time_zone_is_shown_in_utc() -> None:
    there = datetime(2020, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    assert ">2020-02-29 23:30<" in by_the_clock(there)


def test_a_reading_that_takes_long_is_not_taken_anew_at_once() -> None:
    assert [fresh_for_s(took) for took in (0.0, 0.5, 60.0)] == [2.0, 10.0, 25.0]


def test_of_very_many_nodes_a_page_shows_some_and_says_so(
    tmp_path: Path, local_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages_nodes, "MAX_SHOWN", 2)
    hosts = tuple(Host(NodeName(f"node-{number}"), port=free_port()) for number in (1, 2, 3))
    with web_server(tmp_path, lambda: local_store, hosts=hosts) as web:
        alice = web.signed_in("alice")
        text = alice.get("/nodes").text
        assert "3: shown are the first 2, search for others" in text
        assert "/nodes/node-3" not in text
        assert "/nodes/node-3" in alice.get("/nodes?q=node-3").text


def test_who_leaves_in_the_midst_of_a_question_is_no_bug(web: WebServer, caplog: pytest.LogCaptureFixture) -> None:
    kind = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nname="
    for path in (b"/sign-out", b"/sign-in", b"/tokens/x/revoke"):
        with socket.create_connection(("127.0.0.1", web.served.port), timeout=60) as leaving:
            leaving.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + kind)
    assert web.client().get("/account").status_code == httpx.codes.SEE_OTHER
    assert "bug" not in caplog.text


def test_an_act_on_a_crawl_with_an_odd_name_comes_back_to_its_page(web: WebServer) -> None:
    ada = web.signed_in("ada")
    form = {"form_token": form_token(ada), "pattern": "x.example"}
    for name in ("books%3Fa", "b%C3%BCcher%23%26%22", "a%3Ca"):
        assert ada.post(f"/crawls/{name}/block", data=form).headers["location"] == f"/crawls/{name}"


def test_the_overview_asks_for_jobs_and_nodes_at_once(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, nodes, look, snapshot = threading.Event(), threading.Event(), Board.look, Desk.snapshot

    def looked(board: Board) -> BoardView:
        jobs.set()
        assert nodes.wait(60)
        return look(board)

    def taken(desk: Desk) -> Snapshot:
        nodes.set()
        assert jobs.wait(60)
        return snapshot(desk)

    monkeypatch.setattr(Board, "look", looked)
    monkeypatch.setattr(Desk, "snapshot", taken)
    assert overview_of(Lookout(web.served.desk)).board is not None


def test_whoever_only_looks_whether_it_serves_may_leave_the_answer_out(web: WebServer) -> None:
    assert web.client().head("/healthz").status_code == httpx.codes.OK
