"""Makes requests out of the seeds that are pushed to a crawl's key, and says whether a spider waits for more of them.

A `RedisSpider` makes them itself, as with scrapy-redis. For any other spider a seed is a URL, or a JSON object with the
fields of `SEED_FIELDS`. Whatever is wrong with a seed is raised, so that it harms no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from scrapy import Request, Spider

from toolkit.config.nearest import did_you_mean
from toolkit.spider.frontier_settings import FrontierSettings
from toolkit.spider.redis_spiders import adopt, is_redis_spider, makes_requests_itself

SEED_FIELDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "url": ((str,), "a text"),
    "method": ((str,), "a text"),
    "headers": ((dict,), "an object"),
    "body": ((str,), "a text"),
    "cookies": ((dict, list), "an object or a list"),
    "meta": ((dict,), "an object"),
    "priority": ((int,), "a whole number"),
    "callback": ((str,), "the name of a method"),
    "dont_filter": ((bool,), "true or false"),
}
"""The fields of a seed that is a JSON object, and what each may hold."""


@dataclass(frozen=True, slots=True)
class SeedSource:
    """What one spider does with seeds.

    A worker whose crawl is over stays if the spider `waits_for_more`: for `max_idle_s` seconds after the crawl as a
    whole had something to do, or for ever if that is 0.
    """

    waits_for_more: bool
    max_idle_s: float
    _make: Callable[[bytes], list[Request]]

    @classmethod
    def of(cls, spider: Spider, settings: FrontierSettings) -> Self:
        """Return the source of a spider; one of scrapy-redis' is changed to read no seeds on its own.

        To be called before the engine asks the spider for its `start()`.
        """
        if is_redis_spider(spider):
            max_idle_s = adopt(spider, settings.plan.keys.seeds)
            return cls(waits_for_more=True, max_idle_s=max_idle_s, _make=partial(_by_the_spider, spider))
        idle_s = settings.idle_before_close_s
        return cls(waits_for_more=idle_s > 0, max_idle_s=idle_s, _make=partial(_by_its_fields, spider))

    def requests(self, data: bytes) -> list[Request]:
        """Return the seed's requests, all of them or none.

        Raises:
            Exception: whatever the spider's own code raises; ValueError or TypeError where the seed itself is wrong.

        """
        return self._make(data)


def request_of_seed(spider: Spider, data: bytes) -> Request:
    """Return the request that a URL, or a JSON object with the fields of a seed, asks for.

    As with scrapy-redis, a seed is fetched even if it was seen, unless it says `"dont_filter": false`.

    Raises:
        ValueError: it cannot be understood; the message says which field, and why.

    """
    text = data.decode().strip()
    if not text:
        raise ValueError("the seed is empty")
    if text[0] not in '{["':
        return Request(text, dont_filter=True)
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError(f"the seed is neither a URL nor a JSON object, but {type(fields).__name__}")  # noqa: TRY004
    for name, value in fields.items():
        _check(name, value)
    if not fields.get("url"):
        raise ValueError("the seed has no url")
    callback = fields.pop("callback", None)
    return Request(
        **{"dont_filter": True, **fields}, callback=None if callback is None else _callback(spider, str(callback))
    )


def _check(name: str, value: object) -> None:
    if name not in SEED_FIELDS:
        hint = did_you_mean(name, SEED_FIELDS) or f"; known are {', '.join(SEED_FIELDS)}"
        raise ValueError(f"the seed has an unknown field {name!r}{hint}")
    kinds, words = SEED_FIELDS[name]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"the seed's {name} is {words}, not {type(value).__name__}")


def _callback(spider: Spider, name: str) -> Callable[..., Any]:
    found = None if name.startswith("_") or (name != "parse" and hasattr(Spider, name)) else getattr(spider, name, None)
    if not callable(found):
        raise ValueError(f"the seed's callback {name!r} is no method of {spider.name} for responses")  # noqa: TRY004
    return found  # type: ignore[no-any-return]  # a method, as was just seen


def _by_its_fields(spider: Spider, data: bytes) -> list[Request]:
    return [request_of_seed(spider, data)]


def _by_the_spider(spider: Any, data: bytes) -> list[Request]:
    made = spider.make_request_from_data(data.decode(spider.redis_encoding) if _wants_text(spider) else data)
    if isinstance(made, Request):
        return [made]
    if made is not None and not isinstance(made, Iterable):
        raise TypeError(f"make_request_from_data returned {type(made).__name__}, and neither requests nor nothing")
    requests = list(made or ())
    for each in requests:
        if not isinstance(each, Request):
            raise TypeError(f"make_request_from_data returned {type(each).__name__} among its requests")
    if not requests and not makes_requests_itself(spider):
        raise ValueError("the seed has no url")
    return requests


def _wants_text(spider: Any) -> bool:
    settings = spider.settings
    return bool(settings.getbool("REDIS_DECODE_RESPONSES") or settings.getdict("REDIS_PARAMS").get("decode_responses"))
