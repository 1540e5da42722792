"""The topic `protocol` is what the code does: its keys, its states, its files."""

from __future__ import annotations

import re

from support.documents import ROOT

from toolkit.cli.topics import FOLDER
from toolkit.model.jobs import JobState
from toolkit.runs import folder
from toolkit.store import keys

TEXT = (FOLDER / "protocol.md").read_text(encoding="utf-8")
KEY = re.compile(r"^\| (`[^`]+` \| [a-z ]+) \|", re.MULTILINE)


def section(heading: str) -> str:
    return TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_its_keys_are_those_of_the_store() -> None:
    assert KEY.findall(section("The keys")) == KEY.findall(str(keys.__doc__))


def test_every_state_is_among_its_transitions() -> None:
    assert [state for state in JobState if f"`{state.value}`" not in section("States")] == []


def test_every_script_of_the_queue_is_a_step_that_it_tells_of() -> None:
    steps = {
        "claim": "claim",
        "started": "started",
        "finish": "`finish`",
        "give_back": "gives it back",
        "requeue_expired": "requeue",
        "reconcile": "which claims it knows of",
        "cancel": "Cancel",
        "wish": "wish",
        "retry": "jobs retry",
        "beat": "heartbeat",
        "offer": "offers",
    }
    scripts = {path.stem for path in (ROOT / "toolkit" / "store" / "lua").glob("*.lua")}
    assert set(steps) <= scripts
    assert [word for word in steps.values() if word not in TEXT] == []


def test_every_file_of_a_running_job_is_named() -> None:
    files = re.findall(r"^\| `([a-z.]+)` \|", str(folder.__doc__), re.MULTILINE)
    assert len(files) > 8
    assert [name for name in files if f"`{name}`" not in TEXT] == []
