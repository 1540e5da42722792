"""Reads what a project's settings say of the frontier: scrapy-redis' own with their meaning, and `FRONTIER_…`.

Nothing is connected. What cannot be kept is refused with the setting's name; what is not needed any more is ignored.
"""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import socket
from dataclasses import dataclass
from typing import Any, Protocol

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from toolkit.model.crawls import CrawlPlan
from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret
from toolkit.model.names import JobId, Token, WorkerName, worker_of
from toolkit.spider.crawl_plan import claim_of_this_process, filters_duplicates, named, read_plan
from toolkit.spider.frontier_values import flag, is_on, number
from toolkit.spider.redis_place import redis_url
from toolkit.store.wire_requests import Wire

_PICKLES = frozenset({"scrapy_redis.picklecompat", "pickle", "cloudpickle", "dill", "marshal"})

logger = logging.getLogger(__name__)


class Serializer(Protocol):
    """What `SCHEDULER_SERIALIZER` may name: a module, or an object, that writes and reads a request's fields."""

    def dumps(self, fields: dict[str, Any], /) -> bytes | str:
        """Return the fields as Redis will keep them."""

    def loads(self, body: bytes, /) -> dict[str, Any]:
        """Return the fields that were written."""


@dataclass(frozen=True, slots=True)
class FrontierSettings:
    """All that a worker is told; times are in seconds.

    `filters` is false when the project filters no duplicates at all. `max_outbox` counts requests, endings and items.
    `idle_before_close_s` is how long the crawl as a whole must have had nothing to do before its workers close, where
    the spider expects no seeds.
    """

    redis: Secret
    plan: CrawlPlan
    worker: WorkerName
    ttl_s: float
    flush_on_start: bool
    filters: bool
    serializer: Wire | Serializer
    journal_s: float
    seen_cache: int
    max_outbox: int
    obeys_crawl_delay: bool = False
    idle_before_close_s: float = 0.0


def read_settings(crawler: Crawler) -> FrontierSettings:
    """Return what the crawler's settings and its spider, which must be there already, say of the frontier.

    Raises:
        ConfigurationError: a setting cannot be kept; the message names it.

    """
    settings = crawler.settings
    return FrontierSettings(
        redis=redis_url(settings),
        plan=read_plan(crawler),
        worker=_worker(),
        ttl_s=float(number(settings, "FRONTIER_LEASE_S")),
        flush_on_start=is_on(settings, "SCHEDULER_FLUSH_ON_START"),
        filters=filters_duplicates(settings),
        serializer=_serializer(settings),
        journal_s=float(number(settings, "FRONTIER_JOURNAL_S")),
        seen_cache=int(number(settings, "FRONTIER_SEEN_CACHE")),
        max_outbox=int(number(settings, "FRONTIER_MAX_OUTBOX")),
        obeys_crawl_delay=flag(settings, "FRONTIER_OBEY_CRAWL_DELAY"),
        idle_before_close_s=_idle_s(settings),
    )


def _worker() -> WorkerName:
    claim = claim_of_this_process()
    if claim.get("job_id") and claim.get("token"):
        return worker_of(JobId(str(claim["job_id"])), Token(str(claim["token"])))
    return WorkerName(f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}")


def _serializer(settings: BaseSettings) -> Wire | Serializer:
    chosen = settings.get("SCHEDULER_SERIALIZER") or Wire.MSGPACK.value
    if isinstance(chosen, str):
        if chosen in {wire.value for wire in Wire}:
            return Wire(chosen)
        try:
            found: Any = importlib.import_module(chosen)
        except ImportError as error:
            raise ConfigurationError(f"SCHEDULER_SERIALIZER {chosen} cannot be imported: {error}") from error
    else:
        found = chosen
    if not callable(getattr(found, "loads", None)) or not callable(getattr(found, "dumps", None)):
        raise ConfigurationError(f"SCHEDULER_SERIALIZER {named(chosen)} has no loads and dumps")
    if getattr(found, "__name__", "") in _PICKLES:
        logger.warning(
            "SCHEDULER_SERIALIZER %s runs whatever it reads: who can write to this Redis can run any program in this "
            "process. Without the setting, requests are written as msgpack, which runs nothing",
            found.__name__,
        )
    return found  # type: ignore[no-any-return]  # what it must have was looked for above


def _idle_s(settings: BaseSettings) -> float:
    written = settings.get("SCHEDULER_IDLE_BEFORE_CLOSE") or 0
    try:
        idle_s = float(written)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"SCHEDULER_IDLE_BEFORE_CLOSE is a number of seconds, not {written!r}") from error
    if idle_s < 0:
        raise ConfigurationError("SCHEDULER_IDLE_BEFORE_CLOSE cannot be negative")
    return idle_s
