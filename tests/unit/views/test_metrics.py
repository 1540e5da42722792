"""The numbers follow Prometheus' conventions, have a bound, and are all that the dashboard and the alerts name."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.prometheus import NOW, a_reading

from toolkit.cluster.reading import ClusterReading
from toolkit.model.errors import ConfigurationError, StoreUnreachableError, UsageError
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.snapshot import NodeState, NodeStatus
from toolkit.views.metric_alerts import RULES, rules_object, rules_text
from toolkit.views.metric_dashboard import WIDTH, dashboard_object
from toolkit.views.metric_families import FAMILIES
from toolkit.views.metric_values import MAX_CRAWLS
from toolkit.views.metrics import exposition, metrics_object, names_and_labels
from toolkit.views.textfile import check_name, write_textfile

SERIES = re.compile(r"(crawlctl_\w+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"(?:by|without) \(([^)]+)\)")
OF_PROMETHEUS = {"instance", "job"}
UNITS = ("_seconds", "_bytes", "_ratio", "_total", "_info", "_per_second")
COUNTED = re.compile(r"_(?:bytes|seconds|ratio)_|milli|_ms\b|_mb\b|minute")


def series_of(told: bytes) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in told.decode().splitlines():
        if not line.startswith("#"):
            name = re.split(r"[{ ]", line, maxsplit=1)[0]
            found.setdefault(name, []).append(line)
    return found


def misnamed(expression: str) -> list[str]:
    """Return what an expression names and nobody exposes: series, and labels of series."""
    known = names_and_labels()
    wrong, labels = [], set(OF_PROMETHEUS)
    for name, matchers in SERIES.findall(expression):
        asked = set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", matchers))
        wrong += [name] if name not in known else []
        wrong += [f"{name}.{label}" for label in asked - OF_PROMETHEUS - set(known.get(name, ()))]
        labels |= set(known.get(name, ()))
    for grouped in GROUPED.findall(expression):
        wrong += [label for label in re.split(r", *", grouped) if label not in labels]
    return wrong


def labels_of(expression: str) -> set[str]:
    known = names_and_labels()
    return {label for name, _ in SERIES.findall(expression) for label in known.get(name, ())} | OF_PROMETHEUS


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard_object()["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_name_and_its_help_are_as_prometheus_wants_them(family: Any) -> None:
    assert re.fullmatch(r"crawlctl_[a-z_]+", family.name)
    assert (family.kind == "counter") == family.name.endswith("_total")
    assert not COUNTED.search(family.name.removesuffix("_total").removesuffix("_per_second"))
    assert re.fullmatch(r"[A-Z].*\.", family.help)
    assert not set(family.labels) & {"id", "url", "spider", "instance", "le", "address"}


def test_names_are_told_once() -> None:
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))


def test_every_number_is_exposed_with_its_labels() -> None:
    found = series_of(exposition(a_reading()))
    assert found.keys() == names_and_labels().keys()
    for name, labels in names_and_labels().items():
        assert set(re.findall(r"(\w+)=\"", found[name][0])) == set(labels)


def test_claims_are_told_as_a_histogram_that_rises() -> None:
    told = exposition(a_reading()).decode()
    assert "# TYPE crawlctl_job_claim_latency_seconds histogram" in told
    counts = [float(each) for each in re.findall(r"_bucket\{le=\"[^\"]+\"\} (\S+)", told)]
    assert counts == [2.0 * number for number in range(1, 17)]
    assert 'le="+Inf"} 32.0' in told
    assert "crawlctl_job_claim_latency_seconds_count 32.0" in told


def test_states_and_outcomes_without_any_are_zero_not_absent() -> None:
    found = series_of(exposition(a_reading()))
    assert len(found["crawlctl_nodes"]) == len(NodeState)
    assert 'crawlctl_jobs{state="ready"} 6.0' in found["crawlctl_jobs"]
    assert 'crawlctl_jobs_ended_total{outcome="lost",project="shop"} 0.0' in found["crawlctl_jobs_ended_total"]


def test_of_many_crawls_only_the_largest_are_shown() -> None:
    found = series_of(exposition(a_reading(crawls=MAX_CRAWLS + 50)))
    assert len(found["crawlctl_crawl_workers"]) == MAX_CRAWLS
    assert 'crawlctl_crawl_workers{crawl="crawl-149"} 1.0' in found["crawlctl_crawl_workers"]
    assert 'crawlctl_crawl_workers{crawl="crawl-0"} 1.0' not in found["crawlctl_crawl_workers"]
    assert found["crawlctl_crawls"] == [f"crawlctl_crawls {MAX_CRAWLS + 50}.0"]


def test_a_redis_that_is_away_is_told_and_no_count_falls_to_zero() -> None:
    known = a_reading()
    away = ClusterReading(replace(known.snapshot, is_store_away=True), 0.1, error=StoreUnreachableError("it is away"))
    found = series_of(exposition(away))
    assert found["crawlctl_redis_up"] == ["crawlctl_redis_up 0.0"]
    assert not [name for name in found if name.endswith("_total")]


def test_a_cluster_without_redis_is_told_of_no_redis() -> None:
    stock = NodeStatus(NodeName("stock-1"), "10.0.0.1:6800", NodeState.LIVE, slots=2, running=1, pending=3)
    found = series_of(exposition(ClusterReading(replace(a_reading().snapshot, nodes=(stock,), queued=0, taken=0), 0.1)))
    assert "crawlctl_redis_up" not in found
    assert found["crawlctl_jobs"][0] == 'crawlctl_jobs{state="ready"} 3.0'
    assert found["crawlctl_node_running_jobs"] == ['crawlctl_node_running_jobs{node="stock-1"} 1.0']


def test_the_rates_of_an_old_sample_are_not_of_now() -> None:
    known = a_reading()
    assert known.measures is not None
    assert known.measures.sample is not None
    old = replace(known.measures, sample=replace(known.measures.sample, at=NOW - timedelta(minutes=5)))
    found = series_of(exposition(replace(known, measures=old)))
    assert "crawlctl_pages_per_second" not in found
    assert found["crawlctl_sample_age_seconds"] == ["crawlctl_sample_age_seconds 300.0"]


def test_whatever_a_project_is_called_the_text_can_be_read() -> None:
    odd = ProjectName('a"b\\c\nd')
    known = a_reading()
    told = exposition(replace(known, snapshot=replace(known.snapshot, active={odd: VersionName("v1")})))
    assert 'project="a\\"b\\\\c\\nd"' in told.decode()


def test_json_has_the_same_numbers() -> None:
    told = json.loads(json.dumps(metrics_object(a_reading())))
    assert sum(len(metric["samples"]) for metric in told) == sum(map(len, series_of(exposition(a_reading())).values()))


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_asks_for_what_is_exposed(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        assert SERIES.search(target["expr"])
        assert misnamed(target["expr"]) == []
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels_of(target["expr"])
        assert target["expr"].count("$instance") == len(SERIES.findall(target["expr"]))


def test_panels_lie_beside_each_other_and_never_over_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard_object()["panels"]:
        place = panel["gridPos"]
        mine = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= WIDTH
        assert not mine & taken
        taken |= mine
    ids = [panel["id"] for panel in dashboard_object()["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_names_what_is_exposed(rule: Any) -> None:
    assert SERIES.search(rule.expression)
    assert misnamed(rule.expression) == []
    dropped = {label for each in GROUPED.findall(rule.expression) for label in each.split(", ")}
    assert set(re.findall(r"\$labels\.(\w+)", rule.summary)) <= labels_of(rule.expression) - dropped


def test_the_rules_in_yaml_are_those_in_json() -> None:
    url = "https://wiki.example.com/crawlctl"
    assert yaml.safe_load(rules_text()) == rules_object()
    assert yaml.safe_load(rules_text(runbook_url=url)) == rules_object(runbook_url=url)
    first = rules_object(runbook_url=url)["groups"][0]["rules"][0]
    assert first["annotations"]["runbook_url"] == f"{url}#{first['alert'].lower()}"


def test_misnaming_is_found() -> None:
    assert misnamed('sum by (moon) (crawlctl_nodes{state="live", phase=~"x"}) > crawlctl_node') == [
        *("crawlctl_nodes.phase", "crawlctl_node", "moon"),
    ]


def test_a_textfile_is_replaced_at_once_and_others_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "crawlctl.prom"
    for content in (b"old 1\n", b"new 2\n"):
        write_textfile(path, content)
    assert path.read_bytes() == b"new 2\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_textfile_that_cannot_be_written_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken.prom").mkdir()
    with pytest.raises(ConfigurationError, match="cannot be written"):
        write_textfile(tmp_path / "taken.prom", b"x 1\n")
    with pytest.raises(ConfigurationError, match="No such file"):
        write_textfile(tmp_path / "nowhere" / "x.prom", b"x 1\n")
    assert [path.name for path in tmp_path.iterdir()] == ["taken.prom"]


def test_a_file_that_node_exporter_would_not_read_is_refused() -> None:
    with pytest.raises(UsageError, match=r"end in \.prom"):
        check_name(Path("crawlctl.txt"))
