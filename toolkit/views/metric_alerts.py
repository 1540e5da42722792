"""The alert rules for Prometheus: what each looks at, from when on, and what it says. One table, written out as YAML.

Sums leave `job` and `instance` alone, so that one Prometheus may watch several clusters. The topic `runbook` has an
entry for each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

GROUP = "crawlctl"
RUNBOOK = "crawlctl docs runbook"


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One rule: it fires once its expression has had an answer for so long; a summary may name `$labels`, `$value`."""

    name: str
    expression: str
    lasts: str
    severity: Literal["critical", "warning", "info"]
    summary: str


RULES = (
    AlertRule(
        "CrawlctlSilent",
        "absent(crawlctl_build_info)",
        "5m",
        "critical",
        "Nobody tells how the cluster is: crawlctl web does not run, or the textfile is not written.",
    ),
    AlertRule(
        "CrawlctlRedisDown",
        "crawlctl_redis_up == 0",
        "1m",
        "critical",
        "The cluster's Redis does not answer: running jobs go on, and nothing new begins.",
    ),
    AlertRule(
        "CrawlctlNodeDown",
        "crawlctl_node_up == 0",
        "2m",
        "warning",
        "{{ $labels.node }} gives no sign of life, or does not answer.",
    ),
    AlertRule(
        "CrawlctlNoNodeLives",
        "sum without (node) (crawlctl_node_up) == 0",
        "2m",
        "critical",
        "No node of the cluster lives.",
    ),
    AlertRule(
        "CrawlctlNodeBehind",
        "crawlctl_node_releases_behind > 0",
        "15m",
        "warning",
        "{{ $labels.node }} lacks {{ $value }} release(s) that it should hold.",
    ),
    AlertRule(
        "CrawlctlNodeDiskLow",
        "crawlctl_node_disk_free_bytes < 1e9",
        "10m",
        "warning",
        "{{ $labels.node }} has {{ $value | humanize1024 }}B left on its disk.",
    ),
    AlertRule(
        "CrawlctlNodeMemoryLow",
        "crawlctl_node_memory_free_bytes < 1e8",
        "10m",
        "warning",
        "{{ $labels.node }} has {{ $value | humanize1024 }}B of memory left.",
    ),
    AlertRule(
        "CrawlctlQueueWedged",
        'sum without (state) (crawlctl_jobs{state="ready"}) > 0\n'
        "and increase(crawlctl_job_attempts_total[10m]) == 0\n"
        "and crawlctl_slots_taken < crawlctl_slots",
        "5m",
        "critical",
        "{{ $value }} job(s) wait, slots are free, and none has begun for ten minutes.",
    ),
    AlertRule(
        "CrawlctlQueueOld",
        "crawlctl_queue_age_seconds > 1800",
        "10m",
        "warning",
        "A job that is next in its line has waited for {{ $value | humanizeDuration }}.",
    ),
    AlertRule(
        "CrawlctlClaimsSlow",
        "histogram_quantile(0.95, rate(crawlctl_job_claim_latency_seconds_bucket[10m])) > 30\n"
        "and crawlctl_slots_taken < 0.9 * crawlctl_slots",
        "10m",
        "warning",
        "Slots are free, and of twenty jobs one waits {{ $value | humanizeDuration }} or more for a node.",
    ),
    AlertRule(
        "CrawlctlJobsFail",
        'sum without (outcome) (increase(crawlctl_jobs_ended_total{outcome=~"failed|lost"}[30m])) >= 5\n'
        'and sum without (outcome) (increase(crawlctl_jobs_ended_total{outcome=~"failed|lost"}[30m]))\n'
        "> 0.25 * sum without (outcome) (increase(crawlctl_jobs_ended_total[30m]))",
        "5m",
        "warning",
        "Of {{ $labels.project }}, more than a quarter of the jobs of half an hour failed or were lost.",
    ),
    AlertRule(
        "CrawlctlJobsLost",
        'increase(crawlctl_jobs_ended_total{outcome="lost"}[15m]) > 0',
        "0m",
        "warning",
        "Jobs of {{ $labels.project }} were lost with their nodes, and are not begun again.",
    ),
    AlertRule(
        "CrawlctlLeasesLost",
        "increase(crawlctl_leases_lost_total[15m]) > 10",
        "0m",
        "warning",
        "{{ $value }} leases ended in a quarter of an hour because nothing was heard of their nodes.",
    ),
    AlertRule(
        "CrawlctlNothingFetched",
        'sum without (state) (crawlctl_jobs{state="active"}) > 0\nand increase(crawlctl_pages_total[15m]) == 0',
        "15m",
        "warning",
        "{{ $value }} job(s) run, and no page was fetched for a quarter of an hour.",
    ),
    AlertRule(
        "CrawlctlErrorsMany",
        "rate(crawlctl_errors_total[15m]) > 0.1\n"
        "and rate(crawlctl_errors_total[15m]) > 0.1 * rate(crawlctl_pages_total[15m])",
        "10m",
        "warning",
        "Spiders log {{ $value | humanize }} errors a second, more than one for ten pages.",
    ),
    AlertRule(
        "CrawlctlCrawlStalled",
        'sum without (shelf) (crawlctl_crawl_entries{shelf="pending"}) > 0\n'
        "and crawlctl_crawl_workers > 0\n"
        "and crawlctl_crawl_paused == 0\n"
        "and increase(crawlctl_crawl_pages_total[15m]) == 0",
        "15m",
        "warning",
        "The crawl {{ $labels.crawl }} has workers and {{ $value }} entries, and gets nowhere.",
    ),
    AlertRule(
        "CrawlctlCrawlWithoutWorkers",
        'sum without (shelf) (crawlctl_crawl_entries{shelf=~"pending|seed"}) > 0\n'
        "and crawlctl_crawl_workers == 0\n"
        "and crawlctl_crawl_paused == 0",
        "1h",
        "info",
        "The crawl {{ $labels.crawl }} has {{ $value }} entries or seeds, and nobody works on it.",
    ),
    AlertRule(
        "CrawlctlDeadEntries",
        'crawlctl_crawl_entries{shelf="dead"} > 100',
        "15m",
        "info",
        "Of the crawl {{ $labels.crawl }}, {{ $value }} entries are on the dead list.",
    ),
    AlertRule(
        "CrawlctlCronLate",
        "crawlctl_crons_late > 0",
        "2m",
        "warning",
        "{{ $value }} cron(s) should have fired, and no node fires them.",
    ),
    AlertRule(
        "CrawlctlDutiesUndone",
        "crawlctl_sample_age_seconds > 120\nand crawlctl_slots > 0",
        "5m",
        "warning",
        "Nodes live, and none has sampled the cluster for {{ $value | humanizeDuration }}: are other duties done?",
    ),
    AlertRule(
        "CrawlctlRedisMemoryHigh",
        "crawlctl_redis_memory_used_bytes > 0.85 * crawlctl_redis_memory_max_bytes",
        "10m",
        "warning",
        "Redis uses {{ $value | humanize1024 }}B, more than 85 % of what it may.",
    ),
    AlertRule(
        "CrawlctlRedisSlow",
        "crawlctl_redis_latency_seconds > 0.05",
        "10m",
        "warning",
        "A round trip to Redis takes {{ $value | humanizeDuration }}.",
    ),
    AlertRule(
        "CrawlctlRedisEvicts",
        "increase(crawlctl_redis_evicted_keys_total[10m]) > 0",
        "0m",
        "critical",
        "Redis has thrown away keys for lack of memory: jobs and entries may be gone.",
    ),
    AlertRule(
        "CrawlctlRedisNotDurable",
        "crawlctl_redis_append_only == 0\nor crawlctl_redis_last_write_ok == 0",
        "5m",
        "critical",
        "What Redis acknowledges may be gone after a restart.",
    ),
)


