"""The real `crawlctl web`: its first start, its users by the command line, TLS, a proxy, and its end."""

from __future__ import annotations

import re
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from support.certificates import make_certificate
from support.cli import NodeEntry, RunningCrawlctl
from support.desk import Desk
from support.ports import free_port
from support.waiting import wait_until

from toolkit.cli import cmd_web
from toolkit.model.errors import MissingExtraError

PASSWORD = "a horse in a battery"
SOON_S = 60.0


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Give an operator without a Redis, whose one node is off."""
    return Desk.of([NodeEntry("node-1", "127.0.0.1", free_port())], None, tmp_path, secrets=[PASSWORD])


@contextmanager
def serving(desk: Desk, *words: str) -> Iterator[tuple[RunningCrawlctl, str]]:
    """Serve on a free port, and give the command and the pages' address."""
    with desk.begin("web", "--listen", "127.0.0.1:0", *words) as command:

        def address() -> str | None:
            assert command.is_running, command.wait()
            found = re.search(r"are at (https?://\S+)", command.err)
            return found[1] if found else None

        yield command, wait_until(address, deadline_s=SOON_S, what="the pages to be served")


def add(desk: Desk, name: str, role: str) -> None:
    """Add a user as a script does, by standard input."""
    with RunningCrawlctl(
        "web", "users", "add", name, "--role", role, cwd=desk.folder, answers=f"{PASSWORD}\n", warm=True
    ) as adding:
        desk.read(adding.wait(), 0)


def test_the_first_hour_from_the_link_on_the_terminal_to_ctrl_c(desk: Desk) -> None:
    with serving(desk) as (command, url):
        link = re.search(rf"{url}/setup\?key=\S+", command.err)
        assert link is not None, command.err
        with httpx.Client(base_url=url, timeout=SOON_S) as browser:
            assert "The first user" in browser.get(link[0]).text
            key = link[0].partition("key=")[2]
            made = {"key": key, "name": "ann", "password": PASSWORD, "again": PASSWORD}
            assert browser.post("/setup", data=made).headers["location"] == "/"
            assert browser.get("/account").status_code == httpx.codes.OK
            assert [user["name"] for user in desk.json("web", "users")] == ["ann"]
            refused = desk.error("web", "--listen", url.partition("//")[2], exit_code=6)
            assert "is taken by another process" in refused
            with browser.stream("GET", "/live", headers={"Accept": "text/event-stream"}) as stream:
                assert stream.status_code == httpx.codes.OK
                command.interrupt()
                ended = desk.read(command.wait(timeout_s=SOON_S), 0)
        assert PASSWORD not in ended.err
    entries = [(row["who"], row["action"], row["result"]) for row in desk.json("audit")]
    assert ("ann@web", "web setup", "done") in entries


def test_users_and_tokens_by_the_command_line_reach_a_server_that_runs(desk: Desk) -> None:
    refused = desk.error("web", "--listen", "0.0.0.0:0", exit_code=6)
    assert "crawlctl web users add NAME --role administer" in refused
    add(desk, "ann", "operate")
    add(desk, "bob", "administer")
    with serving(desk) as (command, url), httpx.Client(base_url=url, timeout=SOON_S) as browser:
        assert "setup" not in command.err
        browser.post("/sign-in", data={"name": "ann", "password": PASSWORD})
        assert browser.get("/account").status_code == httpx.codes.OK
        made = desk.json("web", "tokens", "make", "ann", "nightly", "--role", "operate", "--for", "2d")
        program = {"Authorization": f"Bearer {made['token']}"}
        assert httpx.get(f"{url}/api/v1/whoami", headers=program, timeout=SOON_S).json()["role"] == "operate"
        assert made["token"] not in desk.run("web", "tokens", "list", "--output", "json").out
        assert "so no token of ann may administer" in desk.error(
            "web", "tokens", "make", "ann", "more", "--role", "administer", exit_code=2
        )
        desk.run("web", "users", "role", "ann", "look")
        assert browser.get("/account").status_code == httpx.codes.SEE_OTHER
        assert httpx.get(f"{url}/api/v1/whoami", headers=program, timeout=SOON_S).json()["role"] == "look"
        desk.run("web", "tokens", "revoke", made["id"])
        assert (
            httpx.get(f"{url}/api/v1/whoami", headers=program, timeout=SOON_S).status_code == httpx.codes.UNAUTHORIZED
        )
        desk.run("web", "users", "remove", "ann", "--yes")
        browser.post("/sign-in", data={"name": "ann", "password": PASSWORD})
        assert browser.get("/account").status_code == httpx.codes.SEE_OTHER
        assert "only one who may administer" in desk.error("web", "users", "role", "bob", "look", exit_code=6)
        assert "no user zoe" in desk.error("web", "users", "password", "zoe", exit_code=7)
        words = [word for child in psutil.process_iter() for word in _words(child)]
        assert not [word for word in words if PASSWORD in word or made["token"] in word]


