"""The names of a crawl's keys in Redis: scrapy-redis' templates, filled with the crawl's id. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from toolkit.model.crawls import CrawlKeys
from toolkit.model.errors import ConfigurationError
from toolkit.model.jobs import CRAWL_SETTING
from toolkit.model.names import CrawlId

_REQUESTS = ("SCHEDULER_QUEUE_KEY", "%(spider)s:requests")
_SEEN = ("SCHEDULER_DUPEFILTER_KEY", "%(spider)s:dupefilter")
_SEEDS = ("REDIS_START_URLS_KEY", "%(name)s:start_urls")
_ITEMS = ("REDIS_ITEMS_KEY", "%(spider)s:items")


def read_keys(settings: BaseSettings, crawl: CrawlId, spider: Any, arguments: Mapping[str, str]) -> CrawlKeys:
    """Return the keys of a crawl; `%(spider)s` and `%(name)s` both mean its id.

    A key that is given with the command (`-s`, `-a redis_key=…`) counts as it is. Of those that are written elsewhere
    and name no crawl, those of requests and of what was seen serve one crawl at a time, and those of seeds and items
    whoever has them written.

    Raises:
        ConfigurationError: a template cannot be filled, or two crawls would share their requests.

    """
    is_named = crawl != spider.name and bool(settings.get(CRAWL_SETTING))
    shared = [each for each in (_REQUESTS, _SEEN) if crawl != spider.name and _is_shared(settings, each, crawl)]
    # Redis lets one crawl at a time have a key of requests, and with it a seen set; two names ask for two at a time.
    if shared and (is_named or _REQUESTS not in shared):
        name, template = _written(settings, shared[0])
        raise ConfigurationError(
            f"{name} is {template!r} for every crawl of {spider.name}, so crawl {crawl} would mix with them",
            hint=f"write the crawl's place into it: {shared[0][1]!r}",
        )
    return CrawlKeys(
        requests=_key(*_written(settings, _REQUESTS), crawl),
        seen=_key(*_written(settings, _SEEN), crawl),
        seeds=_seeds_key(settings, crawl, spider, is_given="redis_key" in arguments),
        items=_key(*_written(settings, _ITEMS), crawl),
    )


def _is_shared(settings: BaseSettings, wanted: tuple[str, str], crawl: CrawlId) -> bool:
    """Tell whether a key is the same for every crawl, and did not come with the command."""
    name, template = _written(settings, wanted)
    return _key(name, template, crawl) == template and not _is_of_the_command(settings, name)


def _seeds_key(settings: BaseSettings, crawl: CrawlId, spider: Any, *, is_given: bool) -> str:
    name, template = _written(settings, _SEEDS)
    of_class, now = getattr(type(spider), "redis_key", None), getattr(spider, "redis_key", None)
    if now:
        template_of_class = str(of_class or template)
        # scrapy-redis has filled the template with the spider's name; whatever else is there came with the command.
        if is_given or str(now) not in {template_of_class, _key("redis_key", template_of_class, spider.name)}:
            name, template = "redis_key", str(now)
        elif of_class:
            name, template = "redis_key", template_of_class
    return _key(name, template, crawl)


def _written(settings: BaseSettings, wanted: tuple[str, str]) -> tuple[str, str]:
    name, default = wanted
    return name, str(settings.get(name) or default)


def _is_of_the_command(settings: BaseSettings, name: str) -> bool:
    return (settings.getpriority(name) or 0) >= SETTINGS_PRIORITIES["cmdline"]


def _key(name: str, template: str, crawl: str) -> str:
    try:
        key = template % {"spider": crawl, "name": crawl}
    except (KeyError, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"{name} {template!r} cannot be filled: it may hold %(spider)s or %(name)s, and %% for a percent sign"
        ) from error
    if not key.strip():
        raise ConfigurationError(f"{name} is empty")
    return key
