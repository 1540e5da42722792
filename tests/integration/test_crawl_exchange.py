"""A crawl goes out to a file and comes back as it was, or not at all."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.crawl_desk import CrawlDesk, a_plan, a_push, crawl_desk

from toolkit.model.crawls import CrawlPlan, Disposition, DomainLimit, Done, Filter, QueueOrder, SeedsKind, SeenKind
from toolkit.model.errors import ConfigurationError, NotFoundError, RefusedError
from toolkit.model.hosts import Secret
from toolkit.model.names import CrawlId
from toolkit.model.transfers import CrawlCounts
from toolkit.store.foreign import open_foreign
from toolkit.store.interfaces_foreign import Foreign
from toolkit.transfer.exchange import export_crawl, import_crawl

BOOKS = CrawlId("books")


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[CrawlDesk]:
    with crawl_desk(redis_url, tmp_path / "desk") as desk:
        yield desk


@pytest.fixture
def foreign(redis_url: str) -> Iterator[Foreign]:
    with closing(open_foreign(Secret(redis_url))) as foreign:
        yield foreign


def fill(desk: CrawlDesk, plan: CrawlPlan) -> None:
    """Put something on every shelf, and wish something of the crawl."""
    desk.plan = plan
    worker = desk.worker("w1")
    worker.commit(
        *(a_push(f"https://a.example/{n}", priority=n % 3, filter=Filter.SEEN) for n in range(40)),
        a_push("https://b.example/blocked", filter=Filter.SEEN, priority=9),
        a_push(b"\x00\xff no text", filter=Filter.NONE, priority=-5),
    )
    dead, blocked, suspect = worker.take(3)
    worker.commit(
        done=[Done(dead.entry, Disposition.DEAD, why="no such callback"), Done(blocked.entry, Disposition.BLOCKED)]
    )
    desk.kill(worker)
    second = desk.worker("w2")
    while suspect.entry not in {leased.entry for leased in second.take(5)}:
        pass
    desk.kill(second)
    desk.crawls.seed(BOOKS, [b"https://a.example/seed", b'{"url": "https://a.example/"}'])
    if plan.seeds is SeedsKind.ZSET:
        desk.redis.zadd(plan.keys.seeds, {"https://a.example/first": 2.5})
    desk.crawls.control(BOOKS, concurrency=3, delay_s=0.25)
    desk.crawls.block(BOOKS, ["blocked.example"])
    desk.crawls.limit(BOOKS, DomainLimit("slow.example", 0.5, 2))


def state(desk: CrawlDesk, crawl: CrawlId = BOOKS) -> dict[str, Any]:
    """Return all of a crawl that an export has to keep."""
    view = replace(desk.view(crawl), now=datetime(2026, 1, 1, tzinfo=UTC))
    return {
        # When an entry was buried is not kept; of all others the id says when they came.
        "entries": [replace(entry, came_at=view.now) for entry in desk.crawls.entries(crawl)],
        "seeds": list(desk.crawls.seeds(crawl)),
        "seen": sorted(desk.crawls.seen(crawl)),
        "controls": replace(view.controls, version=0),
        "limits": view.limits,
        "plan": view.plan,
        "counts": (view.pending, view.suspects, view.dead, view.blocked, view.seen),
    }


@pytest.mark.parametrize("order", QueueOrder)
@pytest.mark.parametrize("name", ["books.jsonl", "books.jsonl.gz"])
def test_what_comes_back_is_what_went_out(
    desk: CrawlDesk, foreign: Foreign, tmp_path: Path, order: QueueOrder, name: str
) -> None:
    fill(desk, a_plan(order=order))
    before = state(desk)
    _, counts = export_crawl(desk.crawls, BOOKS, tmp_path / name)
    assert counts == CrawlCounts(entries=42, seeds=2, seen=41)
    assert state(desk) == before
    desk.redis.flushall()
    plan, back = import_crawl(desk.crawls, foreign, tmp_path / name)
    assert (plan, back) == (before["plan"], counts)
    assert state(desk) == before


@pytest.mark.parametrize("seen", SeenKind)
@pytest.mark.parametrize("seeds", SeedsKind)
def test_every_kind_of_seen_set_and_of_seeds_comes_back(
    desk: CrawlDesk, foreign: Foreign, tmp_path: Path, seen: SeenKind, seeds: SeedsKind
) -> None:
    fill(desk, a_plan(seen=seen, seeds=seeds))
    before = state(desk)
    export_crawl(desk.crawls, BOOKS, tmp_path / "books.jsonl.gz")
    desk.redis.flushall()
    import_crawl(desk.crawls, foreign, tmp_path / "books.jsonl.gz")
    assert state(desk) == before
    worker = desk.worker("w3")
    answer = worker.commit(a_push("https://a.example/1", filter=Filter.SEEN), a_push("new", filter=Filter.SEEN))
    assert answer.duplicates == (0,)


def test_a_crawl_comes_back_under_another_name_beside_the_first(
    desk: CrawlDesk, foreign: Foreign, tmp_path: Path
) -> None:
    fill(desk, a_plan())
    before = state(desk)
    export_crawl(desk.crawls, BOOKS, tmp_path / "books.jsonl")
    plan, _ = import_crawl(desk.crawls, foreign, tmp_path / "books.jsonl", name=CrawlId("books-2"))
    assert plan.keys.requests == "books-2:requests"
    assert plan.spider == "books"
    after = state(desk, CrawlId("books-2"))
    assert {name: after[name] for name in after if name != "plan"} == {n: before[n] for n in before if n != "plan"}
    assert state(desk) == before


def test_an_import_into_a_crawl_that_has_anything_is_refused(desk: CrawlDesk, foreign: Foreign, tmp_path: Path) -> None:
    fill(desk, a_plan())
    export_crawl(desk.crawls, BOOKS, tmp_path / "books.jsonl")
    before = desk.dump().keys()
    with pytest.raises(RefusedError, match=r"is not empty here: .*pending"):
        import_crawl(desk.crawls, foreign, tmp_path / "books.jsonl")
    assert desk.dump().keys() == before
    desk.redis.flushall()
    desk.redis.rpush("books:start_urls", "https://a.example/")
    with pytest.raises(RefusedError, match="books:start_urls"):
        import_crawl(desk.crawls, foreign, tmp_path / "books.jsonl")


def test_a_crawl_whose_workers_live_is_exported_only_by_force(desk: CrawlDesk, tmp_path: Path) -> None:
    worker = desk.worker("w1")
    worker.push("a", "b")
    worker.take(1)
    with pytest.raises(RefusedError, match=r"1 worker\(s\)"):
        export_crawl(desk.crawls, BOOKS, tmp_path / "books.jsonl")
    _, counts = export_crawl(desk.crawls, BOOKS, tmp_path / "books.jsonl", force=True)
    assert counts.entries == 2


def test_a_crawl_that_nobody_knows_cannot_be_exported(desk: CrawlDesk, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        export_crawl(desk.crawls, BOOKS, tmp_path / "books.jsonl")
    assert list(tmp_path.glob("*.jsonl")) == []


def test_an_export_that_fails_leaves_the_file_that_was_there(
    desk: CrawlDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(desk, a_plan())
    file = tmp_path / "books.jsonl"
    file.write_text("before")

    def full(*_: object) -> Iterator[bytes]:
        yield b"p1234567890"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(desk.crawls, "seen", full)
    with pytest.raises(ConfigurationError, match="No space left"):
        export_crawl(desk.crawls, BOOKS, file)
    assert file.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["books.jsonl"]


@pytest.mark.parametrize("name", ["books.jsonl", "books.jsonl.gz"])
def test_a_file_that_was_cut_off_anywhere_brings_nothing(
    desk: CrawlDesk, foreign: Foreign, tmp_path: Path, name: str
) -> None:
    fill(desk, a_plan())
    file = tmp_path / name
    export_crawl(desk.crawls, BOOKS, file)
    whole = file.read_bytes()
    desk.redis.flushall()
    for part in range(0, 100, 9):
        file.write_bytes(whole[: len(whole) * part // 100])
        with pytest.raises(ConfigurationError, match="no whole export"):
            import_crawl(desk.crawls, foreign, file)
        assert desk.redis.dbsize() == 0
    file.write_bytes(whole)
    import_crawl(desk.crawls, foreign, file)


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (0, {"v": 2}),
        (0, {"format": "other"}),
        (0, {"plan": {}}),
        (1, {"body": "no base64!"}),
        (1, {"shelf": "nowhere"}),
        (1, {"entry": None}),
        (1, {"entry": "00"}),
        (1, {"deaths": -5}),
        (1, {"score": "first"}),
        (0, {"limits": [{"domain": "a.example", "per_second": "two"}]}),
        (-1, {"end": {"entries": 1, "seeds": 0, "seen": 0}}),
    ],
)
def test_a_file_that_was_changed_brings_nothing(
    desk: CrawlDesk, foreign: Foreign, tmp_path: Path, line: int, change: dict[str, Any]
) -> None:
    fill(desk, a_plan())
    file = tmp_path / "books.jsonl"
    export_crawl(desk.crawls, BOOKS, file)
    lines = [json.loads(each) for each in file.read_bytes().splitlines()]
    lines[line] |= change
    file.write_bytes(gzip.compress(b"".join(json.dumps(each).encode() + b"\n" for each in lines)))
    desk.redis.flushall()
    with pytest.raises(ConfigurationError, match="no whole export"):
        import_crawl(desk.crawls, foreign, file)
    assert desk.redis.dbsize() == 0


@pytest.mark.parametrize("change", [{"bloom_error": 0}, {"crawl": "bo oks/"}])
def test_a_plan_that_no_crawl_has_brings_nothing(
    desk: CrawlDesk, foreign: Foreign, tmp_path: Path, change: dict[str, Any]
) -> None:
    fill(desk, a_plan())
    file = tmp_path / "books.jsonl"
    export_crawl(desk.crawls, BOOKS, file)
    head, _, rest = file.read_bytes().partition(b"\n")
    content = json.loads(head)
    content["plan"] |= change
    file.write_bytes(json.dumps(content).encode() + b"\n" + rest)
    desk.redis.flushall()
    with pytest.raises(ConfigurationError, match="no whole export"):
        import_crawl(desk.crawls, foreign, file)
    assert desk.redis.dbsize() == 0


def test_an_import_that_is_ended_half_way_stays_paused_and_is_not_begun_again_over_itself(
    desk: CrawlDesk, foreign: Foreign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(desk, a_plan())
    export_crawl(desk.crawls, BOOKS, tmp_path / "books.jsonl")
    before = state(desk)
    desk.redis.flushall()
    with monkeypatch.context() as patched:
        patched.setattr(desk.crawls, "restore", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            import_crawl(desk.crawls, foreign, tmp_path / "books.jsonl")
    assert desk.view().controls.is_paused
    with pytest.raises(RefusedError, match="not empty"):
        import_crawl(desk.crawls, foreign, tmp_path / "books.jsonl")
    desk.crawls.clear(BOOKS)
    import_crawl(desk.crawls, foreign, tmp_path / "books.jsonl")
    assert state(desk) == before


def _interrupted(*_: object) -> int:
    raise KeyboardInterrupt
