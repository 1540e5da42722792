"""What cannot be scheduled is refused before anything is sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolkit.cluster.schedule import MAX_WORKERS, RESERVED_ARGUMENTS, Order, check_order, new_job_id
from toolkit.model.errors import UsageError
from toolkit.model.names import JobId, ProjectName, SpiderName, VersionName, check_job_id

PLAIN = Order(ProjectName("shop"), SpiderName("books"), VersionName("v1"))


@pytest.mark.parametrize(
    "order",
    [
        PLAIN,
        replace(PLAIN, count=MAX_WORKERS),
        replace(PLAIN, job_id=JobId("mine")),
        replace(PLAIN, priority=-1.5),
        replace(PLAIN, args={"city": "Zürich", "empty": "", "a=b": "c=d"}, settings={"LOG_LEVEL": "INFO"}),
        replace(PLAIN, args={"long": "x" * 99_000}),
        replace(PLAIN, settings={"name": "a setting may have any name"}),
    ],
)
def test_what_can_be_run_is_let_through(order: Order) -> None:
    check_order(order)


@pytest.mark.parametrize("name", sorted(RESERVED_ARGUMENTS))
def test_an_argument_that_scrapyd_reads_itself_is_refused_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}'.*Scrapyd itself"):
        check_order(replace(PLAIN, args={name: "x"}))


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (replace(PLAIN, spider=SpiderName("--help")), "read as an option"),
        (replace(PLAIN, spider=SpiderName("a/b")), "path"),
        (replace(PLAIN, spider=SpiderName("..")), "path"),
        (replace(PLAIN, count=0), "0 workers"),
        (replace(PLAIN, count=-3), "-3 workers"),
        (replace(PLAIN, count=MAX_WORKERS + 1), "workers cannot be scheduled"),
        (replace(PLAIN, count=2, job_id=JobId("mine")), "cannot serve 2 workers"),
        (replace(PLAIN, priority=float("nan")), "a priority of nan"),
        (replace(PLAIN, priority=float("-inf")), "a priority of -inf"),
        (replace(PLAIN, args={"a": "b\0c"}), "NUL"),
        (replace(PLAIN, settings={"a\0": "b"}), "NUL"),
        (replace(PLAIN, args={"a": "\udcff"}), "argument 'a' is not text"),
        (replace(PLAIN, settings={"\udcff": "b"}), "is not text"),
        (replace(PLAIN, args={"a": "ü" * 50_001}), "argument 'a' is longer than 100 kB"),
        (replace(PLAIN, settings={"B": "x" * 100_001}), "setting 'B' is longer than 100 kB"),
        (replace(PLAIN, args={f"a{i}": "x" * 90_000 for i in range(12)}), "together are longer than 1000 kB"),
    ],
)
def test_what_no_node_could_run_is_refused(order: Order, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_order(order)


def test_a_new_id_is_short_safe_and_new() -> None:
    ids = {new_job_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(check_job_id(job_id) == job_id and len(job_id) == 16 for job_id in ids)
