"""What opens when a row is chosen: a job, or a page about a node, a crawl, a line of the queue, an event."""

from __future__ import annotations

from functools import partial

from toolkit.cluster.desk import Desk
from toolkit.cluster.node_life import NodeRow
from toolkit.model.crawls import CrawlView
from toolkit.model.events import Event
from toolkit.model.jobs import Job
from toolkit.model.names import JobId
from toolkit.top.details import crawl_lines, event_lines, node_lines, why_lines
from toolkit.top.events_tab import is_of_a_job
from toolkit.top.jobs_tab import JobRow
from toolkit.top.lines import Line
from toolkit.top.pages import PageScreen
from toolkit.top.queue_tab import LineRow
from toolkit.top.seen import Seen


def job_meant(row: object, seen: Seen | None) -> Job | None:
    """Return the job that a row is about: itself, or the subject of its event while that is known. Pure."""
    if isinstance(row, JobRow):
        return row.job
    if isinstance(row, Event) and is_of_a_job(row) and seen is not None:
        return seen.board.jobs.get(JobId(row.subject))
    return None


def page_of(row: object, seen: Seen | None, desk: Desk) -> PageScreen | None:
    """Return the page about a row that is no job's."""
    if isinstance(row, NodeRow):
        jobs = [job for job in (seen.board.jobs.values() if seen else ()) if job.node == row.name]
        running = [job for job in jobs if job.state.is_active]
        return PageScreen(f"node {row.name}", node_lines(row, running))
    if isinstance(row, CrawlView):
        return PageScreen(f"crawl {row.plan.crawl}", read=partial(_read_crawl, desk, row.plan.crawl))
    if isinstance(row, LineRow):
        title = f"why {row.oldest.id} waits, the oldest of {len(row.jobs):,} of {row.oldest.spider}"
        return PageScreen(title, read=partial(_read_why, desk, row.oldest))
    if isinstance(row, Event):
        return PageScreen(f"{row.kind.value} {row.subject}", event_lines(row))
    return None


def filter_words(row: object) -> str | None:
    """Return the words that leave only the jobs of a node, a crawl or a line in the table of jobs. Pure."""
    if isinstance(row, NodeRow):
        return row.name
    if isinstance(row, CrawlView):
        return row.plan.crawl
    return f"{row.oldest.spider} pending" if isinstance(row, LineRow) else None


def _read_crawl(desk: Desk, crawl: str) -> list[Line]:
    return crawl_lines(desk.crawl(crawl))


def _read_why(desk: Desk, job: Job) -> list[Line]:
    return why_lines(desk.why(job))