def test_with_tls_the_cookie_is_bound_to_it(desk: Desk) -> None:
    cert, key = make_certificate(desk.folder)
    add(desk, "ann", "look")
    with serving(desk, "--tls-cert", str(cert), "--tls-key", str(key)) as (command, url):
        trusting = ssl.create_default_context(cafile=str(cert))
        with httpx.Client(base_url=url, verify=trusting, timeout=SOON_S) as browser:
            answer = browser.post("/sign-in", data={"name": "ann", "password": PASSWORD}, headers={"Origin": url})
            cookies = answer.headers.get_list("set-cookie")
            assert all(each.startswith("__Host-crawlctl_") and "Secure" in each.split("; ") for each in cookies)
            assert browser.get("/account").status_code == httpx.codes.OK
        with pytest.raises(httpx.TransportError):
            httpx.get(url.replace("https", "http"), timeout=SOON_S)
        command.interrupt()
        desk.read(command.wait(timeout_s=SOON_S), 0)
    assert "go together" in desk.error("web", "--tls-cert", str(cert), exit_code=2)
    assert "TLS with" in desk.error("web", "--tls-cert", str(cert), "--tls-key", str(cert), exit_code=3)


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_proxy_s_word_counts_only_when_it_is_named(desk: Desk, *, is_trusted: bool) -> None:
    add(desk, "ann", "look")
    proxy = ["--proxy", "127.0.0.1"] if is_trusted else []
    told = {"Host": "crawls.example.com", "X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https"}
    with serving(desk, "--name", "crawls.example.com", *proxy) as (_, url):
        here = re.sub(r"crawls\.example\.com", "127.0.0.1", url)
        with httpx.Client(base_url=here, headers=told, timeout=SOON_S) as browser:
            form = {"name": "ann", "password": PASSWORD}
            answer = browser.post("/sign-in", data=form, headers={"Origin": "https://crawls.example.com"})
            if not is_trusted:
                assert answer.status_code == httpx.codes.FORBIDDEN
                assert "--proxy" in answer.text
                return
            assert "__Host-" in answer.headers["set-cookie"]
            assert [row["detail"] for row in desk.json("audit") if row["action"] == "sign-in"] == ["from 192.0.2.7"]
            assert browser.get("/", headers={"Host": "evil.example"}).status_code == httpx.codes.MISDIRECTED_REQUEST


def test_a_service_is_ended_by_sigterm(desk: Desk) -> None:
    with serving(desk) as (command, _):
        psutil.Process(command._started.pid).send_signal(signal.SIGTERM)
        desk.read(command.wait(timeout_s=SOON_S), 0)


def test_what_is_not_installed_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cmd_web, "NEEDED", ("no_such_framework",))
    with pytest.raises(MissingExtraError) as caught:
        cmd_web._require_extra()
    assert caught.value.hint == "pip install 'crawlctl[web]'"


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return []
