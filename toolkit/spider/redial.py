"""Asks this job's node for another address when too many answers look like a ban: a Scrapy downloader middleware.

    DOWNLOADER_MIDDLEWARES = {"toolkit.spider.RedialMiddleware": 555}

It speaks with the node through the job's folder. Below its threshold it changes nothing; while the node redials, banned
pages wait, and are fetched again under the new address. 555 lets it see what Scrapy's own retries would swallow.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from toolkit.config.options import Scope, option
from toolkit.config.values import parse_value
from toolkit.runs.folder import REDIAL, REDIALLED, RunFolder
from toolkit.spider.ban_signs import BanRule, BanSigns
from toolkit.spider.frontier_values import number
from toolkit.spider.repeating import Repeating, repeating
from toolkit.spider.throttle import engine_slot

LOOK_EVERY_S = 0.5
AGE, TIMES = "redial_age", "redial_times"
"""What a request's `meta` keeps: under which of this process' addresses it was sent, how often it was sent again."""

logger = logging.getLogger(__name__)


class RedialMiddleware:
    """Counts signs of a ban, asks at most once in `REDIAL_COOLDOWN_S`, and repeats what was banned before."""

    def __init__(self, crawler: Crawler, folder: RunFolder | None) -> None:
        settings = crawler.settings
        self._crawler = crawler
        self._folder = folder
        self._rule = read_rule(settings)
        self._signs = BanSigns(self._rule)
        self._cooldown_s = number(settings, "REDIAL_COOLDOWN_S")
        self._wait_s = number(settings, "REDIAL_WAIT_S")
        self._retry_times = int(number(settings, "REDIAL_RETRY_TIMES"))
        self._priority = settings.getint("RETRY_PRIORITY_ADJUST")
        self._age = 0
        self._asked = 0
        self._asked_at: float | None = None
        self._is_asking = False
        self._is_told = False
        self._waiting: list[Deferred[None]] = []
        self._loop: Repeating | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take part in every crawl; without a node, what it counts leads to nothing but a line in the log.

        Raises:
            ConfigurationError: a setting is wrong; the message names it.

        """
        middleware = cls(crawler, RunFolder.of_this_process())
        crawler.signals.connect(middleware.engine_stopped, signal=signals.engine_stopped)
        return middleware

    def process_request(self, request: Request, spider: Any = None) -> None:  # noqa: ARG002 - Scrapy's arguments
        """Note under which address the request goes out."""
        request.meta[AGE] = self._age

    async def process_response(self, request: Request, response: Response, spider: Any = None) -> Response | Request:  # noqa: ARG002
        """Pass the answer on, or fetch the page again once the node has another address."""
        is_ban = self._rule.is_ban(response.status, response.body)
        is_of_now = request.meta.get(AGE) == self._age
        if is_of_now and not self._is_asking:
            now = time.monotonic()
            self._signs.note(is_ban=is_ban, now=now)
            if is_ban and (why := self._signs.too_many(now)) is not None:
                self._ask(why, now)
        if not is_ban:
            return response
        if is_of_now and self._is_asking:
            await self._told()
        return response if request.meta.get(AGE) == self._age else self._again(request, response)

    def engine_stopped(self) -> None:
        """Let go of what still waits."""
        self._let_go()

    def _ask(self, why: str, now: float) -> None:
        if self._asked_at is not None and now < self._asked_at + self._cooldown_s:
            return
        self._asked_at = now
        if self._folder is None:
            if not self._is_told:
                logger.warning("%s; there is no node to ask for another address", why)
            self._is_told = True
            return
        try:
            self._folder.write(REDIAL, {"number": self._asked + 1, "why": why, "at": time.time()})
        except OSError as error:
            logger.warning("The node cannot be asked for another address: %s", error)
            return
        logger.info("%s; the node is asked for another address", why)
        self._count("redial/asked")
        self._asked += 1
        self._is_asking = True
        self._loop = repeating(self._look)
        self._loop.start(LOOK_EVERY_S, now=False)

    async def _told(self) -> None:
        told: Deferred[None] = Deferred()
        self._waiting.append(told)
        await maybe_deferred_to_future(told)

    def _look(self) -> None:
        """See what the node says. A spider that closes waits no longer, nor does one that has waited long."""
        said = None if self._folder is None else self._folder.read(REDIALLED)
        if said is not None and said.get("number") == self._asked:
            if said.get("why") is None:
                logger.info("The node's address was %s and is %s now", said.get("old"), said.get("new"))
                self._count("redial/changed")
                self._age += 1
                self._signs.clear()
            else:
                logger.warning("The node has no other address: %s", said.get("why"))
            self._let_go()
        elif self._is_closing() or (self._asked_at or 0) + self._wait_s < time.monotonic():
            self._let_go()

    def _let_go(self) -> None:
        self._is_asking = False
        if self._loop is not None and self._loop.running:
            self._loop.stop()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    def _again(self, request: Request, response: Response) -> Response | Request:
        times = int(request.meta.get(TIMES, 0)) + 1
        if times > self._retry_times:
            return response
        self._count("redial/repeated")
        again = request.copy()
        again.meta[TIMES] = times
        again.dont_filter = True
        again.priority = request.priority + self._priority
        return again

    def _is_closing(self) -> bool:
        slot = engine_slot(self._crawler.engine)
        return bool(slot and slot.closing)

    def _count(self, name: str) -> None:
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value(name)


def read_rule(settings: BaseSettings) -> BanRule:
    """Return what the settings say of a ban.

    Raises:
        ConfigurationError: one of them is wrong; the message names it.

    """
    return BanRule(
        statuses=_statuses(settings),
        texts=tuple(str(text).encode() for text in settings.getlist("REDIAL_TEXTS")),
        share=number(settings, "REDIAL_SHARE") / 100,
        window_s=number(settings, "REDIAL_WINDOW_S"),
        min_responses=int(number(settings, "REDIAL_MIN_RESPONSES")),
    )


def _statuses(settings: BaseSettings) -> frozenset[int]:
    wanted = option(Scope.SPIDER, "REDIAL_STATUSES")
    written = settings.get("REDIAL_STATUSES", wanted.default)
    text = written if isinstance(written, str) else ",".join(map(str, written))
    found = parse_value(wanted, text.replace(" ", ""))
    return frozenset(int(status) for status in str(found).split(",") if status)
