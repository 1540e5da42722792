"""A node's shipping of logs, beside a real Redis: nothing twice and nothing skipped, whatever goes away in between."""

from __future__ import annotations

import gzip
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.queue_desk import QueueDesk, queue_desk
from support.s3_stand_in import SECRET, s3_stand_in
from support.waiting import wait_until

from toolkit.cluster.files import read_log
from toolkit.cluster.job_log import JobLogs, LogCursor
from toolkit.cluster.nodes import Nodes
from toolkit.config.log_places import LogAddress
from toolkit.model.errors import NotFoundError, NothingReachableError, StoreUnreachableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, Token
from toolkit.model.shipped import left_out_bytes
from toolkit.node import shipping
from toolkit.node.claims import Claim
from toolkit.node.log_places import FolderPlace, LogPlace
from toolkit.node.shipping import Shipping
from toolkit.node.shipping_settings import ShippingSettings
from toolkit.node.tailing import Tail
from toolkit.store.interfaces_logs import LogTerms

SOON_S = 60.0
NODE = NodeName("node-1")
TERMS = LogTerms(keep_s=600, max_total_bytes=50_000_000)


@dataclass
class Workplace:
    """A node's folders, and a node that ships from them; `away` keeps the store from it."""

    desk: QueueDesk
    folder: Path
    address: LogAddress | None = None
    max_bytes: int = 5_000_000
    running: set[JobId] = field(default_factory=set)
    is_away: bool = False
    place: LogPlace | None = None
    services: list[Shipping] = field(default_factory=list)

    def start(self) -> Shipping:
        settings = SimpleNamespace(name=NODE, state_dir=self.folder / "node", logs_dir=self.folder / "logs")
        member: Any = SimpleNamespace(settings=settings, store=self._store)
        made = ShippingSettings(self.address, self.max_bytes, TERMS)
        service = Shipping(member, made, running=lambda: frozenset(self.running))
        service.startService()
        self.services.append(service)
        return service

    def _store(self) -> Any:
        if self.is_away:
            raise StoreUnreachableError("it is away")
        return self.desk.store

    def begin(self, service: Shipping, job_id: str, text: bytes = b"") -> Path:
        """Let a job begin, which has logged this."""
        self.running.add(JobId(job_id))
        service.begin(a_claim(job_id))
        log = self.folder / "logs" / "shop" / "books" / f"{job_id}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(text)
        return log

    def wait_shipped(self, job_id: str, size: int, *, is_complete: bool = False) -> None:
        def is_there() -> bool:
            logs = self.desk.shared.logs.of_job(JobId(job_id))
            return bool(logs) and logs[0].size_bytes == size and logs[0].is_complete is is_complete

        wait_until(is_there, deadline_s=SOON_S, what=f"{size} bytes of {job_id} to be shipped")

    def wait_done(self) -> None:
        """Wait until nothing is left to ship."""
        wait_until(lambda: not self.left(), deadline_s=SOON_S, what="all to be shipped")

    def left(self) -> list[str]:
        return [path.name for path in (self.folder / "node" / "logs").glob("*")]

    def read(self, job_id: str, *, address: LogAddress | None = None) -> bytes:
        """Read the log as an operator does whose inventory does not have the node any more."""
        logs = JobLogs(Nodes([]), lambda: self.desk.store, place=address)
        job = a_job(job_id)
        return b"".join(read_log(logs.files(job), job))


def a_claim(job_id: str) -> Claim:
    names = (ProjectName("shop"), SpiderName("books"))
    return Claim(JobId(job_id), Token("7"), *names, None, attempt=1, begun_at=0.0, lease_s=15)


def a_job(job_id: str) -> Job:
    return Job(
        JobId(job_id),
        ProjectName("shop"),
        SpiderName("books"),
        JobState.FINISHED,
        node=NODE,
        line="a-line",  # type: ignore[arg-type]
    )


@pytest.fixture
def workplace(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workplace]:
    for name, seconds in {"LOOK_S": 0.02, "REST_S": 0.05, "FLUSH_S": {True: 0.02, False: 0.02}}.items():
        monkeypatch.setattr(shipping, name, seconds)
    with queue_desk(redis_url, tmp_path / "state") as desk:
        made = Workplace(desk, tmp_path)
        yield made
        for service in made.services:
            service.stopService()


def grow(log: Path, text: bytes) -> None:
    """Let a log go on to this text, as a spider does: it is never empty in between."""
    with log.open("ab") as file:
        file.write(text[log.stat().st_size :])


def lines(count: int, word: str = "line") -> bytes:
    return b"".join(f"2026-11-21 07:00:00 [shop] INFO: {word} {number}\n".encode() for number in range(count))


