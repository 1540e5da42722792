"""What passes the guard before the pages, and where the pages may send a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolkit.model.errors import ConfigurationError, RefusedError, UsageError
from toolkit.web.guarding import Guard, host_name
from toolkit.web.own_paths import own_path
from toolkit.web.serving import Place, Tls, check_tls, place_of
from toolkit.web.starting import refuse_unsafe

GUARD = Guard(lambda *_: None, names=["Crawls.Example.com"], on_bug=lambda _: None)  # type: ignore[arg-type,return-value]
HERE = "127.0.0.1:8800"


def refused(method: str = "GET", *, scheme: str = "http", server: str = "127.0.0.1", **headers: str) -> int | None:
    """Return the status with which a request is refused, or nothing."""
    given = {"host": HERE, **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "scheme": scheme,
        "server": (server, 8800),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
    }
    found = GUARD.refusal_of(scope)
    return None if found is None else found[0]


@pytest.mark.parametrize(
    "host",
    [HERE, "localhost", "LOCALHOST:8800", "[::1]:8800", "crawls.example.com", "CRAWLS.example.com.:443", "10.0.0.5:80"],
)
def test_it_is_asked_for_by_its_own_names(host: str) -> None:
    assert refused(host=host, server="10.0.0.5") is None


@pytest.mark.parametrize("host", ["evil.example", "10.0.0.6", "localhost.evil.example", "127.0.0.1.evil.example"])
def test_another_site_s_name_is_not_answered_to(host: str) -> None:
    assert refused(host=host, server="10.0.0.5") == 421


@pytest.mark.parametrize("host", ["", "a b", "ann@localhost", "localhost/x", "[::1", "localhost:x", "loc\u00e4l"])
def test_what_is_no_host_is_refused(host: str) -> None:
    assert refused(host=host) == 400


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "https://127.0.0.1:8800",
        "http://127.0.0.1:8801",
        "http://127.0.0.1",
        "http://127.0.0.1:8800.evil.example",
        "file://",
        "",
        "http://[::1",
    ],
)
def test_a_change_from_another_origin_is_refused(origin: str) -> None:
    assert refused("POST", origin=origin) == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "odd"])
def test_a_change_that_its_browser_calls_another_site_s_is_refused(site: str) -> None:
    assert refused("POST", sec_fetch_site=site) == 403
    assert refused("GET", sec_fetch_site=site) is None


def test_a_change_from_our_own_pages_passes() -> None:
    assert refused("POST", origin="http://127.0.0.1:8800", sec_fetch_site="same-origin") is None
    secure = {"origin": "https://crawls.example.com", "host": "crawls.example.com"}
    assert refused("POST", scheme="https", **secure) is None
    assert refused("POST", scheme="http", **secure) == 403
    assert refused("POST") is None, "a program names no origin"


@pytest.mark.parametrize("length", ["1000001", "-1", "x", "1e3", "\u00b2"])
def test_a_body_is_bounded(length: str) -> None:
    assert refused("POST", content_length=length) == 413


@pytest.mark.parametrize(
    "text",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        " /x",
        "javascript:alert(1)",
        "/x\r\nSet-Cookie: a=b",
        "x",
        "",
        None,
        "/" + "x" * 3000,
    ],
)
def test_nobody_is_sent_to_another_site(text: str | None) -> None:
    assert own_path(text) == "/"


@pytest.mark.parametrize("text", ["/", "/jobs?state=running&q=a%20b", "/jobs/f8f5", "/crawls/a:b"])
def test_our_own_pages_are_gone_to(text: str) -> None:
    assert own_path(text) == text


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", Place()),
        (":8801", Place(port=8801)),
        ("0.0.0.0", Place("0.0.0.0")),
        ("web.example.com:443", Place("web.example.com", 443)),
        ("[::1]:80", Place("::1", 80)),
        ("[::]", Place("::")),
        ("fe80::1", Place("fe80::1")),
    ],
)
def test_a_place_is_written_in_the_usual_ways(text: str, place: Place) -> None:
    assert place_of(text) == place


@pytest.mark.parametrize("text", [":x", "a:b", ":70000", "a b", "http://x", "[::1]x", ":-1", ":\u00b2"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        place_of(text)


def test_without_a_user_nobody_else_may_reach_it() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        refuse_unsafe(Place(host), has_users=False)
    for host in ("0.0.0.0", "10.0.0.5", "web.example.com", "::"):
        with pytest.raises(RefusedError):
            refuse_unsafe(Place(host), has_users=False)
        refuse_unsafe(Place(host), has_users=True)


def test_a_certificate_that_cannot_be_used_is_told_before_anything_is_served(tmp_path: Path) -> None:
    (tmp_path / "web.pem").write_text("no certificate")
    for cert, key in (("web.pem", "web.pem"), ("web.pem", "missing.key")):
        with pytest.raises(ConfigurationError, match="TLS"):
            check_tls(Tls(tmp_path / cert, tmp_path / key))


def test_a_host_s_name_is_read_without_its_port() -> None:
    assert host_name("Example.COM.:8800") == "example.com"
    assert host_name("[2001:DB8::0:1]:80") == "2001:db8::1"
