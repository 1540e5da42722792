"""The house stands as it was drawn: layers, sizes, headers, and what each command loads."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLKIT = ROOT / "toolkit"
MODULES = sorted(path.relative_to(ROOT) for path in TOOLKIT.rglob("*.py"))
SCRIPTS = sorted(TOOLKIT.rglob("*.lua"))
MAX_LINES = 600

# `reference` writes the documentation, and no command loads it.
COMMANDS = sorted(
    f"toolkit.cli.{path.stem}" for path in (TOOLKIT / "cli").glob("*.py") if path.stem not in {"__init__", "reference"}
)
NEVER = {"scrapy", "scrapyd", "scrapyd_client", "twisted", "fabric", "lxml", "setuptools", "pkg_resources"}
# What the front door and every command's declaration must do without, for help and completion to come at once.
LATE = {
    "redis",
    "requests",
    "urllib3",
    "yaml",
    "psutil",
    "sqlite3",
    "ssl",
    "asyncio",
    "rich.live",
    "scrapyd_api",
    "build",
}
# What runs in Scrapyd or in a spider must not pay for.
OPERATORS = {
    "typer",
    "click",
    "rich",
    "yaml",
    "urllib3",
    "requests",
    "scrapyd_api",
    "scrapyd_client",
    "build",
    "psutil",
}
LOADS = """
import json, sys
before = set(sys.modules)
{act}
sys.stderr.write("LOADED " + json.dumps(sorted(set(sys.modules) - before)))
"""
RUNS = "from toolkit.cli.main import main; code = main({words!r}); assert code == {code}, code"


def loaded_by(act: str, folder: Path = ROOT) -> set[str]:
    """Return the modules that a fresh Python has loaded after doing this."""
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    command = [sys.executable, "-P", "-c", LOADS.format(act=act)]
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    found: list[str] = json.loads(ended.stderr.rpartition("LOADED ")[2])
    return set(found)


def unwanted(loaded: set[str], names: set[str]) -> set[str]:
    return {name for name in names if any(module == name or module.startswith(f"{name}.") for module in loaded)}


def test_no_floor_of_the_house_rests_on_a_higher_one() -> None:
    # In a process of its own: what other tests have imported shall not confuse it.
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("module", COMMANDS)
def test_no_module_of_the_command_line_loads_scrapy_or_what_works_for_it(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert unwanted(loaded, NEVER | LATE) == set()


def test_the_help_loads_nothing_that_a_command_needs_for_its_work() -> None:
    loaded = loaded_by(RUNS.format(words=["--help"], code=0))
    assert unwanted(loaded, NEVER | LATE) == set()
    assert not [name for name in loaded if name.startswith(("toolkit.cluster", "toolkit.store", "toolkit.rollout"))]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["status"], 5),
        (["jobs"], 5),
        (["releases"], 0),
        (["inventory", "list"], 0),
        (["cancel", "--all", "--yes"], 0),
        (["schedule", "books"], 7),
    ],
)
def test_a_command_loads_neither_scrapy_nor_redis_where_there_is_none(
    tmp_path: Path, words: list[str], code: int
) -> None:
    (tmp_path / "inventory.yaml").write_text("hosts: {node-1: {address: 127.0.0.1, port: 1, timeout_s: 1}}\n")
    loaded = loaded_by(RUNS.format(words=words, code=code), tmp_path)
    assert unwanted(loaded, NEVER | {"redis", "asyncio", "rich.live", "build"}) == set()


def test_a_look_at_the_inventory_loads_no_http() -> None:
    loaded = loaded_by(RUNS.format(words=["inventory", "list"], code=0))
    assert unwanted(loaded, {"urllib3", "requests", "redis", "sqlite3"}) == set()


def test_a_node_loads_nothing_of_the_operator_s() -> None:
    loaded = loaded_by(f"import {_all_of('node', 'duties')}, toolkit.store.redis_store")
    assert unwanted(loaded, OPERATORS) == set()
    assert not [name for name in loaded if name.startswith(("toolkit.cli", "toolkit.cluster", "toolkit.config.inv"))]


def test_a_job_s_reporter_loads_nothing_of_the_operator_s_and_no_redis() -> None:
    loaded = loaded_by(f"import toolkit.node.runner, toolkit.spider.extensions, {_all_of('runs')}")
    assert unwanted(loaded, OPERATORS | {"redis", "scrapyd.app", "scrapy_redis"}) == set()
    assert not [name for name in loaded if name.startswith(("toolkit.store", "toolkit.config"))]


def test_a_worker_of_a_crawl_loads_nothing_of_the_operator_s() -> None:
    loaded = loaded_by(f"import toolkit.node.runner, {_all_of('spider')}")
    assert unwanted(loaded, OPERATORS | {"scrapyd.app"}) == set()
    assert not [name for name in loaded if name.startswith(("toolkit.cli", "toolkit.cluster", "toolkit.config.inv"))]


def test_the_scheduler_adds_only_redis_and_the_wire_format_to_a_spider_s_process() -> None:
    scrapy = (
        "import scrapy.crawler, scrapy.core.engine; from scrapy.settings import Settings; "
        "from scrapy.utils.misc import load_object; settings = Settings(); "
        "components = ('EXTENSIONS_BASE', 'DOWNLOADER_MIDDLEWARES_BASE', 'SPIDER_MIDDLEWARES_BASE'); "
        "[load_object(path) for name in components for path in settings[name]]; "
    )
    added = loaded_by(f"{scrapy} import toolkit.spider.scheduler, toolkit.store.redis_frontier") - loaded_by(scrapy)
    packages = {name.partition(".")[0] for name in added} - sys.stdlib_module_names
    # redis looks for OpenTelemetry, which comes with the extra `web`, and before Python 3.11.3 it needs async_timeout.
    its_own = {"opentelemetry"} | ({"async_timeout"} if sys.version_info < (3, 11, 3) else set())
    assert packages - {"toolkit", "scrapy"} - its_own == {"redis", "msgpack"}


def _all_of(*rooms: str) -> str:
    """Return the names of all modules of these rooms, for one import statement."""
    paths = [path.with_suffix("") for path in MODULES if path.parts[1] in rooms]
    return ", ".join(".".join(path.parts).removesuffix(".__init__") for path in paths)


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_module_says_what_it_is_and_is_not_too_long(path: Path) -> None:
    text = (ROOT / path).read_text()
    assert len(text.splitlines()) <= MAX_LINES
    assert ast.get_docstring(ast.parse(text)), "no sentence at its top"


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_what_is_public_says_what_it_does(path: Path) -> None:
    assert _silent(ast.parse((ROOT / path).read_text())) == []


def _silent(node: ast.Module | ast.ClassDef) -> list[str]:
    found = []
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not each.name.startswith("_"):
            if not ast.get_docstring(each):
                found.append(each.name)
            if isinstance(each, ast.ClassDef):
                found += _silent(each)
    return found


def test_no_module_is_named_for_nothing_in_particular() -> None:
    vague = {"utils", "helpers", "common", "misc", "manager", "handler", "data", "info"}
    assert not [path for path in MODULES if set(path.with_suffix("").parts) & vague]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_lua_script_promises_names_its_keys_and_says_what_it_returns(path: Path) -> None:
    head = [line for line in path.read_text().splitlines() if line.startswith("--")]
    assert re.match(r"-- [A-Z].*\.$", head[0])
    for word in ("KEYS: ", "ARGV: ", "RETURNS: "):
        assert any(line.startswith(f"-- {word}") or f"  {word}" in line for line in head[1:]), word


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_lua_script_touches_only_keys_that_were_passed_in(path: Path) -> None:
    code = "\n".join(line.partition("--")[0] for line in path.read_text().splitlines())
    # What follows INFO is no key.
    named = re.findall(r'redis\.call\(\s*"(?!INFO")[A-Za-z]+"\s*,\s*"', code)
    assert named == [], "a key written out"


@cache
def _sources() -> dict[Path, str]:
    return {path: (ROOT / path).read_text() for path in MODULES}


def test_nobody_prints_but_the_printer() -> None:
    callers = {
        str(path)
        for path, text in _sources().items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert callers == set()


# Reads scrapy-redis' pickled requests when a crawl is adopted: with no name resolved, or as the operator said to.
UNPICKLES = "toolkit/transfer/pickled.py"


def test_nobody_evaluates_or_unpickles_what_came_from_outside() -> None:
    shady = re.compile(
        r"^\s*(?:import|from) (?:pickle|marshal|shelve)\b|\b(?:eval|exec)\(|yaml\.(?:load|unsafe_load)\("
    )
    found = [
        f"{path}:{number}: {line.strip()}"
        for path, text in _sources().items()
        for number, line in enumerate(text.splitlines(), 1)
        if shady.search(line)
    ]
    assert [each for each in found if not each.startswith(UNPICKLES)] == []
    assert [each.rpartition(": ")[2] for each in found if each.startswith(UNPICKLES)] == ["import pickle"]
