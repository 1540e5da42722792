"""The programs that hosts run fit the Pythons that hosts have, and hold their arguments whatever these are."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from toolkit.model.errors import HostRefusedError
from toolkit.model.nodes import IS_STARTING, WAITS_FOR_REDIS
from toolkit.provision import facts_program, programs, steps_program
from toolkit.provision.facts_program import MARK
from toolkit.provision.on_host_acting import OperationError
from toolkit.provision.remote import Ran
from toolkit.provision.steps import told

FULL = "no space left on the disk of /opt: "


def test_looking_needs_no_newer_python_than_3_6() -> None:
    text = programs.composed(programs.FACTS, {}).decode()

    ast.parse(text, feature_version=(3, 6))
    assert "toolkit." not in "".join(line for line in text.splitlines() if line.startswith(("import", "from")))


def test_steps_are_one_program_that_imports_nothing_of_ours() -> None:
    tree = ast.parse(programs.composed(programs.STEPS, {}).decode())

    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(str(name).startswith("toolkit") for name in imported)


def test_arguments_of_any_kind_arrive_and_are_in_no_process_list() -> None:
    odd = '\'; """ \\ \n ü € \x00 {}'
    operations = [{"do": "command", "words": ["sh", "-c", 'test "$1" = x', "sh", "x"], "doing": odd}]
    program = programs.composed(
        programs.STEPS, {"operations": [*operations, {"do": "nothing", "doing": odd}], "folder": "/"}
    )
    done = subprocess.run([sys.executable, "-I", "-"], input=program, capture_output=True, check=True)

    said = json.loads(done.stdout.decode().partition("crawlctl-steps:")[2])
    assert (said["failed"], said["results"]) == (odd, [None])


def test_what_a_login_prints_beside_the_answer_is_no_part_of_it() -> None:
    ran = Ran(0, f"Welcome!\n{MARK} not this\n{MARK}[1]\n", "")

    assert programs.answer(ran, MARK, host="h", doing="look") == [1]


def test_host_that_says_nothing_is_a_refusal_with_its_last_words() -> None:
    with pytest.raises(HostRefusedError, match="h: look: This account is currently not available"):
        programs.answer(Ran(1, "This account is currently not available.\n", ""), MARK, host="h", doing="look")


def test_index_that_is_not_reached_is_told_in_a_line() -> None:
    uv = (
        "error: Request failed after 3 retries in 5.1s cause: Failed to fetch: https://pypi.org/simple/urllib3/ cause:"
        " error sending request for url (https://pypi.org/simple/urllib3/) cause: client error (Connect) cause: dns"
        " error cause: failed to lookup address information: Temporary failure in name resolution"
    )

    last = "failed to lookup address information: Temporary failure in name resolution"
    why, hint = told(uv)
    assert why == f"https://pypi.org/simple/urllib3/ cannot be fetched: {last}"
    assert "--wheelhouse" in str(hint)
    assert told("No solution found")[0] == "No solution found"


@pytest.mark.parametrize(
    ("why", "full_disk_of", "shown", "hinted"),
    [
        ("it does not answer: Connection refused; its last words: nothing", None, "it does not", "nodes logs"),
        ("it does not answer: Connection refused; its last words: nothing", "/opt", f"{FULL}it does not", "free some"),
        ("it does not answer: timed out; its last words: [Errno 28] No space left", None, "it does not", "free some"),
        ("it runs and has not joined its cluster; its last words: No space left", None, "it runs", "redis URL"),
        ("it runs and has not joined its cluster; its last words: nothing", "/opt", f"{FULL}it runs", "free some"),
        ("Failed to fetch: `https://a/` cause: No space left", None, "https://a/ cannot be fetched: No", "free some"),
        ("error sending request", "/opt", f"{FULL}error sending", "free some"),
        ("No space left on device", "/opt", "No space left on device", "free some"),
    ],
)
def test_a_full_disk_is_named_and_hinted_at_before_all_that_it_leads_to(
    why: str, full_disk_of: str | None, shown: str, hinted: str
) -> None:
    text, hint = told(why, full_disk_of=full_disk_of)

    assert text.startswith(shown)
    assert hinted in str(hint)


def test_a_program_of_somebody_else_in_our_folder_is_not_run_with_our_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\necho uv 9.9\n")
    uv.chmod(0o755)
    assert facts_program.uv_version(str(uv)) == "9.9"

    uv.chmod(0o757)
    assert facts_program.uv_version(str(uv)) is None
    uv.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: uv.stat().st_uid + 1000)
    assert uv.stat().st_uid == 0 or facts_program.uv_version(str(uv)) is None


