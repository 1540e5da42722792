"""How crawls are shown: the list, one crawl with its workers and domains, what is wished of it, its entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolkit.cluster.crawls import (
    EVERY_DOMAIN,
    HELD_LONG_S,
    CrawlReport,
    CrawlState,
    Obeyed,
    live_workers,
    start_hint,
    state_of,
)
from toolkit.cluster.entries import Peeked, read_entry
from toolkit.model.crawls import Controls, CrawlView, DomainLimit, ItemsKind, SeenKind, Shelf
from toolkit.model.names import CrawlId, job_of
from toolkit.views.contract_crawls import (
    controls_object,
    crawl_object,
    crawl_row,
    entry_row,
    limit_row,
    obeyed_object,
)
from toolkit.views.jobs import age_text, span_text
from toolkit.views.view import FittedTable, Styled, View, plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_DOMAINS = 20
STYLES = {
    CrawlState.RUNNING: "cyan",
    CrawlState.PAUSED: "blue",
    CrawlState.WAITING: "yellow",
    CrawlState.OVER: "green",
    CrawlState.UNUSABLE: "red",
}
RARE = ("SUSPECT", "DEAD", "BLOCKED")
COLUMNS = (
    "CRAWL",
    "SPIDER",
    "ARGUMENTS",
    "STATE",
    "WORKERS",
    "PENDING",
    "IN FLIGHT",
    "SEEN",
    "PAGES",
    "PAGES/MIN",
    "ITEMS",
)
SPARE = ("SPIDER", "OLDEST", "PAGES/MIN", "SEEN", *RARE, "ARGUMENTS")


def crawls_view(views: Sequence[CrawlView]) -> View:
    """Show a list of crawls."""
    return View([crawl_row(view) for view in views], lambda: _crawls_table(views))


def crawl_view(report: CrawlReport) -> View:
    """Show all that is known of one crawl."""
    return View(crawl_object(report), lambda: _crawl_screen(report))


def controls_view(crawl: CrawlId, controls: Controls) -> View:
    """Show what is wished of all workers of a crawl."""
    data = controls_object(crawl, controls)
    rows = [("crawl", crawl), ("state", "paused" if controls.is_paused else "not paused"), *_wishes(controls)]
    return View(data, lambda: plain_table("CONTROLS", "", rows=rows))


def obeyed_view(obeyed: Obeyed) -> View:
    """Show what was verified of a pause or a resume."""
    word = "paused" if obeyed.controls.is_paused else "going on"
    rows = [
        ("crawl", obeyed.crawl),
        ("state", Styled(word, "blue" if obeyed.controls.is_paused else "cyan")),
        ("workers", f"{obeyed.heard} of {obeyed.workers} have heard of it"),
        ("in flight", _count(obeyed.in_flight)),
    ]
    return View(obeyed_object(obeyed), lambda: plain_table("CRAWL", "", rows=rows))


def limits_view(limits: Sequence[DomainLimit]) -> View:
    """Show the budgets of a crawl's domains over all its workers."""
    columns = ("DOMAIN", "PER SECOND", "CONCURRENCY")
    rows = [(_domain_text(limit.domain), limit.per_second, limit.concurrency) for limit in limits]
    return View([limit_row(limit) for limit in limits], lambda: plain_table(*columns, rows=rows, right=columns[1:]))


def entries_view(entries: Sequence[Peeked]) -> View:
    """Show entries of a crawl, those next to be taken first."""
    return View([entry_row(peeked) for peeked in entries], lambda: _entries_table(entries))


def counted_view(crawl: CrawlId, action: str, count: int | None = None) -> View:
    """Show what was done with a crawl, and with how many of its entries or seeds."""
    told = Styled(action if count is None else f"{_count(count)} {action}", "green")
    data = {"crawl": crawl, "action": action, "count": count}
    return View(data, lambda: plain_table("CRAWL", "", rows=[(crawl, told)]))


