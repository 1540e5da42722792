"""What a worker knows of its crawl before it has asked Redis, from the settings of scrapy-redis and of the frontier."""

from __future__ import annotations

import logging
import sys
from argparse import ArgumentError, ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from toolkit.model.crawls import CrawlPlan, ItemsKind, QueueOrder, SeedsKind, SeenKind
from toolkit.model.errors import ConfigurationError, UsageError
from toolkit.model.jobs import CRAWL_SETTING, RUN_SETTING
from toolkit.model.names import CrawlId, check_crawl, default_crawl, digest_of, shown_arguments
from toolkit.runs.folder import CLAIM, RunFolder
from toolkit.spider.frontier_keys import read_keys
from toolkit.spider.frontier_values import choice, domain_limits, is_on, number
from toolkit.spider.pipelines import CommitPipeline
from toolkit.store.wire_jobs import read_job

SCRAPY_FINGERPRINTER = "scrapy.utils.request.RequestFingerprinter"
SCRAPY_REDIS_FINGERPRINTERS = (
    "toolkit.spider.ScrapyRedisFingerprinter",
    "toolkit.spider.fingerprinters.ScrapyRedisFingerprinter",
)
_ORDERS = {
    "PriorityQueue": QueueOrder.PRIORITY,
    "SpiderPriorityQueue": QueueOrder.PRIORITY,
    "FifoQueue": QueueOrder.FIFO,
    "SpiderQueue": QueueOrder.FIFO,
    "LifoQueue": QueueOrder.LIFO,
    "SpiderStack": QueueOrder.LIFO,
}
_OF_SCRAPYD = frozenset({"_job", "_version"})
_NO_FILTER = "scrapy.dupefilters.BaseDupeFilter"
_OWN_FILTERS = frozenset({"", "scrapy.dupefilters.RFPDupeFilter", "scrapy_redis.dupefilter.RFPDupeFilter"})

logger = logging.getLogger(__name__)


def read_plan(crawler: Crawler) -> CrawlPlan:
    """Return the plan of the crawl; all of its workers must bring the same.

    Raises:
        ConfigurationError: a setting cannot be kept; the message names it.

    """
    settings, spider = crawler.settings, _spider(crawler)
    arguments = _arguments()
    crawl = _crawl_of(settings, spider.name, arguments)
    keys = read_keys(settings, crawl, spider, arguments)
    shown = shown_arguments(arguments)
    if crawl != spider.name:
        told = shown or "no arguments"
        logger.info("Crawl %s: spider %s with %s; its seeds are in %s", crawl, spider.name, told, keys.seeds)
    project, bot = _project(settings)
    return CrawlPlan(
        crawl=crawl,
        spider=spider.name,
        project=project,
        keys=keys,
        order=_order(settings),
        seen=SeenKind(choice(settings, "FRONTIER_SEEN")),
        bloom_error=float(number(settings, "FRONTIER_BLOOM_ERROR")),
        seeds=_seeds_kind(settings),
        items=_items_kind(settings),
        fingerprints=_fingerprints(settings),
        persists=is_on(settings, "SCHEDULER_PERSIST"),
        max_deliveries=int(number(settings, "FRONTIER_MAX_DELIVERIES")),
        # A job that is begun again is the same run: where its crawl is over already, it has nothing to do.
        run="_".join(str(settings.get(RUN_SETTING) or claim_of_this_process().get("job_id") or "").split()),
        limits=domain_limits(settings),
        bot=bot,
        digest=digest_of(arguments),
        arguments=shown,
        is_named=bool(settings.get(CRAWL_SETTING)),
    )


def given_arguments(command: Sequence[str]) -> dict[str, str]:
    """Return the spider's arguments on a command line of Scrapy, each `-a NAME=VALUE`, without Scrapyd's own. Pure."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-a", action="append", default=[])
    try:
        given = parser.parse_known_args(list(command))[0].a
    except ArgumentError:
        return {}
    pairs = dict(each.split("=", 1) for each in given if "=" in each)
    return {name: value for name, value in pairs.items() if name not in _OF_SCRAPYD}


def filters_duplicates(settings: BaseSettings) -> bool:
    """Tell whether duplicates are dropped: always, unless `DUPEFILTER_CLASS` is Scrapy's that does nothing."""
    path = named(settings.get("DUPEFILTER_CLASS") or "")
    if path not in {_NO_FILTER, *_OWN_FILTERS}:
        logger.warning(
            "DUPEFILTER_CLASS %s is not used: the frontier filters by the fingerprints of REQUEST_FINGERPRINTER_CLASS, "
            "and FRONTIER_SEEN says how it keeps them",
            path,
        )
    return path != _NO_FILTER


