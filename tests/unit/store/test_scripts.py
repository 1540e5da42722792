"""Every Lua script says what it promises, is passed its keys, and is shipped with the package."""

from __future__ import annotations

import re
from importlib import resources
from itertools import takewhile
from pathlib import Path

import pytest

from toolkit.model.names import CrawlId
from toolkit.store.crawl_keys import FrontierKeys, default_keys
from toolkit.store.keys import Keys

STORE = Path(str(resources.files("toolkit.store")))
SCRIPTS = sorted((STORE / "lua").glob("*.lua"))
QUEUE = Keys("main").queue
CRAWL = FrontierKeys(default_keys(CrawlId("books"))).all
ALERTS = Keys("main").alerting
BEFORE = {"the queue's": QUEUE, "the crawl's": CRAWL, "the alerts'": ALERTS}
SHARED: dict[str, tuple[str, ...]] = {
    "queue_rules": QUEUE,
    "crawl_rules": CRAWL,
    "crawl_seen": (),
    "sink_rules": ALERTS,
}
"""The scripts that stand in front of others, and the keys that they name."""


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
    assert words[:3] == ["KEYS:", "ARGV:", "RETURNS:"]
    assert words[3:] in ([], ["INCLUDES:"], ["FLAGS:"], ["INCLUDES:", "FLAGS:"])


@pytest.mark.parametrize(
    "script", [script for script in SCRIPTS if script.stem not in SHARED], ids=lambda path: path.stem
)
def test_a_script_builds_no_key_and_trusts_no_clock_but_redis_own(script: Path) -> None:
    code = "\n".join(line for line in script.read_text(encoding="utf-8").splitlines() if not line.startswith("--"))
    assert "crawlctl:" not in code
    assert "os.time" not in code
    named = re.search(r"-- KEYS: (.+)", script.read_text(encoding="utf-8"))
    assert named is not None
    used = {int(number) for number in re.findall(r"KEYS\[(\d+)\]", code)}
    first, own = 1, named[1]
    for whose, keys in BEFORE.items():
        if own.startswith(whose):
            first, own = len(keys) + 1, own.removeprefix(whose).removeprefix(", then")
    assert used == set(range(first, first + len(own.split())))


@pytest.mark.parametrize("script", sorted(SHARED))
def test_a_shared_script_names_all_keys_that_it_is_given(script: str) -> None:
    code = (STORE / "lua" / f"{script}.lua").read_text(encoding="utf-8")
    used = {int(number) for number in re.findall(r"KEYS\[(\d+)\]", code)}
    assert used == (set(range(1, len(SHARED[script]) + 1)))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_used(script: Path) -> None:
    callers = "".join(path.read_text(encoding="utf-8") for path in [*STORE.glob("redis_*.py"), STORE / "job_search.py"])
    includers = "".join(path.read_text(encoding="utf-8") for path in SCRIPTS)
    assert f'"{script.stem}"' in callers or f"-- INCLUDES: {script.stem}\n" in includers