def _crawls_table(views: Sequence[CrawlView]) -> FittedTable:
    rows = [
        (
            view.plan.crawl,
            view.plan.spider,
            view.plan.arguments or None,
            _state(view),
            len(live_workers(view)),
            _count(view.pending),
            _count(view.in_flight),
            _count(view.seen),
            _count(view.pages),
            _rate(view.pages_per_minute),
            _count(view.items),
            _some(view.suspects, "yellow"),
            _some(view.dead, "red"),
            _some(view.blocked, "magenta"),
            age_text(view.oldest_at, now=view.now),
        )
        for view in views
    ]
    columns = (*COLUMNS, *RARE, "OLDEST")
    return plain_table(*columns, rows=rows, right=columns[4:], spare=SPARE, optional=("ARGUMENTS", *RARE, "OLDEST"))


def _crawl_screen(report: CrawlReport) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    view = report.view
    parts: list[RenderableType] = [plain_table("CRAWL", "", rows=_facts(view))]
    if view.workers:
        parts += [Text(), _workers_table(report)]
    if view.domains or view.limits:
        parts += [Text(), _domains_table(view)]
    return Group(*parts)


def _facts(view: CrawlView) -> list[tuple[str, object]]:
    """Return what is to be said of a crawl in a line each, without what there is nothing to say of."""
    plan = view.plan
    oldest = age_text(view.oldest_at, now=view.now)
    facts: list[tuple[str, object]] = [
        ("id", plan.crawl),
        ("spider", f"{plan.spider} of {plan.project}" if plan.project else plan.spider),
        ("arguments", plan.arguments or None),
        ("state", _state(view)),
        ("why", view.needs_migration),
        ("begun", None if view.created_at is None else f"{age_text(view.created_at, now=view.now)} ago"),
        ("pending", _count(view.pending) + (f", the oldest of them for {oldest}" if oldest and view.pending else "")),
        ("in flight", f"{_count(view.in_flight)}, with {len(live_workers(view))} live worker(s)"),
        ("held", _held(view)),
        ("seeds", f"{_count(view.seeds)} wait in {plan.keys.seeds}" if view.seeds else None),
        ("seen", _seen(view)),
        ("pages", _with_rate(view.pages, view.pages_per_minute)),
        ("items", _items(view)),
        ("duplicates", _count(view.duplicates) if view.duplicates else None),
        ("suspects", _shelf(view, view.suspects, Shelf.SUSPECT, "yellow")),
        ("dead", _shelf(view, view.dead, Shelf.DEAD, "red")),
        ("blocked", _shelf(view, view.blocked, Shelf.BLOCKED, "magenta")),
        ("order", plan.order.value),
        ("when over", "kept" if plan.persists else "cleared"),
        *_wishes(view.controls),
        ("to start it", start_hint(view)),
    ]
    return [(name, value) for name, value in facts if value is not None]


def _held(view: CrawlView) -> Styled | None:
    entry = view.held_for(HELD_LONG_S)
    if entry is None or entry.worker is None:
        return None
    job, url = job_of(entry.worker), read_entry(entry).url or entry.leased.entry.hex()
    text = f"{url}, by {job} for {age_text(entry.taken_at, now=view.now)}  → crawlctl logs {job}"
    return Styled(text, "yellow")


def _seen(view: CrawlView) -> str:
    text = f"{_count(view.seen)} ({view.plan.seen.value}, {view.plan.keys.seen})"
    if view.plan.seen is not SeenKind.BLOOM:
        return text
    return f"{text}; {view.expected_loss:.3g} URL(s) wrongly taken for seen, as expected of a Bloom filter"


def _items(view: CrawlView) -> str:
    if view.plan.items is ItemsKind.NONE:
        return "none through Redis: the project delivers them by itself"
    kind, key = view.plan.items.value, view.plan.keys.items
    waiting = f"; {_count(view.items_waiting)} wait in the {kind} {key}" if view.items_waiting else ""
    return _with_rate(view.items, view.items_per_minute) + waiting


def _shelf(view: CrawlView, count: int, shelf: Shelf, style: str) -> Styled | None:
    if not count:
        return None
    return Styled(f"{_count(count)}  → crawlctl crawls peek {view.plan.crawl} --{shelf.value}", style)


def _wishes(controls: Controls) -> list[tuple[str, object]]:
    tuned = (
        ("concurrency", controls.concurrency),
        ("delay", None if controls.delay_s is None else f"{controls.delay_s:g} s"),
        ("blocks", ", ".join(controls.blocks) or None),
    )
    return [(name, value) for name, value in tuned if value is not None]