def claim_of_this_process() -> Mapping[str, Any]:
    """Return what the node says of the job that this process runs; empty where no node started it."""
    folder = RunFolder.of_this_process()
    return (folder.read(CLAIM) or {}) if folder is not None else {}


def named(value: object) -> str:
    """Return the import path of what a setting names by a path, or is itself."""
    if isinstance(value, str):
        return value
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"


def _spider(crawler: Crawler) -> Any:
    if crawler.spider is None:
        raise ConfigurationError("the frontier's settings can be read only once the spider is there")
    return crawler.spider


def _crawl_of(settings: BaseSettings, spider: str, arguments: Mapping[str, str]) -> CrawlId:
    try:
        return check_crawl(str(settings.get(CRAWL_SETTING) or default_crawl(spider, arguments)))
    except UsageError as error:
        raise ConfigurationError(error.message, hint=f"give the crawl a name by the setting {CRAWL_SETTING}") from error


def _arguments() -> Mapping[str, str]:
    """Return what the operator gave the spider with `-a`: what the node says, else the command line.

    Scrapy keeps them nowhere, and a spider may make whatever it likes of them.
    """
    job = claim_of_this_process().get("job")
    return given_arguments(sys.argv[1:]) if job is None else read_job(str(job)).args or {}


def _project(settings: BaseSettings) -> tuple[str, str]:
    """Return the project as the node calls it, with `BOT_NAME`; without a node that name stands for the project."""
    bot = str(settings.get("BOT_NAME") or "")
    deployed = claim_of_this_process().get("project")
    return (str(deployed), bot) if deployed else (bot, "")


def _order(settings: BaseSettings) -> QueueOrder:
    chosen = settings.get("SCHEDULER_QUEUE_CLASS")
    if not chosen:
        return QueueOrder.PRIORITY
    path = named(chosen)
    module, _, name = path.rpartition(".")
    if module in {"", "scrapy_redis.queue"} and name in _ORDERS:
        return _ORDERS[name]
    raise ConfigurationError(
        f"SCHEDULER_QUEUE_CLASS is {path}, whose code the frontier would never call",
        hint=f"there are {', '.join(_ORDERS)} of scrapy_redis.queue",
    )


def _seeds_kind(settings: BaseSettings) -> SeedsKind:
    if is_on(settings, "REDIS_START_URLS_AS_SET"):
        return SeedsKind.SET
    return SeedsKind.ZSET if is_on(settings, "REDIS_START_URLS_AS_ZSET") else SeedsKind.LIST


def _items_kind(settings: BaseSettings) -> ItemsKind:
    """Return the kind of key that the enabled pipeline writes, ours or scrapy-redis' own."""
    enabled = [load_object(entry) for entry, order in settings.getdict("ITEM_PIPELINES").items() if order is not None]
    classes = [each for each in enabled if isinstance(each, type)]
    found = {each.kind for each in classes if issubclass(each, CommitPipeline)}
    if len(found) > 1:
        raise ConfigurationError(
            "ITEM_PIPELINES names both RedisPipeline and StreamPipeline of toolkit.spider: take one"
        )
    theirs = getattr(sys.modules.get("scrapy_redis.pipelines"), "RedisPipeline", None)
    if any(issubclass(each, theirs) for each in classes if isinstance(theirs, type)):
        found = found or {ItemsKind.LIST}
        logger.warning(
            "scrapy_redis.pipelines.RedisPipeline writes an item again when its page is fetched again; "
            "toolkit.spider.RedisPipeline, in its place, delivers it once"
        )
    return next(iter(found), ItemsKind.NONE)


def _fingerprints(settings: BaseSettings) -> str:
    path = named(settings.get("REQUEST_FINGERPRINTER_CLASS") or SCRAPY_FINGERPRINTER)
    if path in SCRAPY_REDIS_FINGERPRINTERS:
        return "scrapy-redis"
    return "scrapy" if path == SCRAPY_FINGERPRINTER else path
