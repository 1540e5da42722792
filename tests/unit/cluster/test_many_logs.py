"""Many logs followed at once: those that begin meanwhile, a node that hangs, and the threads that it all takes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.stores import a_job
from support.waiting import wait_until

from toolkit.cluster import many_logs
from toolkit.cluster.job_log import LogCursor, LogPiece
from toolkit.cluster.log_lines import EntryFilter
from toolkit.cluster.log_merge import JobEntry, Reorder
from toolkit.cluster.log_stream import LogWish
from toolkit.cluster.many_logs import ManyLogs
from toolkit.model.errors import NodeTimeoutError, StoreUnreachableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName

BEGIN = datetime(2026, 11, 21, 7, tzinfo=UTC)
SOON_S = 20.0


class Paper:
    """Logs on paper: what each job has written by now, and which nodes hang until they may go on."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}
        self.offsets: dict[NodeName, timedelta] = {}
        self.hangs: dict[str, threading.Event] = {}
        self.most_threads = 0
        self._lock = threading.Lock()
        self._threads = 0

    def say(self, job: str, *seconds: float, level: str = "INFO") -> None:
        for second in seconds:
            at = BEGIN + timedelta(seconds=second)
            line = f"{at:%Y-%m-%d %H:%M:%S} [shop] {level}: {job} {second:g}\n"
            self.texts[job] = self.texts.get(job, b"") + line.encode()

    def part(self, job: Job, *, after: LogCursor | None = None, most: int = 65536) -> LogPiece:
        assert job.node is not None
        with self._lock:
            self._threads += 1
            self.most_threads = max(self.most_threads, self._threads)
        try:
            if job.node in self.hangs and not self.hangs[job.node].wait(SOON_S):
                raise NodeTimeoutError(job.node, "log", "it hangs")
            text = self.texts.get(job.id, b"")
            begin = max(0, len(text) - most) if after is None else after.offset
            content = text[begin : begin + most]
            is_whole = begin + len(content) >= len(text)
            cursor = LogCursor(job.node, begin + len(content))
            return LogPiece(content, cursor, job.node, is_over=is_whole and job.state.is_final)
        finally:
            with self._lock:
                self._threads -= 1

    def files(self, _: Job) -> Any:
        raise AssertionError("no lines are counted here")


class Desk:
    """The jobs that there are now."""

    def __init__(self, *jobs: Job) -> None:
        self.jobs = {job.id: job for job in jobs}
        self.is_away = False

    def wanted(self) -> Sequence[Job]:
        return list(self.jobs.values())

    def fresh(self, jobs: Sequence[Job]) -> Mapping[JobId, Job]:
        if self.is_away:
            raise StoreUnreachableError("it is away")
        return {job.id: self.jobs[job.id] for job in jobs}

    def end(self, *job_ids: str) -> None:
        for job_id in job_ids:
            self.jobs[JobId(job_id)] = replace(self.jobs[JobId(job_id)], state=JobState.FINISHED)


def running(job_id: str, node: str = "node-1") -> Job:
    return replace(a_job(job_id, state=JobState.RUNNING), node=NodeName(node))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"POLL_S": 0.01, "LIST_S": 0.02, "TICK_S": 0.01, "S_A_STREAM": 0.0}.items():
        monkeypatch.setattr(many_logs, name, seconds)
    monkeypatch.setattr(Reorder.__init__, "__kwdefaults__", {"window_s": 0.05})


class Reader:
    """Follows in a thread, and keeps what it is given."""

    def __init__(self, paper: Paper, desk: Desk, **wish: Any) -> None:
        self.heard: list[str] = []
        self.said: list[str] = []
        many = ManyLogs(paper, LogWish(EntryFilter(**wish)), say=self.said.append)  # type: ignore[arg-type]
        self._thread = threading.Thread(target=self._read, args=(many.follow(list(desk.jobs.values()), desk),))
        self._thread.start()

    def _read(self, entries: Iterator[JobEntry]) -> None:
        self.heard += (each.entry.text for each in entries)

    def wait(self) -> list[str]:
        self._thread.join(SOON_S)
        assert not self._thread.is_alive()
        return self.heard


def test_what_is_there_is_read_in_order_and_by_few_threads() -> None:
    paper, jobs = Paper(), []
    for number in range(200):
        paper.say(f"job-{number}", *(number / 10 + second for second in range(0, 400, 20)))
        jobs.append(replace(running(f"job-{number}", f"node-{number}"), state=JobState.FINISHED))
    read = list(ManyLogs(paper, LogWish()).past(jobs))  # type: ignore[arg-type]
    times = [each.entry.at for each in read]
    assert len(times) == 200 * 20
    assert times == sorted(times, key=lambda at: at or BEGIN)
    assert paper.most_threads <= many_logs.READERS


def test_jobs_that_begin_meanwhile_join_and_all_end_the_reading() -> None:
    paper, desk = Paper(), Desk(running("first"))
    paper.say("first", 1)
    reader = Reader(paper, desk)
    paper.say("first", 2)
    paper.say("second", 3)
    desk.jobs[JobId("second")] = running("second", "node-2")
    wait_until(lambda: "second 3" in reader.heard, deadline_s=SOON_S, what="the second to be heard")
    paper.say("second", 4)
    desk.end("first", "second")
    assert sorted(reader.wait()) == ["first 1", "first 2", "second 3", "second 4"]


def test_a_node_that_hangs_keeps_no_other_waiting() -> None:
    paper, desk = Paper(), Desk(running("good", "node-1"))
    reader = Reader(paper, desk)
    paper.hangs["node-2"] = threading.Event()
    paper.say("stuck", 1)
    desk.jobs[JobId("stuck")] = running("stuck", "node-2")
    for second in range(5):
        paper.say("good", second)
        wait_until(lambda now=second: f"good {now}" in reader.heard, deadline_s=SOON_S, what="the good one")  # type: ignore[misc]
    assert "stuck 1" not in reader.heard
    paper.hangs["node-2"].set()
    desk.end("good", "stuck")
    assert "stuck 1" in reader.wait()


def test_a_store_that_is_away_ends_nothing() -> None:
    paper, desk = Paper(), Desk(running("job"))
    reader = Reader(paper, desk)
    desk.is_away = True
    wait_until(lambda: reader.said, deadline_s=SOON_S, what="it to be said")
    paper.say("job", 1)
    wait_until(lambda: "job 1" in reader.heard, deadline_s=SOON_S, what="the log to go on")
    desk.is_away = False
    desk.end("job")
    assert reader.wait() == ["job 1"]
    assert reader.said == ["it is away; what is followed already goes on"]


def test_only_what_is_wanted_is_handed_on() -> None:
    paper, desk = Paper(), Desk(running("job"))
    paper.say("job", 1)
    paper.say("job", 2, level="ERROR")
    desk.end("job")
    assert Reader(paper, desk, level="WARNING").wait() == ["job 2"]
