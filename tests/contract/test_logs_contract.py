"""What the shared store promises of shipped logs (`ShippedLogs`), on a real Redis: no byte twice, none skipped."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from datetime import timedelta

import pytest
from support.queue_desk import QueueDesk
from support.stores import BEGIN
from support.waiting import wait_until

from toolkit.model.errors import StoreUnreadableError
from toolkit.model.names import JobId, NodeName
from toolkit.model.shipped import IN_REDIS, LogPart, ShippedLog, next_shipment
from toolkit.store.interfaces_logs import Laid, LogTerms, ShippedLogs

JOB, NODE = JobId("job-1"), NodeName("node 1")
ROOMY = LogTerms(keep_s=600, max_total_bytes=10_000_000)
NOTHING = ShippedLog(NODE, IN_REDIS, (), BEGIN)
SOON_S = 10.0


@pytest.fixture
def logs(desk: QueueDesk) -> ShippedLogs:
    return desk.shared.logs


def bring(
    logs: ShippedLogs,
    text: bytes,
    known: ShippedLog = NOTHING,
    *,
    job: JobId = JOB,
    terms: LogTerms = ROOMY,
    max_bytes: int = 1_000_000,
    is_complete: bool = False,
) -> tuple[Laid, ShippedLog]:
    """Ship the next part of a log that is `text` now, as a node does that knows `known` of it."""
    shipment = next_shipment(known.parts, len(text), max_bytes=max_bytes)
    assert shipment is not None
    log = replace(known, parts=shipment.applied(known.parts), revision=known.revision + 1, is_complete=is_complete)
    content = text[shipment.part.begin : shipment.part.end]
    laid = logs.lay(job, log, terms=terms, shipment=shipment, content=content)
    return laid, log


def whole(logs: ShippedLogs, job: JobId = JOB) -> bytes:
    """Return all that is kept of the job's one log."""
    (log,) = logs.of_job(job)
    return b"".join(logs.read(job, log, part) or b"?" for part in log.parts)


def test_a_log_is_read_as_it_was_shipped_part_by_part(logs: ShippedLogs) -> None:
    text = b"one line\n" * 20_000
    _, log = bring(logs, text[:100_000])
    laid, log = bring(logs, text, log)
    assert laid is Laid.DONE
    assert logs.of_job(JOB) == [log]
    assert whole(logs) == text
    assert logs.of_job(JobId("job-2")) == []


def test_a_bringer_that_knows_less_than_what_lies_there_changes_nothing(logs: ShippedLogs) -> None:
    _, log = bring(logs, b"first")
    again, _ = bring(logs, b"first")
    _, log = bring(logs, b"first second", log)
    late, _ = bring(logs, b"first but otherwise", replace(log, revision=1))
    assert (again, late) == (Laid.OTHER, Laid.OTHER)
    assert whole(logs) == b"first second"


def test_each_node_that_ran_the_job_has_its_own_log(logs: ShippedLogs) -> None:
    bring(logs, b"here")
    other = ShippedLog(NodeName("node 2"), IN_REDIS, (), BEGIN + timedelta(minutes=1))
    bring(logs, b"there, later", other)
    first, second = logs.of_job(JOB)
    assert (first.node, second.node) == (NODE, "node 2")
    assert logs.read(JOB, first, first.parts[0]) == b"here"
    assert logs.read(JOB, second, second.parts[0]) == b"there, later"


def test_of_a_long_log_begin_and_end_stay_and_the_rest_frees_its_memory(logs: ShippedLogs, desk: QueueDesk) -> None:
    text = b"".join(b"%09d\n" % number for number in range(400_000))
    log = NOTHING
    for end in range(40_000, 4_000_001, 990_000):
        while next_shipment(log.parts, end, max_bytes=1_000_000) is not None:
            laid, log = bring(logs, text[:end], log)
            assert laid is Laid.DONE
    kept = whole(logs)
    assert (kept[:250_000], kept[-400_000:]) == (
        text[:250_000],
        text[-400_000:] if end == len(text) else text[:end][-400_000:],
    )
    assert len(kept) <= 1_000_000
    stored = desk.redis_bytes.hgetall(desk.keys.log_parts(JOB))
    assert len(stored) == len(log.parts)
    total = int(desk.redis.hget(desk.keys.logs_sizes, "*") or 0)
    index = desk.redis_bytes.hget(desk.keys.log(JOB), NODE) or b""
    assert total == sum(map(len, stored.values())) + len(index)


