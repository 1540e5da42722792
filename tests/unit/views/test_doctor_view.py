"""How a diagnosis is shown to people."""

from __future__ import annotations

import io

from rich.console import Console

from toolkit.model.findings import Diagnosis, Finding, Severity
from toolkit.model.names import NodeName
from toolkit.views.doctor import counts, diagnosis_view, summary


def shown(*findings: Finding, unseen: tuple[str, ...] = ()) -> list[str]:
    out = io.StringIO()
    view = diagnosis_view(Diagnosis(findings, ("redis-open",), unseen))
    Console(file=out, width=100).print(view.table())
    return out.getvalue().splitlines()


def lost(node: str, **more: str) -> Finding:
    text = f"{node} gives no sign of life any more"
    return Finding("node-lost", Severity.ERROR, text, NodeName(node), f"crawlctl nodes show {node}", **more)  # type: ignore[arg-type]


def test_nothing_found_is_one_line() -> None:
    assert shown() == ["1 checks made: nothing found"]


def test_what_many_nodes_have_in_common_is_said_once_with_a_few_names() -> None:
    lines = shown(*(lost(f"node-{i}") for i in range(1, 41)))
    assert lines[:3] == [
        "errors",
        "  node-lost  node-1, node-2, node-3, node-4, node-5 and 35 more: gives no sign of life any more",
        "      crawlctl nodes show node-1",
    ]
    assert lines[-1] == "1 checks made: 40 errors found"


def test_what_was_fixed_says_how_and_counts_no_more() -> None:
    findings = (lost("node-1"), lost("node-2", fixed="it lives again"))
    assert any("fixed: it lives again" in line for line in shown(*findings))
    assert counts(findings) == {"error": 1, "warning": 0, "note": 0}
    assert shown(*findings)[-1] == "1 checks made: 1 error found, 1 fixed"


def test_the_severities_stand_in_their_order_and_control_characters_do_nothing() -> None:
    warning = Finding("redis-open", Severity.WARNING, "it \x1b[31mis open")
    fixable = Finding("egg-stray", Severity.NOTE, "strays", command="crawlctl prune", is_fixable=True)
    lines = shown(lost("node-1"), warning, fixable)
    heads = [line for line in lines if line in {"errors", "warnings", "notes"}]
    assert heads == ["errors", "warnings", "notes"]
    assert "\x1b" not in "".join(lines)
    assert "      or: crawlctl doctor --fix" in lines


def test_what_could_not_be_looked_at_is_said_but_not_a_thousand_times() -> None:
    lines = shown(unseen=tuple(f"host {i}" for i in range(1000)))
    assert lines[0] == "could not be looked at"
    assert "  and 980 more; --output json has all" in lines


def test_counts_are_told_in_words() -> None:
    assert summary({"error": 2, "warning": 1, "note": 0}) == "2 errors, 1 warning"
    assert summary({"error": 0}) == "nothing"
