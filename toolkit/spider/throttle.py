"""Holds and tunes a running crawl through Scrapy's engine and downloader, and puts everything back as it was.

Scrapy has no public way to change a running downloader. What is reached here beyond its documentation has been in it
for many releases, is looked for before it is used, and is named in this module alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

from scrapy.crawler import Crawler
from scrapy.extensions.throttle import AutoThrottle

from toolkit.model.queue import Wish

_AS_IS = Wish()
_OWN = "_crawlctl_throttle"
_THROTTLE_BOUNDS = ("mindelay", "maxdelay")


@dataclass(frozen=True, slots=True)
class _Slot:
    """A downloader slot, and what it allows of itself."""

    slot: Any
    concurrency: int
    delay: float


@dataclass(slots=True)
class _Before:
    """What the crawl allowed before the first wish; `delay` is `None` where Scrapy does not keep it (before 2.19)."""

    total: int
    domain: int
    address: int
    delay: float | None
    throttle: list[tuple[Any, dict[str, float]]]
    slots: dict[str, _Slot] = field(default_factory=dict)


class Throttle:
    """Makes one wish after the other true of a crawl. Call `apply` again and again, since slots come and go.

    Paused: the engine starts no request, and those that wait in the downloader's slots stay there; downloads under way
    end, and their items go on. Nothing is held once the spider closes, or it could not end. A wished concurrency and
    delay go for every domain, also for those with limits of their own, and AutoThrottle keeps to the delay.

    The job has its wishes, and the crawl that it works on: what the job's leave open, the crawl's decide. A crawl is
    paused by its frontier, which gives out nothing; here only the job is.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._of_the_job = _AS_IS
        self._of_the_crawl = _AS_IS
        self._wish = _AS_IS
        self._before: _Before | None = None
        self._was_running = False

    def apply(self, wish: Wish) -> None:
        """Make the job's wish so; a default wish puts everything back as the crawl wishes it."""
        self._of_the_job = wish
        self._act()

    def apply_crawl(self, *, concurrency: int | None, delay_s: float | None) -> None:
        """Make the crawl's wishes so where the job has none of its own; `None` puts back."""
        self._of_the_crawl = Wish(concurrency=concurrency, delay_s=delay_s)
        self._act()

    def _act(self) -> None:
        wish = combined(self._of_the_job, self._of_the_crawl)
        engine: Any = self._crawler.engine
        if wish.is_paused and self._is_closing(engine):
            wish = replace(wish, is_paused=False)
        last, self._wish = self._wish, wish
        # Only on a change: whoever pauses the engine for reasons of his own is left alone.
        if wish.is_paused and not last.is_paused:
            engine.pause()
        elif last.is_paused and not wish.is_paused:
            engine.unpause()
        downloader = engine.downloader
        if wish != _AS_IS or self._before is not None:
            self._limit(downloader, wish, ends_delay=last.delay_s is not None and wish.delay_s is None)
        if wish != last:
            _stir(engine, downloader)

    def _is_closing(self, engine: Any) -> bool:
        self._was_running = self._was_running or engine.running
        slot = engine_slot(engine)
        return (self._was_running and not engine.running) or bool(slot and slot.closing)

    def _limit(self, downloader: Any, wish: Wish, *, ends_delay: bool) -> None:
        if not hasattr(downloader, "slots") or not hasattr(downloader, "_process_queue"):
            return  # A downloader of the project's own: it is paused by the engine alone, and cannot be tuned.
        is_first = self._before is None
        before = self._before = self._before or self._look(downloader)
        concurrency = wish.concurrency
        downloader.total_concurrency = concurrency or before.total
        downloader.domain_concurrency = 0 if wish.is_paused else concurrency or before.domain
        # Zero means that slots are by domain and not by address: that stays.
        downloader.ip_concurrency = (concurrency or before.address) if before.address else 0
        if before.delay is not None:
            downloader._delay = before.delay if wish.delay_s is None else wish.delay_s  # noqa: SLF001
        for extension, bounds in before.throttle:
            for name, bound in bounds.items():
                setattr(extension, name, bound if wish.delay_s is None else wish.delay_s)
        for key, slot in downloader.slots.items():
            if key not in before.slots or before.slots[key].slot is not slot:
                before.slots[key] = _as_found(slot) if is_first else _as_made(slot, key, downloader, before)
            own = before.slots[key]
            slot.concurrency = 0 if wish.is_paused else concurrency or own.concurrency
            if wish.delay_s is not None or ends_delay:
                slot.delay = own.delay if wish.delay_s is None else wish.delay_s
        for key in before.slots.keys() - downloader.slots.keys():
            del before.slots[key]
        if wish == _AS_IS:
            self._before = None

    def _look(self, downloader: Any) -> _Before:
        throttles = [one for one in self._crawler.extensions.middlewares if isinstance(one, AutoThrottle)]
        return _Before(
            total=downloader.total_concurrency,
            domain=downloader.domain_concurrency,
            address=getattr(downloader, "ip_concurrency", 0),
            delay=getattr(downloader, "_delay", None),
            throttle=[
                (one, {name: getattr(one, name) for name in _THROTTLE_BOUNDS if hasattr(one, name)})
                for one in throttles
            ],
        )


def throttle_of(crawler: Crawler) -> Throttle:
    """Return the crawler's one throttle: whoever tunes the same crawl shares it."""
    # Kept on the crawler itself, to live as long.
    throttle: Throttle = vars(crawler).setdefault(_OWN, Throttle(crawler))
    return throttle


def combined(job: Wish, crawl: Wish) -> Wish:
    """Return what both wish together: the job's wins, and a crawl pauses nothing here."""
    return replace(
        job,
        concurrency=crawl.concurrency if job.concurrency is None else job.concurrency,
        delay_s=crawl.delay_s if job.delay_s is None else job.delay_s,
    )


def _as_found(slot: Any) -> _Slot:
    return _Slot(slot, slot.concurrency, slot.delay)


def _as_made(slot: Any, key: str, downloader: Any, before: _Before) -> _Slot:
    """Return what a slot that was made under a wish would allow without one, by Scrapy's own rule."""
    own: Mapping[str, Any] = getattr(downloader, "per_slot_settings", {}).get(key, {})
    delay = slot.delay if before.delay is None else before.delay
    return _Slot(slot, own.get("concurrency", before.address or before.domain), own.get("delay", delay))


def _stir(engine: Any, downloader: Any) -> None:
    """Let what waits look again: a slot for its old delay, the engine for its next look some seconds away."""
    if hasattr(downloader, "_process_queue"):
        process_queue = downloader._process_queue  # noqa: SLF001
        # Scrapy before 2.14 wants to be told the spider too.
        first = (engine.spider,) if "spider" in signature(process_queue).parameters else ()
        for slot in list(getattr(downloader, "slots", {}).values()):
            slot.close()  # Ends its waiting, nothing else.
            process_queue(*first, slot)
    opened = engine_slot(engine)
    if opened is not None and engine.running:
        opened.nextcall.schedule()


def engine_slot(engine: Any) -> Any:
    """Return what the engine keeps of its spider; `None` before it is opened."""
    return getattr(engine, "_slot", None) or getattr(engine, "slot", None)
