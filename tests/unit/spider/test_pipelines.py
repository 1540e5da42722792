"""An item travels as it left the last pipeline, or is an error that is logged and counted; never lost in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Item, signals
from scrapy.utils.test import get_crawler

from toolkit.model.errors import ConfigurationError
from toolkit.spider import RedisPipeline, StreamPipeline
from toolkit.spider.pipelines import UNWRITTEN, CommitPipeline

PIPELINES = [RedisPipeline, StreamPipeline]


class Frontier:
    """Stands where the frontier's scheduler would, and keeps what it is given."""

    def __init__(self) -> None:
        self.items: list[bytes] = []

    def add_item(self, item: bytes) -> None:
        self.items.append(item)


def opened(kind: type[CommitPipeline], **said: Any) -> tuple[Any, Frontier, Callable[[Any], Any]]:
    settings = {"TELNETCONSOLE_ENABLED": False, "SCHEDULER": f"{__name__}.Frontier", **said}
    crawler = get_crawler(settings_dict=settings)
    frontier = Frontier()
    crawler.engine = SimpleNamespace(_slot=SimpleNamespace(scheduler=frontier))  # type: ignore[assignment]
    pipeline = kind.from_crawler(crawler)

    def scraped(item: Any) -> None:
        assert pipeline.process_item(item) is item
        crawler.signals.send_catch_log(signals.item_scraped, item=item, response=None, spider=None)

    # Scrapy keeps its pipelines; a signal alone would not.
    scraped.pipeline = pipeline  # type: ignore[attr-defined]
    return crawler, frontier, scraped


@pytest.mark.parametrize("kind", PIPELINES)
def test_an_item_travels_as_json(kind: type[CommitPipeline]) -> None:
    class Price(Item):
        pass

    _, frontier, scraped = opened(kind)
    scraped({"name": "ä", "price": 1})
    scraped(Price())
    assert [json.loads(item) for item in frontier.items] == [{"name": "ä", "price": 1}, {}]


def test_a_serializer_of_the_project_s_own_is_used() -> None:
    _, frontier, scraped = opened(RedisPipeline, REDIS_ITEMS_SERIALIZER=repr)
    scraped({"a": 1})
    assert frontier.items == [b"{'a': 1}"]


@pytest.mark.parametrize("item", [{"a": object()}, {"a": {1}, "b": object()}])
def test_an_item_that_cannot_be_serialised_is_logged_and_counted_and_harms_no_other(
    item: Any, caplog: pytest.LogCaptureFixture
) -> None:
    crawler, frontier, scraped = opened(StreamPipeline)
    scraped(item)
    scraped({"good": 1})
    assert len(frontier.items) == 1
    assert crawler.stats.get_value(UNWRITTEN) == 1
    assert "cannot be serialised" in caplog.text


def test_a_serializer_that_returns_no_text_is_an_error_too(caplog: pytest.LogCaptureFixture) -> None:
    crawler, frontier, scraped = opened(RedisPipeline, REDIS_ITEMS_SERIALIZER=len)
    scraped({"a": 1})
    assert (frontier.items, crawler.stats.get_value(UNWRITTEN)) == ([], 1)
    assert "text or bytes, not int" in caplog.text


@pytest.mark.parametrize("kind", PIPELINES)
def test_another_scheduler_is_refused_at_the_start(kind: type[CommitPipeline]) -> None:
    with pytest.raises(ConfigurationError, match=f"{kind.__name__} needs the frontier"):
        opened(kind, SCHEDULER="scrapy.core.scheduler.Scheduler")


def test_a_key_for_each_item_is_refused_and_not_ignored() -> None:
    class Own(RedisPipeline):
        def item_key(self, item: Any, spider: Any) -> str:
            return f"{spider}:{item}"

    with pytest.raises(ConfigurationError, match=r"Own\.item_key would never be called"):
        opened(Own)
