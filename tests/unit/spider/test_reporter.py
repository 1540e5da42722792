"""What the reporter works out by itself; the rest of it is tried on real crawls."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from toolkit.node.runner import FEED_FILES, REPORTER, add_reporter, exit_by, write_items_at_once
from toolkit.runs.folder import RUN_VARIABLE
from toolkit.runs.report import Exit
from toolkit.spider.extensions import RATE_OVER_S, FileFeedStorage, Rate, Reporter, memory_mb, statuses_in


def test_a_rate_needs_some_time_to_have_passed() -> None:
    rate = Rate()
    assert rate.after(0, 100.0) is None
    assert rate.after(10, 110.0) == 60.0


def test_a_rate_is_that_of_the_last_minute() -> None:
    rate = Rate()
    for second in range(600):
        rate.after(second * 10, float(second))
    for second in range(600, 660):
        last = rate.after(5990, float(second))
    assert last == 0.0


@given(st.lists(st.tuples(st.integers(0, 100), st.floats(0.001, 100)), min_size=2, max_size=100))
def test_a_rate_is_never_more_than_the_fastest_look(steps: list[tuple[int, float]]) -> None:
    rate, pages, now = Rate(), 0, 0.0
    fastest = max(more / gap_s for more, gap_s in steps[1:]) * 60
    for more, gap_s in steps:
        pages, now = pages + more, now + gap_s
        said = rate.after(pages, now)
    assert said is not None
    assert 0 <= said <= fastest + 0.1
    assert len(rate._seen) <= len(steps)


def test_a_rate_forgets_what_is_long_gone() -> None:
    rate = Rate()
    for look in range(10_000):
        rate.after(look, look * 1.5)
    assert len(rate._seen) <= RATE_OVER_S / 1.5 + 2


def test_the_statuses_are_those_of_scrapy_s_own_counts() -> None:
    stats = {"downloader/response_status_count/200": 7, "downloader/response_count": 9, "item_scraped_count": 3}
    assert statuses_in(stats) == {"200": 7}
    assert statuses_in({}) is None


def test_the_memory_of_this_process_is_about_what_it_is() -> None:
    found = memory_mb()
    assert found is not None
    assert 10 < found < 4000


def test_the_reporter_leaves_a_crawl_alone_that_no_node_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    crawler = get_crawler(Spider, {"EXTENSIONS": {REPORTER: 0}})
    assert crawler.get_extension(Reporter) is None


def test_a_project_that_does_not_want_the_reporter_is_rid_of_it() -> None:
    settings = Settings({"EXTENSIONS": {REPORTER: None}})
    add_reporter(settings)
    assert REPORTER not in settings.get_component_priority_dict_with_base("EXTENSIONS")


def test_the_reporter_is_added_to_what_scrapy_has_of_itself() -> None:
    settings = Settings({"EXTENSIONS": {"a.project.Extension": 1}})
    before = set(Settings()["EXTENSIONS_BASE"])
    add_reporter(settings)
    assert set(settings["EXTENSIONS_BASE"]) == before | {REPORTER}
    assert settings.getpriority("EXTENSIONS_BASE") == 0
    assert dict(settings["EXTENSIONS"]) == {"a.project.Extension": 1}


def test_scrapys_own_feed_files_are_replaced_and_nothing_else_of_the_feeds() -> None:
    settings = Settings({"FEED_STORAGES": {"file": "a.project.Storage"}})
    before = dict(Settings()["FEED_STORAGES_BASE"])
    write_items_at_once(settings)
    assert dict(settings["FEED_STORAGES_BASE"]) == {**before, "": FEED_FILES, "file": FEED_FILES}
    assert settings.getpriority("FEED_STORAGES_BASE") == 0
    assert settings.getwithbase("FEED_STORAGES")["file"] == "a.project.Storage"


def test_a_feed_file_has_at_once_what_is_written_and_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "items.jl"
    path.write_text("before\n")
    file = FileFeedStorage(str(path)).open(Spider("any"))
    file.write(b"now\n")
    assert path.read_text() == "before\nnow\n"
    file.close()


def test_a_full_disk_fails_a_feed_no_sooner_than_without_us() -> None:
    file = FileFeedStorage("/dev/full").open(Spider("any"))
    for _ in range(3):
        file.write(b"an item\n")
    with pytest.raises(OSError, match="No space left"):
        file.close()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        *((code, SystemExit(value)) for code, value in [(0, None), (0, 0), (7, 7), (255, -1), (0, 256), (1, "no")]),
        *((code, SystemExit(value)) for code, value in [(1, True), (0, False), (1, 1.5)]),
        (1, ValueError()),
        (0, None),
    ],
    ids=repr,
)
def test_an_exit_is_what_python_makes_of_it(code: int, error: BaseException | None, tmp_path: Path) -> None:
    assert exit_by(error) == Exit(exit_code=code)
    program = tmp_path / "program.py"
    program.write_text(f"raise {error!r}\n" if error else "")
    ended = subprocess.run([sys.executable, str(program)], stderr=subprocess.DEVNULL, check=False)
    assert ended.returncode == code


def test_an_interrupt_is_a_signal() -> None:
    assert exit_by(KeyboardInterrupt(), node_was_lost=True) == Exit(signal="SIGINT", node_was_lost=True)


def test_a_spider_process_loads_nothing_for_us_but_scrapy_and_python() -> None:
    code = "import sys, scrapy.cmdline, scrapy.extensions.throttle\nbefore = set(sys.modules)\n"
    code += "import toolkit.spider.extensions\nprint(sorted({n.split('.')[0] for n in set(sys.modules) - before}))\n"
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert set(ast.literal_eval(said.stdout)) <= {"toolkit", *sys.stdlib_module_names}
