"""Every Lua script says what it promises, is passed its keys, and is shipped with the package."""

from __future__ import annotations

import re
from importlib import resources
from itertools import takewhile
from pathlib import Path

import pytest

from toolkit.store.keys import Keys

STORE = Path(str(resources.files("toolkit.store")))
SCRIPTS = sorted((STORE / "lua").glob("*.lua"))


def test_there_is_a_file_for_each_operation() -> None:
    assert {script.stem for script in SCRIPTS} >= {
        *("lock", "renew", "unlock", "record", "activate", "note", "forget", "add_jobs", "update_jobs"),
    }


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_opens_with_its_promise_keys_arguments_and_answer(script: Path) -> None:
    lines = script.read_text(encoding="utf-8").splitlines()
    head = list(takewhile(lambda line: line.startswith("--"), lines))
    assert re.fullmatch(r"-- [A-Z][^:]+\.|-- [A-Z].+; .+\.", head[0])
    words = [line.split()[1] for line in head if re.match(r"-- [A-Z]+: ", line)]
    assert words in (["KEYS:", "ARGV:", "RETURNS:"], ["KEYS:", "ARGV:", "RETURNS:", "INCLUDES:"])


@pytest.mark.parametrize(
    "script", [script for script in SCRIPTS if script.stem != "queue_rules"], ids=lambda path: path.stem
)
def test_a_script_builds_no_key_and_trusts_no_clock_but_redis_own(script: Path) -> None:
    code = "\n".join(line for line in script.read_text(encoding="utf-8").splitlines() if not line.startswith("--"))
    assert "crawlctl:" not in code
    assert "os.time" not in code
    named = re.search(r"-- KEYS: (.+)", script.read_text(encoding="utf-8"))
    assert named is not None
    used = {int(number) for number in re.findall(r"KEYS\[(\d+)\]", code)}
    own = named[1].removeprefix("the queue's").removeprefix(", then")
    first = 1 if own == named[1] else len(Keys("main").queue) + 1
    assert used == set(range(first, first + len(own.split())))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_used(script: Path) -> None:
    callers = "".join(path.read_text(encoding="utf-8") for path in STORE.glob("redis_*.py"))
    includers = "".join(path.read_text(encoding="utf-8") for path in SCRIPTS)
    assert f'"{script.stem}"' in callers or f"-- INCLUDES: {script.stem}\n" in includers
