"""A crawl of scrapy-redis is taken over whole: what it queued, in its order, and what it had seen."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from scrapy import FormRequest, Request
from scrapy.http import JsonRequest
from support.cli import NodeEntry
from support.crawl_desk import CrawlDesk, a_plan, crawl_desk
from support.desk import Desk
from support.foreign_crawl import ForeignCrawl, a_request
from support.ports import free_port

from toolkit.model.crawls import CrawlPlan, Filter, ItemsKind, Push, QueueOrder, SeedsKind, SeenKind
from toolkit.model.errors import NotFoundError, RefusedError
from toolkit.model.hosts import Secret
from toolkit.model.names import CrawlId
from toolkit.model.transfers import Adopted
from toolkit.spider.fingerprinters import ScrapyRedisFingerprinter
from toolkit.spider.requests import RequestWriter
from toolkit.store.foreign import open_foreign
from toolkit.store.interfaces_foreign import Foreign
from toolkit.transfer.adopt import adopt, found_plan, old_keys, refuse_while_changing

PRODUCTS = CrawlId("products")


class EndedError(Exception):
    """The process is gone."""


class Dying:
    """Passes calls on, until so many were made; the last one may still be carried out."""

    def __init__(self, inner: Any, left: list[int]) -> None:
        self._inner, self._left = inner, left

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def called(*args: Any, **named: Any) -> Any:
            self._left[0] -= 1
            if self._left[0] == -1:
                raise EndedError
            done = found(*args, **named)
            if self._left[0] == 0:
                raise EndedError
            return done

        return called


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[CrawlDesk]:
    with crawl_desk(redis_url, tmp_path / "desk") as desk:
        yield desk


@pytest.fixture
def foreign(redis_url: str) -> Iterator[Foreign]:
    with closing(open_foreign(Secret(redis_url))) as foreign:
        yield foreign


@pytest.fixture
def old(redis_url: str) -> Iterator[ForeignCrawl]:
    with closing(ForeignCrawl(redis_url)) as old:
        yield old


def plan_for(
    foreign: Foreign, *, crawl: str = "products", seen: SeenKind = SeenKind.PACKED, lifo: bool = False
) -> CrawlPlan:
    keys = old_keys(PRODUCTS)
    return found_plan(foreign, keys, CrawlId(crawl), spider="products", project="shop", is_lifo=lifo, seen=seen)


def adopted(desk: CrawlDesk, foreign: Foreign, plan: CrawlPlan | None = None, *, trust_pickle: bool = False) -> Adopted:
    wanted = plan or plan_for(foreign)
    desk.plan = wanted
    *_, done = adopt(desk.crawls, foreign, wanted, old=old_keys(PRODUCTS), trust_pickle=trust_pickle)
    return done


def taken(desk: CrawlDesk, old: ForeignCrawl) -> list[Request]:
    """Return what a worker of the adopted crawl gets, in its order, as requests."""
    writer = RequestWriter(old.spider)
    worker = desk.worker()
    found = []
    while leased := worker.take(50):
        found += [writer.read(entry.body) for entry in leased]
        worker.finish(*leased)
    return found


def as_dicts(requests: list[Request], old: ForeignCrawl) -> list[dict[str, Any]]:
    return [request.to_dict(spider=old.spider) for request in requests]


@pytest.mark.parametrize("order", ["priority", "fifo", "lifo"])
def test_requests_come_in_scrapy_redis_own_order_with_all_their_fields(
    desk: CrawlDesk, foreign: Foreign, redis_url: str, order: str
) -> None:
    with closing(ForeignCrawl(redis_url, order)) as old:
        old.push(a_request(old.spider, number) for number in range(1200))
        saved = desk.dump()
        expected = as_dicts(old.pop_all(), old)
        desk.restore(saved)
        plan = plan_for(foreign, lifo=order == "lifo")
        assert plan.order is QueueOrder(order)
        assert adopted(desk, foreign, plan) == Adopted(1200, 1200, kept_in="products:requests:scrapy-redis:kept")
        assert as_dicts(taken(desk, old), old) == expected


@pytest.mark.parametrize("seen", SeenKind)
def test_what_scrapy_redis_has_seen_is_not_fetched_again(
    desk: CrawlDesk, foreign: Foreign, old: ForeignCrawl, seen: SeenKind
) -> None:
    old.push(a_request(old.spider, number) for number in range(300))
    old.pop_all()
    assert adopted(desk, foreign, plan_for(foreign, seen=seen)).fingerprints == 300
    assert desk.view().seen == 300
    assert desk.view().plan.fingerprints == "scrapy-redis"
    worker = desk.worker()
    made = ScrapyRedisFingerprinter()
    requests = [a_request(old.spider, number) for number in (7, 299, 300)]
    pushes = [Push(b"x", fingerprint=made.fingerprint(request), filter=Filter.SEEN) for request in requests]
    assert worker.commit(*pushes).duplicates == (0, 1)


def test_requests_of_other_classes_stay_what_they_are(desk: CrawlDesk, foreign: Foreign, old: ForeignCrawl) -> None:
    requests = [
        FormRequest("https://a.example/form", formdata={"a": "1"}, dont_filter=True),
        JsonRequest("https://a.example/json", data={"a": [1]}, dumps_kwargs={"sort_keys": True}),
        Request("https://a.example/post", method="POST", body=b"\xff", cookies={"a": "b"}, encoding="latin-1"),
    ]
    old.push(requests)
    adopted(desk, foreign)
    found = taken(desk, old)
    assert sorted(map(str, as_dicts(found, old))) == sorted(map(str, as_dicts(requests, old)))
    assert {type(each) for each in found} == {FormRequest, JsonRequest, Request}


def test_a_queue_of_json_is_read_too(desk: CrawlDesk, foreign: Foreign, old: ForeignCrawl) -> None:
    fields = {
        "url": "https://a.example/",
        "method": "GET",
        "headers": {"A": ["b"]},
        "priority": 0,
        "_encoding": "utf-8",
    }
    old.redis.zadd("products:requests", {json.dumps(fields): 0})
    assert adopted(desk, foreign).requests == 1
    (request,) = taken(desk, old)
    assert request.headers[b"A"] == b"b"


class Payload:
    def __reduce__(self) -> Any:
        return Path.touch, (Path(self.path),)

    def __init__(self, path: str) -> None:
        self.path = path


def hostile(path: Path) -> bytes:
    return pickle.dumps({"url": "https://a.example/", "meta": {"x": Payload(str(path))}})


def test_no_code_of_a_pickle_is_run_and_what_needs_it_is_kept_and_named(
    desk: CrawlDesk, foreign: Foreign, old: ForeignCrawl, tmp_path: Path
) -> None:
    old.push(a_request(old.spider, number) for number in range(5))
    old.push([a_request(old.spider, 5).replace(meta={"at": datetime(2026, 1, 1, tzinfo=UTC)})])
    bodies = {hostile(tmp_path / "ran"): 1.5, b"\x80\x05garbage": 2, b"\0\x01": 3, pickle.dumps([1]): 4}
    bodies[pickle.dumps({"url": "https://a.example/", "tenant": "x"})] = 5
    old.redis.zadd("products:requests", bodies)
    done = adopted(desk, foreign)
    assert (done.requests, done.kept) == (5, 6)
    assert not (tmp_path / "ran").exists()
    why = " ".join(reason for reason, _ in done.reasons)
    for words in ("pathlib.Path", "datetime.datetime", "neither a pickle nor JSON", "not a request", "field tenant"):
        assert words in why
    assert old.redis.zscore(done.kept_in, hostile(tmp_path / "ran")) == 1.5
    assert old.redis.zcard(done.kept_in) == 6
    assert old.redis.exists("products:requests:scrapy-redis") == 0
    with pytest.raises(RefusedError, match="only what was kept is left"):
        adopted(desk, foreign)


def test_what_was_kept_is_read_when_the_operator_trusts_it(
    desk: CrawlDesk, foreign: Foreign, old: ForeignCrawl, tmp_path: Path
) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    old.push([a_request(old.spider, 1), a_request(old.spider, 2).replace(meta={"at": at})])
    old.redis.zadd("products:requests", {hostile(tmp_path / "ran"): 0})
    assert adopted(desk, foreign).kept == 2
    done = adopted(desk, foreign, trust_pickle=True)
    assert (done.requests, done.kept) == (2, 0)
    assert (tmp_path / "ran").exists()
    assert {request.meta.get("at") for request in taken(desk, old)} == {None, at}


def test_a_pickle_that_grows_when_it_is_read_is_kept(desk: CrawlDesk, foreign: Foreign, old: ForeignCrawl) -> None:
    bomb: list[Any] = [0]
    for _ in range(60):
        bomb = [bomb, bomb]
    endless: list[Any] = []
    endless.append(endless)
    bodies = [pickle.dumps({"url": "https://a.example/", "meta": {"x": each}}) for each in (bomb, endless)]
    old.redis.zadd("products:requests", dict.fromkeys(bodies, 0))
    done = adopted(desk, foreign)
    assert done.kept == 2
    assert "parts" in str(done.reasons)
    assert "deep" in str(done.reasons)


@pytest.mark.parametrize(("order", "trust_pickle"), [("priority", False), ("fifo", True)])
def test_an_adoption_that_is_ended_anywhere_goes_on_and_loses_and_doubles_nothing(
    desk: CrawlDesk,
    foreign: Foreign,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    order: str,
    *,
    trust_pickle: bool,
) -> None:
    monkeypatch.setattr("toolkit.transfer.adopt._A_STEP", 4)
    with closing(ForeignCrawl(redis_url, order)) as old:
        old.push(a_request(old.spider, number) for number in range(6))
        old.push([a_request(old.spider, 99).replace(meta={"at": datetime(2026, 1, 1, tzinfo=UTC)})])
        saved = desk.dump()
        calls = 0
        while True:
            calls += 1
            desk.restore(saved)
            plan = plan_for(foreign)
            left = [calls]
            with suppress(EndedError):
                list(
                    adopt(
                        Dying(desk.crawls, left),
                        Dying(foreign, left),
                        plan,
                        old=old_keys(PRODUCTS),
                        trust_pickle=trust_pickle,
                    )
                )
            with suppress(NotFoundError, RefusedError):
                # It may have come to its end.
                adopted(desk, foreign, plan, trust_pickle=trust_pickle)
            view = desk.view()
            assert view.pending == (7 if trust_pickle else 6), calls
            assert view.seen == 7, calls
            assert desk.redis.exists("products:requests:scrapy-redis", "products:dupefilter:scrapy-redis") == 0
            if left[0] > 0:
                break
        assert calls > 20


def test_a_crawl_is_paused_while_it_is_taken_over_and_goes_on_afterwards(
    desk: CrawlDesk, foreign: Foreign, old: ForeignCrawl
) -> None:
    old.push(a_request(old.spider, number) for number in range(700))
    plan = plan_for(foreign)
    steps = adopt(desk.crawls, foreign, plan, old=old_keys(PRODUCTS))
    desk.plan = plan
    seen_paused = [desk.view().controls.is_paused for done in steps if 0 < done.requests < 700]
    assert seen_paused == [True]
    assert not desk.view().controls.is_paused


def test_a_crawl_of_another_name_gets_the_seeds_too(desk: CrawlDesk, foreign: Foreign, old: ForeignCrawl) -> None:
    old.push([a_request(old.spider, 1)])
    old.redis.zadd("products:start_urls", {"https://a.example/": 1})
    plan = plan_for(foreign, crawl="products-2")
    assert (plan.seeds, plan.items, plan.keys.requests) == (SeedsKind.ZSET, ItemsKind.STREAM, "products-2:requests")
    assert adopted(desk, foreign, plan).requests == 1
    assert desk.view("products-2").seeds == 1
    assert old.redis.keys("products:*") == []


def test_a_crawl_that_has_entries_or_workers_is_left_alone(
    desk: CrawlDesk, foreign: Foreign, old: ForeignCrawl
) -> None:
    desk.plan = a_plan("products", spider="products")
    worker = desk.worker()
    with pytest.raises(RefusedError, match="live"):
        adopted(desk, foreign)
    worker.push("a")
    worker.leave()
    with pytest.raises(NotFoundError, match="nothing of scrapy-redis"):
        adopted(desk, foreign)
    old.filter.request_seen(a_request(old.spider, 1))
    before = desk.dump().keys()
    with pytest.raises(RefusedError, match="has entries already"):
        adopted(desk, foreign)
    assert desk.dump().keys() == before


def test_keys_of_another_kind_are_left_alone(desk: CrawlDesk, foreign: Foreign, old: ForeignCrawl) -> None:
    with pytest.raises(NotFoundError, match="products:requests"):
        adopted(desk, foreign)
    old.redis.set("products:requests", "x")
    with pytest.raises(RefusedError, match="is a string"):
        adopted(desk, foreign)


def test_what_is_no_fingerprint_stays_and_is_counted(desk: CrawlDesk, foreign: Foreign, old: ForeignCrawl) -> None:
    old.push([a_request(old.spider, 1)])
    old.redis.sadd("products:dupefilter", "not hexadecimal", "ab" * 16)
    done = adopted(desk, foreign)
    assert (done.fingerprints, done.fingerprints_kept) == (1, 2)
    assert old.redis.scard("products:dupefilter:scrapy-redis") == 3
    again = adopted(desk, foreign)
    assert (again.requests, desk.view().pending, desk.view().seen) == (0, 1, 1)


def test_a_queue_that_workers_change_is_left_alone(foreign: Foreign, old: ForeignCrawl) -> None:
    old.push([a_request(old.spider, 1)])
    refuse_while_changing(foreign, old_keys(PRODUCTS), wait=lambda: None)
    with pytest.raises(RefusedError, match="is changing"):
        refuse_while_changing(foreign, old_keys(PRODUCTS), wait=lambda: old.push([a_request(old.spider, 2)]))


def test_the_command_takes_over_and_names_what_it_kept(redis_url: str, old: ForeignCrawl, tmp_path: Path) -> None:
    desk = Desk.of([NodeEntry("node-1", "127.0.0.1", free_port())], redis_url, tmp_path / "operator")
    assert "nothing of scrapy-redis" in desk.error("crawls", "adopt", "products", "--yes", exit_code=7)
    old.push(a_request(old.spider, number) for number in range(20))
    old.redis.zadd("products:requests", {hostile(tmp_path / "ran"): 0})
    asked = desk.error("crawls", "adopt", "products", exit_code=2)
    assert "Take over 21 requests and 20 fingerprints" in asked
    told = desk.run("crawls", "adopt", "products", "--project", "shop", "--yes", exit_code=6)
    assert "20 taken over" in told.out
    assert "pathlib.Path" in told.out
    assert "--trust-pickle" in told.err
    assert "ScrapyRedisFingerprinter" in told.err
    shown = desk.json("crawls", "show", "products")
    assert (shown["pending"], shown["seen"]) == (20, 20)
    done = desk.json("crawls", "adopt", "products", "--yes", "--trust-pickle")
    assert (done["requests"], done["kept"]) == (1, 0)
    exported = desk.json("crawls", "export", "products", "products.jsonl.gz")
    assert (exported["entries"], exported["seen_records"]) == (21, 20)
    assert "--yes" in desk.error("crawls", "export", "products", "products.jsonl.gz", exit_code=2)
    assert "not empty" in desk.error("crawls", "import", "products.jsonl.gz", exit_code=6)
    back = desk.json("crawls", "import", "products.jsonl.gz", "--crawl", "products-2")
    assert (back["crawl"], back["entries"]) == ("products-2", 21)
    assert "cannot be read" in desk.error("crawls", "import", "nowhere.gz", exit_code=3)
