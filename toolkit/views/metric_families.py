"""The numbers that Prometheus is given: each with its name, kind, labels, help, and who finds it. One table.

Names and units follow Prometheus' conventions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolkit.views import metric_values as find
from toolkit.views.metric_values import Finder


@dataclass(frozen=True, slots=True)
class Family:
    """One number and how it is told; a counter's name ends in `_total`."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    values: Finder
    labels: tuple[str, ...] = ()


def _gauge(name: str, text: str, values: Finder, *labels: str) -> Family:
    return Family(f"crawlctl_{name}", "gauge", text, values, labels)


def _counter(name: str, text: str, values: Finder, *labels: str) -> Family:
    return Family(f"crawlctl_{name}_total", "counter", text, values, labels)


OF_CLUSTER = (
    _gauge("build_info", "The crawlctl that tells these numbers.", find.version, "version"),
    _gauge("reading_seconds", "How long this reading took.", find.plain(lambda reading: reading.took_s)),
    _gauge("redis_up", "Whether the cluster's Redis answers.", find.plain(find.redis_up)),
    _gauge("attention", "What needs attention, as crawlctl status shows it, by kind.", find.attention_by_kind, "kind"),
    _gauge("alerts_firing", "Alerts of crawlctl's own rules that fire.", find.plain(lambda reading: reading.firing)),
    _gauge("active_release_info", "The active release of each project.", find.active_releases, "project", "version"),
)

OF_NODES = (
    _gauge("nodes", "Nodes by state.", find.nodes_by_state, "state"),
    _gauge("slots", "Slots of all nodes that live.", find.plain(lambda reading: find.of_live_nodes(reading, "slots"))),
    _gauge("slots_taken", "Slots of those taken.", find.plain(lambda reading: find.of_live_nodes(reading, "running"))),
    _gauge(
        "node_up",
        "Whether the node lives (a draining one does), or answers.",
        find.each_node(lambda node: float(node.state in find.ALIVE)),
        "node",
    ),
    _gauge("node_slots", "Slots of the node.", find.each_node(lambda node: node.slots), "node"),
    _gauge("node_running_jobs", "Jobs that run on the node.", find.each_node(lambda node: node.running), "node"),
    _gauge(
        "node_heartbeat_age_seconds",
        "How long ago the node gave its last sign of life.",
        find.each_record(lambda record: record.age_s),
        "node",
    ),
    _gauge(
        "node_load_ratio",
        "One-minute load average of the node's machine, divided by its processors.",
        find.each_record(lambda record: record.report.load),
        "node",
    ),
    _gauge(
        "node_memory_free_bytes",
        "Memory that is free on the node's machine.",
        find.each_record(lambda record: find.from_megabytes(record.report.memory_free_mb)),
        "node",
    ),
    _gauge(
        "node_disk_free_bytes",
        "What is free on the disk of the node's folder.",
        find.each_record(lambda record: find.from_megabytes(record.report.disk_free_mb)),
        "node",
    ),
    _gauge(
        "node_releases_behind",
        "Releases that the node should hold and does not.",
        find.each_record(lambda record: len(record.report.behind)),
        "node",
    ),
)

OF_QUEUE = (
    _gauge("jobs", "Jobs that have not ended, by state; ready ones may be taken.", find.jobs_by_state, "state"),
    _gauge(
        "queue_age_seconds",
        "The longest that a job has waited which is the next in its line.",
        find.measured(lambda measures: measures.oldest_waiting_s or 0.0),
    ),
    _counter("job_attempts", "Spider processes begun.", find.measured(lambda measures: measures.started)),
    _counter("jobs_ended", "Jobs ended, by project and outcome.", find.jobs_ended, "project", "outcome"),
    _counter(
        "jobs_requeued",
        "Jobs put back into the queue after they had begun.",
        find.measured(lambda measures: measures.requeued),
    ),
    _counter(
        "leases_lost",
        "Leases of jobs that ended because nothing was heard of their node.",
        find.measured(lambda measures: measures.leases_lost),
    ),
)

