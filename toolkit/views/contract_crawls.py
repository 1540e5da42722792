"""The JSON contract of crawls: how each of their nouns is shown to programs. A field once shipped keeps its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolkit.cluster.crawls import live_workers, state_of
from toolkit.cluster.entries import read_entry
from toolkit.model.crawls import Controls, CrawlView, DomainLimit, EntryView, WorkerView
from toolkit.model.jobs import Job
from toolkit.model.names import CrawlId, job_of
from toolkit.views.contract import time_text

if TYPE_CHECKING:
    from toolkit.cluster.crawls import CrawlReport, Obeyed
    from toolkit.cluster.entries import Peeked


def crawl_row(view: CrawlView) -> dict[str, Any]:
    """Show a crawl as `crawls list` does; `items` were delivered since it began, `items_waiting` are there now."""
    return {
        "id": view.plan.crawl,
        "project": view.plan.project,
        "spider": view.plan.spider,
        "arguments": view.plan.arguments or None,
        "state": state_of(view).value,
        "pending": view.pending,
        "in_flight": view.in_flight,
        "seeds": view.seeds,
        "seen": view.seen,
        "expected_loss": round(view.expected_loss, 3),
        "pages": view.pages,
        "items": view.items,
        "items_waiting": view.items_waiting,
        "duplicates": view.duplicates,
        "pages_per_minute": _rate(view.pages_per_minute),
        "items_per_minute": _rate(view.items_per_minute),
        "live_workers": len(live_workers(view)),
        "suspects": view.suspects,
        "dead": view.dead,
        "blocked": view.blocked,
        "oldest_at": time_text(view.oldest_at),
        "created_at": time_text(view.created_at),
    }


def crawl_object(report: CrawlReport) -> dict[str, Any]:
    """Show all that is known of one crawl."""
    view, plan = report.view, report.view.plan
    return crawl_row(view) | {
        "order": plan.order.value,
        "seen_kind": plan.seen.value,
        "seeds_kind": plan.seeds.value,
        "items_kind": plan.items.value,
        "fingerprints": plan.fingerprints,
        "persists": plan.persists,
        "max_deliveries": plan.max_deliveries,
        "keys": {
            "requests": plan.keys.requests,
            "seen": plan.keys.seen,
            "seeds": plan.keys.seeds,
            "items": plan.keys.items,
        },
        "controls": _controls(view.controls),
        "limits": [limit_row(limit) for limit in view.limits],
        "domains": dict(view.domains),
        "workers": [worker_row(worker, report.jobs.get(job_of(worker.name))) for worker in view.workers],
        "needs_migration": view.needs_migration,
    }


def worker_row(worker: WorkerView, job: Job | None) -> dict[str, Any]:
    """Show a worker; `job`, `node` and `state` are null where no job of the queue is behind it."""
    return {
        "name": worker.name,
        "job": None if job is None else job.id,
        "node": None if job is None else job.node,
        "state": None if job is None else job.state.value,
        "in_flight": worker.in_flight,
        "pages": worker.pages,
        "committed_at": time_text(worker.committed_at),
        "lease_left_s": round(worker.lease_left_s, 1),
        "starting": worker.is_starting,
        "oldest": None if worker.oldest is None else _oldest(worker.oldest),
    }


def _oldest(entry: EntryView) -> dict[str, Any]:
    url = read_entry(entry).url
    return {"id": entry.leased.entry.hex(), "url": url, "taken_at": time_text(entry.taken_at)}


def controls_object(crawl: CrawlId, controls: Controls) -> dict[str, Any]:
    """Show what is wished of all workers of a crawl; null leaves it to the spider."""
    return {"crawl": crawl} | _controls(controls)


def obeyed_object(obeyed: Obeyed) -> dict[str, Any]:
    """Show what was verified of a pause or a resume."""
    return controls_object(obeyed.crawl, obeyed.controls) | {
        "live_workers": obeyed.workers,
        "heard": obeyed.heard,
        "in_flight": obeyed.in_flight,
    }


def limit_row(limit: DomainLimit) -> dict[str, Any]:
    """Show the budget of a domain over all workers; `*` is each that has none of its own."""
    return {"domain": limit.domain, "per_second": limit.per_second, "concurrency": limit.concurrency}


def entry_row(peeked: Peeked) -> dict[str, Any]:
    """Show an entry; `why` says how it came to its shelf, or what keeps its body from being read."""
    entry = peeked.entry
    return {
        "id": entry.leased.entry.hex(),
        "shelf": entry.shelf.value,
        "url": peeked.url,
        "method": peeked.method,
        "callback": peeked.callback,
        "priority": peeked.priority,
        "depth": peeked.depth,
        "seed": entry.leased.is_seed,
        "deaths": entry.leased.deaths,
        "came_at": time_text(entry.came_at),
        "worker": entry.worker,
        "taken_at": time_text(entry.taken_at),
        "why": entry.why or peeked.problem,
    }


def _controls(controls: Controls) -> dict[str, Any]:
    return {
        "paused": controls.is_paused,
        "concurrency": controls.concurrency,
        "delay_s": controls.delay_s,
        "blocks": list(controls.blocks),
    }


def _rate(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