def rules_object(*, runbook_url: str | None = None) -> dict[str, Any]:
    """Return the rules as Prometheus' file holds them; with a URL of the runbook, each leads to its entry there."""
    return {"groups": [{"name": GROUP, "rules": [_rule(rule, runbook_url) for rule in RULES]}]}


def rules_text(*, runbook_url: str | None = None) -> str:
    """Return the rules as YAML for `rule_files` of Prometheus."""
    return "\n".join(_lines(runbook_url)) + "\n"


def _rule(rule: AlertRule, runbook_url: str | None) -> dict[str, Any]:
    annotations = {"summary": rule.summary, "runbook": f"{RUNBOOK} ({rule.name})"}
    if runbook_url is not None:
        annotations["runbook_url"] = f"{runbook_url}#{rule.name.lower()}"
    return {
        "alert": rule.name,
        "expr": rule.expression,
        "for": rule.lasts,
        "labels": {"severity": rule.severity},
        "annotations": annotations,
    }


def _lines(runbook_url: str | None) -> Iterator[str]:
    yield "# Alert rules for Prometheus, made by `crawlctl metrics rules`."
    yield "groups:"
    yield f"  - name: {GROUP}"
    yield "    rules:"
    for rule in RULES:
        told = _rule(rule, runbook_url)
        yield f"      - alert: {rule.name}"
        yield "        expr: |-"
        yield from (f"          {line}" for line in rule.expression.splitlines())
        yield f"        for: {rule.lasts}"
        yield "        labels:"
        yield f"          severity: {rule.severity}"
        yield "        annotations:"
        # A text in JSON is one in YAML too.
        yield from (f"          {name}: {json.dumps(text)}" for name, text in told["annotations"].items())
