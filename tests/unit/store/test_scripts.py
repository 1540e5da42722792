"""Every Lua script says what it promises, is passed its keys, and is shipped with the package."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

STORE = Path(str(resources.files("toolkit.store")))
SCRIPTS = sorted((STORE / "lua").glob("*.lua"))


def test_there_is_a_file_for_each_operation() -> None:
    assert {script.stem for script in SCRIPTS} >= {
        *("lock", "renew", "unlock", "record", "activate", "note", "forget", "add_jobs", "update_jobs"),
    }


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_opens_with_its_promise_keys_arguments_and_answer(script: Path) -> None:
    promise, keys, arguments, returns, *_ = script.read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"-- [A-Z][^:]+\.|-- [A-Z].+; .+\.", promise)
    assert keys.startswith("-- KEYS: ")
    assert arguments.startswith("-- ARGV: ")
    assert returns.startswith("-- RETURNS: ")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_builds_no_key_and_trusts_no_clock_but_redis_own(script: Path) -> None:
    code = "\n".join(line for line in script.read_text(encoding="utf-8").splitlines() if not line.startswith("--"))
    assert "crawlctl:" not in code
    assert "os.time" not in code
    named = re.search(r"-- KEYS: (.+)", script.read_text(encoding="utf-8"))
    assert named is not None
    used = {int(number) for number in re.findall(r"KEYS\[(\d)\]", code)}
    assert used == set(range(1, len(named[1].split()) + 1))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_used(script: Path) -> None:
    callers = "".join(path.read_text(encoding="utf-8") for path in STORE.glob("redis_*.py"))
    assert f'"{script.stem}"' in callers
