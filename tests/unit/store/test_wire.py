"""Whatever is written comes back the same, and whatever cannot be read is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.errors import StoreUnreadableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.releases import NodeResult, Release, Rollout
from toolkit.store import wire, wire_jobs
from toolkit.store.envelope import WIRE_VERSION

BEGIN = datetime(2026, 11, 20, 10, 15, tzinfo=UTC)
TEXT = st.text(st.characters(), max_size=20)
MAYBE_TEXT = st.none() | TEXT
COUNT = st.none() | st.integers(0, 2**63)
MOMENT = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis wants naive bounds
MAYBE_MOMENT = st.none() | MOMENT
TEXTS_BY_NAME = st.none() | st.dictionaries(TEXT, TEXT, max_size=3)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)

JOBS = st.builds(
    Job,
    id=TEXT.map(JobId),
    project=TEXT.map(ProjectName),
    spider=TEXT.map(SpiderName),
    state=st.sampled_from(JobState),
    version=MAYBE_TEXT.map(lambda text: None if text is None else VersionName(text)),
    node=MAYBE_TEXT.map(lambda text: None if text is None else NodeName(text)),
    args=TEXTS_BY_NAME,
    settings=TEXTS_BY_NAME,
    priority=st.none() | NUMBER,
    scheduled_at=MAYBE_MOMENT,
    started_at=MAYBE_MOMENT,
    ended_at=MAYBE_MOMENT,
    cancel_requested_at=MAYBE_MOMENT,
    finish_reason=MAYBE_TEXT,
    pages=COUNT,
    items=COUNT,
    errors=COUNT,
)
RELEASES = st.builds(
    Release,
    project=TEXT.map(ProjectName),
    version=TEXT.map(VersionName),
    digest=TEXT,
    spiders=st.lists(TEXT.map(SpiderName), max_size=3).map(tuple),
    size_bytes=st.integers(0),
    revision=MAYBE_TEXT,
    created_at=MOMENT,
    created_by=TEXT,
)
RESULTS = st.builds(
    NodeResult,
    node=TEXT.map(NodeName),
    ok=st.booleans(),
    step=TEXT,
    seconds=NUMBER,
    spiders=COUNT,
    error=MAYBE_TEXT,
)
ROLLOUTS = st.builds(
    Rollout,
    project=TEXT.map(ProjectName),
    version=TEXT.map(VersionName),
    kind=TEXT,
    at=MOMENT,
    by=TEXT,
    activated=st.booleans(),
    results=st.lists(RESULTS, max_size=3).map(tuple),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
READERS = [wire_jobs.read_job, wire.read_release, wire.read_rollout, wire.read_nodes]

A_JOB = Job(id=JobId("a1"), project=ProjectName("shop"), spider=SpiderName("books"), state=JobState.PENDING)


@given(JOBS)
def test_every_job_comes_back_the_same(job: Job) -> None:
    assert wire_jobs.read_job(wire_jobs.write_job(job)) == job


@given(RELEASES)
def test_every_release_comes_back_the_same(release: Release) -> None:
    assert wire.read_release(wire.write_release(release)) == release


@given(ROLLOUTS)
def test_every_rollout_comes_back_the_same(rollout: Rollout) -> None:
    assert wire.read_rollout(wire.write_rollout(rollout)) == rollout


@given(st.frozensets(TEXT.map(NodeName), max_size=4))
def test_every_set_of_nodes_comes_back_the_same(nodes: frozenset[NodeName]) -> None:
    assert wire.read_nodes(wire.write_nodes(nodes)) == nodes


@given(TEXT, TEXT)
def test_every_claim_comes_back_in_its_lock(who: str, why: str) -> None:
    lock = wire.read_lock(
        ProjectName("shop"), token=7, claim=wire.write_claim(who=who, why=why), since_ms=1500, expires_ms=2500
    )
    assert (lock.who, lock.why, lock.token) == (who, why, 7)
    assert lock.expires_at - lock.since == timedelta(seconds=1)


@given(JOBS)
def test_what_is_written_is_ascii_so_that_any_store_takes_it(job: Job) -> None:
    assert wire_jobs.write_job(job).isascii()


@given(st.sampled_from(READERS), JSON)
def test_json_that_is_something_else_is_refused_without_a_traceback(
    read: Callable[[str | bytes], object], content: Any
) -> None:
    with pytest.raises(StoreUnreadableError):
        read(json.dumps(content))


@given(st.sampled_from(sorted(json.loads(wire_jobs.write_job(A_JOB)))), JSON)
def test_a_job_with_any_field_spoilt_is_read_or_refused_by_name(field: str, value: Any) -> None:
    content = json.loads(wire_jobs.write_job(A_JOB)) | {field: value}
    said = ""
    try:
        wire_jobs.read_job(json.dumps(content))
    except StoreUnreadableError as error:
        said = error.message
        assert error.hint  # noqa: PT017 - most values are refused, some are read
    assert not said or repr(field) in said or "newer crawlctl" in said


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("body", ["", "{", "nonsense", b"\xff\xfe\xfd", b"\x80\x04K\x01.", "[" * 100_000])
def test_what_is_no_json_is_refused(read: Callable[[str | bytes], object], body: str | bytes) -> None:
    with pytest.raises(StoreUnreadableError, match="is not JSON"):
        read(body)


def test_an_unknown_field_is_ignored() -> None:
    content = json.loads(wire_jobs.write_job(A_JOB)) | {"invented_later": [1, 2]}
    assert wire_jobs.read_job(json.dumps(content)) == A_JOB


def test_a_field_that_may_be_unknown_may_be_absent() -> None:
    content = {name: value for name, value in json.loads(wire_jobs.write_job(A_JOB)).items() if value is not None}
    assert wire_jobs.read_job(json.dumps(content)) == A_JOB


def test_a_newer_format_is_refused_with_the_way_out() -> None:
    content = json.loads(wire_jobs.write_job(A_JOB)) | {"v": WIRE_VERSION + 1}
    with pytest.raises(StoreUnreadableError, match="newer crawlctl") as caught:
        wire_jobs.read_job(json.dumps(content))
    assert caught.value.hint == "pip install --upgrade crawlctl"


def test_an_unknown_state_names_those_there_are() -> None:
    content = json.loads(wire_jobs.write_job(A_JOB)) | {"state": "dreaming"}
    with pytest.raises(StoreUnreadableError, match=r"'state' should be one of pending, .*'dreaming'"):
        wire_jobs.read_job(json.dumps(content))


def test_times_of_other_zones_are_written_in_utc() -> None:
    tokyo = timezone(timedelta(hours=9))
    job = Job(**{**_fields(A_JOB), "scheduled_at": BEGIN.astimezone(tokyo)})
    assert json.loads(wire_jobs.write_job(job))["scheduled_ms"] == BEGIN.timestamp() * 1000
    assert wire_jobs.read_job(wire_jobs.write_job(job)).scheduled_at == BEGIN


def test_a_time_without_a_zone_is_not_written() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        wire_jobs.write_job(Job(**{**_fields(A_JOB), "scheduled_at": BEGIN.replace(tzinfo=None)}))


@pytest.mark.parametrize("value", [1e300, -1e300, 10**20])
def test_a_time_beyond_all_time_is_refused(value: float) -> None:
    content = json.loads(wire_jobs.write_job(A_JOB)) | {"scheduled_ms": value}
    with pytest.raises(StoreUnreadableError, match="'scheduled_ms' should be a time in milliseconds"):
        wire_jobs.read_job(json.dumps(content))


def _fields(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in job.__slots__}
