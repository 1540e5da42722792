"""What is read out of a job's log, and what is not."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.cluster.joblog import LogFacts, read_log, to_utc

OPENED = "2026-11-21 07:25:47 [scrapy.core.engine] INFO: Spider opened\n"
CRAWLED = (
    "2026-11-21 07:26:47 [scrapy.extensions.logstats] INFO: "
    "Crawled 120 pages (at 120 pages/min), scraped 90 items (at 90 items/min)\n"
)
# Scrapy 2.19.
DUMP = """\
2026-11-21 07:27:02 [scrapy.statscollectors] INFO: Dumping Scrapy stats:
{'downloader/response_status_count/200': 140,
 'elapsed_time_seconds': 75.004008021999652556,
 'finish_reason': 'finished',
 'finish_time': datetime.datetime(2026, 11, 21, 7, 27, 2, 244523, tzinfo=datetime.timezone.utc),
 'item_scraped_count': 130,
 'items_per_minute': None,
 'log_count/DEBUG': 2,
 'log_count/ERROR': 3,
 'log_count/INFO': 12,
 'response_received_count': 140,
 'start_time': datetime.datetime(2026, 11, 21, 7, 25, 47, 240511, tzinfo=datetime.timezone.utc)}
"""
CLOSED = "2026-11-21 07:27:02 [scrapy.core.engine] INFO: Spider closed (finished)\n"
# Scrapy 2.0: times without a zone, which are UTC.
OLD_DUMP = """\
2020-03-04 10:00:05 [scrapy.statscollectors] INFO: Dumping Scrapy stats:
{'downloader/request_bytes': 221,
 'finish_reason': 'closespider_timeout',
 'finish_time': datetime.datetime(2020, 3, 4, 9, 0, 5, 412345),
 'item_scraped_count': 7,
 'response_received_count': 8,
 'start_time': datetime.datetime(2020, 3, 4, 9, 0, 0)}
