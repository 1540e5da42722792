"""What the pages of a node, a crawl, an event and a waiting job say. Pure: lines made of what was read."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.cluster.crawls import CrawlReport, live_workers, state_of
from toolkit.cluster.node_life import NodeRow
from toolkit.cluster.why import Explanation
from toolkit.model.crawls import CrawlView
from toolkit.model.events import Event
from toolkit.model.jobs import Job
from toolkit.model.names import job_of
from toolkit.model.snapshot import Attention
from toolkit.top.acting import Told
from toolkit.top.columns import Cell
from toolkit.top.lines import Line
from toolkit.top.pages import fact_lines
from toolkit.views.crawls import STYLES as CRAWL_STYLES
from toolkit.views.jobs import STYLES as JOB_STYLES
from toolkit.views.jobs import span_text
from toolkit.views.nodes import STYLES as NODE_STYLES

MAX_DOMAINS = 30


def heading(text: str) -> Line:
    """Begin a part of a page."""
    return Cell(text, "bold")


def node_lines(row: NodeRow, jobs: Sequence[Job]) -> list[Line]:
    """Tell all that is known of a node, and which jobs it has."""
    facts = (
        ("state", Cell(row.state.value, NODE_STYLES[row.state])),
        ("why", row.error and Cell(row.error, "red")),
        ("kind", row.kind),
        ("address", row.address),
        ("seen as", row.outside),
        ("running", None if row.running is None else f"{row.running} of {row.slots} slots"),
        ("load", None if row.load is None else f"{row.load:.2f} a processor"),
        ("memory", None if row.memory_free_mb is None else f"{row.memory_free_mb:,} MB free"),
        ("disk", None if row.disk_free_mb is None else f"{row.disk_free_mb:,} MB free"),
        ("heard", None if row.heartbeat_age_s is None else f"{span_text(row.heartbeat_age_s)} ago"),
        ("started", None if row.started_at is None else f"{row.started_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("drained by", row.drained_by),
        ("labels", ", ".join(f"{name}={value}" for name, value in row.labels.items())),
        ("software", ", ".join(f"{name} {version}" for name, version in row.software.items())),
    )
    lines = fact_lines(facts)
    if row.behind:
        lines += ["", heading("IT LACKS"), *(f"  {name}: {why}" for name, why in sorted(row.behind.items()))]
    if row.versions:
        lines += ["", heading("VERSIONS")]
        lines += [f"  {project}  {', '.join(versions)}" for project, versions in sorted(row.versions.items())]
    if jobs:
        lines += ["", heading("JOBS"), *(_job_line(job) for job in jobs)]
    return lines


def crawl_lines(report: CrawlReport) -> list[Line]:
    """Tell all that is known of a crawl: its frontier, its workers, its domains."""
    view = report.view
    state, controls = state_of(view), view.controls
    facts = (
        ("state", Cell(state.value, CRAWL_STYLES[state])),
        ("why", view.needs_migration),
        ("spider", f"{view.plan.spider} of {view.plan.project}" if view.plan.project else view.plan.spider),
        ("arguments", view.plan.arguments or None),
        ("pending", f"{view.pending:,}"),
        ("in flight", f"{view.in_flight:,}"),
        ("seeds", f"{view.seeds:,}" if view.seeds else None),
        ("seen", f"{view.seen:,}"),
        ("pages", _with_rate(view.pages, view.pages_per_minute)),
        ("items", _with_rate(view.items, view.items_per_minute)),
        ("duplicates", f"{view.duplicates:,}"),
        ("suspects", f"{view.suspects:,}" if view.suspects else None),
        ("dead", Cell(f"{view.dead:,}", "red") if view.dead else None),
        ("blocked", f"{view.blocked:,}" if view.blocked else None),
        ("concurrency", controls.concurrency),
        ("delay", None if controls.delay_s is None else f"{controls.delay_s:g} s"),
        ("blocks", ", ".join(controls.blocks)),
    )
    return [*fact_lines(facts), *_worker_lines(report), *_domain_lines(view)]


def why_lines(explanation: Explanation) -> list[Line]:
    """Tell why a job waits, node by node, or how it came to its end."""
    job = explanation.job
    lines: list[Line] = [
        (Cell(f"{job.spider} {job.id} is "), Cell(job.state.value, JOB_STYLES[job.state])),
        "",
        explanation.summary,
        *(f"  {detail}" for detail in explanation.details),
    ]
    if explanation.position is not None:
        lines.append(f"  {explanation.position:,} job(s) go before it")
    if explanation.nodes:
        lines += ["", heading("NODES")]
    for node in explanation.nodes:
        mark = Cell("  could  ", "green") if node.could else Cell("  not    ", "yellow")
        lines.append((mark, Cell(f"{node.node}  {node.reason or ''}")))
    if explanation.log:
        lines += ["", heading("THE END OF ITS LOG"), *explanation.log]
    if explanation.log_error:
        lines += ["", f"its log could not be read: {explanation.log_error}"]
    return lines


def event_lines(event: Event) -> list[Line]:
    """Tell all that an event says."""
    at = None if event.at is None else f"{event.at:%Y-%m-%d %H:%M:%S} UTC"
    facts = [("kind", event.kind.value), ("subject", event.subject), ("at", at), ("id", event.id)]
    return fact_lines([*facts, *sorted(event.about.items())])


def attention_lines(attention: Sequence[Attention]) -> list[Line]:
    """Tell all that needs attention, and what shows or mends it."""
    lines: list[Line] = []
    for each in attention:
        lines += [Cell(each.message, "yellow"), (Cell("    → ", "dim"), Cell(each.command or "")), ""]
    return lines or ["nothing needs attention"]


def told_lines(done: Sequence[tuple[str, Sequence[Told]]]) -> list[Line]:
    """Tell what was done from these screens and what came of it, the newest first."""
    lines: list[Line] = []
    for question, told in reversed(done):
        lines.append(heading(question))
        lines += [(Cell("  not   ", "bold red") if each.is_bad else Cell("  done  "), Cell(each.text)) for each in told]
        lines += [] if told else ["  under way …"]
        lines.append("")
    return lines or ["nothing was done from here yet"]


def _worker_lines(report: CrawlReport) -> list[Line]:
    view = report.view
    if not view.workers:
        return []
    lines: list[Line] = ["", heading(f"WORKERS ({len(live_workers(view))} live)")]
    for worker in view.workers:
        job = report.jobs.get(job_of(worker.name))
        where = f"on {job.node}" if job is not None and job.node else ""
        lease = f"lease {span_text(worker.lease_left_s)}" if worker.lease_left_s > 0 else "lease lapsed"
        told = f"{worker.in_flight} in flight, {worker.pages:,} pages, {lease} {where}"
        lines.append(f"  {job_of(worker.name)[:12]}  {told}")
    return lines


def _domain_lines(view: CrawlView) -> list[Line]:
    if not view.domains and not view.limits:
        return []
    busiest = sorted(view.domains, key=lambda domain: (-view.domains[domain], domain))[:MAX_DOMAINS]
    lines: list[Line] = ["", heading("DOMAINS, BY WHAT IS PENDING")]
    lines += [f"  {view.domains[domain]:>9,}  {domain}" for domain in busiest]
    for limit in view.limits:
        told = (
            None if limit.per_second is None else f"{limit.per_second:g} a second",
            None if limit.concurrency is None else f"{limit.concurrency} at once",
        )
        lines.append(f"    limit: {limit.domain}  {', '.join(word for word in told if word)}")
    return lines


def _job_line(job: Job) -> Line:
    return (Cell(f"  {job.id[:8]}  "), Cell(f"{job.state.value:<9}", JOB_STYLES[job.state]), Cell(f" {job.spider}"))


def _with_rate(number: int, per_minute: float | None) -> str:
    return f"{number:,}" + ("" if per_minute is None else f"   {per_minute:,.0f} a minute")