OF_WORK = (
    _counter("pages", "Pages that all jobs have fetched.", find.measured(lambda measures: measures.pages)),
    _counter("items", "Items that all jobs have scraped.", find.measured(lambda measures: measures.items)),
    _counter("errors", "Lines of level ERROR that all jobs have logged.", find.measured(lambda each: each.errors)),
    _gauge("pages_per_second", "Pages between the last two samples.", find.fresh_rate(lambda each: each.pages_per_s)),
    _gauge("items_per_second", "Items between the last two samples.", find.fresh_rate(lambda each: each.items_per_s)),
    _gauge("errors_per_second", "Errors between the last two.", find.fresh_rate(lambda each: each.errors_per_s)),
    _gauge("sample_age_seconds", "How long ago the cluster was last sampled.", find.measured(find.sample_age_s)),
)

OF_CRAWLS = (
    _gauge("crawls", "Crawls that are known.", find.measured(lambda measures: len(measures.crawls))),
    _gauge(
        "crawl_entries", "Entries of a crawl's frontier, and its seeds, by shelf.", find.crawl_entries, "crawl", "shelf"
    ),
    _gauge("crawl_workers", "Workers that live.", find.each_crawl(lambda crawl: crawl.workers), "crawl"),
    _gauge("crawl_paused", "Whether an operator paused it.", find.each_crawl(lambda crawl: crawl.is_paused), "crawl"),
    _gauge("crawl_seen_requests", "Requests in the seen set.", find.each_crawl(lambda crawl: crawl.seen), "crawl"),
    _counter("crawl_pages", "Entries acknowledged.", find.each_crawl(lambda crawl: crawl.pages), "crawl"),
    _counter("crawl_items", "Items delivered.", find.each_crawl(lambda crawl: crawl.items), "crawl"),
    _counter(
        "crawl_duplicates",
        "Requests dropped that had been seen.",
        find.each_crawl(lambda each: each.duplicates),
        "crawl",
    ),
    _counter("crawl_commits", "Commits of the workers.", find.each_crawl(lambda crawl: crawl.commits), "crawl"),
)

OF_CRONS = (
    _gauge("crons", "Crons that have a next time.", find.measured(lambda measures: measures.crons)),
    _gauge(
        "crons_late",
        "Crons that should have fired more than a minute ago.",
        find.measured(lambda measures: measures.crons_late),
    ),
    _gauge(
        "cron_lateness_seconds",
        "How long ago the cron should have fired that is due first.",
        find.measured(find.cron_lateness),
    ),
    _gauge(
        "cron_next_timestamp_seconds", "When the next cron is due, since 1970.", find.measured(find.next_cron_timestamp)
    ),
)

OF_REDIS = (
    _gauge("redis_latency_seconds", "Median of three round trips.", find.of_redis(lambda redis: redis.latency_s)),
    _gauge("redis_memory_used_bytes", "Memory that Redis uses.", find.of_redis(lambda redis: redis.used_bytes)),
    _gauge(
        "redis_memory_max_bytes",
        "Memory that Redis may use: its maxmemory, else the machine's.",
        find.of_redis(lambda redis: redis.max_bytes or redis.machine_bytes),
    ),
    _counter("redis_evicted_keys", "Keys thrown away for lack of memory.", find.of_redis(lambda redis: redis.evicted)),
    _gauge("redis_clients", "Clients that Redis has.", find.of_redis(lambda redis: redis.clients)),
    _gauge("redis_max_clients", "Clients that Redis takes at most.", find.of_redis(lambda redis: redis.max_clients)),
    _gauge(
        "redis_append_only",
        "Whether Redis keeps an append-only file.",
        find.of_redis(lambda redis: find.as_number(redis.is_append_only)),
    ),
    _gauge(
        "redis_last_write_ok", "Whether Redis' last writes to disk went well.", find.of_redis(find.is_last_write_ok)
    ),
    _gauge(
        "redis_replicas",
        "Replicas that are in step.",
        find.of_redis(lambda redis: sum(replica.is_online for replica in redis.replicas)),
    ),
)

FAMILIES = (*OF_CLUSTER, *OF_NODES, *OF_QUEUE, *OF_WORK, *OF_CRAWLS, *OF_CRONS, *OF_REDIS)
"""All, in the order in which they are shown."""
