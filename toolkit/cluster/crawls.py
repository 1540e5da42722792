"""The crawls as an operator sees and steers them: listed, shown, paused, limited, looked into, cleared away.

Everything goes through the shared Redis; no node and no spider is asked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.config.nearest import did_you_mean
from toolkit.model.crawls import Controls, CrawlView, DomainLimit, WorkerView
from toolkit.model.errors import NotFoundError, RefusedError, UsageError
from toolkit.model.jobs import Job
from toolkit.model.names import CrawlId, JobId, check_crawl, job_of
from toolkit.store.interfaces import JobStore
from toolkit.store.interfaces_crawls import Crawls

EVERY_DOMAIN = "*"
"""In place of a domain: each that has no budget of its own."""

HELD_LONG_S = 3600.0
"""From then on an entry in a worker's hands is one to look at: most likely its page never ends."""

POLL_S = 0.2
_DOMAIN = re.compile(r"(?P<name>\*|\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?(?::[0-9]+)?")


class CrawlState(StrEnum):
    """What a crawl is doing, in one word."""

    RUNNING = "running"
    """Workers live."""
    PAUSED = "paused"
    """No entry is given out until it is resumed."""
    WAITING = "waiting"
    """Entries or seeds wait, and no worker lives."""
    OVER = "over"
    """Nothing waits and nobody works."""
    UNUSABLE = "unusable"
    """What is there is of another kind, such as entries of scrapy-redis."""


def state_of(view: CrawlView) -> CrawlState:
    """Return what a crawl is doing. Pure."""
    if view.needs_migration is not None:
        return CrawlState.UNUSABLE
    if view.controls.is_paused:
        return CrawlState.PAUSED
    if live_workers(view):
        return CrawlState.RUNNING
    if view.pending or view.in_flight or view.seeds:
        return CrawlState.WAITING
    return CrawlState.OVER


def live_workers(view: CrawlView) -> tuple[WorkerView, ...]:
    """Return the workers whose leases have not lapsed. Pure."""
    return tuple(worker for worker in view.workers if worker.lease_left_s > 0)


@dataclass(frozen=True, slots=True)
class CrawlReport:
    """One crawl, and the jobs that its workers run, as far as they are known."""

    view: CrawlView
    jobs: Mapping[JobId, Job] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Obeyed:
    """What was verified after a crawl was paused or resumed.

    `workers` live now, `heard` of them have spoken with Redis since; `in_flight` is what they still work on.
    """

    crawl: CrawlId
    controls: Controls
    workers: int
    heard: int
    in_flight: int
    is_settled: bool
    """Paused: whoever holds an entry has heard of it. Resumed: somebody has, or nobody is there to hear it."""


def look(crawls: Crawls, crawl: str) -> CrawlView:
    """Return one crawl as it is now.

    Raises:
        UsageError: no crawl could have such a name.
        NotFoundError: no worker ever joined one of this name.

    """
    view = crawls.view(check_crawl(crawl))
    if view is None:
        near = did_you_mean(crawl, [plan.crawl for plan in crawls.all()])
        hint = "crawlctl crawls lists them; a crawl is known once a worker has joined it"
        raise NotFoundError(f"no crawl {crawl!r} is known{near}", hint=hint)
    return view


def report(crawls: Crawls, records: JobStore, crawl: str) -> CrawlReport:
    """Return one crawl as it is now, and the jobs of its workers.

    Raises:
        NotFoundError: no worker ever joined a crawl of this name.

    """
    view = look(crawls, crawl)
    return CrawlReport(view, records.get_many([job_of(worker.name) for worker in view.workers]))


def pause(
    crawls: Crawls,
    crawl: str,
    *,
    is_paused: bool,
    within_s: float,
    on_look: Callable[[Obeyed], None] = lambda _: None,
) -> Obeyed:
    """Pause or resume a crawl, and look until the workers have heard of it, for at most `within_s` seconds.

    From the moment that this was written no entry is given out, or entries are again; what is waited for is that the
    workers hand back or finish what they hold. `on_look` hears of every look.

    Raises:
        NotFoundError: no worker ever joined a crawl of this name.

    """
    crawl_id = look(crawls, crawl).plan.crawl
    crawls.control(crawl_id, is_paused=is_paused)
    asked = look(crawls, crawl_id)
    deadline = time.monotonic() + within_s
    view = asked
    while True:
        obeyed = judge_pause(view, asked=asked, is_paused=is_paused)
        on_look(obeyed)
        if (obeyed.is_settled and not (is_paused and obeyed.in_flight)) or time.monotonic() >= deadline:
            return obeyed
        time.sleep(POLL_S)
        view = look(crawls, crawl_id)