def test_a_log_is_shipped_while_its_job_runs_and_is_whole_when_it_has_ended(workplace: Workplace) -> None:
    log = workplace.begin(workplace.start(), "job-1", lines(10))
    workplace.wait_shipped("job-1", len(lines(10)))
    grow(log, lines(20_000))
    workplace.wait_shipped("job-1", len(lines(20_000)))
    workplace.running.clear()
    workplace.wait_shipped("job-1", len(lines(20_000)), is_complete=True)
    workplace.wait_done()
    assert workplace.read("job-1") == lines(20_000)


def test_a_log_that_scrapyd_has_thrown_away_is_shipped_all_the_same(workplace: Workplace) -> None:
    workplace.is_away = True
    log = workplace.begin(workplace.start(), "job-1", lines(100))
    wait_until(lambda: "job-1.log" in workplace.left(), deadline_s=SOON_S, what="the log to be held")
    workplace.running.clear()
    log.unlink()
    workplace.is_away = False
    workplace.wait_done()
    assert workplace.read("job-1") == lines(100)


def test_a_node_that_is_started_anew_goes_on_at_the_right_byte(workplace: Workplace) -> None:
    first = workplace.start()
    log = workplace.begin(first, "job-1", lines(5_000))
    ended = workplace.begin(first, "job-2", lines(7, "two"))
    workplace.wait_shipped("job-1", len(lines(5_000)))
    first.stopService()
    log.write_bytes(lines(9_000))
    ended.write_bytes(lines(8, "two"))
    workplace.running.remove(JobId("job-2"))
    second = workplace.start()
    second.begin(a_claim("job-1"))
    workplace.wait_shipped("job-2", len(lines(8, "two")), is_complete=True)
    workplace.running.clear()
    workplace.wait_done()
    assert (workplace.read("job-1"), workplace.read("job-2")) == (lines(9_000), lines(8, "two"))


def test_of_a_long_log_a_line_says_how_much_was_left_out(workplace: Workplace) -> None:
    workplace.max_bytes = 1_000_000
    workplace.begin(workplace.start(), "job-1", lines(100_000))
    workplace.running.clear()
    workplace.wait_done()
    (log,) = workplace.desk.shared.logs.of_job(JobId("job-1"))
    read = workplace.read("job-1")
    assert f"\n[... {left_out_bytes(log.parts):,} bytes of the log were not kept ...]\n".encode() in read
    assert read.startswith(lines(1_000))
    assert read.endswith(lines(100_000)[-700_000:])
    assert len(read) < 1_000_100
    assert log.size_bytes == len(lines(100_000))


def test_a_job_that_begins_again_on_its_node_is_shipped_on(workplace: Workplace) -> None:
    service = workplace.start()
    workplace.begin(service, "job-1", lines(3))
    workplace.running.clear()
    workplace.wait_done()
    workplace.begin(service, "job-1", lines(5))
    workplace.running.clear()
    workplace.wait_done()
    assert workplace.read("job-1") == lines(5)
    # Its log is begun anew, shorter than before.
    workplace.begin(service, "job-1", b"short\n")
    workplace.running.clear()
    workplace.wait_done()
    assert workplace.read("job-1") == b"short\n"


def test_what_is_no_log_is_neither_read_nor_waited_for(workplace: Workplace) -> None:
    service = workplace.start()
    log = workplace.begin(service, "job-1")
    log.unlink()
    os.mkfifo(log)
    secret = workplace.folder / "secret"
    secret.write_text("not for you")
    other = workplace.begin(service, "job-2")
    other.unlink()
    other.symlink_to(secret)
    workplace.begin(service, "job-3", lines(1))
    workplace.running.clear()
    workplace.wait_done()
    assert workplace.read("job-3") == lines(1)
    for job_id in ("job-1", "job-2"):
        assert not any(log.parts for log in workplace.desk.shared.logs.of_job(JobId(job_id)))


