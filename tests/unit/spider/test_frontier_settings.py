"""Every setting of scrapy-redis keeps its meaning for a worker of the frontier, or is refused by its name."""

from __future__ import annotations

import json
import logging
import os
import plistlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from toolkit.config.options import Scope, options
from toolkit.model.crawls import DomainLimit, ItemsKind, QueueOrder, SeedsKind, SeenKind
from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import CrawlId, JobId, ProjectName, SpiderName, default_crawl, digest_of
from toolkit.runs.folder import CLAIM, RUN_VARIABLE
from toolkit.spider.crawl_plan import given_arguments
from toolkit.spider.fingerprinters import ScrapyRedisFingerprinter
from toolkit.spider.frontier_keys import read_keys
from toolkit.spider.frontier_settings import FrontierSettings, read_settings
from toolkit.store.wire_jobs import write_job
from toolkit.store.wire_requests import Wire


class Shop(Spider):
    name = "shop"


class Fingerprinter(ScrapyRedisFingerprinter):
    pass


def settings_of(kind: type[Spider] = Shop, arguments: dict[str, Any] | None = None, **said: Any) -> FrontierSettings:
    crawler = get_crawler(kind, {"TELNETCONSOLE_ENABLED": False, **said})
    crawler.spider = kind.from_crawler(crawler, **arguments or {})
    return read_settings(crawler)


@pytest.fixture(autouse=True)
def _no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)


@pytest.fixture
def claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a claim that this process runs, with a file that names the node's Redis."""
    file = tmp_path / "redis.url"
    file.write_text("redis://:node-secret@node-redis:7000/1\n")
    file.chmod(0o600)
    content = {"job_id": "job-1", "token": "7", "project": "market", "redis_file": str(file)}
    (tmp_path / CLAIM).write_text(json.dumps(content))
    monkeypatch.setenv(RUN_VARIABLE, str(tmp_path))
    return content


def test_a_project_that_says_nothing_gets_scrapy_redis_names_and_the_safe_kinds() -> None:
    found = settings_of()
    plan = found.plan
    assert (plan.crawl, plan.spider, plan.project) == ("shop", "shop", "scrapybot")
    assert (plan.keys.requests, plan.keys.seen) == ("shop:requests", "shop:dupefilter")
    assert (plan.keys.seeds, plan.keys.items) == ("shop:start_urls", "shop:items")
    assert (plan.order, plan.seen, plan.seeds) == (QueueOrder.PRIORITY, SeenKind.PACKED, SeedsKind.LIST)
    assert (plan.items, plan.fingerprints, plan.persists) == (ItemsKind.NONE, "scrapy", False)
    assert (found.serializer, found.filters, found.flush_on_start) == (Wire.MSGPACK, True, False)
    assert found.redis == Secret("redis://localhost:6379/0")


def test_every_default_is_that_of_the_option_table() -> None:
    found = settings_of()
    read = {
        "FRONTIER_LEASE_S": found.ttl_s,
        "FRONTIER_SEEN": found.plan.seen.value,
        "FRONTIER_BLOOM_ERROR": found.plan.bloom_error,
        "FRONTIER_MAX_DELIVERIES": found.plan.max_deliveries,
        "FRONTIER_OBEY_CRAWL_DELAY": found.obeys_crawl_delay,
        "FRONTIER_JOURNAL_S": found.journal_s,
        "FRONTIER_SEEN_CACHE": found.seen_cache,
        "FRONTIER_MAX_OUTBOX": found.max_outbox,
    }
    frontier = [each for each in options(Scope.SPIDER) if each.name.startswith("FRONTIER_")]
    assert read == {each.name: each.default for each in frontier if each.default is not None}


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("PriorityQueue", QueueOrder.PRIORITY),
        ("SpiderPriorityQueue", QueueOrder.PRIORITY),
        ("FifoQueue", QueueOrder.FIFO),
        ("SpiderQueue", QueueOrder.FIFO),
        ("LifoQueue", QueueOrder.LIFO),
        ("SpiderStack", QueueOrder.LIFO),
    ],
)
def test_every_queue_class_of_scrapy_redis_names_an_order(name: str, order: QueueOrder) -> None:
    queue = pytest.importorskip("scrapy_redis.queue")
    for written in (name, f"scrapy_redis.queue.{name}", getattr(queue, name)):
        assert settings_of(SCHEDULER_QUEUE_CLASS=written).plan.order is order


