"""What crawlctl gives to Prometheus, tried with the real one: its numbers, its alerts, the panels of its dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.prometheus import a_reading, prometheus, promtool, require_prometheus, served
from support.waiting import wait_until

from toolkit.views.metric_alerts import RULES, rules_text
from toolkit.views.metric_dashboard import dashboard_object
from toolkit.views.metrics import exposition

OF_ONE = {"instance": "one", "job": "crawlctl"}
READY = 'crawlctl_jobs{state="ready"}'
ENDED = "crawlctl_jobs_ended_total"


@pytest.fixture(autouse=True)
def _has_prometheus() -> None:
    require_prometheus()


def a_case(alert: str, series: dict[str, str], *, fires: bool, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a test of promtool: after an hour of these series an alert fires, or does not."""
    return {
        "interval": "1m",
        "input_series": [{"series": _of_one(name), "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {
                "eval_time": "59m",
                "alertname": alert,
                "exp_alerts": [{"exp_labels": _labels(alert, labels or {})}] if fires else [],
            }
        ],
    }


def _of_one(name: str) -> str:
    inner = ",".join(f'{label}="{value}"' for label, value in OF_ONE.items())
    return name.replace("{", f"{{{inner},") if "{" in name else f"{name}{{{inner}}}"


def _labels(alert: str, labels: dict[str, str]) -> dict[str, str]:
    severity = next(rule.severity for rule in RULES if rule.name == alert)
    return {**OF_ONE, **labels, "severity": severity}


def stays(value: float) -> str:
    return f"{value}+0x60"


WEDGED = {
    READY: stays(7),
    "crawlctl_job_attempts_total": stays(40),
    "crawlctl_slots": stays(8),
    "crawlctl_slots_taken": stays(2),
}
STALLED = {
    'crawlctl_crawl_entries{crawl="books",shelf="pending"}': stays(900),
    'crawlctl_crawl_workers{crawl="books"}': stays(2),
    'crawlctl_crawl_paused{crawl="books"}': stays(0),
    'crawlctl_crawl_pages_total{crawl="books"}': stays(10),
}
FAILING = {
    f'{ENDED}{{project="shop",outcome="finished"}}': "0+1x60",
    f'{ENDED}{{project="shop",outcome="failed"}}': "0+1x60",
    f'{ENDED}{{project="shop",outcome="lost"}}': stays(0),
}
CLAIMS = "crawlctl_job_claim_latency_seconds_bucket"
CASES = (
    a_case("CrawlctlRedisDown", {"crawlctl_redis_up": stays(0)}, fires=True),
    a_case("CrawlctlRedisDown", {"crawlctl_redis_up": stays(1)}, fires=False),
    a_case("CrawlctlNodeDown", {'crawlctl_node_up{node="n-3"}': stays(0)}, fires=True, labels={"node": "n-3"}),
    a_case("CrawlctlNoNodeLives", {'crawlctl_node_up{node="n-3"}': stays(0)}, fires=True),
    a_case(
        "CrawlctlNoNodeLives",
        {'crawlctl_node_up{node="n-3"}': stays(0), 'crawlctl_node_up{node="n-4"}': stays(1)},
        fires=False,
    ),
    a_case("CrawlctlQueueWedged", WEDGED, fires=True),
    a_case("CrawlctlQueueWedged", WEDGED | {"crawlctl_slots_taken": stays(8)}, fires=False),
    a_case("CrawlctlQueueWedged", WEDGED | {"crawlctl_job_attempts_total": "40+1x60"}, fires=False),
    a_case("CrawlctlCrawlStalled", STALLED, fires=True, labels={"crawl": "books"}),
    a_case("CrawlctlCrawlStalled", STALLED | {'crawlctl_crawl_paused{crawl="books"}': stays(1)}, fires=False),
    a_case("CrawlctlJobsFail", FAILING, fires=True, labels={"project": "shop"}),
    a_case("CrawlctlJobsFail", FAILING | {f'{ENDED}{{project="shop",outcome="finished"}}': "0+9x60"}, fires=False),
    a_case(
        "CrawlctlClaimsSlow",
        {
            f'{CLAIMS}{{le="30.0"}}': "0+1x60",
            f'{CLAIMS}{{le="60.0"}}': "0+9x60",
            f'{CLAIMS}{{le="+Inf"}}': "0+9x60",
            "crawlctl_slots": stays(8),
            "crawlctl_slots_taken": stays(2),
        },
        fires=True,
    ),
    a_case("CrawlctlCronLate", {"crawlctl_crons_late": stays(2)}, fires=True),
    a_case(
        "CrawlctlRedisMemoryHigh",
        {"crawlctl_redis_memory_used_bytes": stays(9e8), "crawlctl_redis_memory_max_bytes": stays(1e9)},
        fires=True,
    ),
    a_case("CrawlctlRedisNotDurable", {"crawlctl_redis_append_only": stays(0)}, fires=True),
    a_case(
        "CrawlctlNothingFetched",
        {'crawlctl_jobs{state="active"}': stays(3), "crawlctl_pages_total": "0+5x60"},
        fires=False,
    ),
)


def test_promtool_finds_nothing_wrong_with_the_numbers() -> None:
    assert promtool("check", "metrics", stdin=exposition(a_reading())).strip() == ""


def test_the_alerts_fire_when_they_must_and_not_otherwise(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(rules_text(runbook_url="https://wiki.example.com/crawlctl"))
    # What alerts say is not compared here: promtool would want every word of it.
    rules = yaml.safe_load((tmp_path / "rules.yml").read_text())
    promtool("check", "rules", str(tmp_path / "rules.yml"))
    for rule in rules["groups"][0]["rules"]:
        rule["annotations"] = {}
    (tmp_path / "bare.yml").write_text(yaml.safe_dump(rules))
    (tmp_path / "tests.yml").write_text(yaml.safe_dump({"rule_files": ["bare.yml"], "tests": list(CASES)}))
    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "tests.yml"))


def test_a_prometheus_scrapes_evaluates_every_rule_and_answers_every_panel(tmp_path: Path) -> None:
    with (
        served(lambda: exposition(a_reading())) as port,
        prometheus(tmp_path / "prometheus", target_port=port, rules=rules_text()) as server,
    ):
        assert server.value("sum(crawlctl_node_slots)")[0][1] == 8
        assert server.value('crawlctl_jobs{state="ready"}')[0][1] == 6
        (target,) = server.get("targets")["activeTargets"]
        assert target["lastError"] == ""

        def is_evaluated() -> bool:
            rules = server.get("rules")["groups"][0]["rules"]
            return all(rule["health"] == "ok" for rule in rules)

        wait_until(is_evaluated, deadline_s=60, what="every rule to be evaluated well")
        for panel in dashboard_object()["panels"]:
            for asked in panel.get("targets", ()):
                expression = asked["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m")
                # Rates want two scrapes: that they are understood must do.
                assert server.value(expression) or "[" in expression, expression

        def is_seen() -> bool:
            return any(each["labels"]["alertname"] == "CrawlctlNodeDown" for each in server.get("alerts")["alerts"])

        wait_until(is_seen, deadline_s=60, what="the node that is down to be seen")
