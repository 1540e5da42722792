"""The cluster's numbers as Prometheus reads them: the text for `/metrics` and textfiles, and the same as JSON."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from toolkit.views.harmless import visible
from toolkit.views.metric_families import FAMILIES, Family
from toolkit.views.view import View

if TYPE_CHECKING:
    from pathlib import Path

    from toolkit.cluster.reading import ClusterReading
    from toolkit.model.measures import Measures

CONTENT_TYPE = CONTENT_TYPE_LATEST
CLAIMS = "crawlctl_job_claim_latency_seconds"
CLAIMS_HELP = "How long jobs had waited, from when they might be taken until a node took them."


class ClusterCollector(Collector):
    """Gives one reading to a registry of prometheus_client."""

    def __init__(self, reading: ClusterReading) -> None:
        self._reading = reading

    def collect(self) -> Iterator[Metric]:
        """Yield every number that the reading has."""
        for family in FAMILIES:
            yield _metric(family, self._reading)
        if self._reading.measures is not None:
            yield _claims(self._reading.measures)


def exposition(reading: ClusterReading) -> bytes:
    """Return the text that Prometheus scrapes, of the type `CONTENT_TYPE`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ClusterCollector(reading))
    return generate_latest(registry)


def metrics_view(reading: ClusterReading) -> View:
    """Show the numbers; for people they are the text itself."""
    return View(metrics_object(reading), lambda: exposition(reading).decode())


def written_view(path: Path, reading: ClusterReading) -> View:
    """Show where the numbers were written to."""
    count = sum(len(metric["samples"]) for metric in metrics_object(reading))
    return View({"textfile": str(path), "samples": count}, lambda: f"{count} numbers are in {visible(str(path))}")


def metrics_object(reading: ClusterReading) -> list[dict[str, Any]]:
    """Return the same numbers as JSON has them: a list of names with their samples."""
    return [
        {
            "name": metric.name,
            "kind": metric.type,
            "help": metric.documentation,
            "samples": [
                {"name": sample.name, "labels": dict(sample.labels), "value": sample.value} for sample in metric.samples
            ],
        }
        for metric in ClusterCollector(reading).collect()
    ]


def names_and_labels() -> dict[str, tuple[str, ...]]:
    """Return every name of a series that may be exposed, and its labels. Pure."""
    told = {family.name: family.labels for family in FAMILIES}
    return told | {f"{CLAIMS}_bucket": ("le",), f"{CLAIMS}_sum": (), f"{CLAIMS}_count": ()}


def _metric(family: Family, reading: ClusterReading) -> Metric:
    kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
    metric: Metric = kinds[family.kind](family.name, family.help, labels=family.labels)
    for labels, value in family.values(reading):
        metric.add_sample(family.name, dict(zip(family.labels, labels, strict=True)), value)
    return metric


def _claims(measures: Measures) -> HistogramMetricFamily:
    bounds = sorted(measures.claims)
    upto = itertools.accumulate(measures.claims[bound] for bound in bounds)
    shown = ["+Inf" if bound == float("inf") else str(bound) for bound in bounds]
    return HistogramMetricFamily(
        CLAIMS, CLAIMS_HELP, buckets=list(zip(shown, upto, strict=True)), sum_value=measures.claims_waited_s
    )
