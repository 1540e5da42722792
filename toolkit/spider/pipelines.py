"""Item pipelines whose items travel in the commit that ends their page: delivered once, however often workers die.

An item is taken as it left the last pipeline, wherever in `ITEM_PIPELINES` these stand. They need the frontier's
scheduler, and touch nothing of Redis themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ClassVar, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.utils.misc import load_object

from toolkit.model.crawls import ItemsKind
from toolkit.model.errors import ConfigurationError
from toolkit.spider.frontier_values import uses_frontier

UNWRITTEN = "frontier/items_unwritable"
"""The statistic that counts items which could not be serialised."""

_SHOWN_CHARS = 1000

logger = logging.getLogger(__name__)


class CommitPipeline:
    """What both pipelines do; `kind` is the type of the key that the items go to."""

    kind: ClassVar[ItemsKind]

    def __init__(self, crawler: Crawler, serialize: Callable[[Any], str | bytes]) -> None:
        self._crawler = crawler
        self._serialize = serialize

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take part in the crawl.

        Raises:
            ConfigurationError: the project has another scheduler, or asks for what only scrapy-redis' pipeline does.

        """
        if not uses_frontier(crawler.settings):
            raise ConfigurationError(
                f"{cls.__name__} needs the frontier, since items travel in its commits, and SCHEDULER is "
                f"{crawler.settings['SCHEDULER']}",
                hint="SCHEDULER = 'toolkit.spider.Scheduler', or scrapy_redis.pipelines.RedisPipeline without it",
            )
        if hasattr(cls, "item_key"):
            raise ConfigurationError(
                f"{cls.__name__}.item_key would never be called: all items of a crawl go to one key",
                hint="REDIS_ITEMS_KEY names it",
            )
        pipeline = cls(crawler, _serializer(crawler))
        crawler.signals.connect(pipeline.item_scraped, signal=signals.item_scraped)
        return pipeline

    def process_item(self, item: Any, spider: Any = None) -> Any:  # noqa: ARG002 - Scrapy's signature
        """Let the item through: it is taken once every pipeline has seen it."""
        return item

    def item_scraped(self, item: Any) -> None:
        """Give the item to the commit of its page; one that cannot be serialised is an error, logged and counted."""
        try:
            written = _bytes(self._serialize(item))
        except Exception:
            # The serializer is the project's own and may raise anything; the page goes on without this item.
            self._crawler.stats.inc_value(UNWRITTEN)
            logger.exception("An item cannot be serialised, and is not delivered: %s", _shown(item))
            return
        scheduler: Any = _scheduler(self._crawler)
        scheduler.add_item(written)


class RedisPipeline(CommitPipeline):
    """Items go to a list, `REDIS_ITEMS_KEY`, as with scrapy-redis."""

    kind = ItemsKind.LIST


class StreamPipeline(CommitPipeline):
    """Items go to a stream, `REDIS_ITEMS_KEY`, each with a key of its own; `crawlctl items drain` moves them on."""

    kind = ItemsKind.STREAM


def _serializer(crawler: Crawler) -> Callable[[Any], str | bytes]:
    named = crawler.settings.get("REDIS_ITEMS_SERIALIZER")
    if not named:
        # It brings itemadapter, and with it pydantic where that is installed: for those alone who have items.
        from scrapy.utils.serialize import ScrapyJSONEncoder  # noqa: PLC0415

        return ScrapyJSONEncoder().encode
    found: Callable[[Any], str | bytes] = load_object(named)
    if not callable(found):
        raise ConfigurationError(f"REDIS_ITEMS_SERIALIZER {named} is no function")
    return found


def _bytes(written: object) -> bytes:
    if isinstance(written, str):
        return written.encode()
    if not isinstance(written, bytes):
        raise TypeError(f"REDIS_ITEMS_SERIALIZER returns text or bytes, not {type(written).__qualname__}")
    return written


def _scheduler(crawler: Crawler) -> Any:
    engine: Any = crawler.engine
    return engine._slot.scheduler  # noqa: SLF001 - public as `engine.scheduler` only since Scrapy 2.19


def _shown(item: Any) -> str:
    try:
        text = repr(item)
    except Exception:  # noqa: BLE001 - an item that cannot even be shown
        return f"an instance of {type(item).__qualname__}"
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
