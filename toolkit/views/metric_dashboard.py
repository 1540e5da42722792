"""The dashboard for Grafana: rows of panels over the numbers of `metric_families.py`, as JSON that Grafana imports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

TITLE = "crawlctl"
UID = "crawlctl-cluster"
SCHEMA_VERSION = 38
"""Grafana 10's; later ones read it."""

WIDTH = 24
QUANTILES = (0.5, 0.95, 0.99)
HEIGHTS = {"stat": 4, "timeseries": 8}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: what it asks Prometheus (expression and legend), how wide it is, and the unit of what it shows."""

    title: str
    asks: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: Literal["stat", "timeseries"] = "timeseries"
    width: int = 8


def _of(name: str, **labels: str) -> str:
    """Name a series of the chosen cluster; a label's value may be several, as in `failed|lost`."""
    inner = ",".join(f'{label}=~"{value}"' for label, value in {"instance": "$instance", **labels}.items())
    return f"{name}{{{inner}}}"


def _stat(title: str, expression: str, *, unit: str = "short") -> Panel:
    return Panel(title, ((expression, ""),), unit, "stat", 3)


def _quantile(share: float) -> str:
    return f"histogram_quantile({share}, rate({_of('crawlctl_job_claim_latency_seconds_bucket')}[$__rate_interval]))"


def _rate(name: str) -> str:
    return f"rate({_of(name)}[$__rate_interval])"


def _an_hour(name: str, by: str, **labels: str) -> str:
    return f"sum by ({by}) (increase({_of(name, **labels)}[1h]))"


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "At a glance",
        (
            _stat("Nodes that live", f"sum({_of('crawlctl_node_up')})"),
            _stat("Nodes in trouble", f"count({_of('crawlctl_node_up')} == 0) or vector(0)"),
            _stat("Jobs that run", f"sum({_of('crawlctl_jobs', state='active')})"),
            _stat("Jobs that wait", f"sum({_of('crawlctl_jobs', state='ready')})"),
            _stat("Oldest wait", f"max({_of('crawlctl_queue_age_seconds')})", unit="s"),
            _stat("Pages a second", f"sum({_of('crawlctl_pages_per_second')})"),
            _stat("Redis", f"min({_of('crawlctl_redis_up')})", unit="bool_on_off"),
            _stat("Alerts of crawlctl", f"sum({_of('crawlctl_alerts_firing')})"),
        ),
    ),
    (
        "Work",
        (
            Panel("Pages", ((_rate("crawlctl_pages_total"), "pages"),), "reqps"),
            Panel("Items", ((_rate("crawlctl_items_total"), "items"),), "ops"),
            Panel("Errors", ((_rate("crawlctl_errors_total"), "errors"),), "ops"),
        ),
    ),
    (
        "Jobs",
        (
            Panel("Jobs by state", ((_of("crawlctl_jobs"), "{{state}}"),)),
            Panel("Jobs ended, an hour", ((_an_hour("crawlctl_jobs_ended_total", "outcome"), "{{outcome}}"),)),
            Panel(
                "Failed and lost, an hour",
                ((_an_hour("crawlctl_jobs_ended_total", "project", outcome="failed|lost"), "{{project}}"),),
            ),
            Panel("Wait for a node", tuple((_quantile(share), f"p{share * 100:g}") for share in QUANTILES), "s"),
            Panel("Oldest wait", ((_of("crawlctl_queue_age_seconds"), "next in its line"),), "s"),
            Panel(
                "Attempts, requeued, leases lost, an hour",
                (
                    (f"increase({_of('crawlctl_job_attempts_total')}[1h])", "attempts"),
                    (f"increase({_of('crawlctl_jobs_requeued_total')}[1h])", "requeued"),
                    (f"increase({_of('crawlctl_leases_lost_total')}[1h])", "leases lost"),
                ),
            ),
        ),
    ),
    (
        "Nodes",
        (
            Panel("Nodes by state", ((_of("crawlctl_nodes"), "{{state}}"),)),
            Panel("Slots", ((_of("crawlctl_slots"), "slots"), (_of("crawlctl_slots_taken"), "taken"))),
            Panel("Busiest nodes", ((f"topk(10, {_of('crawlctl_node_load_ratio')})", "{{node}}"),)),
            Panel("Least memory", ((f"bottomk(10, {_of('crawlctl_node_memory_free_bytes')})", "{{node}}"),), "bytes"),
            Panel("Least disk", ((f"bottomk(10, {_of('crawlctl_node_disk_free_bytes')})", "{{node}}"),), "bytes"),
            Panel("What needs attention", ((_of("crawlctl_attention"), "{{kind}}"),)),
        ),
    ),
    (
        "Crawls",
        (
            Panel("Entries that wait", ((_of("crawlctl_crawl_entries", shelf="pending"), "{{crawl}}"),)),
            Panel("Pages by crawl", ((_rate("crawlctl_crawl_pages_total"), "{{crawl}}"),), "reqps"),
            Panel("Items by crawl", ((_rate("crawlctl_crawl_items_total"), "{{crawl}}"),), "ops"),
            Panel("Workers", ((_of("crawlctl_crawl_workers"), "{{crawl}}"),)),
            Panel("Dead entries", ((_of("crawlctl_crawl_entries", shelf="dead"), "{{crawl}}"),)),
            Panel("Commits", ((_rate("crawlctl_crawl_commits_total"), "{{crawl}}"),), "ops"),
        ),
    ),
    (
        "Redis and crons",
        (
            Panel(
                "Memory of Redis",
                (
                    (_of("crawlctl_redis_memory_used_bytes"), "used"),
                    (_of("crawlctl_redis_memory_max_bytes"), "most"),
                ),
                "bytes",
            ),
            Panel("Round trip to Redis", ((_of("crawlctl_redis_latency_seconds"), "latency"),), "s"),
            Panel(
                "Crons",
                ((_of("crawlctl_crons"), "crons"), (_of("crawlctl_crons_late"), "late")),
            ),
        ),
    ),
)


def dashboard_object() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it; it asks for the data source, and shows one cluster or several."""
    return {
        "uid": UID,
        "title": TITLE,
        "tags": ["crawlctl", "scrapy"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source_choice(), _instance_choice()]},
        "panels": _panels(),
    }


def _source_choice() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0}


def _instance_choice() -> dict[str, Any]:
    return {
        "name": "instance",
        "label": "Cluster",
        "type": "query",
        "datasource": SOURCE,
        "query": "label_values(crawlctl_build_info, instance)",
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS:
        panels.append(_row(len(panels) + 1, title, top))
        top, left = top + 1, 0
        height = max(HEIGHTS[panel.kind] for panel in row)
        for panel in row:
            if left + panel.width > WIDTH:
                top, left = top + height, 0
            place = {"h": height, "w": panel.width, "x": left, "y": top}
            panels.append(_panel(len(panels) + 1, panel, place))
            left += panel.width
        top += height
    return panels


def _row(number: int, title: str, top: int) -> dict[str, Any]:
    place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for at, (expression, legend) in enumerate(panel.asks)
        ],
    }
