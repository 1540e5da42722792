"""`crawlctl nodes exec` and `crawlctl nodes logs` over a real sshd."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.cli import Finished, RunningCrawlctl, run_crawlctl
from support.ports import free_port
from support.ssh_server import SshServer
from support.waiting import wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with SshServer(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def desk(server: SshServer, tmp_path: Path) -> Path:
    """Have a folder with an inventory of two hosts behind the server, and of one where nothing listens."""
    hosts: dict[str, Any] = {
        f"node-{number}": {"port": number, "provision": {"folder": str(tmp_path / f"node-{number}")}}
        for number in (1, 22)
    }
    hosts["away"] = {"port": 3, "ssh": {"port": free_port()}}
    defaults = {"address": "127.0.0.1", **server.variables()}
    groups = {"here": {"hosts": ["node-1", "node-22"]}}
    (tmp_path / "inventory.yaml").write_text(json.dumps({"defaults": defaults, "hosts": hosts, "groups": groups}))
    return tmp_path


def crawlctl(desk: Path, *words: str) -> Finished:
    return run_crawlctl(*words, cwd=desk)


def is_running(word: str) -> bool:
    lines = (" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"]))
    return any(re.match(f"[a-z]+ .*{word}", line) for line in lines)


def test_a_command_runs_on_all_hosts_and_its_lines_say_whose_they_are(desk: Path) -> None:
    done = crawlctl(desk, "nodes", "exec", "--on", "here", "--", "printf", "%s\n", "a  b", "$HOME").expect()
    assert sorted(done.out.splitlines()) == [
        "node-1  | $HOME",
        "node-1  | a  b",
        "node-22 | $HOME",
        "node-22 | a  b",
    ]
    assert [line.split()[:2] for line in done.err.splitlines()] == [["NODE", "EXIT"], ["node-1", "0"], ["node-22", "0"]]
    shell = crawlctl(desk, "nodes", "exec", "--on", "node-1", "--root", "--", "id -u; echo oops >&2; exit 3").expect(4)
    assert shell.out == "node-1 | 0\n"
    assert "node-1 | oops" in shell.err
    assert "the command failed on 1 of 1 host(s): node-1" in shell.err


def test_exit_codes_tell_some_from_all_and_programs_get_a_row_a_host(desk: Path) -> None:
    some = crawlctl(desk, "nodes", "exec", "--output", "json", "--", "uname").expect(4)
    rows = {row["name"]: row for row in some.json()}
    assert list(rows) == ["node-1", "node-22", "away"]
    assert (rows["node-1"]["exit_code"], rows["node-1"]["stdout"], rows["node-1"]["ok"]) == (0, "Linux\n", True)
    assert rows["away"]["exit_code"] is None
    assert "nothing listens on 127.0.0.1" in rows["away"]["error"]
    crawlctl(desk, "nodes", "exec", "--on", "away", "--", "uname").expect(5)
    late = crawlctl(desk, "nodes", "exec", "--on", "node-1", "--timeout", "1s", "--", "sleep", "9").expect(4)
    assert "run sleep: no end after 1 s" in late.err
    crawlctl(desk, "nodes", "exec").expect(2)


def test_unknown_host_keys_are_only_taken_when_asked_for(desk: Path, server: SshServer) -> None:
    text = (desk / "inventory.yaml").read_text().replace(f', "host_key": "{server.host_key}"', "")
    (desk / "inventory.yaml").write_text(text)
    refused = crawlctl(desk, "nodes", "exec", "--on", "node-1", "--", "uname").expect(4)
    assert "is not known: ssh-ed25519 SHA256:" in refused.err
    assert "--trust-new-keys" in refused.err
    taken = crawlctl(desk, "nodes", "exec", "--on", "node-1", "--trust-new-keys", "--", "uname").expect()
    assert f"took the key of [127.0.0.1]:{server.port} on first sight: ssh-ed25519 SHA256:" in taken.err
    assert (desk / ".crawlctl" / "known_hosts").read_text() == server.known_hosts_line
    crawlctl(desk, "nodes", "exec", "--on", "node-1", "--", "uname").expect()


def test_ctrl_c_ends_the_command_on_every_host(desk: Path) -> None:
    with RunningCrawlctl("nodes", "exec", "--on", "here", "--", "echo begun; sleep 4717.5", cwd=desk) as command:
        wait_until(lambda: command.out.count("begun") == 2, deadline_s=60, what="both to begin")
        command.interrupt()
        ended = command.wait().expect(130)
    assert "the connection was ended" in ended.err
    wait_until(lambda: not is_running("4717.5"), deadline_s=60, what="the commands to be gone")


def test_logs_of_nodes_are_merged_by_time(desk: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    at = [(now - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%S+0000") for minutes in (60, 3, 2, 1)]
    write_log(desk, "node-1", f"{at[0]} old\n{at[1]} first\n  its second line\n{at[3]} last\n")
    write_log(desk, "node-22", f"{at[2]} between\n")
    told = crawlctl(desk, "nodes", "logs", "--on", "here", "--since", "10m").expect()
    assert told.out.splitlines() == [
        f"node-1  | {at[1]} first",
        "node-1  |   its second line",
        f"node-22 | {at[2]} between",
        f"node-1  | {at[3]} last",
    ]
    rows = crawlctl(desk, "nodes", "logs", "--on", "here", "-n", "1", "--output", "json").expect().json()
    assert rows == [{"name": "node-22", "line": f"{at[2]} between"}, {"name": "node-1", "line": f"{at[3]} last"}]
    some = crawlctl(desk, "nodes", "logs").expect(4)
    assert "there is no log of 1 of 3 host(s): away" in some.err


def test_a_log_is_followed_until_ctrl_c_and_nothing_is_left_on_the_host(desk: Path) -> None:
    log = write_log(desk, "node-1", "one\ntwo\n")
    with RunningCrawlctl("nodes", "logs", "--on", "node-1", "-f", "-n", "1", cwd=desk) as command:
        wait_until(lambda: "two" in command.out, deadline_s=60, what="the last line")
        with log.open("a") as file:
            file.write("three\n")
        wait_until(lambda: "three" in command.out, deadline_s=60, what="the new line")
        assert is_running(str(log))
        command.interrupt()
        command.wait().expect(130)
        assert command.out == "node-1 | two\nnode-1 | three\n"
    wait_until(lambda: not is_running(str(log)), deadline_s=60, what="tail to be gone")


def test_a_host_that_is_no_node_says_how_it_becomes_one(desk: Path) -> None:
    told = crawlctl(desk, "nodes", "logs", "--on", "node-1").expect(4)
    assert f"neither a service crawlctl-node nor a file {desk}/node-1/node/scrapyd.log" in told.err
    assert "crawlctl nodes provision --on node-1 makes it a node" in told.err


def write_log(desk: Path, name: str, text: str) -> Path:
    log = desk / name / "node" / "scrapyd.log"
    log.parent.mkdir(parents=True)
    log.write_text(text)
    return log
