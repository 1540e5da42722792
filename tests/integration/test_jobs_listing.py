"""Jobs on a real node: what is said of their end is what happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import NodeEntry
from support.doors import nodes_of
from support.eggs import egg_of
from support.faulty_server import FaultyNode
from support.scrapyd_node import ScrapydNode
from support.waiting import wait_until

from toolkit.cluster.cancel import cancel
from toolkit.cluster.files import ItemLines, item_parts, read_log
from toolkit.cluster.job_log import JobLogs
from toolkit.cluster.jobs import find_job, list_jobs
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.schedule import Order, schedule
from toolkit.cluster.verdict import ENDED_UNCLOSED, GONE
from toolkit.cluster.waiting import wait_for
from toolkit.model.errors import NotFoundError, UsageError
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName
from toolkit.store.interfaces import JobStore, Store
from toolkit.store.open import open_store

ODD = ProjectName("odd")
SPIDERS = """
import asyncio
import scrapy


class Plain(scrapy.Spider):
    name = "plain"

    async def start(self):
        for number in range(int(getattr(self, "lines", 0))):
            self.logger.info("line %d %s", number, "x" * 200)
        yield {"one": 1}
        await asyncio.sleep(float(getattr(self, "sleep_s", 0)))
        yield {"two": 2}


class Refusing(scrapy.Spider):
    name = "refusing"

    def __init__(self, **more):
        raise ValueError("no such argument")


class Raising(scrapy.Spider):
    name = "raising"

    async def start(self):
        raise ValueError("in start")
        yield