def test_a_log_that_is_shipped_before_it_was_held_is_not_held_afterwards(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Tail.hold

    def hold_late(tail: Tail) -> None:
        time.sleep(0.3)
        hold(tail)

    monkeypatch.setattr(Tail, "hold", hold_late)
    service = workplace.start()
    workplace.begin(service, "job-1", lines(3))
    workplace.running.clear()
    workplace.wait_shipped("job-1", len(lines(3)), is_complete=True)
    # One after the other is held: with the second one, the first one's turn is over.
    workplace.begin(service, "job-2", lines(3))
    wait_until(lambda: "job-2.log" in workplace.left(), deadline_s=SOON_S, what="the second log to be held")
    workplace.running.clear()
    workplace.wait_done()


def test_a_part_that_a_crash_left_beside_the_others_is_taken_away(workplace: Workplace) -> None:
    root = workplace.folder / "share"
    workplace.address = LogAddress(str(root))
    place = FolderPlace(root)
    service = workplace.start()
    workplace.begin(service, "job-1", lines(10))
    workplace.wait_shipped("job-1", len(lines(10)))
    folder = root / "shop" / "books" / "job-1" / "node-1"
    (folder / "000000000000009-12345.log.gz").write_bytes(gzip.compress(b"brought, and never told of"))
    workplace.running.clear()
    workplace.wait_done()
    assert b"".join(gzip.decompress(path.read_bytes()) for path in sorted(folder.iterdir())) == lines(10)
    assert workplace.read("job-1", address=workplace.address) == lines(10)
    place.drop_old(keep_s=600)
    assert folder.exists()
    place.drop_old(keep_s=-1)
    assert list(root.glob("*/*/*")) == []


def test_logs_in_a_folder_that_the_inventory_does_not_name_are_not_read(workplace: Workplace) -> None:
    workplace.address = LogAddress(str(workplace.folder / "share"))
    workplace.begin(workplace.start(), "job-1", lines(1))
    workplace.running.clear()
    workplace.wait_done()
    with pytest.raises(NotFoundError, match="which the inventory does not name") as caught:
        workplace.read("job-1")
    assert caught.value.hint is not None
    assert f"shipped_logs: {workplace.folder / 'share'}" in caught.value.hint


def test_logs_go_to_a_bucket_and_are_read_from_there_by_a_stand_in_for_s3(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    with s3_stand_in(workplace.folder) as bucket:
        address = LogAddress("s3://logs/of-the-shop", endpoint=bucket.endpoint, keys_file=bucket.keys_file)
        workplace.address = address
        assert SECRET not in repr(address)
        service = workplace.start()
        log = workplace.begin(service, "job-1", lines(10))
        workplace.wait_shipped("job-1", len(lines(10)))
        grow(log, lines(20_000))
        workplace.wait_shipped("job-1", len(lines(20_000)))
        workplace.running.clear()
        workplace.wait_done()
        names = bucket.names()
        assert b"".join(gzip.decompress(bucket.content(name)) for name in names) == lines(20_000)
        assert all(name.startswith("of-the-shop/shop/books/job-1/node-1/") for name in names)
        assert workplace.read("job-1", address=address) == lines(20_000)
        (known,) = workplace.desk.shared.logs.of_job(JobId("job-1"))
        assert (known.place, known.is_complete) == ("s3://logs/of-the-shop", True)
        elsewhere = replace(address, text="s3://no-such-bucket")
        with pytest.raises(NotFoundError, match="is not there any more"):
            workplace.read("job-1", address=elsewhere)
        nowhere = replace(address, endpoint="http://127.0.0.1:1")
        with pytest.raises(NothingReachableError, match="cannot be read") as caught:
            workplace.read("job-1", address=nowhere)
        assert SECRET not in caught.value.message


def test_a_reader_follows_a_shipped_log_by_its_cursor(workplace: Workplace) -> None:
    log = workplace.begin(workplace.start(), "job-1", lines(3))
    workplace.wait_shipped("job-1", len(lines(3)))
    logs = JobLogs(Nodes([]), lambda: workplace.desk.store)
    job = replace(a_job("job-1"), state=JobState.RUNNING)
    end = logs.part(job)
    assert (end.content, end.is_over, end.has_moved) == (lines(3), False, False)
    assert end.source.startswith("Redis, shipped by node-1, up to ")
    grow(log, lines(4))
    workplace.wait_shipped("job-1", len(lines(4)))
    piece = logs.part(job, after=LogCursor.parse(str(end.cursor)))
    assert piece.content == lines(4)[len(lines(3)) :]
    workplace.running.clear()
    workplace.wait_done()
    last = logs.part(a_job("job-1"), after=piece.cursor)
    assert (last.content, last.is_over) == (b"", True)


def test_a_place_that_hangs_keeps_nobody_but_its_own_thread_waiting(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, may_go_on = threading.Event(), threading.Event()

    def hang(_: LogAddress) -> Any:
        hangs.set()
        may_go_on.wait(SOON_S)
        raise OSError("it did not answer")

    monkeypatch.setattr(shipping, "place_of", hang)
    workplace.address = LogAddress(str(workplace.folder / "share"))
    service = workplace.start()
    log = workplace.begin(service, "job-1", lines(1))
    assert hangs.wait(SOON_S)
    # The reactor's calls go on at once, and the log is held although nothing is shipped.
    service.begin(a_claim("job-2"))
    wait_until(lambda: "job-1.log" in workplace.left(), deadline_s=SOON_S, what="the log to be held")
    log.unlink()
    may_go_on.set()
