"""Tries to get in: with no session, a stolen, old or forged one, from another site, by guessing, by odd requests."""

from __future__ import annotations

import itertools
import re
import socket
from pathlib import Path

import httpx
import pytest
from support.web_server import PASSWORD, USERS, Clock, WebServer, form_token, web_server

from toolkit.model.accounts import Role
from toolkit.store.interfaces import Store
from toolkit.web.guarding import MAX_BODY_BYTES
from toolkit.web.limits import PAIR, SignInLimits
from toolkit.web.sessions import IDLE_S

EVIL = {"Origin": "https://evil.example"}


def session_of(client: httpx.Client) -> tuple[str, str]:
    """Return the name of a browser's session cookie and its value."""
    name = next(name for name in client.cookies if name.startswith("crawlctl_") and not name.endswith("_device"))
    return name, str(client.cookies[name])


def is_in(client: httpx.Client) -> bool:
    """Say whether the browser is signed in."""
    return client.get("/account").status_code == httpx.codes.OK


def raw(web: WebServer, request: bytes) -> bytes:
    """Send bytes as they are, and return what is answered until the server ends the connection."""
    with socket.create_connection(("127.0.0.1", web.served.port), timeout=60) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


def test_a_cookie_is_the_browser_s_alone(web: WebServer) -> None:
    answer = web.client().post("/sign-in", data={"name": "ada", "password": PASSWORD})
    cookies = answer.headers.get_list("set-cookie")
    assert len(cookies) == 2
    for cookie in cookies:
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
        assert "Domain" not in cookie


def test_a_forged_session_is_nobody_s(web: WebServer) -> None:
    client = web.signed_in("ada")
    name, value = session_of(client)
    for forged in (value[:-1], value + "x", value.swapcase(), "", "ada", value + "\u00e4", f'"{value}', "x" * 5000):
        header = f"{name}={forged}".encode("latin-1")
        answer = web.client().get("/account", headers=[(b"cookie", header)])
        assert answer.status_code == httpx.codes.SEE_OTHER, forged
    assert is_in(client)


def test_a_session_that_was_set_before_sign_in_is_not_the_one_after_it(web: WebServer) -> None:
    attacker = web.signed_in("alice")
    name, fixed = session_of(attacker)
    victim = web.client(cookies={name: fixed})
    victim.post("/sign-in", data={"name": "ada", "password": PASSWORD})
    assert str(victim.cookies.get(name, default="", domain="127.0.0.1")) != fixed
    assert not is_in(attacker), "what the victim's browser had before is over"


def test_a_stolen_session_ends_with_sign_out(web: WebServer) -> None:
    victim = web.signed_in("ada")
    name, value = session_of(victim)
    thief = web.client(cookies={name: value})
    assert is_in(thief)
    assert victim.post("/sign-out", data={"form_token": form_token(victim)}).headers["location"] == "/sign-in"
    assert not is_in(thief)
    assert not is_in(victim)


