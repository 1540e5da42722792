"""Over a real sshd: connections that end in the middle, hosts that fall silent, operators that are killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.processes import end, start
from support.ssh_server import SshServer
from support.tcp_relay import TcpRelay
from support.waiting import wait_until

from toolkit.cluster.fanout import InterruptedFanOutError
from toolkit.model.errors import HostUnreachableError
from toolkit.provision import ssh
from toolkit.provision.connect import connector
from toolkit.provision.everywhere import everywhere
from toolkit.provision.remote import Remote


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with SshServer(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def relay(server: SshServer) -> Iterator[TcpRelay]:
    with TcpRelay(server.port) as relay:
        yield relay


def how_many_run(*words: str) -> int:
    """Return how many processes have exactly this command line."""
    wanted = "\0".join(words).encode() + b"\0"
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += path.read_bytes() == wanted
    return found


def is_running(*words: str) -> bool:
    """Tell whether a process has exactly this command line."""
    return how_many_run(*words) > 0


def soon(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, deadline_s=60, what=what)


def test_a_connection_cut_in_the_middle_is_told_ends_the_command_and_is_made_anew(
    server: SshServer, relay: TcpRelay
) -> None:
    remote = connector()(server.host(port=relay.port))
    remote.check(["true"], doing="connect")

    def cut() -> None:
        soon(lambda: is_running("sleep", "4713.5"), "the command to run")
        relay.cut()

    threading.Thread(target=cut, daemon=True).start()
    with pytest.raises(HostUnreachableError, match="node-1: wait there: the connection broke"):
        remote.run(["sleep", "4713.5"], doing="wait there")
    soon(lambda: not is_running("sleep", "4713.5"), "the command to be gone")
    assert remote.check(["echo", "again"], doing="greet") == "again\n"
    remote.close()


def test_a_file_that_came_in_half_does_not_take_the_old_one_s_place(
    server: SshServer, relay: TcpRelay, tmp_path: Path
) -> None:
    source, there = tmp_path / "source", tmp_path / "there" / "file"
    there.parent.mkdir()
    there.write_bytes(b"old")
    with source.open("wb") as file:
        file.truncate(50_000_000)
    remote = connector()(server.host(port=relay.port))

    def cut(sent: int) -> None:
        if sent > 5_000_000:
            relay.cut()

    with pytest.raises(HostUnreachableError, match=r"send source to .*: the connection broke"):
        remote.send(source, str(there), on_bytes=cut)
    soon(lambda: list(there.parent.iterdir()) == [there], "what was begun to be gone")
    assert there.read_bytes() == b"old"
    remote.close()


def test_a_host_that_falls_silent_is_given_up_in_time(
    server: SshServer, relay: TcpRelay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "LOOK_AFTER_S", 0.5)
    monkeypatch.setattr(ssh, "SILENT_S", 3.0)
    remote = connector()(server.host(port=relay.port))
    lines: list[str] = []

    def take(line: str) -> None:
        lines.append(line)
        relay.swallows = True

    begun = time.monotonic()
    with pytest.raises(HostUnreachableError, match="it has been silent for"):
        remote.follow(["sh", "-c", "echo begun; sleep 4714.5"], doing="follow", on_line=take)
    relay.swallows = False
    source = tmp_path / "source"
    with source.open("wb") as file:
        file.truncate(50_000_000)

    def swallow(_sent: int) -> None:
        relay.swallows = True

    with pytest.raises(HostUnreachableError, match="send source"):
        remote.send(source, str(tmp_path / "there"), on_bytes=swallow)
    assert time.monotonic() - begun < 40
    assert lines == ["begun"]
    relay.cut()
    soon(lambda: not is_running("sleep", "4714.5"), "the command to be gone")


def test_a_quiet_command_is_no_silent_host(server: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "LOOK_AFTER_S", 0.2)
    remote = connector()(server.host())
    assert remote.check(["sh", "-c", "sleep 1; echo woke"], doing="sleep") == "woke\n"
    remote.close()


def test_a_host_that_does_not_even_greet_is_given_up_in_time(server: SshServer, relay: TcpRelay) -> None:
    relay.swallows = True
    remote = connector()(server.host(port=relay.port, timeout_s=1.0))
    begun = time.monotonic()
    with pytest.raises(HostUnreachableError, match=r"no SSH server greets on .* within 1 s"):
        remote.check(["true"], doing="connect")
    assert time.monotonic() - begun < 30


def test_an_operator_that_is_killed_leaves_no_command_behind(server: SshServer, tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(
        "from toolkit.model.hosts import Host, SshAddress\n"
        "from toolkit.provision.connect import connector\n"
        "from toolkit.model.names import NodeName\n"
        f"ssh = SshAddress(**{server.variables()['ssh']!r})\n"
        "host = Host(NodeName('node-1'), ssh=ssh)\n"
        "connector()(host).follow(['sleep', '4715.5'], doing='follow', on_line=print)\n"
    )
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = start([sys.executable, str(script)], cwd=Path.cwd(), env=dict(os.environ), output=output)

    def runs() -> bool:
        assert process.poll() is None, log.read_text()
        return is_running("sleep", "4715.5")

    try:
        soon(runs, "the command to run")
    finally:
        end(process)
    soon(lambda: not is_running("sleep", "4715.5"), "the command to be gone")


def test_forty_hosts_are_done_in_the_order_named_and_failures_stay_their_own(server: SshServer) -> None:
    hosts = [server.host(f"node-{number}", timeout_s=30) for number in range(40)]
    hosts[7] = server.host("node-7", port=1)
    steps: list[str] = []

    def act(remote: Remote, say: Callable[[str], None]) -> str:
        say("greeting")
        return remote.check(["echo", remote.host.name], doing="greet").strip()

    done: list[str] = []
    begun = time.monotonic()
    outcomes = everywhere(
        hosts,
        connector(),
        act,
        on_step=lambda name, step: steps.append(f"{name} {step}"),
        on_done=lambda outcome: done.append(outcome.node),
    )
    assert time.monotonic() - begun < 60
    assert [outcome.node for outcome in outcomes] == [host.name for host in hosts]
    assert [outcome.node for outcome in outcomes.failed] == ["node-7"]
    assert isinstance(outcomes.failed[0].error, HostUnreachableError)
    assert outcomes.values["node-39"] == "node-39"  # type: ignore[index]
    assert len(steps) == len(done) == 40


def test_ctrl_c_ends_what_runs_everywhere(server: SshServer) -> None:
    hosts = [server.host(f"node-{number}") for number in range(3)]

    def act(remote: Remote, say: Callable[[str], None]) -> None:
        say("waiting")
        remote.follow(["sleep", "4716.5"], doing="wait", on_line=say)

    def interrupt() -> None:
        soon(lambda: how_many_run("sleep", "4716.5") == 2, "the commands to run")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(InterruptedFanOutError) as told:
        everywhere(hosts, connector(), act, parallel=2)
    soon(lambda: not is_running("sleep", "4716.5"), "the commands to be gone")
    said = [str(outcome.error) for outcome in told.value.outcomes]
    assert said[2] == "node-2: interrupted before it began"
    assert ["the connection was ended" in each for each in said[:2]] == [True, True], said
