"""Each sink gets a message on its own way; what goes wrong is told without a secret, and in time."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.certificates import make_certificate
from support.hook_server import HookServer
from support.mail_server import MailServer
from support.ports import free_port

from toolkit.alerts.sinks import can_tell, send
from toolkit.model.alerts import MailTls, Message, Severity, Sink, SinkKind
from toolkit.model.errors import SinkError
from toolkit.model.events import Event, EventKind
from toolkit.model.hosts import Secret

AT = datetime(2026, 11, 21, 10, 15, tzinfo=UTC)
ABOUT = {"project": "shop", "spider": "books", "node": "node-1", "reason": "exit code 1\r\nBcc: eve@evil <!channel>"}
FAILED = Event(EventKind.JOB_FAILED, "j1", ABOUT, at=AT, id="1764000000000-0")
MESSAGE = Message("main/1764000000000-0", "main", (FAILED,), ("failures",), Severity.CRITICAL)
KEY = "a secret of sixteen"
PASSWORD = "hunter2"
SECRETS = ("T0P-S3CRET", KEY, "hunter2")


def hook(url: str, **more: object) -> Sink:
    return replace(Sink("hook", SinkKind.WEBHOOK, url=Secret(url), secret=Secret(KEY), timeout_s=20.0), **more)  # type: ignore[arg-type]


def refused(sink: Sink, *, programs: dict[str, list[str]] | None = None) -> SinkError:
    with pytest.raises(SinkError) as caught:
        send(sink, MESSAGE, programs=programs or {})
    assert not [secret for secret in SECRETS if secret in caught.value.message]
    return caught.value


def test_a_webhook_gets_signed_json_under_a_key() -> None:
    with HookServer() as server:
        send(hook(server.url), MESSAGE, programs={})
    (posted,) = server.posted
    assert posted.path == "/hooks/T0P-S3CRET?x=1"
    assert posted.key == MESSAGE.key == posted.json["key"]
    assert (posted.json["severity"], posted.json["rules"], posted.subjects) == ("critical", ["failures"], ["j1"])
    assert posted.json["events"][0]["about"] == ABOUT
    at = posted.headers["x-crawlctl-timestamp"]
    assert abs(int(at) - time.time()) < 60
    wanted = hmac.new(KEY.encode(), at.encode() + b"." + posted.body, hashlib.sha256).hexdigest()
    assert posted.headers["x-crawlctl-signature"] == f"v1={wanted}"


def test_a_text_that_no_encoding_knows_is_sent_all_the_same() -> None:
    odd = replace(MESSAGE, events=(replace(FAILED, about={"reason": json.loads('"\\ud800 and \\u0007"')}),))
    with HookServer() as server, MailServer() as mails:
        send(hook(server.url), odd, programs={})
        send(hook(server.url, kind=SinkKind.SLACK), odd, programs={})
        send(mail(mails, tls=MailTls.NONE, username=None), odd, programs={})
    assert server.posted[0].json["events"][0]["about"]["reason"] == "? and \x07"
    assert len(mails.mails) == 1


def test_slack_gets_a_text_that_mentions_nobody() -> None:
    with HookServer() as server:
        send(hook(server.url, kind=SinkKind.SLACK), MESSAGE, programs={})
    (posted,) = server.posted
    assert list(posted.json) == ["text"]
    assert "[CRITICAL] main: job j1 has failed (shop books) on node-1: exit code 1" in posted.json["text"]
    assert "&lt;!channel&gt;" in posted.json["text"]
    assert "x-crawlctl-signature" not in posted.headers


def test_a_server_is_taken_at_its_certificate(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with HookServer(certificate=certificate) as server:
        assert "no TLS connection" in refused(hook(server.url)).message
        send(hook(server.url, ca=certificate[0].read_text()), MESSAGE, programs={})
    assert len(server.posted) == 1
    assert "no certificate" in refused(hook(server.url, ca="no PEM")).message


@pytest.mark.parametrize(
    ("status", "is_refusal", "says"),
    [(500, False, "answers 500"), (401, False, "answers 401"), (422, True, "answers 422"), (302, False, "elsewhere")],
)
def test_any_answer_but_2xx_is_a_failure_and_no_redirect_is_followed(status: int, is_refusal: bool, says: str) -> None:  # noqa: FBT001
    with HookServer() as other, HookServer(answers=[status], headers={"Location": other.url}) as server:
        error = refused(hook(server.url))
        assert (error.is_refusal, says in error.message) == (is_refusal, True)
    assert other.posted == []


def test_a_busy_server_says_how_long_to_wait() -> None:
    with HookServer(answers=[429], headers={"Retry-After": "17"}) as server:
        assert refused(hook(server.url)).again_s == 17


def test_who_does_not_answer_in_time_is_cut_off_also_byte_by_byte() -> None:
    with HookServer(takes_s=20.0) as slow, dripping() as port:
        for url in (slow.url, f"http://127.0.0.1:{port}/"):
            began = time.monotonic()
            assert "no answer within 0.3 s" in refused(hook(url, timeout_s=0.3)).message
            assert time.monotonic() - began < 15
    assert "cannot be reached: Connection refused" in refused(hook(f"http://127.0.0.1:{free_port()}/x")).message


def test_a_mail_goes_to_all_after_a_login_over_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with MailServer(login=("crawl", "hunter2"), certificate=certificate) as server:
        send(mail(server, ca=certificate[0].read_text()), MESSAGE, programs={})
        assert "refuses the login (535)" in refused(mail(server, ca=certificate[0].read_text(), password="no")).message
        assert "no TLS connection" in refused(mail(server)).message
    (found,) = server.mails
    assert server.was_secure == [True]
    assert server.recipients == ["ann@example.com", "bob@example.com"]
    assert (
        found["Subject"]
        == "[CRITICAL] main: job j1 has failed (shop books) on node-1: exit code 1  Bcc: eve@evil <!channel>"
    )
    assert found["Bcc"] is None
    assert found["Message-ID"] == "<main.1764000000000-0@example.com>"
    assert "reason: exit code 1" in found.get_content()


def test_a_mail_server_may_speak_tls_at_once_or_not_at_all(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with MailServer(certificate=certificate, is_implicit=True) as server:
        send(mail(server, ca=certificate[0].read_text(), tls=MailTls.IMPLICIT, username=None), MESSAGE, programs={})
    with MailServer() as plain:
        assert "knows no STARTTLS" in refused(mail(plain, username=None)).message
        send(mail(plain, tls=MailTls.NONE, username=None), MESSAGE, programs={})
    assert len(server.mails) == len(plain.mails) == 1


@pytest.mark.parametrize(
    ("replies", "is_refusal", "says"),
    [
        ({"RCPT": "550 hunter2"}, True, "refuses every recipient (550)"),
        ({"RCPT": "450 later"}, False, "refuses every recipient (450)"),
        ({"MAIL": "451 later"}, False, "does not take the mail (451)"),
        ({"DATA": "554 spam"}, True, "does not take the mail (554)"),
    ],
)
def test_a_mail_server_may_refuse_in_words_that_are_not_repeated(
    replies: dict[str, str],
    is_refusal: bool,  # noqa: FBT001
    says: str,
) -> None:
    with MailServer(replies=replies) as server:
        error = refused(mail(server, tls=MailTls.NONE, username=None))
    assert (error.is_refusal, says in error.message) == (is_refusal, True), error.message


def test_a_program_gets_the_message_and_nothing_of_the_nodes_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRAWLCTL_REDIS", "redis://:hunter2@h")
    out = tmp_path / "out.json"
    code = f"import json,os,sys; json.dump([json.load(sys.stdin), dict(os.environ), sys.argv], open({str(out)!r}, 'w'))"
    programs = {"page": [sys.executable, "-c", code, "--team ops; rm"]}
    send(Sink("pager", SinkKind.COMMAND, program="page"), MESSAGE, programs=programs)
    body, environment, words = json.loads(out.read_text())
    assert body["key"] == environment["ALERT_KEY"] == MESSAGE.key
    assert "CRAWLCTL_REDIS" not in environment
    assert words[1:] == ["--team ops; rm"]


def test_a_program_must_be_permitted_and_end_well_and_in_time() -> None:
    pager = Sink("pager", SinkKind.COMMAND, program="page", timeout_s=20.0)

    def ends(code: str) -> dict[str, list[str]]:
        return {"page": [sys.executable, "-Sc", code]}

    assert not can_tell(pager, {"other": ["x"]})
    assert "permits no program 'page'" in refused(pager).message
    assert "cannot be started" in refused(pager, programs={"page": ["/no/such/program"]}).message
    assert "exit code 3" in refused(pager, programs=ends("raise SystemExit(3)")).message
    assert refused(pager, programs=ends("raise SystemExit(65)")).is_refusal
    late = refused(replace(pager, timeout_s=0.3), programs=ends("import time; time.sleep(60)"))
    assert "did not end within 0.3 s" in late.message


def mail(server: MailServer, *, password: str = PASSWORD, **more: object) -> Sink:
    sink = Sink(
        *("mail", SinkKind.EMAIL),
        server="127.0.0.1",
        port=server.port,
        username="crawl",
        password=Secret(password),
        sender="Crawl <crawl@example.com>",
        recipients=("ann@example.com", "Bob <bob@example.com>"),
        timeout_s=20.0,
    )
    return replace(sink, **more)  # type: ignore[arg-type]


@contextmanager
def dripping() -> Iterator[int]:
    """Listen, and answer each connection with a byte now and then."""
    is_over = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not is_over.wait(0.05):
                    connection.sendall(b"x")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=[listening], daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        is_over.set()
        thread.join(5)