def test_another_site_changes_nothing_even_with_the_cookie(web: WebServer) -> None:
    client = web.signed_in("ada")
    proof = form_token(client)
    for headers in (EVIL, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        for path in ("/sign-out", "/users", "/sign-in", "/api/v1/jobs", "/setup"):
            answer = client.post(path, data={"form_token": proof, "name": "eve"}, headers=headers)
            assert answer.status_code == httpx.codes.FORBIDDEN, (path, headers)
    assert is_in(client)


def test_another_site_s_name_gets_nothing(web: WebServer) -> None:
    client = web.signed_in("ada")
    for host in ("evil.example", f"evil.example:{web.served.port}", "127.0.0.1.evil.example"):
        answer = client.get("/account", headers={"Host": host})
        assert answer.status_code == httpx.codes.MISDIRECTED_REQUEST
        assert "ada" not in answer.text


def test_an_unknown_user_and_a_wrong_password_look_alike(tmp_path: Path, local_store: Store) -> None:
    limits = SignInLimits(clock=Clock())
    with web_server(tmp_path, lambda: local_store, limits=limits, has_pages=False) as web:
        client = web.client()
        answers = []
        for name in ("ada", "nobody"):
            for _ in range(PAIR.free + 1):
                answer = client.post("/sign-in", data={"name": name, "password": "wrong as it is"})
                text = answer.text.replace(f'value="{name}"', "")
                answers.append((name, answer.status_code, dict(answer.headers) | {"date": ""}, text))
        known, unknown = ([each[1:] for each in answers if each[0] == name] for name in ("ada", "nobody"))
        assert [(each[0], each[2]) for each in known] == [(each[0], each[2]) for each in unknown]
        assert [sorted(each[1]) for each in known] == [sorted(each[1]) for each in unknown]


def test_guessing_has_to_wait_and_the_user_has_not(tmp_path: Path, local_store: Store) -> None:
    limits = SignInLimits(clock=Clock())
    with web_server(tmp_path, lambda: local_store, limits=limits, has_pages=False) as web:
        at_home = web.signed_in("ada")
        at_home.post("/sign-out", data={"form_token": form_token(at_home)})
        guesser, last = web.client(), httpx.codes.OK
        for i in range(PAIR.free + 1):
            answer = guesser.post("/sign-in", data={"name": "ada", "password": f"guess number {i}"})
            last = httpx.codes(answer.status_code)
        assert last is httpx.codes.TOO_MANY_REQUESTS
        assert int(answer.headers["retry-after"]) >= 1
        right = guesser.post("/sign-in", data={"name": "ada", "password": PASSWORD})
        assert right.status_code == httpx.codes.TOO_MANY_REQUESTS, "nor does the right password tell that it is"
        again = at_home.post("/sign-in", data={"name": "ada", "password": PASSWORD})
        assert again.status_code == httpx.codes.SEE_OTHER
        told = [(each.action, each.subject, each.result) for each in local_store.audit.entries(limit=10)]
        assert ("sign-in", "ada", "limited") in told
        assert ("sign-in", "ada", "refused") in told
        assert told[0] == ("sign-in", "ada", "done")


def test_an_old_session_is_over_and_so_is_one_whose_user_has_changed(tmp_path: Path, local_store: Store) -> None:
    clock = Clock()
    with web_server(tmp_path, lambda: local_store, clock=clock, has_pages=False) as web:
        idle, changed, removed = web.signed_in("ada"), web.signed_in("olga"), web.signed_in("alice")
        web.served.accounts.set_role("olga", Role.LOOK)
        assert not is_in(changed)
        web.served.accounts.remove("alice")
        assert not is_in(removed)
        clock.at += IDLE_S
        assert not is_in(idle)


def test_changing_one_s_password_needs_the_present_one_and_ends_the_other_sessions(
    tmp_path: Path, local_store: Store
) -> None:
    with web_server(tmp_path, lambda: local_store, has_pages=False) as web:
        here, elsewhere = web.signed_in("olga"), web.signed_in("olga")
        fresh = {"fresh": "another good one", "again": "another good one", "form_token": form_token(here)}
        refused = here.post("/account/password", data={"password": "not this one", **fresh})
        assert refused.status_code == httpx.codes.FORBIDDEN
        assert is_in(elsewhere)
        unlike = here.post("/account/password", data={"password": PASSWORD, **fresh, "again": "something else"})
        assert unlike.headers["location"] == "/account"
        assert "are not the same" in here.get("/account").text
        here.post("/account/password", data={"password": PASSWORD, **fresh})
        assert is_in(here)
        assert not is_in(elsewhere)
        web.signed_in("olga", "another good one")


def test_the_first_user_is_made_once_and_only_with_the_key(tmp_path: Path, local_store: Store) -> None:
    with web_server(tmp_path, lambda: local_store, setup_key="the key", has_pages=False) as web:
        eve = {"name": "eve", "password": PASSWORD, "again": PASSWORD}
        client = web.client()
        assert client.post("/setup", data={"key": "the key", **eve}).status_code == httpx.codes.FORBIDDEN
        for name in USERS:
            web.served.accounts.set_role("ada", Role.ADMINISTER)
            if name != "ada":
                web.served.accounts.remove(name)
        web.served.accounts.remove("ada")
        for key in ("", "the ke", "the keyx", "\u00e4"):
            assert client.get("/setup", params={"key": key}).status_code == httpx.codes.FORBIDDEN
            assert client.post("/setup", data={"key": key, **eve}).status_code == httpx.codes.FORBIDDEN
        assert client.get("/setup", params={"key": "the key"}).status_code == httpx.codes.OK
        bad = client.post("/setup", data={"key": "the key", **eve, "again": "something else"})
        assert bad.status_code == httpx.codes.UNPROCESSABLE_ENTITY
        assert client.post("/setup", data={"key": "the key", **eve}).status_code == httpx.codes.SEE_OTHER
        assert is_in(client)
        mallory = {"key": "the key", **eve, "name": "mallory"}
        assert web.client().post("/setup", data=mallory).status_code == httpx.codes.FORBIDDEN
        assert [user.name for user in web.served.accounts.users()] == ["eve"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../visitor.py",
        "/static/..%2fvisitor.py",
        "/static/%2e%2e/visitor.py",
        "/static/....//visitor.py",
        "/static/%2e%2e%5cvisitor.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/",
        "/static/vendor",
    ],
)
def test_no_file_but_those_of_the_pages_is_given_out(web: WebServer, path: str) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{web.served.port}\r\nConnection: close\r\n\r\n"
    status, _, rest = raw(web, head.encode()).partition(b"\r\n")
    assert status.split(b" ")[1] in {b"404", b"401", b"303"}, status
    assert b"class Visitor" not in rest
    assert b"root:" not in rest


