"""The topic `metrics` lists every number as it is exposed, and the runbook every alert for Prometheus."""

from __future__ import annotations

import re

from toolkit.cli.topics import FOLDER
from toolkit.views.metric_alerts import RULES
from toolkit.views.metric_families import FAMILIES
from toolkit.views.metrics import CLAIMS, CLAIMS_HELP

PAGE = (FOLDER / "metrics.md").read_text(encoding="utf-8")
ENTRIES = (FOLDER / "runbook.md").read_text(encoding="utf-8").partition("\n## What Prometheus' alerts mean\n")[2]
ENTRIES = ENTRIES.partition("\n## ")[0]


def test_the_table_is_that_of_the_exporter() -> None:
    told: list[tuple[str, str, tuple[str, ...], str]] = [
        (family.name, family.kind, family.labels, family.help) for family in FAMILIES
    ]
    told.append((CLAIMS, "histogram", ("le",), CLAIMS_HELP))
    rows = [
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {text} |"
        for name, kind, labels, text in told
    ]
    assert [line for line in PAGE.splitlines() if line.startswith("| `crawlctl_")] == rows


def test_every_alert_has_an_entry_and_every_entry_is_an_alert() -> None:
    assert re.findall(r"^### (.+)$", ENTRIES, re.MULTILINE) == [rule.name for rule in RULES]


def test_every_entry_says_something() -> None:
    entries = re.split(r"^### .+$", ENTRIES, flags=re.MULTILINE)[1:]
    assert [entry for entry in entries if len(entry.split()) < 10] == []
