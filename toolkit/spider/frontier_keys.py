"""The names of a crawl's keys in Redis: scrapy-redis' templates, filled with the crawl's id. Pure."""

from __future__ import annotations

from typing import Any

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from toolkit.model.crawls import CrawlKeys
from toolkit.model.errors import ConfigurationError
from toolkit.model.names import CrawlId

_REQUESTS = ("SCHEDULER_QUEUE_KEY", "%(spider)s:requests")
_SEEN = ("SCHEDULER_DUPEFILTER_KEY", "%(spider)s:dupefilter")
_SEEDS = ("REDIS_START_URLS_KEY", "%(name)s:start_urls")
_ITEMS = ("REDIS_ITEMS_KEY", "%(spider)s:items")


def read_keys(settings: BaseSettings, crawl: CrawlId, spider: Any) -> CrawlKeys:
    """Return the keys of a crawl; `%(spider)s` and `%(name)s` both mean its id.

    A key that names no crawl belongs to the one called as the spider. For any other, it counts only if it came with the
    command (`-s`, `-a redis_key=…`): else two crawls would share it.

    Raises:
        ConfigurationError: a template cannot be filled, or two crawls would share their requests.

    """
    return CrawlKeys(
        requests=_own_key(settings, _REQUESTS, crawl, spider.name),
        seen=_own_key(settings, _SEEN, crawl, spider.name),
        seeds=_seeds_key(settings, crawl, spider),
        items=_key(*_written(settings, _ITEMS), crawl),
    )


def _own_key(settings: BaseSettings, wanted: tuple[str, str], crawl: CrawlId, spider: str) -> str:
    name, template = _written(settings, wanted)
    key = _key(name, template, crawl)
    if key == template and crawl != spider and not _is_of_the_command(settings, name):
        raise ConfigurationError(
            f"{name} is {template!r} for every crawl of {spider}, so crawl {crawl} would mix with them",
            hint=f"write the crawl's place into it: {wanted[1]!r}",
        )
    return key


def _seeds_key(settings: BaseSettings, crawl: CrawlId, spider: Any) -> str:
    name, template = _written(settings, _SEEDS)
    is_explicit = _is_of_the_command(settings, name)
    of_class = getattr(type(spider), "redis_key", None)
    now = getattr(spider, "redis_key", None)
    if now:
        template_of_class = str(of_class or template)
        # scrapy-redis has filled the template with the spider's name; whatever else is there came with the command.
        if str(now) in {template_of_class, _key("redis_key", template_of_class, spider.name)}:
            name, template = ("redis_key", template_of_class) if of_class else (name, template)
            is_explicit = is_explicit and not of_class
        else:
            name, template, is_explicit = "redis_key", str(now), True
    key = _key(name, template, crawl)
    return f"{crawl}:start_urls" if key == template and crawl != spider.name and not is_explicit else key


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
