"""From the bytes of a log to entries: what belongs together stays together, however the bytes come."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.cluster.log_lines import MAX_ENTRY_LINES, MAX_LINE_BYTES, EntryFilter, LogEntry, LogReader

NIGHT = datetime(2026, 11, 21, 7, 2, 37, tzinfo=UTC)
LOG = """\
a word before the first line
2026-11-21 12:47:37 [scrapy.core.engine] INFO: Spider opened
2026-11-21 12:47:38 [shop] ERROR: it went wrong
Traceback (most recent call last):
  File "shop.py", line 1, in <module>
ValueError: naïve
2026-11-21 12:47:39 [py.warnings] WARNING: old
"""


def read(text: str, **options: timedelta) -> list[LogEntry]:
    reader = LogReader(**options)
    return reader.feed(text.encode()) + reader.settle(is_over=True)


def test_a_traceback_stays_with_its_line_and_times_are_those_of_utc() -> None:
    before, opened, wrong, old = read(LOG, offset=timedelta(hours=5, minutes=45))
    assert before == LogEntry(("a word before the first line",), "a word before the first line")
    assert (opened.at, opened.level, opened.logger) == (NIGHT, "INFO", "scrapy.core.engine")
    assert opened.text == "Spider opened"
    assert wrong.text == (
        'it went wrong\nTraceback (most recent call last):\n  File "shop.py", line 1, in <module>\nValueError: naïve'
    )
    assert wrong.lines[0] == "2026-11-21 12:47:38 [shop] ERROR: it went wrong"
    assert (old.at, old.level) == (NIGHT + timedelta(seconds=2), "WARNING")


@given(st.lists(st.integers(0, len(LOG.encode())), max_size=8))
def test_however_the_bytes_are_cut_the_entries_are_the_same(cuts: list[int]) -> None:
    content = LOG.encode()
    edges = [0, *sorted(cuts), len(content)]
    reader = LogReader()
    entries = [entry for begin, end in pairwise(edges) for entry in reader.feed(content[begin:end])]
    assert entries + reader.settle(is_over=True) == read(LOG)


def test_what_was_shown_already_goes_on_with_time_and_level_of_its_begin() -> None:
    reader = LogReader()
    reader.feed(b"2026-11-21 07:02:37 [shop] ERROR: it went wrong\nTraceback\n")
    (begin,) = reader.settle()
    reader.feed(b"ValueError: later\n")
    (rest,) = reader.settle()
    assert begin.text == "it went wrong\nTraceback"
    assert (rest.text, rest.at, rest.level) == ("ValueError: later", NIGHT, "ERROR")
    assert reader.settle() == []


def test_a_line_without_its_end_waits_for_it() -> None:
    reader = LogReader()
    assert reader.feed(b"2026-11-21 07:02:37 [shop] INFO: ha") == []
    assert reader.settle() == []
    reader.feed(b"lf\n")
    assert [entry.text for entry in reader.settle()] == ["half"]


def test_no_line_and_no_entry_grows_without_end() -> None:
    reader = LogReader()
    entries = reader.feed(b"x" * 10_000_000)
    entries += reader.feed(b"\n" + b"line\n" * 10_000) + reader.settle()
    assert max(len(entry.text.encode()) for entry in entries) <= MAX_LINE_BYTES + 5 * MAX_ENTRY_LINES
    assert max(len(entry.lines) for entry in entries) <= MAX_ENTRY_LINES
    assert sum(entry.text.count("line") for entry in entries) == 10_000


@pytest.mark.parametrize(
    "line",
    [
        "2026-13-41 07:02:37 [shop] INFO: no such day",
        "2026-11-21 07:02:37 shop INFO: no brackets",
        "2026-11-21 07:02:37 [shop] NOTICE: no such level",
        "07:02:37 [shop] INFO: no day",
        "\x1b[31m2026-11-21 07:02:37 [shop] INFO: a colour first",
    ],
)
def test_a_line_of_another_form_has_neither_time_nor_level(line: str) -> None:
    (entry,) = read(line)
    assert (entry.at, entry.level, entry.logger, entry.text) == (None, None, None, line)


def test_entries_are_chosen_by_level_text_and_age() -> None:
    entries = read(LOG, offset=timedelta(hours=5, minutes=45))

    def chosen(wanted: EntryFilter) -> list[str]:
        return [entry.text.splitlines()[0] for entry in entries if wanted.admits(entry)]

    assert chosen(EntryFilter()) == [entry.text.splitlines()[0] for entry in entries]
    assert chosen(EntryFilter(level="WARNING")) == ["it went wrong", "old"]
    # The text may stand in any line of an entry, and in its head.
    assert chosen(EntryFilter(pattern=re.compile("ValueError"))) == ["it went wrong"]
    assert chosen(EntryFilter(pattern=re.compile("py.warnings"))) == ["old"]
    assert chosen(EntryFilter(since=NIGHT + timedelta(seconds=1)))[1:] == ["it went wrong", "old"]