def _workers_table(report: CrawlReport) -> FittedTable:
    rows = []
    for worker in report.view.workers:
        job = report.jobs.get(job_of(worker.name))
        left_s = worker.lease_left_s
        rows.append(
            (
                worker.name if job is None else job.id,
                None if job is None else job.node,
                worker.in_flight,
                None if worker.oldest is None else age_text(worker.oldest.taken_at, now=report.view.now),
                _count(worker.pages),
                age_text(worker.committed_at, now=report.view.now),
                Styled(span_text(left_s), "green") if left_s > 0 else Styled("lapsed", "red"),
                "runs start()" if worker.is_starting else None,
            )
        )
    columns = ("WORKER", "NODE", "IN FLIGHT", "OLDEST", "PAGES", "LAST COMMIT", "LEASE LEFT", "")
    return plain_table(*columns, rows=rows, right=columns[2:7], optional=("NODE", "OLDEST", ""))


def _domains_table(view: CrawlView) -> FittedTable:
    """Lay out the domains with the most pending entries, and each that has a budget."""
    budgets = {limit.domain: limit for limit in view.limits}
    busiest = sorted(view.domains, key=lambda domain: (-view.domains[domain], domain))
    shown = busiest[:MAX_DOMAINS]
    rows = [
        (_domain_text(name), view.domains.get(name), budget and budget.per_second, budget and budget.concurrency)
        for name in [*shown, *(name for name in budgets if name not in shown)]
        for budget in [budgets.get(name)]
    ]
    table = plain_table("DOMAIN", "PENDING", "PER SECOND", "CONCURRENCY", rows=rows, right=("PENDING", *_BUDGET))
    told = [f"{len(busiest)} domains; the first {MAX_DOMAINS} are shown"] if len(busiest) > MAX_DOMAINS else []
    if (counted := sum(view.domains.values())) < view.pending - view.suspects:
        told.append(f"PENDING tells of {counted:,} entries, a sample of the {view.pending:,} that wait")
    table.caption = "; ".join(told) or None
    return table


def _entries_table(entries: Sequence[Peeked]) -> FittedTable:
    rows = [
        (
            peeked.entry.leased.entry.hex(),
            peeked.entry.came_at.strftime("%Y-%m-%d %H:%M:%S"),
            peeked.priority,
            peeked.entry.leased.deaths or None,
            "seed" if peeked.entry.leased.is_seed else peeked.callback,
            peeked.entry.worker,
            None if (at := peeked.entry.taken_at) is None else at.strftime("%Y-%m-%d %H:%M:%S"),
            None if not (why := peeked.entry.why or peeked.problem) else Styled(why, "red"),
            peeked.url if peeked.method in {None, "GET"} else f"{peeked.method} {peeked.url}",
        )
        for peeked in entries
    ]
    columns = ("ENTRY", "CAME (UTC)", "PRIORITY", "DEATHS", "CALLBACK", "WORKER", "TAKEN (UTC)", "WHY", "URL")
    spare = ("CAME (UTC)", "CALLBACK", "PRIORITY", "WORKER")
    optional = ("DEATHS", "CALLBACK", "WORKER", "TAKEN (UTC)", "WHY")
    return plain_table(*columns, rows=rows, right=("PRIORITY", "DEATHS"), spare=spare, optional=optional)


def _state(view: CrawlView) -> Styled:
    state = state_of(view)
    return Styled(state.value, STYLES[state])


def _domain_text(domain: str) -> str:
    return "* (each other)" if domain == EVERY_DOMAIN else domain


def _count(number: int) -> str:
    return f"{number:,}"


def _some(number: int, style: str) -> Styled | None:
    return Styled(_count(number), style) if number else None


def _rate(per_minute: float | None) -> str | None:
    return None if per_minute is None else f"{per_minute:,.0f}"


def _with_rate(number: int, per_minute: float | None) -> str:
    return _count(number) + ("" if per_minute is None else f", {per_minute:,.0f} a minute now")


_BUDGET = ("PER SECOND", "CONCURRENCY")