"""


def an_egg() -> bytes:
    settings = 'BOT_NAME = "odd"\nSPIDER_MODULES = ["odd.spiders"]\nTELNETCONSOLE_ENABLED = False\n'
    settings += "REMOTE_CONTROL_ENABLED = False\n"
    files = {"__init__.py": "", "settings.py": settings, "spiders/__init__.py": "", "spiders/all.py": SPIDERS}
    return egg_of(files, package="odd")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScrapydNode]:
    folder = tmp_path_factory.mktemp("node")
    with ScrapydNode(folder, username="crawler", password="let-me-in", options={"max_proc": "4"}) as node:
        answer = node.post("addversion.json", project="odd", version="v1", files={"egg": an_egg()})
        assert answer["status"] == "ok", answer
        yield node


@pytest.fixture
def nodes(node: ScrapydNode) -> Iterator[Nodes]:
    found = nodes_of([node], credentials=node.credentials)
    yield found
    found.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(None, tmp_path)
    yield opened
    opened.close()


def start(nodes: Nodes, store: Store, spider: str = "plain", **args: str) -> Job:
    order = Order(ODD, SpiderName(spider), VersionName("v1"), args=args)
    (placed,) = schedule(nodes, store.jobs, order, now=store.now())
    assert placed.error is None
    return placed.job


def look(nodes: Nodes, store: Store, job_id: str) -> Job:
    return find_job(nodes, store.jobs, job_id, now=store.now())


def waited_for(nodes: Nodes, store: Store, *jobs: Job) -> list[Job]:
    looks: list[Sequence[Job]] = []
    ended = wait_for(nodes, store.jobs, jobs, clock=store.now, on_change=looks.append)
    assert list(looks[-1]) == ended
    return ended


def running_process(node: ScrapydNode, nodes: Nodes, job: Job) -> None:
    """Wait until the spider itself is at work."""
    log = nodes[NodeName(node.name)]

    def is_at_work() -> bool:
        excerpt = log.log(job)
        return excerpt is not None and b"Spider opened" in excerpt.content

    wait_until(is_at_work, deadline_s=60, what="the spider to open")


def test_a_job_that_finished_tells_everything(nodes: Nodes, store: Store) -> None:
    (job,) = waited_for(nodes, store, start(nodes, store))
    assert (job.state, job.finish_reason, job.pages, job.items, job.errors) == (JobState.FINISHED, "finished", 0, 2, 0)
    assert job.started_at is not None
    assert job.ended_at is not None
    assert job.scheduled_at is not None
    assert abs((job.started_at - job.scheduled_at).total_seconds()) < 600  # no time zone lies between them
    assert store.jobs.get(job.id) == job


@pytest.mark.parametrize("lines", ["0", "300"])
def test_a_spider_that_was_killed_failed_however_much_it_had_said(
    node: ScrapydNode, nodes: Nodes, store: Store, lines: str
) -> None:
    job = start(nodes, store, sleep_s="600", lines=lines)
    running_process(node, nodes, job)
    assert look(nodes, store, job.id).state is JobState.RUNNING
    node.kill_spiders()
    (ended,) = waited_for(nodes, store, job)
    assert (ended.state, ended.finish_reason) == (JobState.FAILED, ENDED_UNCLOSED)


@pytest.mark.parametrize("spider", ["refusing", "raising"])
def test_a_spider_that_raises_at_its_begin_failed(nodes: Nodes, store: Store, spider: str) -> None:
    (ended,) = waited_for(nodes, store, start(nodes, store, spider))
    assert ended.state is JobState.FAILED


def test_a_cancelled_job_is_cancelled_and_stays_so(node: ScrapydNode, nodes: Nodes, store: Store) -> None:
    job = start(nodes, store, sleep_s="600")
    running_process(node, nodes, job)
    (done,) = cancel(nodes, store.jobs, [job], grace_s=10, now=store.now())
    assert (done.before, done.after, done.error) == (JobState.RUNNING, JobState.CANCELLED, None)
    assert node.spider_pids() == []
    assert look(nodes, store, job.id).state is JobState.CANCELLED
    (again,) = cancel(nodes, store.jobs, [look(nodes, store, job.id)], grace_s=10, now=store.now())
    assert (again.before, again.after) == (JobState.CANCELLED, JobState.CANCELLED)


class Late:
    """A store whose reader is slow: after its first answer, something else happens."""

    def __init__(self, records: JobStore, meanwhile: Callable[[], None]) -> None:
        self._records = records
        self._meanwhile = meanwhile

    def unfinished(self) -> Sequence[Job]:
        """Return what was true before."""
        before = self._records.unfinished()
        self._meanwhile()
        return before

    def recent(self, wanted: JobFilter, *, limit: int) -> Sequence[Job]:
        """Return nothing."""
        del wanted, limit
        return ()

    def __getattr__(self, name: str) -> object:
        return getattr(self._records, name)


def test_a_job_that_somebody_cancels_while_it_is_looked_at_is_cancelled(
    node: ScrapydNode, nodes: Nodes, store: Store
) -> None:
    job = start(nodes, store, sleep_s="600", lines="300")
    running_process(node, nodes, job)

    def cancel_it() -> None:
        store.jobs.update([replace(job, cancel_requested_at=store.now())])
        node.kill_spiders()
        door = nodes[NodeName(node.name)]
        wait_until(lambda: door.state_of(job.id) is JobState.FINISHED, deadline_s=60, what="its end")

    records: JobStore = Late(store.jobs, cancel_it)  # type: ignore[assignment] # it passes the rest on
    found = list_jobs(nodes, records, JobFilter(), now=store.now())
    assert [(each.state, each.finish_reason) for each in found.jobs if each.id == job.id] == [
        (JobState.CANCELLED, "killed")
    ]
    (waited,) = waited_for(nodes, store, replace(job, state=JobState.RUNNING))
    assert waited.state is JobState.CANCELLED
    record = store.jobs.get(job.id)
    assert record is not None
    assert record.state is JobState.CANCELLED


def test_a_short_timeout_of_a_node_cuts_no_grace(node: ScrapydNode, nodes: Nodes, store: Store) -> None:
    job = start(nodes, store, sleep_s="600")
    hasty = nodes_of([node], credentials=node.credentials, timeout_s=0.5)
    (done,) = cancel(hasty, store.jobs, [job], grace_s=60, now=store.now())
    hasty.close()
    assert done.error is None
    assert done.after is JobState.CANCELLED


def test_somebody_elses_job_is_listed_and_gets_no_record(node: ScrapydNode, nodes: Nodes, store: Store) -> None:
    node.post("schedule.json", project="odd", spider="plain", jobid="somebody-elses")
    wait_until(
        lambda: look(nodes, store, "somebody").state is JobState.FINISHED, deadline_s=60, what="the job to finish"
    )
    (job,) = (job for job in _listed(nodes, store, JobFilter()) if job.id == "somebody-elses")
    assert (job.finish_reason, job.items, job.version) == ("finished", 2, None)
    assert store.jobs.get(JobId("somebody-elses")) is None


def test_jobs_are_listed_newest_first_and_as_filtered(nodes: Nodes, store: Store) -> None:
    jobs = waited_for(nodes, store, start(nodes, store), start(nodes, store, "raising"), start(nodes, store))
    ours = [job.id for job in _listed(nodes, store, JobFilter()) if job.id in {job.id for job in jobs}]
    assert ours == [job.id for job in reversed(jobs)]
    failed = _listed(nodes, store, JobFilter(states=frozenset({JobState.FAILED}), spider="raising"), limit=1)
    assert [job.id for job in failed] == [jobs[1].id]
    assert _listed(nodes, store, JobFilter(project="none")) == ()


def test_a_job_is_found_by_the_begin_of_its_id(nodes: Nodes, store: Store) -> None:
    job = start(nodes, store)
    assert look(nodes, store, job.id[:9]).id == job.id
    waited_for(nodes, store, job)


def test_an_id_that_is_the_begin_of_others_is_itself(nodes: Nodes, store: Store) -> None:
    for job_id in ("twin", "twins"):
        order = Order(ODD, SpiderName("plain"), VersionName("v1"), job_id=JobId(job_id))
        schedule(nodes, store.jobs, order, now=store.now())
    assert look(nodes, store, "twin").id == "twin"
    with pytest.raises(UsageError, match="2 jobs' ids begin with 'twi': twin, twins"):
        look(nodes, store, "twi")


def test_what_is_not_found_may_be_on_a_node_that_was_not_asked(node: ScrapydNode, store: Store) -> None:
    with FaultyNode("500") as away:
        nodes = nodes_of([node, NodeEntry("away", "127.0.0.1", away.port)], credentials=node.credentials)
        with pytest.raises(NotFoundError, match=r"no job's id begins with 'zzz'.*away could not be asked"):
            look(nodes, store, "zzz")
        nodes.close()


def test_a_job_known_by_its_whole_id_is_asked_for_on_its_own_node_alone(
    node: ScrapydNode, nodes: Nodes, store: Store
) -> None:
    job = start(nodes, store)
    with FaultyNode("hang") as hanging:
        both = nodes_of([node, NodeEntry("hanging", "127.0.0.1", hanging.port)], credentials=node.credentials)
        assert look(both, store, job.id).id == job.id
        both.close()
    assert not hanging.calls


def test_a_node_that_does_not_answer_leaves_its_jobs_as_they_were_known(
    node: ScrapydNode, nodes: Nodes, store: Store
) -> None:
    job = start(nodes, store, sleep_s="1")
    with FaultyNode("refuse") as refusing:
        away = nodes_of([NodeEntry(node.name, "127.0.0.1", refusing.port)])
        found = list_jobs(away, store.jobs, JobFilter(), now=store.now())
        away.close()
    assert [each.state for each in found.jobs] == [JobState.PENDING]
    assert "connection refused" in found.unseen[NodeName(node.name)]
    waited_for(nodes, store, job)


def test_a_log_is_read_whole_by_its_last_lines_and_as_it_grows(node: ScrapydNode, nodes: Nodes, store: Store) -> None:
    job = start(nodes, store, lines="40", sleep_s="1")
    door = nodes[NodeName(node.name)]
    followed = b"".join(JobLogs(nodes, lambda: store).follow(job, last_lines=3))
    whole = b"".join(read_log(door, job))
    assert whole.endswith(b"Spider closed (finished)\n")
    assert whole.endswith(followed)
    assert followed.endswith(b"Spider closed (finished)\n")
    last = b"".join(read_log(door, job, last_lines=25)).splitlines()
    assert last == whole.splitlines()[-25:]
    assert b"".join(read_log(door, job, last_lines=0)) == b""
    assert b"".join(read_log(door, job, last_lines=100_000)) == whole
    assert b"".join(part.content for part in item_parts(door, job)).count(b"\n") == 2
    items = ItemLines()
    assert b"".join(items.of(JobLogs(nodes, lambda: store).follow_items(job))).count(b"\n") == items.count == 2


def test_following_an_ended_job_begins_with_whole_lines(node: ScrapydNode, nodes: Nodes, store: Store) -> None:
    (job,) = waited_for(nodes, store, start(nodes, store, lines="40"))
    door = nodes[NodeName(node.name)]
    whole = b"".join(read_log(door, job))
    # Long lines: so many do not fit into what is asked for first.
    assert b"".join(JobLogs(nodes, lambda: store).follow(job, last_lines=30)) == b"".join(
        whole.splitlines(keepends=True)[-30:]
    )


def test_a_log_that_is_not_kept_is_said_to_be(node: ScrapydNode, nodes: Nodes, store: Store) -> None:
    (job,) = waited_for(nodes, store, start(nodes, store))
    gone = replace(job, id=JobId("gone"))
    door = nodes[NodeName(node.name)]
    for read in (
        read_log(door, gone),
        read_log(door, gone, last_lines=3),
        JobLogs(nodes, lambda: store).follow(gone, last_lines=3),
    ):
        with pytest.raises(NotFoundError, match="keeps no log of gone"):
            list(read)
    with pytest.raises(NotFoundError, match="keeps no items of gone"):
        list(item_parts(door, gone))


def test_a_job_that_its_restarted_node_has_forgotten_is_lost_and_not_called_cancelled(
    node: ScrapydNode, nodes: Nodes, store: Store
) -> None:
    job = start(nodes, store, sleep_s="600")
    running_process(node, nodes, job)
    node.kill()
    node.start()
    (done,) = cancel(nodes, store.jobs, [job], grace_s=0, now=store.now())
    assert "cannot be proven to be gone" in str(done.error)
    lost = look(nodes, store, job.id)
    assert (lost.state, lost.finish_reason) == (JobState.LOST, GONE)
    assert store.jobs.unfinished() == ()


def _listed(nodes: Nodes, store: Store, wanted: JobFilter, *, limit: int = 50) -> tuple[Job, ...]:
    return list_jobs(nodes, store.jobs, wanted, now=store.now(), limit=limit).jobs
