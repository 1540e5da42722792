"""Every check of the doctor has its entry in the runbook, and the doctor's own page tells what `--fix` does."""

from __future__ import annotations

import re
from typing import get_args

from toolkit.cli.topics import FOLDER
from toolkit.doctor.checks import CHECKS
from toolkit.doctor.judged import Remedy

PAGE = (FOLDER / "doctor.md").read_text(encoding="utf-8")
RUNBOOK = (FOLDER / "runbook.md").read_text(encoding="utf-8").partition("\n## What the doctor finds\n")[2]


def test_every_check_has_an_entry_and_every_entry_is_a_check() -> None:
    assert re.findall(r"^### (.+)$", RUNBOOK.partition("\n## ")[0], re.MULTILINE) == list(CHECKS)


def test_every_entry_says_something() -> None:
    entries = re.split(r"^### .+$", RUNBOOK.partition("\n## ")[0], flags=re.MULTILINE)[1:]
    assert [entry for entry in entries if len(entry.split()) < 8] == []


def test_every_subject_that_only_takes_is_named() -> None:
    subjects = {name.partition("-")[0] for name in CHECKS}
    assert [subject for subject in sorted(subjects) if f"`{subject}`" not in PAGE] == []


def test_each_remedy_is_told() -> None:
    told = re.findall(r"^\| `([a-z-]+)` \|", PAGE.partition("\n## --fix\n")[2].partition("\n## ")[0], re.MULTILINE)
    assert set(told) <= CHECKS.keys()
    assert len(told) == len(get_args(Remedy))