def test_a_redirect_after_sign_in_stays_here(web: WebServer) -> None:
    for to in ("//evil.example", "https://evil.example/", "/\\evil.example", "/x\r\nX-Evil: 1", "javascript:1"):
        answer = web.client().post("/sign-in", data={"name": "ada", "password": PASSWORD, "next": to})
        assert answer.headers["location"] == "/"
        assert "x-evil" not in answer.headers
        form = web.client().get("/sign-in", params={"next": to}).text
        assert "evil" not in form
    wanted = web.client().get("/users?x=1").headers["location"]
    assert wanted == "/sign-in?next=/users%3Fx%3D1"


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /account HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        b"GET /account HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"GET /account HTTP/1.0\r\n\r\n",
        b"GET http://evil.example/account HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: x\r\nConnection: close\r\n\r\n",
        b"BREW /account HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ],
)
def test_an_odd_request_is_refused_in_order(web: WebServer, request_: bytes) -> None:
    status = raw(web, request_ if b"HTTP" in request_ else request_ + b"\r\n\r\n").partition(b"\r\n")[0]
    assert re.match(rb"HTTP/1\.1 (4\d\d|303)", status), status


def test_a_body_without_end_is_cut_off(web: WebServer) -> None:
    chunk, last = (b"%x\r\n" % size + b"a" * size + b"\r\n" for size in (0xF000, MAX_BODY_BYTES % 0xF000 + 1))
    head = b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
    kind = b"Content-Type: application/x-www-form-urlencoded\r\n\r\n"
    answer = raw(web, head + kind + chunk * (MAX_BODY_BYTES // 0xF000) + last)
    assert answer.startswith(b"HTTP/1.1 413"), answer[:200]


def test_names_in_odd_letters_neither_break_the_page_nor_the_audit(web: WebServer, local_store: Store) -> None:
    (before,) = local_store.audit.entries(limit=1)
    for name in ("<script>alert(1)</script>", "a\r\nX: y", "\x00", "ada@web", "\u202eada", "\ud7ff" * 600, "%0d%0a"):
        answer = web.client().post("/sign-in", data={"name": name, "password": "x"})
        assert answer.status_code in {401, 422, 429}
        assert "<script>alert" not in answer.text
    entries = itertools.takewhile(lambda entry: entry != before, local_store.audit.entries(limit=100))
    assert {entry.subject for entry in entries} == {"unknown"}, "what is no user's name may be somebody's password"


def test_every_answer_keeps_browsers_from_doing_more(web: WebServer) -> None:
    client = web.signed_in("ada")
    answers = [client.get(path) for path in ("/account", "/nothing", "/sign-in", "/api/v1/whoami", "/static/app.css")]
    answers += [client.get("/account", headers={"Host": "evil.example"}), client.post("/users", headers=EVIL)]
    for answer in answers:
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert "server" not in answer.headers
        is_static = answer.request.url.path.startswith("/static")
        assert (answer.headers["cache-control"] == "no-store") is not is_static


def test_a_bug_is_answered_without_its_details(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a detail that nobody outside needs")

    monkeypatch.setattr(type(web.served.desk), "snapshot", fail)
    answer = web.program("ada").get("/api/v1/status")
    assert answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR
    assert answer.json()["error"]["kind"] == "bug"
    assert "detail that nobody" not in answer.text
    assert "content-security-policy" in answer.headers