def judge_pause(view: CrawlView, *, asked: CrawlView, is_paused: bool) -> Obeyed:
    """Say how far a pause or a resume has come; `asked` is what was seen right after it was written. Pure."""
    live = live_workers(view)
    heard = [each for each in live if each.committed_at is not None and each.committed_at > asked.now]
    deaf = [each for each in live if each not in heard]
    is_settled = not any(each.in_flight for each in deaf) if is_paused else bool(heard) or not live
    return Obeyed(view.plan.crawl, view.controls, len(live), len(heard), view.in_flight, is_settled)


def refuse_to_clear(view: CrawlView, *, force: bool) -> None:
    """Refuse to clear a crawl that is being worked on, unless it is forced.

    Raises:
        RefusedError: workers live.

    """
    live = live_workers(view)
    if live and not force:
        raise RefusedError(
            f"{len(live)} worker(s) work on {view.plan.crawl}: cleared now, they would lose what they hold",
            hint=f"crawlctl cancel --crawl {view.plan.crawl} ends them first; --force clears it all the same",
        )


def domain_limit(domain: str, *, per_second: float | None, concurrency: int | None) -> DomainLimit:
    """Return the budget of a domain; without numbers it takes the domain's budget away.

    Raises:
        UsageError: it is no domain, or a number is not greater than 0.

    """
    if per_second is not None and not 0 < per_second < float("inf"):
        hint = "crawlctl crawls block lets no worker take any of a domain"
        raise UsageError(f"{per_second:g} requests a second cannot be kept: give more than 0", hint=hint)
    return DomainLimit(domain_name(domain), per_second, concurrency)


def domain_name(text: str) -> str:
    """Return a domain as the frontier names it, in small letters and without a port; or `*`.

    Raises:
        UsageError: it is a URL, or no domain at all.

    """
    name = text.strip().lower()
    try:
        name = name if name.isascii() else name.encode("idna").decode("ascii")
    except UnicodeError:
        name = ""
    found = _DOMAIN.fullmatch(name)
    if found is None:
        raise UsageError(f"{text!r} is no domain", hint="such as example.com; '*' is each that has none of its own")
    return found["name"]


def block_pattern(text: str) -> str:
    """Return what is to be blocked as workers compare it: a domain, `shop-*.example.com`, or a pattern for whole URLs.

    Raises:
        UsageError: it would block everything, or nothing.

    """
    wanted = text.strip()
    if "*" in wanted and not wanted.strip("*./: "):
        raise UsageError(f"{text!r} blocks everything", hint="crawlctl crawls pause keeps all workers from taking any")
    if "*" in wanted or "://" in wanted:
        return wanted if "/" in wanted else wanted.lower()
    try:
        return domain_name(wanted)
    except UsageError as error:
        hint = "a domain as example.com, or a pattern for whole URLs as '*/calendar/*'"
        raise UsageError(f"{text!r} is neither a domain nor a pattern", hint=hint) from error


def blocks_to_lift(view: CrawlView, patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the blocks that are meant: those of the patterns, all where none is given. Pure.

    Raises:
        NotFoundError: nothing is blocked by one of the patterns.

    """
    for pattern in patterns:
        if pattern not in view.controls.blocks:
            near = did_you_mean(pattern, view.controls.blocks)
            hint = f"crawlctl crawls unblock {view.plan.crawl} lifts all there are, and takes back what is aside"
            raise NotFoundError(f"{view.plan.crawl} has no block {pattern!r}{near}", hint=hint)
    return tuple(patterns) or view.controls.blocks


def start_hint(view: CrawlView) -> str | None:
    """Say how to start workers for a crawl that waits for some; `None` where it waits for none. Pure."""
    if state_of(view) is not CrawlState.WAITING:
        return None
    arguments = view.plan.arguments
    # Those that are cut would be others.
    shown = "-a …" if arguments.endswith("…") else arguments
    return " ".join(filter(None, ("crawlctl schedule", view.plan.spider, shown, "--crawl", view.plan.crawl)))
