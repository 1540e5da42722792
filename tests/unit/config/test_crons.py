"""Crons in a file: read with their places, and every mistake told at once."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from toolkit.config.cron_words import after_of, moment_of
from toolkit.config.inventory.crons import WrittenCron, load_crons
from toolkit.config.paths import sample_file
from toolkit.model.crons import After, Cron, Late, Outcome, Overlap
from toolkit.model.errors import InventoryError, UsageError
from toolkit.model.names import CrawlId, ProjectName, SpiderName

FULL = """
full:
  spider: books
  project: shop
  at: "@daily"
  timezone: Europe/Berlin
  jitter: 1m30s
  start: 2026-12-01
  end: 2026-12-31
  args: {a: 1, b: yes, c: "{date}", d: {env: TOKEN}}
  settings: {LOG_LEVEL: INFO}
  on: eu:!node-3
  priority: -2.5
  attempts: 3
  timeout: 2h
  workers: 4
  crawl: autumn
  overlap: replace
  late: all
  paused: true
  comment: for the report
least: {spider: books, after: prices}
"""


def read(folder: Path, text: str) -> tuple[WrittenCron, ...] | None:
    path = folder / "crons.yaml"
    path.write_text(text, encoding="utf-8")
    return load_crons(path, environ={"TOKEN": "t"})


def test_every_key_of_a_cron_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, FULL)
    assert found is not None
    full, least = found
    assert full.cron == Cron(
        "full",
        SpiderName("books"),
        at="@daily",
        project=ProjectName("shop"),
        timezone="Europe/Berlin",
        jitter_s=90.0,
        starts_at=datetime(2026, 11, 30, 23, tzinfo=UTC),
        ends_at=datetime(2026, 12, 31, 22, 59, 59, tzinfo=UTC),
        args={"a": "1", "b": "yes", "c": "{date}", "d": "t"},
        settings={"LOG_LEVEL": "INFO"},
        priority=-2.5,
        attempts=3,
        timeout_s=7200.0,
        workers=4,
        crawl=CrawlId("autumn"),
        overlap=Overlap.REPLACE,
        late=Late.ALL,
        is_paused=True,
        comment="for the report",
    )
    assert (full.on, full.says_paused, full.place.line) == ("eu:!node-3", True, 2)
    assert least.cron == Cron("least", SpiderName("books"), after=After(SpiderName("prices")))
    assert (least.on, least.says_paused) == (None, False)


def test_crons_stand_in_an_inventory_or_in_a_file_that_it_names(tmp_path: Path) -> None:
    one = "{x: {spider: s, at: '@daily'}}"
    for text in (f"hosts: {{a: }}\ncrons: {one}", f"crons: {one}", one, "hosts: {a: }\ncrons: others.yaml"):
        (tmp_path / "others.yaml").write_text(one, encoding="utf-8")
        found = read(tmp_path, text)
        assert found is not None
        assert [each.cron.name for each in found] == ["x"]
    assert read(tmp_path, "hosts: {a: }") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is nothing in it"),
        ("[]", "written as `name: value` lines"),
        ("x: {at: '@daily'}", "1:1: cron x names no spider"),
        ("x: {spider: s, att: y}", "1:16: unknown key 'att'"),
        ("'a b': {spider: s}", "cannot be a name"),
        ("x: {spider: s, overlap: never}", "overlap is allow or skip or queue or replace"),
        ("x: {spider: s, jitter: 5}", "jitter is a span of time"),
        ("x: {spider: s, workers: 0}", "workers is a whole number from 1 to 1000"),
        ("x: {spider: s, start: soon}", "start: 'soon' is no day and no time"),
        ("x: {spider: s, after: a b c}", "after: 'a b c' is nothing to follow"),
        ("x: {spider: s, args: [a]}", "args is written as"),
        ("x: {spider: s, args: {a: }}", "args.a"),
        ("x: {spider: s, args: {a: {env: NOT_THERE}}}", "NOT_THERE"),
        ("x: 3", "cron x is written as"),
    ],
)
def test_every_mistake_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InventoryError) as caught:
        read(tmp_path, text)
    assert told in caught.value.message


def test_what_is_followed_and_when_it_begins_are_words() -> None:
    assert after_of("prices any") == After(SpiderName("prices"), Outcome.ANY)
    assert moment_of("2026-12-01T21:30", "UTC") == datetime(2026, 12, 1, 21, 30, tzinfo=UTC)
    assert moment_of("2026-12-01T21:30:00+01:00", "UTC") == datetime(2026, 12, 1, 20, 30, tzinfo=UTC)
    for text, zone in (("1066-10-14", "UTC"), ("9999-12-31", "UTC"), ("x", "UTC"), ("2026-12-01", "Mars")):
        with pytest.raises(UsageError):
            moment_of(text, zone, is_end=True)


def test_the_crons_of_the_sample_can_be_used_as_they_are(tmp_path: Path) -> None:
    sample = sample_file("inventory.yaml").read_text(encoding="utf-8")
    section = re.search(r"^# crons: .*\n(?:#  .*\n)+", sample, re.MULTILINE)
    assert section is not None
    found = read(tmp_path, re.sub(r"^# ?", "", section[0], flags=re.MULTILINE))
    assert found is not None
    assert [each.cron.name for each in found] == ["nightly", "prices"]