def test_all_logs_together_stay_under_their_limit_and_those_that_ended_first_go_first(
    logs: ShippedLogs, desk: QueueDesk
) -> None:
    noise = random.Random(7).randbytes(20_000)  # noqa: S311 - nothing packs it smaller
    tight = LogTerms(keep_s=600, max_total_bytes=70_000)
    for number in range(5):
        laid, _ = bring(logs, noise, job=JobId(f"ended-{number}"), terms=tight, is_complete=True)
        assert laid is Laid.DONE
    assert [bool(logs.of_job(JobId(f"ended-{number}"))) for number in range(5)] == [False, False, True, True, True]
    for number in range(3):
        laid, log = bring(logs, noise, job=JobId(f"runs-{number}"), terms=tight)
        assert laid is Laid.DONE
    full, _ = bring(logs, noise, job=JobId("runs-3"), terms=tight)
    assert full is Laid.FULL
    # Nothing of a job that runs is lost, and the ending of one is noted all the same.
    assert all(logs.of_job(JobId(f"runs-{number}")) for number in range(3))
    ended = replace(log, revision=log.revision + 1, is_complete=True)
    assert logs.lay(JobId("runs-2"), ended, terms=tight) is Laid.DONE
    assert bring(logs, noise, job=JobId("runs-3"), terms=tight)[0] is Laid.DONE
    assert int(desk.redis.hget(desk.keys.logs_sizes, "*") or 0) <= 70_000


def test_what_lies_elsewhere_is_only_named(logs: ShippedLogs) -> None:
    log = ShippedLog(NODE, "s3://logs/shop", (LogPart(0, 12),), BEGIN, is_complete=True, revision=1)
    assert logs.lay(JOB, log, terms=ROOMY) is Laid.DONE
    assert logs.of_job(JOB) == [log]
    assert logs.read(JOB, log, log.parts[0]) is None


def test_logs_are_forgotten_when_nothing_came_for_long(logs: ShippedLogs, desk: QueueDesk) -> None:
    bring(logs, b"old")
    assert logs.drop_old(keep_s=600) == 0
    wait_until(lambda: logs.drop_old(keep_s=0.01) == 1, deadline_s=SOON_S, what="the log to be old")
    assert logs.of_job(JOB) == []
    assert desk.redis.keys(f"{desk.keys.prefix}logs:*") == [desk.keys.logs_sizes]
    assert desk.redis.hgetall(desk.keys.logs_sizes) == {"*": "0"}


def test_a_log_goes_by_itself_where_no_node_is_left_to_take_it_away(logs: ShippedLogs, desk: QueueDesk) -> None:
    bring(logs, b"text")
    for key in (desk.keys.log(JOB), desk.keys.log_parts(JOB)):
        assert 0 < int(desk.redis.pttl(key)) <= 2 * 600_000


def test_a_part_that_unpacks_to_more_than_it_says_is_refused(logs: ShippedLogs, desk: QueueDesk) -> None:
    _, log = bring(logs, b"text")
    desk.redis_bytes.hset(desk.keys.log_parts(JOB), f"{NODE} 0", gzip.compress(bytes(50_000_000)))
    with pytest.raises(StoreUnreadableError, match="the 4 bytes"):
        logs.read(JOB, log, log.parts[0])
    desk.redis_bytes.hset(desk.keys.log_parts(JOB), f"{NODE} 0", b"no gzip")
    with pytest.raises(StoreUnreadableError, match="unpacked"):
        logs.read(JOB, log, log.parts[0])


@pytest.mark.parametrize(
    "part", [{"begin": -1, "length": 5}, {"begin": 0, "length": 10**12}, {"begin": 0, "length": 0}]
)
def test_a_part_of_no_size_that_a_part_has_is_refused(logs: ShippedLogs, desk: QueueDesk, part: dict[str, int]) -> None:
    bring(logs, b"text")
    known = json.loads(desk.redis.hget(desk.keys.log(JOB), NODE) or "")
    desk.redis.hset(desk.keys.log(JOB), NODE, json.dumps(known | {"parts": [part]}))
    with pytest.raises(StoreUnreadableError, match="a part that is none"):
        logs.of_job(JOB)
