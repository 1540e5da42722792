"""What crosses between a spider and its node is the same on both sides, and no nonsense gets through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.jobs import JobState
from toolkit.model.queue import Progress, Wish
from toolkit.runs.control import MAX_CONCURRENCY, MAX_DELAY_S, control_of, read_control
from toolkit.runs.report import (
    MAX_COUNT,
    MAX_STATUSES,
    MAX_WORD_CHARS,
    Exit,
    exit_of,
    read_exit,
    read_report,
    report_of,
)
from toolkit.runs.watchdog import LEASE_S_IF_UNSAID, lease_of

COUNTS = st.none() | st.integers(0, MAX_COUNT)
MEASURES = st.none() | st.floats(0, 1e9)
PROGRESS = st.builds(
    Progress,
    state=st.sampled_from([JobState.RUNNING, JobState.PAUSED]),
    pages=COUNTS,
    items=COUNTS,
    errors=COUNTS,
    retries=COUNTS,
    bytes=COUNTS,
    pages_per_minute=MEASURES,
    memory_mb=MEASURES,
    finish_reason=st.none() | st.text(min_size=1, max_size=MAX_WORD_CHARS),
    statuses=st.none()
    | st.dictionaries(st.integers(100, 999).map(str), st.integers(0, MAX_COUNT), min_size=1, max_size=MAX_STATUSES),
)
WISHES = st.builds(
    Wish,
    is_paused=st.booleans(),
    concurrency=st.none() | st.integers(1, MAX_CONCURRENCY),
    delay_s=st.none() | st.floats(0, MAX_DELAY_S),
)
EXITS = st.builds(Exit, exit_code=st.integers(0, 255), node_was_lost=st.booleans()) | st.builds(
    Exit, signal=st.sampled_from(["SIGINT", "SIGKILL"]), node_was_lost=st.booleans()
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
FIELDS = (
    *("state", "pages", "items", "errors", "retries", "bytes", "pages_per_minute", "memory_mb", "finish_reason"),
    "statuses",
    *("exit_code", "signal", "node_was_lost", "paused", "concurrency", "delay_s"),
)
NONSENSE = st.dictionaries(st.sampled_from(FIELDS), JSON | st.sampled_from(["running", "SIGINT", 10**400, -1]))


@given(PROGRESS)
def test_a_report_says_what_was_reported(progress: Progress) -> None:
    assert read_report(json.loads(json.dumps(report_of(progress)))) == progress


@given(WISHES)
def test_a_spider_reads_what_was_wished(wish: Wish) -> None:
    assert read_control(json.loads(json.dumps(control_of(wish)))) == wish


@given(EXITS)
def test_an_exit_says_how_the_process_ended(ended: Exit) -> None:
    assert read_exit(json.loads(json.dumps(exit_of(ended)))) == ended


@given(NONSENSE)
def test_whatever_is_written_is_read_as_something_sound_or_as_nothing(content: dict[str, Any]) -> None:
    progress, wish, ended = read_report(content), read_control(content), read_exit(content)
    assert progress is None or read_report(report_of(progress)) == progress
    assert read_control(control_of(wish)) == wish
    assert ended is None or read_exit(exit_of(ended)) == ended
    assert 0 < lease_of(content.get("pages")) <= 86_400


@pytest.mark.parametrize(
    "content", [None, {}, {"pages": 3}, {"state": "finished"}, {"state": 1}, {"state": ["running"]}]
)
def test_a_report_without_a_state_says_nothing(content: dict[str, Any] | None) -> None:
    assert read_report(content) is None


def test_of_many_statuses_those_that_came_most_are_told() -> None:
    said = {"state": "running", "statuses": {str(status): status for status in range(200, 300)} | {"odd": 1, "404": -1}}
    progress = read_report(said)
    assert progress is not None
    assert progress.statuses == {str(status): status for status in range(280, 300)}


def test_a_field_of_the_wrong_kind_is_not_known() -> None:
    said = {"state": "paused", "pages": "3", "items": -1, "errors": True, "bytes": 1.5, "memory_mb": float("nan")}
    assert read_report({**said, "retries": 2, "finish_reason": ""}) == Progress(state=JobState.PAUSED, retries=2)


def test_a_long_finish_reason_is_cut() -> None:
    progress = read_report({"state": "running", "finish_reason": "x" * 10_000})
    assert progress is not None
    assert progress.finish_reason == "x" * MAX_WORD_CHARS


@pytest.mark.parametrize("content", [None, {}, {"exit_code": 256}, {"exit_code": "0"}, {"signal": "SIGNONE"}])
def test_an_exit_that_makes_no_sense_is_none(content: dict[str, Any] | None) -> None:
    assert read_exit(content) is None


@pytest.mark.parametrize(
    "content", [None, {}, {"paused": 1}, {"concurrency": 0}, {"concurrency": True}, {"delay_s": -1}]
)
def test_a_wish_that_makes_no_sense_is_none(content: dict[str, Any] | None) -> None:
    assert read_control(content) == Wish()


@pytest.mark.parametrize("value", [None, "15", 0, -1, True, 10**400, float("inf"), float("nan")])
def test_a_lease_that_makes_no_sense_is_a_careful_one(value: object) -> None:
    assert lease_of(value) == LEASE_S_IF_UNSAID


def test_a_lease_is_as_long_as_the_claim_says() -> None:
    assert lease_of(15) == 15.0
