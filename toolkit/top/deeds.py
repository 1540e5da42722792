"""What a key does to the rows that it is pressed on: an act to be asked about, or why there is none. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.cluster.crawls import CrawlState, state_of
from toolkit.cluster.node_life import NodeRow
from toolkit.model.crawls import CrawlView
from toolkit.model.jobs import Job
from toolkit.model.snapshot import STOCK
from toolkit.top import acting
from toolkit.top.acting import Act
from toolkit.top.jobs_tab import JobRow
from toolkit.top.queue_tab import LineRow

NOTHING = "there is nothing under the cursor"
MAX_JOBS = 500


def deed(verb: str, rows: Sequence[object]) -> Act | str:
    """Return what a verb means for these rows, all of one kind."""
    if not rows:
        return NOTHING
    if jobs := jobs_of(rows):
        return _job_deed(verb, jobs)
    if nodes := [row for row in rows if isinstance(row, NodeRow)]:
        return _node_deed(verb, nodes)
    crawls = [row for row in rows if isinstance(row, CrawlView)]
    return _crawl_deed(verb, crawls) if crawls else "nothing can be done to this"


def jobs_of(rows: Sequence[object]) -> list[Job]:
    """Return the jobs that rows stand for: themselves, or those that wait in a line."""
    found: list[Job] = []
    for row in rows:
        if isinstance(row, Job):
            found.append(row)
        elif isinstance(row, JobRow):
            found.append(row.job)
        elif isinstance(row, LineRow):
            found += row.jobs
    return found


def _job_deed(verb: str, jobs: Sequence[Job]) -> Act | str:
    if len(jobs) > MAX_JOBS:
        return f"{len(jobs):,} jobs are more than {MAX_JOBS} at once: crawlctl cancel --spider does that"
    if verb == "cancel":
        return acting.cancel(jobs)
    if verb in {"pause", "resume"}:
        return acting.pause(jobs, is_paused=verb == "pause")
    return acting.retry(jobs) if verb == "retry" else f"a job cannot be {verb}ed"


def _node_deed(verb: str, nodes: Sequence[NodeRow]) -> Act | str:
    plugged = [node for node in nodes if node.kind != STOCK]
    if not plugged:
        return "a stock node cannot be drained: it takes what it is sent"
    if verb == "drain":
        fit = [node.name for node in plugged if not node.is_draining]
        return acting.drain(fit) if fit else "it takes no new job already"
    fit = [node.name for node in plugged if node.is_draining]
    return acting.resume_nodes(fit) if fit else "it is not drained"


def _crawl_deed(verb: str, crawls: Sequence[CrawlView]) -> Act | str:
    if len(crawls) > 1:
        return "one crawl at a time"
    (view,) = crawls
    is_paused = state_of(view) is CrawlState.PAUSED
    if verb == "pause":
        return "it is paused already" if is_paused else acting.pause_crawl(view.plan.crawl, is_paused=True)
    return acting.pause_crawl(view.plan.crawl, is_paused=False) if is_paused else "it is not paused"
