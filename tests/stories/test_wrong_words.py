"""Whatever is typed or configured wrongly is told in one message, with its exit code, and never with a secret."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import NodeEntry, run_crawlctl
from support.desk import Desk, seconds_of
from support.faulty_server import FaultyNode
from support.ports import free_port
from support.processes import quiet_environment
from support.redis_server import RedisServer

pytestmark = pytest.mark.xdist_group("stories-wrong-words")

SECRET = "a-secret-of-this-story"
SOMEWHERE = NodeEntry("node-1", "127.0.0.1", 1, ("crawler", SECRET))
EVERY_COMMAND_WITH_NODES = [
    ["status"],
    ["jobs"],
    ["jobs", "show", "abc"],
    ["logs", "abc"],
    ["items", "abc"],
    ["cancel", "abc"],
    ["cancel", "--all", "--yes"],
    ["schedule", "quick"],
    ["releases"],
    ["rollback", "-p", "market"],
    ["prune", "-p", "market"],
]

WRONG_WORDS = [
    (["deploy", "--steel"], ["No such option: --steel", "--steal"]),
    (["stauts"], ["No such command 'stauts'", "status"]),
    (["jobs", "lst"], ["No such command 'lst'", "list"]),
    (["schedule"], ["name a spider"]),
    (["status", "--output", "xml"], ["'xml' is not one of 'table', 'json', 'jsonl'"]),
    (["jobs", "--state", "sleeping"], ["'sleeping' is not one of", "'running'"]),
    (["jobs", "-n", "0"], ["greater than or equal to 1"]),
    (["schedule", "quick", "--workers", "many"], ["'--workers'", "valid integer"]),
    (["prune", "--keep", "0"], ["greater than or equal to 1"]),
    (["rollback", "-p", "../up"], ["project '../up' cannot be used"]),
    (["status", "--on", "node-1:&"], ["node-1:&"]),
    (["logs", "a", "--crawl", "b"], ["name jobs by their ids, or choose by"]),
]


@pytest.mark.parametrize(("words", "told"), WRONG_WORDS, ids=[" ".join(words) for words, _ in WRONG_WORDS])
def test_words_that_cannot_be_carried_out_end_with_two(tmp_path: Path, words: list[str], told: list[str]) -> None:
    desk = Desk.of([SOMEWHERE], None, tmp_path, secrets=[SECRET])
    plain = desk.run(*words, exit_code=2)
    assert plain.out == ""
    shown = desk.json(*words, exit_code=2)["error"] if "xml" not in words else {"message": plain.err, "hint": ""}
    for part in told:
        assert part in plain.err
        assert part in f"{shown['message']}\n{shown['hint']}"


def test_a_usage_error_says_where_help_is(tmp_path: Path) -> None:
    error = Desk(tmp_path).json("jobs", "list", "--stat", "running", exit_code=2)["error"]
    assert error["kind"] == "usage"
    assert "crawlctl jobs list --help" in error["hint"]


@pytest.mark.parametrize("words", [*EVERY_COMMAND_WITH_NODES, ["up"], ["inventory", "check"]], ids=" ".join)
def test_a_missing_inventory_is_told_by_every_command(tmp_path: Path, words: list[str]) -> None:
    told = Desk(tmp_path).error(*words, exit_code=3)
    assert "inventory" in told
    assert "crawlctl init" in told


def test_an_inventory_that_was_named_and_is_not_there_is_told(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert "absent.yaml" in desk.error("status", "-i", "absent.yaml", exit_code=3)
    assert "elsewhere.yaml" in desk.error("status", exit_code=3, env={"CRAWLCTL_INVENTORY": "elsewhere.yaml"})


def test_every_mistake_of_an_inventory_is_told_at_once_with_its_place(tmp_path: Path) -> None:
    desk = Desk(tmp_path, secrets=[SECRET])
    path = tmp_path / "inventory.yaml"
    path.write_text(
        f"redis: redis://:{SECRET}@localhost/0\n"
        "hosts:\n"
        "  node-1: {prot: 6800}\n"
        f"  node-2: {{port: 99999, password: {SECRET}}}\n"
        "  node-[3:1]:\n"
        "groups:\n"
        "  eu: {hosts: [node-1, nod-2]}\n"
        "tpyo: 1\n"
    )
    for words in (["inventory", "check"], ["status"]):
        told = desk.error(*words, exit_code=3)
        assert told.startswith("inventory: ")
        for place in ("3:12", "4:18", "5:3", "7:24", "8:1"):
            assert f"{path}:{place}: " in told, told
        assert "did you mean 'port'?" in told
        assert "did you mean 'node-2'?" in told


def test_a_password_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    desk = Desk.of([SOMEWHERE], None, tmp_path, secrets=[SECRET])
    (tmp_path / "node-1.password").chmod(0o644)
    assert "node-1.password" in desk.error("status", exit_code=3)


@pytest.mark.parametrize("words", EVERY_COMMAND_WITH_NODES[1:], ids=" ".join)
def test_a_redis_that_is_away_is_told_by_every_command(tmp_path: Path, words: list[str]) -> None:
    url = f"redis://:{SECRET}@127.0.0.1:{free_port()}/0"
    desk = Desk.of([SOMEWHERE], url, tmp_path, secrets=[SECRET])
    told = desk.error(*words, exit_code=5)
    assert told.startswith("store_unreachable: ")
    assert "127.0.0.1" in told


def test_a_redis_that_hangs_is_given_up(tmp_path: Path) -> None:
    with FaultyNode("hang") as hanging:
        desk = Desk.of([SOMEWHERE], f"redis://:{SECRET}@127.0.0.1:{hanging.port}/0", tmp_path, secrets=[SECRET])
        assert seconds_of(lambda: desk.run("jobs", exit_code=5)) < 50


def test_a_redis_with_another_password_is_told_and_neither_is_shown(tmp_path: Path, story_redis: RedisServer) -> None:
    secrets = [SECRET, str(story_redis.password)]
    desk = Desk.of([SOMEWHERE], f"redis://:{SECRET}@127.0.0.1:{story_redis.port}/0", tmp_path, secrets=secrets)
    told = desk.error("releases", exit_code=5)
    assert "password" in told
    without = Desk.of([SOMEWHERE], f"redis://127.0.0.1:{story_redis.port}/0", tmp_path / "other", secrets=secrets)
    assert "password" in without.error("jobs", exit_code=5)


def test_nodes_that_are_all_away_are_told(tmp_path: Path) -> None:
    desk = Desk.of([SOMEWHERE], None, tmp_path, secrets=[SECRET])
    shown = desk.run("status", "--output", "json", exit_code=5)
    assert shown.json()["nodes"][0]["state"] == "unreachable"
    assert "1 of 1 node(s) could not be asked" in shown.err


def test_what_does_not_exist_is_told_with_seven(tmp_path: Path) -> None:
    desk = Desk.of([SOMEWHERE], None, tmp_path, secrets=[SECRET])
    assert "no release of 'market' is known" in desk.error("releases", "market", exit_code=7)
    assert "no active release" in desk.error("schedule", "quick", exit_code=7)
    assert "node-1" in desk.error("inventory", "show", "node-2", exit_code=7)
    assert "exit-codes" in desk.error("docs", "exit-coeds", exit_code=7)


def test_no_secret_is_shown_by_what_shows_the_inventory(tmp_path: Path) -> None:
    url = f"redis://:{SECRET}@127.0.0.1:{free_port()}/0"
    desk = Desk.of([SOMEWHERE], url, tmp_path, secrets=[SECRET])
    for words in (["inventory", "show"], ["inventory", "list"], ["inventory", "check"], ["inventory", "list", "all"]):
        desk.run(*words)
        desk.json(*words)
    assert desk.json("inventory", "show")[0]["password"] == "***"


def test_no_secret_is_shown_with_a_traceback_that_was_asked_for(tmp_path: Path) -> None:
    url = f"redis://:{SECRET}@127.0.0.1:{free_port()}/0"
    desk = Desk.of([SOMEWHERE], url, tmp_path, secrets=[SECRET])
    ended = run_crawlctl("jobs", cwd=desk.folder, env={"CRAWLCTL_DEBUG": "1"})
    assert SECRET not in ended.out + ended.err


@pytest.mark.parametrize(
    "words", [[], ["-h"], ["--help"], ["jobs", "-h"], ["inventory", "-h"], ["deploy", "-h"]], ids=" ".join
)
def test_help_needs_no_inventory(tmp_path: Path, words: list[str]) -> None:
    shown = run_crawlctl(*words, cwd=tmp_path)
    assert shown.exit_code in {0, 2}
    assert "Usage: crawlctl" in shown.out + shown.err
    assert "Traceback" not in shown.err


def test_a_command_that_cannot_write_its_output_says_so(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    desk = Desk.of([SOMEWHERE], None, tmp_path, secrets=[SECRET])
    with full.open("wb") as disk:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "toolkit.cli.main", "inventory", "list"],
            cwd=desk.folder,
            env=quiet_environment(tmp_path),
            stdout=disk,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode not in {0, -6}
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr
