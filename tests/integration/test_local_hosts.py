"""`up` and `down` with real nodes: started, kept, healed, and gone with every spider."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import http_calls
from support.laptop import Laptop, actions, is_there
from support.ports import free_port
from support.waiting import wait_until

from toolkit.model.errors import ConfigurationError, MissingExtraError, RefusedError, UsageError
from toolkit.model.hosts import Host, Secret
from toolkit.model.names import NodeName
from toolkit.model.outcomes import Outcome
from toolkit.model.servers import LocalProcess
from toolkit.provision import local_nodes, local_servers, private_files, processes
from toolkit.provision.credentials import local_password


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Laptop]:
    made = Laptop(tmp_path)
    yield made
    made.end_all()


def test_nodes_come_up_answer_only_to_their_password_and_are_gone_after_down(laptop: Laptop) -> None:
    laptop.has_nodes(3)
    assert actions(laptop.up()) == dict.fromkeys(["node-1", "node-2", "node-3"], "started")
    for number in (1, 2, 3):
        assert laptop.ask(number, "daemonstatus.json")["node_name"] == f"node-{number}"
        assert http_calls.get(f"{laptop.host(number).url}/daemonstatus.json").status == 401
    pids = [laptop.pid(f"node-{number}") for number in (1, 2, 3)]
    assert actions(laptop.down()) == dict.fromkeys(["node-1", "node-2", "node-3"], "stopped")
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert actions(laptop.down()) == dict.fromkeys(["node-1", "node-2", "node-3"], "not running")


def test_a_second_up_changes_nothing(laptop: Laptop) -> None:
    laptop.has_nodes(2)
    first = laptop.up().values
    second = laptop.up().values
    assert {o.action for o in second.values()} == {"unchanged"}
    assert {o.pid for o in second.values()} == {o.pid for o in first.values()}


def test_what_was_deployed_is_there_after_down_and_up(laptop: Laptop) -> None:
    laptop.has_nodes(1).up()
    laptop.runs_a_spider(1)
    laptop.down()
    assert actions(laptop.up()) == {"node-1": "started"}
    assert laptop.ask(1, "listversions.json", project="small")["versions"] == ["1"]


def test_a_killed_node_is_started_again_and_its_sibling_left_alone(laptop: Laptop) -> None:
    laptop.has_nodes(2).up()
    killed, sibling = laptop.pid("node-1"), laptop.pid("node-2")
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: processes.find(laptop.record("node-1")) is None, deadline_s=60, what="node-1 to be gone")
    assert actions(laptop.up()) == {"node-1": "started", "node-2": "unchanged"}
    assert laptop.pid("node-1") != killed
    assert laptop.pid("node-2") == sibling


def test_spiders_that_a_killed_node_left_behind_are_ended_before_it_starts_again(laptop: Laptop) -> None:
    laptop.has_nodes(1).up()
    spider = laptop.runs_a_spider(1)
    os.kill(laptop.pid("node-1"), signal.SIGKILL)
    wait_until(lambda: processes.find(laptop.record("node-1")) is None, deadline_s=60, what="node-1 to be gone")
    assert is_there(spider)
    outcome = laptop.up().each[0]
    assert outcome.value is not None
    assert outcome.value.action == "started"
    assert "left behind" in outcome.value.note
    assert not is_there(spider)


def test_down_closes_a_running_spider_gracefully_and_leaves_no_orphan(laptop: Laptop) -> None:
    laptop.has_nodes(1).up()
    spider = laptop.runs_a_spider(1)
    assert actions(laptop.down()) == {"node-1": "stopped"}
    assert not is_there(spider)
    log = laptop.state / "nodes" / "node-1" / "logs" / "small" / "alpha" / "job-1.log"
    assert "Received SIGTERM" in log.read_text()
    assert "'finish_reason': 'shutdown'" in log.read_text()


def test_down_ends_a_node_and_a_spider_that_hang(laptop: Laptop) -> None:
    laptop.has_nodes(1).up()
    spider = laptop.runs_a_spider(1)
    node = psutil.Process(laptop.pid("node-1"))
    spider.suspend()
    node.suspend()
    outcome = laptop.down(grace_s=0.3).each[0]
    assert outcome.value is not None
    assert outcome.value.action == "stopped"
    assert outcome.value.note == "2 had to be killed"
    assert not is_there(spider)
    assert not is_there(node)


def test_a_taken_port_is_that_node_s_failure_only_and_its_holder_is_named(laptop: Laptop) -> None:
    laptop.has_nodes(2)
    with socket.create_server(("127.0.0.1", laptop.inventory.hosts[0].port)):
        outcomes = laptop.up()
    (failed,) = outcomes.failed
    assert failed.node == "node-1"
    assert isinstance(failed.error, ConfigurationError)
    assert f"(pid {os.getpid()}) has that port" in failed.error.message
    assert failed.error.hint
    assert actions(outcomes)["node-2"] == "started"
    assert actions(laptop.up()) == {"node-1": "started", "node-2": "unchanged"}


def test_a_changed_host_is_started_anew_and_only_it(laptop: Laptop) -> None:
    laptop.has_nodes(2).up()
    first, second = laptop.inventory.hosts
    laptop.inventory = replace(laptop.inventory, hosts=(replace(first, slots=7, port=free_port()), second))
    assert actions(laptop.up()) == {"node-1": "restarted", "node-2": "unchanged"}
    assert laptop.ask(1, "daemonstatus.json")["status"] == "ok"
    assert "max_proc=7" in (laptop.state / "nodes" / "node-1" / "scrapyd.log").read_text()


def test_down_stops_also_a_node_whose_host_left_the_inventory(laptop: Laptop) -> None:
    laptop.has_nodes(2).up()
    laptop.inventory = replace(laptop.inventory, hosts=laptop.inventory.hosts[:1])
    assert actions(laptop.up()) == {"node-1": "unchanged"}
    assert actions(laptop.down()) == {"node-1": "stopped", "node-2": "stopped"}


def test_down_finds_a_node_whose_record_was_lost(laptop: Laptop) -> None:
    laptop.has_nodes(1).up()
    node = psutil.Process(laptop.pid("node-1"))
    laptop.record("node-1").unlink()
    assert actions(laptop.down()) == {"node-1": "stopped"}
    assert not is_there(node)


def test_no_secret_is_in_a_command_line_or_an_environment_also_of_spiders(laptop: Laptop) -> None:
    laptop.environ |= {
        "AWS_SECRET_ACCESS_KEY": "hush-1",
        "SCRAPYD_PASSWORD": "hush-2",
        "SCRAPY_PROJECT": "hush-3",
        "GITHUB_TOKEN": "hush-4",
        "https_proxy": "http://proxy.example:3128",
    }
    laptop.has_nodes(1).up()
    spider = laptop.runs_a_spider(1)
    password = local_password(laptop.state).reveal()
    for process in (psutil.Process(laptop.pid("node-1")), spider):
        environ = process.environ()
        seen = " ".join(process.cmdline()) + str(environ)
        assert "hush" not in seen
        assert password not in seen
        assert environ["HOME"] == str(laptop.home)
        assert environ["https_proxy"] == "http://proxy.example:3128"
    files = [path for path in laptop.state.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert not [path for path in files if password.encode() in path.read_bytes()]


def test_files_of_the_operator_s_do_not_override_a_node_s_own(laptop: Laptop) -> None:
    wrong = "[scrapyd]\nhttp_port = 1\nnode_name = other\nusername =\npassword =\nunix_socket_path = other.sock\n"
    (laptop.home / ".scrapyd.conf").write_text(wrong)
    (laptop.home / "project").mkdir()
    (laptop.home / "project" / "scrapy.cfg").write_text(wrong + "[settings]\ndefault = other.settings\n")
    laptop.has_nodes(1)
    assert actions(laptop.up()) == {"node-1": "started"}
    assert laptop.ask(1, "daemonstatus.json")["node_name"] == "node-1"
    assert laptop.ask(1, "listprojects.json")["projects"] == []


def test_a_node_that_dies_at_start_is_reported_with_its_last_words(laptop: Laptop) -> None:
    (laptop.home / ".scrapyd.conf").write_text("[scrapyd]\nthis is no option\n")
    outcome = laptop.has_nodes(1).up().each[0]
    assert isinstance(outcome.error, ConfigurationError)
    assert outcome.error.message.startswith("node-1 died at start:\n")
    assert "this is no option" in outcome.error.message
    assert "scrapyd.log" in (outcome.error.hint or "")
    assert not laptop.record("node-1").exists()


def test_an_interrupted_up_leaves_nothing_that_it_started(laptop: Laptop) -> None:
    all_four = laptop.has_nodes(4).inventory
    laptop.inventory = replace(all_four, hosts=all_four.hosts[:1])
    laptop.up()
    kept = laptop.pid("node-1")
    laptop.inventory = all_four

    def interrupt(outcome: Outcome[LocalProcess]) -> None:
        if outcome.value is not None and outcome.value.action == "started":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        laptop.up(on_progress=interrupt)
    assert laptop.pid("node-1") == kept
    assert [processes.find(laptop.record(f"node-{number}")) for number in (2, 3, 4)] == [None, None, None]


def test_progress_tells_each_node_once(laptop: Laptop) -> None:
    told: list[tuple[str, threading.Thread]] = []
    laptop.has_nodes(2).up(on_progress=lambda outcome: told.append((outcome.node, threading.current_thread())))
    assert sorted(name for name, _ in told) == ["node-1", "node-2"]
    assert {thread for _, thread in told} == {threading.main_thread()}


def test_two_commands_do_not_work_in_one_folder_at_once(laptop: Laptop) -> None:
    laptop.has_nodes(1)
    with (
        private_files.one_at_a_time(laptop.state, doing="up"),
        pytest.raises(RefusedError, match=rf"crawlctl up \(pid {os.getpid()}\) is at work"),
    ):
        laptop.up()
    assert actions(laptop.up()) == {"node-1": "started"}


def test_a_node_that_hangs_is_reported_and_left_as_it_is(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    laptop.has_nodes(1).up()
    node = psutil.Process(laptop.pid("node-1"))
    node.suspend()
    monkeypatch.setattr(local_servers, "READY_WITHIN_S", 0.2)
    monkeypatch.setattr(local_nodes, "_ASK_TIMEOUT_S", 0.1)
    outcome = laptop.up().each[0]
    assert isinstance(outcome.error, RefusedError)
    assert f"node-1 runs (pid {node.pid}) but does not answer" in outcome.error.message
    node.resume()
    monkeypatch.undo()
    assert actions(laptop.up()) == {"node-1": "unchanged"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scheme": "https"}, "plain http"),
        ({"path": "/scrapyd"}, "plain http"),
        ({"address": "192.0.2.1"}, "not one of this machine"),
        ({"address": "no-such-host.invalid"}, "is not an address"),
        ({"username": "a:b"}, "colon"),
        ({"username": "me", "password": Secret("two\nlines")}, "line break"),
        ({"password": Secret("alone")}, "no user name and password"),
        ({"name": NodeName("../escape")}, "cannot be used"),
    ],
)
def test_a_host_that_cannot_be_local_is_an_outcome(laptop: Laptop, change: dict[str, Any], words: str) -> None:
    laptop.has_nodes(1)
    laptop.inventory = replace(laptop.inventory, hosts=(replace(laptop.inventory.hosts[0], **change),))
    outcome = laptop.up().each[0]
    assert isinstance(outcome.error, ConfigurationError | UsageError)
    assert words in outcome.error.message


def test_passwords_with_any_printable_character_work(laptop: Laptop) -> None:
    laptop.has_nodes(1)
    host = replace(laptop.inventory.hosts[0], username="me", password=Secret("50% of #1; \"é' \\ = [x] ${y}"))
    laptop.inventory = replace(laptop.inventory, hosts=(host,))
    assert actions(laptop.up()) == {"node-1": "started"}


def test_hosts_of_other_machines_are_none_of_ups_business(laptop: Laptop) -> None:
    laptop.inventory = replace(laptop.inventory, hosts=(Host(NodeName("far"), address="192.0.2.1", connection="ssh"),))
    assert len(laptop.up()) == 0


def test_a_folder_that_is_not_ours_to_write_is_named(laptop: Laptop) -> None:
    laptop.has_nodes(1)
    laptop.state.mkdir(parents=True)
    laptop.state.chmod(0o555)
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)  # Root may write everywhere.
    try:
        with pytest.raises(ConfigurationError, match=r"Permission denied") as caught:
            laptop.up()
    finally:
        os.seteuid(mine)
        laptop.state.chmod(0o755)
    assert ".crawlctl" in caught.value.message
    assert caught.value.hint


def test_down_in_a_folder_that_never_was_does_nothing(laptop: Laptop) -> None:
    assert len(laptop.down()) == 0
    assert not laptop.state.exists()


def test_without_psutil_nothing_is_begun(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    laptop.has_nodes(1)
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(MissingExtraError):
        laptop.up()
    assert not laptop.state.exists()