2020-03-04 10:00:05 [scrapy.core.engine] INFO: Spider closed (closespider_timeout)
"""
WHOLE = OPENED + CRAWLED + DUMP + CLOSED


def test_a_whole_log_tells_everything() -> None:
    assert read_log(WHOLE, written_at="Sat, 21 Nov 2026 07:27:02 GMT") == LogFacts(
        finish_reason="finished",
        pages=140,
        items=130,
        errors=3,
        started_at=datetime(2026, 11, 21, 7, 25, 47, tzinfo=UTC),
        ended_at=datetime(2026, 11, 21, 7, 27, 2, tzinfo=UTC),
        utc_offset=timedelta(0),
    )


def test_a_log_of_an_older_scrapy_tells_the_same() -> None:
    facts = read_log(OLD_DUMP, written_at="Wed, 04 Mar 2020 09:00:05 GMT")
    assert (facts.finish_reason, facts.pages, facts.items, facts.errors) == ("closespider_timeout", 8, 7, 0)
    assert facts.started_at == datetime(2020, 3, 4, 9, 0, 0, tzinfo=UTC)
    assert facts.utc_offset == timedelta(hours=1)


def test_a_running_job_shows_its_last_progress() -> None:
    facts = read_log(
        OPENED + CRAWLED + CRAWLED.replace("120 pages (", "245 pages (").replace("90 items (", "200 items (")
    )
    assert (facts.pages, facts.items, facts.errors, facts.finish_reason) == (245, 200, None, None)
    assert facts.breaks_off


def test_an_empty_log_tells_nothing() -> None:
    assert read_log("") == LogFacts()


def test_a_log_of_warnings_and_errors_alone_says_nothing_of_the_end() -> None:
    text = "2026-11-21 07:25:47 [shop] ERROR: no price\nTraceback (most recent call last):\n  ValueError: x\n"
    assert read_log(text) == LogFacts()


def test_an_end_full_of_debug_lines_breaks_off() -> None:
    line = "2026-11-21 07:25:47 [scrapy.core.engine] DEBUG: Crawled (200) <GET http://a/> (referer: None)\n"
    facts = read_log(line * 200)
    assert facts.breaks_off
    assert facts.finish_reason is None


def test_without_the_dump_of_stats_the_last_progress_stands() -> None:
    facts = read_log(OPENED + CRAWLED + CLOSED)
    assert (facts.finish_reason, facts.pages, facts.items, facts.errors) == ("finished", 120, 90, None)


def test_a_dump_without_counts_means_none() -> None:
    facts = read_log("2026-11-21 07:27:02 [scrapy.statscollectors] INFO: Dumping Scrapy stats:\n{'a': 1}\n" + CLOSED)
    assert (facts.pages, facts.items, facts.errors) == (0, 0, 0)


@pytest.mark.parametrize("reason", ["shutdown", "my own (odd) reason", "closespider_errorcount", "fin]ished"])
def test_any_reason_is_read(reason: str) -> None:
    assert read_log(CLOSED.replace("finished", reason)).finish_reason == reason


def test_lines_may_end_as_windows_ends_them() -> None:
    facts = read_log(WHOLE.replace("\n", "\r\n"))
    assert (facts.finish_reason, facts.pages) == ("finished", 140)


@pytest.mark.parametrize(
    "quoted",
    [
        f"2026-11-21 07:25:48 [shop] INFO: the other log said: {CLOSED}",
        "2026-11-21 07:25:48 [shop] INFO: [scrapy.core.engine] INFO: Spider closed (finished)\n",
        "2026-11-21 07:25:48 [shop] INFO: Spider closed (finished)\n",
        "2026-11-21 07:25:48 [scrapy.core.engine] WARNING: Spider closed (finished)\n",
        "2026-11-21 07:25:48 [scrapy.core.engine.mine] INFO: Spider closed (finished)\n",
        "2026-11-21 07:25:48 [scrapy.core.engine] INFO: Spider closed (finished) not really\n",
        "2026-11-21 07:25:48 [shop] INFO: Crawled 9 pages (at 9 pages/min), scraped 9 items (at 9 items/min)\n",
        "{'response_received_count': 9,\n 'item_scraped_count': 9,\n 'log_count/ERROR': 9}\n",
    ],
)
def test_what_looks_like_scrapys_lines_is_not_taken_for_them(quoted: str) -> None:
    facts = read_log(OPENED + quoted)
    assert (facts.finish_reason, facts.pages, facts.items, facts.errors) == (None, None, None, None)
    assert read_log(quoted + WHOLE) == read_log(WHOLE)


def test_words_of_a_users_own_logger_do_not_show_scrapy_at_work() -> None:
    text = "2026-11-21 07:25:48 [shop] WARNING: it said ] INFO: and [scrapy.core.engine] INFO: too\n"
    assert not read_log(text).breaks_off


def test_a_project_that_silences_scrapy_before_it_opens_the_spider_is_not_said_to_break_off() -> None:
    begin = "2026-11-21 07:28:59 [scrapy.utils.log] INFO: Scrapy 2.19.0 started (bot: shop)\n"
    assert not read_log(begin + "2026-11-21 07:28:59 [shop] INFO: mine\n").breaks_off


@pytest.mark.parametrize(
    "last_words",
    [
        "2026-11-21 07:28:58 [asyncio] ERROR: Task exception was never retrieved\nfuture: <Task>\nValueError: bad\n",
        "2020-03-04 10:00:05 [twisted] CRITICAL: \nTraceback (most recent call last):\nValueError: bad\n",
    ],
)
def test_a_spider_that_dies_in_its_init_breaks_off_and_one_that_went_on_does_not(last_words: str) -> None:
    assert read_log(last_words).breaks_off
    assert not read_log(last_words + "2026-11-21 07:28:59 [shop] ERROR: something else\n").breaks_off
    assert not read_log(last_words + CLOSED).breaks_off


@pytest.mark.parametrize("at", range(0, len(WHOLE), 7))
def test_a_log_cut_anywhere_is_read_without_inventing_anything(at: int) -> None:
    for text in (WHOLE[:at], WHOLE[at:]):
        facts = read_log(text)
        assert facts.finish_reason in {None, "finished"}
        assert facts.pages in {None, 0, 120, 140}
        assert facts.items in {None, 0, 90, 130}
        assert facts.errors in {None, 0, 3}


def test_a_half_written_end_is_no_end() -> None:
    facts = read_log(OPENED + CRAWLED + DUMP + CLOSED[:-4])
    assert facts.finish_reason is None
    assert (facts.pages, facts.items) == (120, 90)


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    read_log(text, written_at=text)


@given(st.text(alphabet="0123456789-: ,[]()'{}datetime.start_\n", max_size=200))
def test_nothing_that_looks_like_a_number_or_time_is_an_error(text: str) -> None:
    read_log(DUMP[:73] + text, written_at="Sat, 21 Nov 2026 07:27:02 GMT")


@pytest.mark.parametrize(
    "line",
    [
        " 'start_time': datetime.datetime(2026, 99, 99, 7, 0, 0)}\n",
        " 'start_time': datetime.datetime(0, 0, 0)}\n",
        f" 'response_received_count': {'9' * 5000},\n",
        "9999-99-99 99:99:99 [shop] INFO: x\n",
    ],
)
def test_numbers_that_no_clock_and_no_counter_shows_are_left_out(line: str) -> None:
    facts = read_log(DUMP[: DUMP.index("{")] + line, written_at="Sat, 21 Nov 2026 07:27:02 GMT")
    assert (facts.started_at, facts.pages) == (None, None)


@pytest.mark.parametrize(
    ("written_at", "hours"),
    [
        ("Sat, 21 Nov 2026 07:27:03 GMT", 0.0),
        ("Sat, 21 Nov 2026 01:57:02 GMT", 5.5),
        ("Sat, 21 Nov 2026 12:27:05 GMT", -5.0),
        ("Sat, 21 Nov 2026 01:42:02 GMT", 5.75),
        ("Fri, 20 Nov 2026 17:27:02 GMT", 14.0),
    ],
)
def test_the_nodes_time_zone_shows_in_the_last_line(written_at: str, hours: float) -> None:
    offset = read_log(WHOLE, written_at=written_at).utc_offset
    assert offset == timedelta(hours=hours)
    assert to_utc("2026-11-21 07:27:02.123456", offset) == datetime(2026, 11, 21, 7, 27, 2, tzinfo=UTC) - timedelta(
        hours=hours
    )


@pytest.mark.parametrize("written_at", [None, "yesterday", "", "Sat, 21 Nov 2016 07:27:02 GMT"])
def test_a_zone_that_cannot_be_is_unknown(written_at: str | None) -> None:
    assert read_log(WHOLE, written_at=written_at).utc_offset is None
    assert to_utc("2026-11-21 07:27:02", None) is None


def test_a_date_without_a_zone_is_taken_as_utc() -> None:
    assert read_log(WHOLE, written_at="Sat, 21 Nov 2026 07:27:02 -0000").utc_offset == timedelta(0)


SPIDER = """
import scrapy


class Shop(scrapy.Spider):
    name = "shop"

    async def start(self):
        self.logger.error("no price")
        yield {"a": 1}
        yield {"a": 2}
"""


@pytest.mark.parametrize("level", ["DEBUG", "INFO", "WARNING"])
def test_the_scrapy_installed_here_writes_logs_that_are_read(tmp_path: Path, level: str) -> None:
    (tmp_path / "shop.py").write_text(SPIDER)
    command = [sys.executable, "-m", "scrapy", "runspider", "shop.py", "--logfile", "shop.log", "-L", level]
    command += ["-s", "TELNETCONSOLE_ENABLED=False", "-s", "REMOTE_CONTROL_ENABLED=False"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    facts = read_log((tmp_path / "shop.log").read_text())
    if level == "WARNING":
        assert facts == LogFacts()
    else:
        assert not facts.breaks_off
        assert (facts.finish_reason, facts.pages, facts.items, facts.errors) == ("finished", 0, 2, 1)
        assert facts.started_at is not None
        assert facts.ended_at is not None
        assert abs(datetime.now(UTC) - facts.ended_at) < timedelta(minutes=2)