@pytest.mark.parametrize("written", ["shop.queues.Mine", "scrapy.squeues.FifoMemoryQueue", Shop])
def test_a_queue_class_whose_code_would_not_be_called_is_refused(written: object) -> None:
    with pytest.raises(ConfigurationError, match=r"SCHEDULER_QUEUE_CLASS is .*would never call"):
        settings_of(SCHEDULER_QUEUE_CLASS=written)


def test_scrapy_redis_switches_keep_their_meaning() -> None:
    found = settings_of(SCHEDULER_PERSIST=True, SCHEDULER_FLUSH_ON_START="1", SCHEDULER_IDLE_BEFORE_CLOSE="7")
    assert (found.plan.persists, found.flush_on_start, found.idle_before_close_s) == (True, True, 7.0)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"REDIS_START_URLS_AS_SET": True}, SeedsKind.SET),
        ({"REDIS_START_URLS_AS_ZSET": True}, SeedsKind.ZSET),
        ({"REDIS_START_URLS_AS_SET": True, "REDIS_START_URLS_AS_ZSET": True}, SeedsKind.SET),
    ],
)
def test_seeds_are_read_from_the_type_of_key_that_is_set(said: dict[str, Any], kind: SeedsKind) -> None:
    assert settings_of(**said).plan.seeds is kind


@pytest.mark.parametrize(
    ("said", "expected"),
    [("json", Wire.JSON), ("msgpack", Wire.MSGPACK), (None, Wire.MSGPACK), ("plistlib", plistlib)],
)
def test_a_serializer_is_a_wire_format_or_whatever_loads_and_dumps(said: object, expected: object) -> None:
    assert settings_of(SCHEDULER_SERIALIZER=said).serializer is expected


def test_pickle_needs_to_be_named_and_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    found = settings_of(SCHEDULER_SERIALIZER="scrapy_redis.picklecompat").serializer
    assert getattr(found, "__name__", "") == "scrapy_redis.picklecompat"
    assert "can run any program" in caplog.text


@pytest.mark.parametrize("said", ["no.such.module", "textwrap", SimpleNamespace(loads=len)])
def test_a_serializer_that_cannot_work_is_refused(said: object) -> None:
    with pytest.raises(ConfigurationError, match="SCHEDULER_SERIALIZER"):
        settings_of(SCHEDULER_SERIALIZER=said)


def test_a_filter_that_filters_nothing_stays_one(caplog: pytest.LogCaptureFixture) -> None:
    assert settings_of(DUPEFILTER_CLASS="scrapy.dupefilters.BaseDupeFilter").filters is False
    assert settings_of(DUPEFILTER_CLASS="scrapy_redis.dupefilter.RFPDupeFilter").filters is True
    assert caplog.text == ""


def test_a_filter_of_the_project_s_own_is_said_not_to_be_used(caplog: pytest.LogCaptureFixture) -> None:
    assert settings_of(DUPEFILTER_CLASS="shop.filters.Mine").filters is True
    assert "shop.filters.Mine is not used" in caplog.text


def test_whoever_makes_the_fingerprints_is_part_of_the_plan() -> None:
    ours = "toolkit.spider.ScrapyRedisFingerprinter"
    own = f"{__name__}.Fingerprinter"
    assert settings_of(REQUEST_FINGERPRINTER_CLASS=ours).plan.fingerprints == "scrapy-redis"
    assert settings_of(REQUEST_FINGERPRINTER_CLASS=Fingerprinter).plan.fingerprints == own


def test_domain_limits_are_a_dictionary_or_its_json() -> None:
    said = {"Example.com": {"per_second": 2, "concurrency": 4}, "*": {"concurrency": 8}}
    expected = (DomainLimit("example.com", 2.0, 4), DomainLimit("*", None, 8))
    assert settings_of(FRONTIER_DOMAIN_LIMITS=said).plan.limits == expected
    assert settings_of(FRONTIER_DOMAIN_LIMITS=json.dumps(said)).plan.limits == expected