@pytest.mark.parametrize(
    ("listing", "written"),
    [
        ("echo '0 1 * * * backup'; echo '* * * * * old # ours'", "0 1 * * * backup\nnew # ours\n"),
        ("echo 'no crontab for ann' >&2; exit 1", "new # ours\n"),
        ("echo 'cannot read your crontab: I/O error' >&2; exit 1", None),
    ],
)
def test_lines_of_others_in_a_crontab_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listing: str, written: str | None
) -> None:
    fake, kept = tmp_path / "crontab", tmp_path / "kept"
    fake.write_text(f'#!/bin/sh\nfor word; do [ "$word" = -l ] && {{ {listing}; exit; }}; done\ncat >{kept}\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    wanted = {"owner": "root", "mark": "# ours", "lines": ["new # ours"]}
    if written is None:
        with pytest.raises(OperationError, match="I/O error"):
            steps_program.crontab(wanted)
    else:
        steps_program.crontab(wanted)
    assert (kept.read_text() if kept.exists() else None) == written


def test_whoever_lost_the_hosts_lock_does_nothing_more(tmp_path: Path) -> None:
    lock, done = tmp_path / "lock", tmp_path / "done"
    taken = {"do": "lock", "path": str(lock), "who": "ann", "token": "a", "takes_over": None, "doing": "lock"}
    stolen = {"do": "file", "path": str(lock), "text": '{"who": "bob", "token": "b"}', "mode": 0o644, "doing": "steal"}
    more = {"do": "file", "path": str(done), "text": "x", "mode": 0o644, "doing": "go on"}

    def said(*operations: Mapping[str, object]) -> dict[str, object]:
        program = programs.composed(programs.STEPS, {"operations": operations, "folder": str(tmp_path)})
        ended = subprocess.run([sys.executable, "-I", "-"], input=program, capture_output=True, check=True)
        answer: dict[str, object] = json.loads(ended.stdout.decode().partition("crawlctl-steps:")[2])
        return answer

    assert said(taken, more) == {"results": [None, None]}
    done.unlink()
    assert said(taken, stolen, more) == {
        "results": [None, None],
        "failed": "go on",
        "why": "bob provisions this host now",
        "is_disk_full": False,
    }
    assert not done.exists()


def test_node_that_does_not_join_its_cluster_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"name": "node-1", "within_s": 60, "is_starting": IS_STARTING, "waits": WAITS_FOR_REDIS}
    said = "2026-11-21T17:20:56+0000 [toolkit.node.heartbeat#error] Waiting for Redis: it refuses the password"
    wanted |= {
        "page": "crawlctl.json",
        "unit": "crawlctl-node",
        "folder": "/",
        "log": ["printf", "%s\n", said, *['"GET /crawlctl.json HTTP/1.1" 200'] * 40],
    }
    heard = [
        (WAITS_FOR_REDIS, None),
        ("node-1", IS_STARTING),
        ("node-1", WAITS_FOR_REDIS),
        ("node-1", "its disk is full"),
    ]
    monkeypatch.setattr(steps_program, "asked", lambda _: heard.pop(0) if heard else ("node-1", WAITS_FOR_REDIS))

    assert steps_program.answers(wanted) == "its disk is full"
    monkeypatch.setattr(steps_program, "JOINED_WITHIN_S", 0.0)
    with pytest.raises(OperationError, match="its cluster; its last words: Waiting for Redis: it refuses the password"):
        steps_program.answers(wanted)


def test_a_node_on_a_full_disk_is_not_waited_for_and_its_own_last_words_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "scrapyd.conf: state_dir /opt/node/dbs cannot be used: [Errno 28] No space left on device"
    unit = "crawlctl-node.service"
    log = [own, f"{unit}: Main process exited, code=exited", f"Started {unit} - crawlctl node node-1 (Scrapyd)."]
    wanted = {"do": "answers", "name": "node-1", "within_s": 600, "is_starting": IS_STARTING, "waits": WAITS_FOR_REDIS}
    wanted |= {"page": "crawlctl.json", "unit": "crawlctl-node", "folder": "/opt", "log": ["printf", "%s\n", *log]}
    monkeypatch.setattr(steps_program, "asked", lambda _: ("Connection refused", None))
    monkeypatch.setattr(steps_program, "is_disk_full", lambda folder: folder == "/opt")
    monkeypatch.setattr(steps_program, "FULL_WITHIN_S", 0.0)

    steps_program.main({"operations": [{**wanted, "doing": "wait"}], "folder": "/opt"})

    said = json.loads(capsys.readouterr().out.partition(steps_program.MARK)[2])
    assert said["why"] == f"it does not answer: Connection refused; its last words: {own}"
    assert said["is_disk_full"]
