"""Runs inside each Scrapy process, under Scrapy's own file names; it must stay lean.

What a project names in its settings or imports is here by a short path, and loaded only when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.spider.fingerprinters import ScrapyRedisFingerprinter
    from toolkit.spider.pipelines import RedisPipeline, StreamPipeline
    from toolkit.spider.redial import RedialMiddleware
    from toolkit.spider.scheduler import Scheduler
    from toolkit.spider.spiders import RedisCrawlSpider, RedisSpider

__all__ = [
    "RedialMiddleware",
    "RedisCrawlSpider",
    "RedisPipeline",
    "RedisSpider",
    "Scheduler",
    "ScrapyRedisFingerprinter",
    "StreamPipeline",
]

_MODULES = {
    "RedialMiddleware": "redial",
    "RedisCrawlSpider": "spiders",
    "RedisPipeline": "pipelines",
    "RedisSpider": "spiders",
    "Scheduler": "scheduler",
    "ScrapyRedisFingerprinter": "fingerprinters",
    "StreamPipeline": "pipelines",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
