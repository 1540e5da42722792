"""Every page of every filter, on each back end: no job is left out and none comes twice, whatever came at once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from support.queue_desk import QueueDesk, a_report, names, queue_desk
from support.stores import BACK_ENDS, BEGIN, NEWS, Opener, a_job, opener, redis_of

from toolkit.model.jobs import CRAWL_SETTING, Job, JobFilter, JobState
from toolkit.model.names import NodeName
from toolkit.model.queue import Progress
from toolkit.store import job_search
from toolkit.store.interfaces import Store

SPIDERS = ("books", "prices", 'odd "name" / ü')
PAGE = 4


@pytest.fixture(params=BACK_ENDS)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    with opener(redis_of(request), tmp_path) as open_again:
        yield open_again


def some_jobs() -> list[Job]:
    """Return jobs that differ in everything a filter asks for; many came in the same moment, some have no time."""
    chance = random.Random(11)  # noqa: S311 - the same jobs each time
    states = [state for state in JobState if state is not JobState.PAUSED]
    jobs = []
    for number in range(60):
        minutes = chance.choice([None, *range(6)])
        job = a_job(f"{number:02d}", state=chance.choice(states), minutes=minutes, spider=chance.choice(SPIDERS))
        crawl = {CRAWL_SETTING: "winter"} if chance.random() < 0.3 else {}
        node = NodeName(chance.choice(["node-1", "node-2"]))
        started = BEGIN + timedelta(minutes=3) if number % 7 == 0 else None
        jobs.append(replace(job, settings=crawl, node=node, started_at=started))
    # An argument that looks like a field of the record.
    jobs.append(replace(a_job("61", spider="prices"), project=NEWS, args={"spider": "books"}))
    return jobs


FILTERS = (
    JobFilter(),
    JobFilter(spider="books"),
    JobFilter(spider=SPIDERS[2]),
    JobFilter(project=NEWS),
    JobFilter(states=frozenset({JobState.FAILED})),
    JobFilter(states=frozenset({JobState.PENDING, JobState.RUNNING, JobState.LOST}), spider="books"),
    JobFilter(states=frozenset({JobState.PAUSED})),
    JobFilter(nodes=frozenset({NodeName("node-2")})),
    JobFilter(nodes=frozenset({NodeName("node-1"), NodeName("node-3")}), crawl="winter"),
    JobFilter(crawl="books"),
    JobFilter(since=BEGIN + timedelta(minutes=2)),
    JobFilter(since=BEGIN + timedelta(minutes=4), states=frozenset({JobState.FINISHED, JobState.PENDING})),
)


@pytest.mark.parametrize("wanted", FILTERS, ids=range(len(FILTERS)))
def test_the_pages_of_a_filter_are_all_jobs_that_pass_it(
    stores: Opener, wanted: JobFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_search, "LOOKED_A_CALL", 7)
    monkeypatch.setattr(job_search, "PASSED_A_CALL", 7)
    store, jobs = stores(), some_jobs()
    store.jobs.add(jobs)
    everything = [job.id for job in store.jobs.recent(JobFilter(), limit=100)]
    assert sorted(everything) == sorted(job.id for job in jobs)
    by_id = {job.id: job for job in jobs}
    assert pages(store, wanted) == [job_id for job_id in everything if wanted.admits(by_id[job_id])]


def test_a_paused_job_is_found_as_such_and_not_among_those_that_run(redis_url: str, tmp_path: Path) -> None:
    with queue_desk(redis_url, tmp_path) as desk:
        pause_one_of_two(desk)
        for state, job_id in ((JobState.PAUSED, "a"), (JobState.RUNNING, "b")):
            assert pages(desk.store, JobFilter(states=frozenset({state}))) == [job_id]
        assert len(pages(desk.store, JobFilter(states=frozenset({JobState.PAUSED, JobState.RUNNING})))) == 2


def pause_one_of_two(desk: QueueDesk) -> None:
    desk.add("a")
    report = desk.register(a_report())
    paused = desk.run(report)
    desk.add("b")
    running = desk.run(report)
    desk.beat(report, paused, progress=Progress(JobState.PAUSED, pages=1))
    desk.beat(report, running, progress=Progress(JobState.RUNNING, pages=1))
    assert desk.states(*names("a", "b")) == ["paused", "running"]


def pages(store: Store, wanted: JobFilter) -> list[str]:
    """Return the ids on all pages of a filter, one page after the other."""
    found: list[str] = []
    while page := store.jobs.recent(wanted, limit=PAGE, offset=len(found)):
        found += [job.id for job in page]
    return found