@pytest.mark.parametrize(
    "said",
    [
        {"a.com": 2},
        {"a.com": {}},
        {"a.com": {"per_minute": 2}},
        {"a.com": {"per_second": 0}},
        {"a.com": {"concurrency": 1.5}},
        {"a.com": {"concurrency": True}},
        {"https://a.com/": {"per_second": 1}},
        {"": {"per_second": 1}},
        "a.com=2",
        "{",
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_with_an_example(said: object) -> None:
    with pytest.raises(ConfigurationError, match="FRONTIER_DOMAIN_LIMITS") as caught:
        settings_of(FRONTIER_DOMAIN_LIMITS=said)
    assert "per_second" in str(caught.value.hint)


def test_a_limit_that_makes_no_sense_is_repeated() -> None:
    with pytest.raises(ConfigurationError, match=r"and 'two a second' of a.com is no limit"):
        settings_of(FRONTIER_DOMAIN_LIMITS={"a.com": "two a second"})
    with pytest.raises(ConfigurationError, match=r"and 'a.com=2' cannot be read so"):
        settings_of(FRONTIER_DOMAIN_LIMITS="a.com=2")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FRONTIER_LEASE_S", "0.5"),
        ("FRONTIER_SEEN", "exact"),
        ("FRONTIER_BLOOM_ERROR", 0.001),
        ("FRONTIER_BLOOM_ERROR", 0),
        ("FRONTIER_MAX_DELIVERIES", 1),
        ("FRONTIER_OBEY_CRAWL_DELAY", "perhaps"),
        ("SCHEDULER_IDLE_BEFORE_CLOSE", -1),
        ("SCHEDULER_IDLE_BEFORE_CLOSE", "soon"),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        settings_of(**{name: value})


def test_a_crawl_has_keys_of_its_own() -> None:
    plan = settings_of(FRONTIER_CRAWL="shop-eu").plan
    assert (plan.crawl, plan.spider) == ("shop-eu", "shop")
    assert plan.keys.requests == "shop-eu:requests"
    assert plan.keys.seeds == "shop-eu:start_urls"


def on_command_line(monkeypatch: pytest.MonkeyPatch, **arguments: str) -> CrawlId:
    """Let this process have been started by Scrapy's command with these arguments; return the crawl's id."""
    given = [f"-a{name}={value}" for name, value in arguments.items()]
    monkeypatch.setattr("sys.argv", ["scrapy", "crawl", "shop", "-s", "LOG_LEVEL=INFO", *given])
    return default_crawl("shop", arguments)


def test_a_spider_with_arguments_has_a_crawl_of_its_own(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert settings_of().plan.digest == digest_of({})
    assert caplog.text == ""
    caplog.set_level(logging.INFO)
    crawl = on_command_line(monkeypatch, category="lamps", limit="9")
    plan = settings_of().plan
    assert (plan.crawl, plan.spider, plan.is_named) == (crawl, "shop", False)
    assert (plan.digest, plan.arguments) == (
        digest_of({"category": "lamps", "limit": "9"}),
        "-a category=lamps -a limit=9",
    )
    assert (plan.keys.requests, plan.keys.items) == (f"{crawl}:requests", f"{crawl}:items")
    assert (
        f"Crawl {crawl}: spider shop with -a category=lamps -a limit=9; its seeds are in {crawl}:start_urls"
        in caplog.text
    )
    named = settings_of(FRONTIER_CRAWL="eu").plan
    assert (named.crawl, named.digest, named.is_named) == ("eu", plan.digest, True)
    on_command_line(monkeypatch)
    settings_of(FRONTIER_CRAWL="eu")
    assert "Crawl eu: spider shop with no arguments; its seeds are in eu:start_urls" in caplog.text


def test_the_arguments_of_a_job_are_those_that_its_node_was_given(
    claim: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_command_line(monkeypatch, _job="job-1", by_hand="no")
    args = {"category": "lamps"}
    job = Job(JobId("job-1"), ProjectName("market"), SpiderName("shop"), JobState.PENDING, args=args)
    (tmp_path / CLAIM).write_text(json.dumps({**claim, "job": write_job(job)}))
    plan = settings_of(BOT_NAME="shopbot").plan
    assert (plan.crawl, plan.project, plan.bot) == (job.crawl, "market", "shopbot")


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("crawl shop", {}),
        ("crawl shop -a x=1 -s A=b -ay=2=3 -o out.jl -a x=4", {"x": "4", "y": "2=3"}),
        ("crawl shop -a _job=7f -a _version=1 -a x=", {"x": ""}),
        ("runspider shop.py --set -a=1 -L INFO --nolog", {}),
        ("crawl -a word shop -a", {}),
    ],
)
def test_arguments_are_read_from_a_command_line_of_scrapy(words: str, arguments: dict[str, str]) -> None:
    assert given_arguments(words.split()) == arguments


def test_a_key_of_seeds_that_is_written_stays_with_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    from scrapy_redis.spiders import RedisSpider  # noqa: PLC0415 - as below

    class Plain(RedisSpider):  # type: ignore[misc]
        name = "shop"

    class Fixed(RedisSpider):  # type: ignore[misc]
        name = "shop"
        redis_key = "my:urls"

    crawl = on_command_line(monkeypatch, category="lamps")
    assert settings_of(Plain, REDIS_URL="redis://h").plan.keys.seeds == f"{crawl}:start_urls"
    assert settings_of(Fixed, REDIS_URL="redis://h").plan.keys.seeds == "my:urls"
    assert settings_of(REDIS_START_URLS_KEY="urls").plan.keys.seeds == "urls"
    for key in ("given:urls", "my:urls", "shop:start_urls"):
        on_command_line(monkeypatch, redis_key=key)
        for kind in (Plain, Fixed):
            given = settings_of(kind, {"redis_key": key}, REDIS_URL="redis://h")
            assert given.plan.keys.seeds == key
            assert given.plan.crawl == default_crawl("shop", {"redis_key": key})


def test_a_key_of_requests_without_a_crawl_in_it_is_for_one_crawl_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    crawl = on_command_line(monkeypatch, category="lamps")
    plan = settings_of(SCHEDULER_QUEUE_KEY="jobs", SCHEDULER_DUPEFILTER_KEY="seen").plan
    assert (plan.crawl, plan.keys.requests, plan.keys.seen) == (crawl, "jobs", "seen")
    with pytest.raises(ConfigurationError, match=r"SCHEDULER_DUPEFILTER_KEY .* would mix"):
        settings_of(SCHEDULER_DUPEFILTER_KEY="seen")


def test_key_templates_hold_the_crawl_s_id_under_either_name() -> None:
    keys = settings_of(
        FRONTIER_CRAWL="eu",
        SCHEDULER_QUEUE_KEY="q/%(spider)s",
        SCHEDULER_DUPEFILTER_KEY="d:%(name)s",
        REDIS_START_URLS_KEY="s:%(name)s",
        REDIS_ITEMS_KEY="i:%(spider)s:100%%",
    ).plan.keys
    assert (keys.requests, keys.seen, keys.seeds, keys.items) == ("q/eu", "d:eu", "s:eu", "i:eu:100%")


@pytest.mark.parametrize("template", ["%(crawl)s", "100%", " ", "%d"])
def test_a_template_that_cannot_be_filled_is_refused(template: str) -> None:
    with pytest.raises(ConfigurationError, match="SCHEDULER_QUEUE_KEY"):
        settings_of(SCHEDULER_QUEUE_KEY=template)


def test_a_key_without_a_crawl_in_it_is_that_of_the_crawl_called_as_the_spider() -> None:
    assert settings_of(SCHEDULER_QUEUE_KEY="jobs").plan.keys.requests == "jobs"
    with pytest.raises(ConfigurationError, match=r"SCHEDULER_QUEUE_KEY .* would mix"):
        settings_of(SCHEDULER_QUEUE_KEY="jobs", FRONTIER_CRAWL="eu")
    assert settings_of(REDIS_START_URLS_KEY="jobs", FRONTIER_CRAWL="eu").plan.keys.seeds == "jobs"


def test_a_key_given_with_the_command_counts_for_any_crawl() -> None:
    said = Settings({"FRONTIER_CRAWL": "eu"})
    said.setdict({"SCHEDULER_QUEUE_KEY": "jobs", "REDIS_START_URLS_KEY": "urls"}, priority="cmdline")
    keys = read_keys(said, CrawlId("eu"), Shop(), {})
    assert (keys.requests, keys.seeds) == ("jobs", "urls")


def test_a_redis_key_of_the_class_never_changes() -> None:
    from scrapy_redis.spiders import RedisSpider  # noqa: PLC0415 - a stranger's warnings must not be ours

    class Fixed(RedisSpider):  # type: ignore[misc]
        name = "shop"
        redis_key = "my:urls"

    class Templated(RedisSpider):  # type: ignore[misc]
        name = "shop"
        redis_key = "%(name)s:urls"

    assert settings_of(Fixed, REDIS_URL="redis://h").plan.keys.seeds == "my:urls"
    assert settings_of(Fixed, REDIS_URL="redis://h", FRONTIER_CRAWL="eu").plan.keys.seeds == "my:urls"
    assert settings_of(Templated, REDIS_URL="redis://h", FRONTIER_CRAWL="eu").plan.keys.seeds == "eu:urls"
    explicit = settings_of(Fixed, {"redis_key": "given:urls"}, REDIS_URL="redis://h", FRONTIER_CRAWL="eu")
    assert explicit.plan.keys.seeds == "given:urls"


def test_a_spider_s_name_that_cannot_be_a_crawl_s_is_refused_with_the_way_out() -> None:
    class Spaced(Spider):
        name = "my shop"

    with pytest.raises(ConfigurationError, match="my shop") as caught:
        settings_of(Spaced)
    assert "FRONTIER_CRAWL" in str(caught.value.hint)
    assert settings_of(Spaced, FRONTIER_CRAWL="my-shop").plan.keys.requests == "my-shop:requests"


def test_the_enabled_pipeline_says_what_kind_of_key_items_go_to() -> None:
    for name, kind in (("RedisPipeline", ItemsKind.LIST), ("StreamPipeline", ItemsKind.STREAM)):
        for path in (f"toolkit.spider.{name}", f"toolkit.spider.pipelines.{name}"):
            assert settings_of(ITEM_PIPELINES={path: 300}).plan.items is kind
    both = {"toolkit.spider.RedisPipeline": 300, "toolkit.spider.StreamPipeline": 301}
    with pytest.raises(ConfigurationError, match="take one"):
        settings_of(ITEM_PIPELINES=both)
    assert settings_of(ITEM_PIPELINES={**both, "toolkit.spider.StreamPipeline": None}).plan.items is ItemsKind.LIST


def test_scrapy_redis_own_pipeline_is_said_to_repeat_items(caplog: pytest.LogCaptureFixture) -> None:
    found = settings_of(ITEM_PIPELINES={"scrapy_redis.pipelines.RedisPipeline": 300})
    assert found.plan.items is ItemsKind.LIST
    assert "toolkit.spider.RedisPipeline" in caplog.text


def test_a_worker_within_a_node_is_named_by_its_claim(claim: dict[str, Any]) -> None:
    found = settings_of()
    assert found.worker == "job-1~7"
    assert found.plan.project == "market"
    assert claim["redis_file"] not in repr(found)


def test_no_two_processes_without_a_node_have_the_same_name() -> None:
    first, second = settings_of().worker, settings_of().worker
    assert first != second
    assert f":{os.getpid()}:" in first


def test_a_node_s_redis_is_used_where_the_project_names_none(claim: dict[str, Any]) -> None:
    assert claim
    assert settings_of().redis == Secret("redis://:node-secret@node-redis:7000/1")
    assert settings_of(REDIS_HOST="own").redis == Secret("redis://own:6379/0")
    assert settings_of(REDIS_URL="redis://own/3").redis == Secret("redis://own/3")


def test_a_node_s_file_that_cannot_be_read_is_said(claim: dict[str, Any]) -> None:
    path = Path(claim["redis_file"])
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="can be read by everybody"):
        settings_of()
    path.unlink()
    with pytest.raises(ConfigurationError, match="cannot be read") as caught:
        settings_of()
    assert "node-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ({"REDIS_HOST": "h", "REDIS_PORT": "7000", "REDIS_DB": 2}, "redis://h:7000/2"),
        ({"REDIS_PORT": 7000}, "redis://localhost:7000/0"),
        ({"REDIS_HOST": "::1"}, "redis://[::1]:6379/0"),
        ({"REDIS_PARAMS": {"host": "h", "password": "a/b@c", "db": 3}}, "redis://:a%2Fb%40c@h:6379/3"),
        ({"REDIS_HOST": "h", "REDIS_PARAMS": {"host": "other"}}, "redis://h:6379/0"),
        ({"REDIS_PARAMS": {"host": "h", "username": "u", "password": "p"}}, "redis://u:p@h:6379/0"),
        ({"REDIS_PARAMS": {"host": "h", "ssl": True, "ssl_cert_reqs": None}}, "rediss://h:6379/0?ssl_cert_reqs=none"),
        ({"REDIS_PARAMS": {"unix_socket_path": "/run/r.sock", "db": 1}}, "unix:///run/r.sock?db=1"),
        ({"REDIS_PARAMS": {"host": "h", "socket_timeout": 30}}, "redis://h:6379/0?socket_timeout=30"),
        ({"REDIS_URL": "redis://u:p@h:1/2", "REDIS_HOST": "x", "REDIS_PARAMS": {"password": "q"}}, "redis://u:p@h:1/2"),
        ({"REDIS_URL": "redis://h:1", "REDIS_PARAMS": {"password": "q", "db": 4}}, "redis://:q@h:1/4"),
        ({"REDIS_URL": "redis://h:1/2", "REDIS_PARAMS": {"db": 4}}, "redis://h:1/2"),
        ({"REDIS_URL": "redis://h:1?db=5", "REDIS_PARAMS": {"db": 4}}, "redis://h:1?db=5"),
        ({"REDIS_URL": "redis://h?password=p%2F"}, "redis://:p%2F@h"),
        ({"REDIS_URL": "redis://h", "REDIS_ENCODING": "latin-1", "REDIS_PARAMS": {"max_connections": 9}}, "redis://h"),
        ({"REDIS_URL": "redis+sentinel://a,b/main/1"}, "redis+sentinel://a,b/main/1"),
    ],
)
def test_redis_is_found_by_scrapy_redis_settings(
    said: dict[str, Any], url: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert settings_of(**said).redis.reveal() == url
    assert caplog.text == ""


def test_that_nothing_names_a_redis_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolkit.spider")
    settings_of(REDIS_URL="redis://h")
    assert "REDIS_URL" not in caplog.text
    settings_of()
    assert "No REDIS_URL" in caplog.text


def test_parameters_that_are_not_used_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    said = {"host": "h", "password": "hidden", "redis_cls": "a.B", "foo": "secret-too"}
    settings_of(REDIS_PARAMS=said)
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "The frontier does not use these of REDIS_PARAMS: foo, redis_cls"
    ]
    assert "hidden" not in caplog.text


@pytest.mark.parametrize("url", ["h:6379", "http://h", "redis://h:x", "redis://:a/b@h"])
def test_a_redis_url_that_cannot_be_understood_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings_of(REDIS_URL=url)
    assert "a/b" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["SCHEDULER_PERSIST", "SCHEDULER_FLUSH_ON_START", "REDIS_START_URLS_AS_SET", "REDIS_START_URLS_AS_ZSET"],
)
def test_a_switch_that_is_neither_on_nor_off_is_refused_by_its_name(name: str) -> None:
    said: dict[str, Any] = {name: "perhaps"}
    with pytest.raises(ConfigurationError, match=f"{name} is True or False, not 'perhaps'"):
        settings_of(**said)


def test_parameters_that_are_no_dictionary_are_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="REDIS_PARAMS is a dictionary") as caught:
        settings_of(REDIS_PARAMS="password=redis-secret")
    assert "redis-secret" not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"
