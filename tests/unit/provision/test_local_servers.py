"""One local server brought to the state described, with a real process that answers as the test says."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from support.ports import free_port
from support.processes import quiet_environment
from support.waiting import wait_until

from toolkit.model.errors import ConfigurationError, CrawlctlError
from toolkit.provision import local_servers, processes
from toolkit.provision.local_servers import RECORD, Answer, LocalServer

SLEEPS = "import time; print('up', flush=True); time.sleep(120)"
SLEEPER = (sys.executable, "-S", "-c", SLEEPS)
PARENT = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", {SLEEPS!r}], env={{**os.environ, "ADOPTED": "1"}})
print(child.pid, flush=True)
time.sleep(120)
"""
Ask = Callable[[], Answer]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "server"
    yield path
    processes.end_orphans(path / RECORD, grace_s=0)


def a_server(home: Path, *, code: str = SLEEPS, ask: Ask = lambda: Answer.OURS) -> LocalServer:
    return LocalServer(
        name="server",
        address="127.0.0.1",
        port=free_port(),
        home=home,
        files={"server.conf": "one = 1\n"},
        argv=(sys.executable, "-S", "-c", code),
        env=quiet_environment(home),
        ask=ask,
        log_name="server.log",
        override_hint="look there",
        death_hints={"tired": "let it sleep"},
    )


def is_running(home: Path) -> bool:
    return processes.find(home / RECORD) is not None


def child_told_of(home: Path) -> psutil.Process:
    log = home / "server.log"
    return psutil.Process(int(wait_until(lambda: log.read_text().partition("\n")[0], deadline_s=30, what="a child")))


def is_there(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_a_server_is_started_once_and_stopped_once(home: Path) -> None:
    server = a_server(home)
    assert [local_servers.start(server).action for _ in range(2)] == ["started", "unchanged"]
    assert (home / "address").read_text() == f"{server.place}\n"
    stopped = [local_servers.stop("server", home) for _ in range(2)]
    assert [result.action for result in stopped] == ["stopped", "not running"]
    assert stopped[0].address == server.place
    assert not is_running(home)
    assert not (home / "address").exists()


def test_another_text_in_its_files_starts_it_anew(home: Path) -> None:
    server = a_server(home)
    first = local_servers.start(server)
    second = local_servers.start(replace(server, files={"server.conf": "one = 2\n"}))
    assert second.action == "restarted"
    assert second.pid != first.pid
    assert (home / "server.conf").read_text() == "one = 2\n"
    assert (home / "server.conf").stat().st_mode & 0o777 == 0o600


def test_what_a_server_adopts_outlives_its_restart_and_not_its_stop(home: Path) -> None:
    server = replace(a_server(home, code=PARENT), adopts="ADOPTED")
    local_servers.start(server)
    child = child_told_of(home)
    assert local_servers.start(replace(server, files={"server.conf": "two"}, argv=SLEEPER)).action == "restarted"
    assert is_there(child)
    assert local_servers.stop("server", home).action == "stopped"
    assert not is_there(child)


def test_who_does_not_adopt_ends_what_its_predecessor_left(home: Path) -> None:
    server = replace(a_server(home, code=PARENT), adopts="ADOPTED")
    local_servers.start(server)
    child = child_told_of(home)
    other = replace(server, files={"server.conf": "two"}, argv=SLEEPER, adopts=None)
    assert local_servers.start(other).action == "restarted"
    assert not is_there(child)


def test_a_server_that_is_to_move_to_a_taken_port_stays_where_it_is(home: Path) -> None:
    server = a_server(home)
    local_servers.start(server)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
            local_servers.start(replace(server, port=port))
    assert local_servers.start(server).action == "unchanged"


def test_a_death_at_start_is_told_with_its_last_words_and_what_to_do(home: Path) -> None:
    server = a_server(home, code="raise SystemExit('too tired')", ask=lambda: Answer.NOBODY_YET)
    for _ in range(2):
        with pytest.raises(ConfigurationError) as caught:
            local_servers.start(server)
        # Once each time: words of an earlier start are not repeated.
        assert caught.value.message == "server died at start:\ntoo tired"
        assert caught.value.hint == "let it sleep"


def test_a_port_that_was_taken_in_the_last_moment_is_told_as_such(home: Path) -> None:
    code = "raise SystemExit('OSError: [Errno 98] Address already in use')"
    with pytest.raises(ConfigurationError, match=r"cannot listen on .* has that port"):
        local_servers.start(a_server(home, code=code, ask=lambda: Answer.NOBODY_YET))


@pytest.mark.parametrize("answer", [Answer.UNAUTHORIZED, Answer.SOMEBODY_ELSE])
def test_a_server_that_answers_as_another_is_ended_again(home: Path, answer: Answer) -> None:
    with pytest.raises(ConfigurationError, match="other settings than it was given") as caught:
        local_servers.start(a_server(home, ask=lambda: answer))
    assert caught.value.hint == "look there"
    assert not is_running(home)


def test_a_server_that_does_not_answer_in_time_is_ended_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_servers, "READY_WITHIN_S", 0.1)
    with pytest.raises(ConfigurationError, match="did not answer on"):
        local_servers.start(a_server(home, ask=lambda: Answer.NOBODY_YET))
    assert not is_running(home)
    assert not (home / "address").exists()


def test_a_cancelled_start_leaves_nothing_behind(home: Path) -> None:
    cancelled = threading.Event()
    failures: list[CrawlctlError] = []

    def start() -> None:
        try:
            local_servers.start(a_server(home, ask=lambda: Answer.NOBODY_YET), cancelled=cancelled)
        except CrawlctlError as error:
            failures.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    wait_until(lambda: is_running(home), deadline_s=30, what="the process to run")
    cancelled.set()
    thread.join(30)
    assert "interrupted" in failures[0].message
    assert not is_running(home)


def test_a_file_in_the_place_of_the_folder_is_reported(home: Path) -> None:
    home.mkdir()
    (home / "file").write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"cannot make the folder .*: File exists"):
        local_servers.start(a_server(home / "file"))
