"""Takes a crawl out of a Redis into a file, and out of a file into a Redis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from toolkit.model.crawls import CrawlKeys, CrawlPlan, CrawlView
from toolkit.model.errors import NotFoundError, RefusedError
from toolkit.model.names import CrawlId
from toolkit.model.transfers import CrawlCounts
from toolkit.store.interfaces_crawls import Crawls
from toolkit.store.interfaces_foreign import Foreign, Queued
from toolkit.transfer.archive import Archive, Head, writing

_SEEDS_A_STEP = 1_000


def export_crawl(crawls: Crawls, crawl: CrawlId, path: Path, *, force: bool = False) -> tuple[CrawlView, CrawlCounts]:
    """Write a crawl to a file, which is there whole or not at all; return what was seen of it, and how much it holds.

    Raises:
        NotFoundError: no such crawl.
        RefusedError: its workers live, and it was not forced; or what is there is scrapy-redis'.
        ConfigurationError: the file cannot be written.

    """
    view = crawls.view(crawl)
    if view is None:
        raise NotFoundError(f"no worker ever joined a crawl {crawl}", hint="crawlctl crawls list")
    if view.needs_migration is not None:
        raise RefusedError(view.needs_migration, hint=f"crawlctl crawls adopt {crawl} takes it over")
    live = sum(worker.lease_left_s > 0 for worker in view.workers)
    if live and not force:
        raise RefusedError(
            f"{live} worker(s) of the crawl {crawl} live: what moves meanwhile would be missing, or in the file twice",
            hint=f"crawlctl cancel --crawl {crawl} ends them first; --force exports it all the same",
        )
    with writing(path) as writer:
        writer.head(view)
        for entry in crawls.entries(crawl):
            writer.entry(entry)
        for seed, score in crawls.seeds(crawl):
            writer.seed(seed, score)
        for record in crawls.seen(crawl):
            writer.record(record)
        writer.end()
    return view, writer.counts


def import_crawl(
    crawls: Crawls, foreign: Foreign, path: Path, *, name: CrawlId | None = None
) -> tuple[CrawlPlan, CrawlCounts]:
    """Bring a crawl from a file into this Redis, under another name if one is given; return its plan and counts.

    The file is read to its end before anything is written. While it is brought in, the crawl is paused; ended half-way
    it stays so, and is cleared before the next attempt. What was in flight is pending again.

    Raises:
        RefusedError: the crawl is not empty.
        ConfigurationError: the file cannot be read, or is not whole.

    """
    archive = Archive(path)
    head, counts = archive.check()
    plan = head.plan if name is None else renamed(head.plan, name)
    _refuse_unless_empty(crawls, foreign, plan)
    crawls.remember(plan, archive.records())
    _pause(crawls, plan)
    crawls.restore(plan, archive.entries())
    _pause(crawls, plan)
    seeds = archive.seeds()
    while part := [Queued(seed, score) for seed, score in islice(seeds, _SEEDS_A_STEP)]:
        foreign.fill(plan.keys.seeds, plan.seeds.value, part)
    if crawls.plan(plan.crawl) is not None:
        _steer(crawls, plan.crawl, head)
    return plan, counts


def renamed(plan: CrawlPlan, name: CrawlId) -> CrawlPlan:
    """Return the plan of the same crawl under another name, with other names of its keys.

    Raises:
        RefusedError: a key's name does not hold that of the crawl, so that both crawls would share it.

    """
    if name == plan.crawl:
        return plan
    keys = plan.keys
    for key in (keys.requests, keys.seen, keys.seeds, keys.items):
        if plan.crawl not in key:
            raise RefusedError(
                f"the key {key} does not hold the crawl's name {plan.crawl}, so {name} would share it",
                hint=f"import it as {plan.crawl}",
            )
    return replace(
        plan,
        crawl=name,
        keys=CrawlKeys(*(key.replace(plan.crawl, name) for key in (keys.requests, keys.seen, keys.seeds, keys.items))),
    )


def _refuse_unless_empty(crawls: Crawls, foreign: Foreign, plan: CrawlPlan) -> None:
    view = crawls.view(plan.crawl)
    full = list(_full(view)) if view is not None else []
    full += [key for key in (plan.keys.requests, plan.keys.seen, plan.keys.seeds) if foreign.kind(key) != "none"]
    if full:
        raise RefusedError(
            f"the crawl {plan.crawl} is not empty here: {', '.join(full)}",
            hint=f"--crawl NAME imports it under another name; crawlctl crawls clear {plan.crawl} empties it",
        )


def _full(view: CrawlView) -> Iterator[str]:
    for name in ("pending", "in_flight", "dead", "blocked", "seen", "seeds"):
        if count := getattr(view, name):
            yield f"{count:,} {name.replace('_', ' ')}"


def _pause(crawls: Crawls, plan: CrawlPlan) -> None:
    """Keep workers from taking what is half there, and from finding the crawl over."""
    view = crawls.view(plan.crawl)
    if view is not None and not view.controls.is_paused:
        crawls.control(plan.crawl, is_paused=True)


def _steer(crawls: Crawls, crawl: CrawlId, head: Head) -> None:
    """Set budgets and blocks, and last of all let the crawl go on, if it was not paused."""
    for limit in head.limits:
        crawls.limit(crawl, limit)
    controls = head.controls
    if controls.blocks:
        crawls.block(crawl, controls.blocks)
    crawls.control(
        crawl,
        is_paused=controls.is_paused,
        concurrency=-1 if controls.concurrency is None else controls.concurrency,
        delay_s=-1.0 if controls.delay_s is None else controls.delay_s,
    )
