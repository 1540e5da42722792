"""What somebody hostile, or an operator on a bad day, does to the pages; each of it broke something once."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from argon2 import PasswordHasher
from support.web_server import PASSWORD, Clock, WebServer, form_token, web_server

from toolkit.cluster.desk import Desk
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.reading import ClusterReading, take_reading
from toolkit.model.errors import RefusedError, UsageError
from toolkit.store.interfaces import Store
from toolkit.store.open import open_store
from toolkit.web import connection, numbers
from toolkit.web.fields import whole
from toolkit.web.passwords import MAX_AT_ONCE, Passwords
from toolkit.web.serving import Place
from toolkit.web.sessions import SEEN_EVERY_S
from toolkit.web.starting import Wanted, start


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
                end.wait(10)
            return super().hash(password, salt=salt)

    passwords = Passwords(Slow(1, 8, 1), patience_s=0.05)
    with ThreadPoolExecutor(MAX_AT_ONCE) as crowd:
        under_way = [crowd.submit(passwords.hash, PASSWORD) for _ in range(MAX_AT_ONCE)]
        for _ in under_way:
            assert begun.acquire(timeout=10)
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
        found = list(crowd.map(lambda _: web.client().get("/metrics").status_code, range(10)))
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
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /sign-in HTTP",
    ]
    for begun in half:
        with socket.create_connection(("127.0.0.1", web.served.port), timeout=10) as slow:
            slow.sendall(begun)
            with suppress(ConnectionResetError):
                while slow.recv(65536):
                    pass
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
