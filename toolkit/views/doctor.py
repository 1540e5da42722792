"""How a diagnosis is shown: the worst first, what many nodes have in common said once, each command in its own line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolkit.model.findings import Diagnosis, Finding, Severity
from toolkit.views.harmless import visible
from toolkit.views.view import View

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_NAMED = 5
MAX_UNSEEN = 20
STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
HEADINGS = {Severity.ERROR: "errors", Severity.WARNING: "warnings", Severity.NOTE: "notes"}


def diagnosis_view(diagnosis: Diagnosis) -> View:
    """Show what was found, what was looked for, and what could not be looked at."""
    return View(diagnosis_object(diagnosis), lambda: _screen(diagnosis))


def finding_row(finding: Finding) -> dict[str, Any]:
    """Show one finding; `fixed` says what `--fix` did."""
    return {
        "check": finding.check,
        "severity": finding.severity.value,
        "node": finding.node,
        "text": finding.text,
        "command": finding.command,
        "fixable": finding.is_fixable,
        "fixed": finding.fixed,
    }


def diagnosis_object(diagnosis: Diagnosis) -> dict[str, Any]:
    """Show a diagnosis; `counts` are of what is left to be mended."""
    return {
        "counts": counts(diagnosis.findings),
        "findings": [finding_row(each) for each in diagnosis.findings],
        "checks": list(diagnosis.checks),
        "unseen": list(diagnosis.unseen),
    }


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """Count what is left to be mended, by severity. Pure."""
    return {
        severity.value: sum(each.severity is severity and each.fixed is None for each in findings)
        for severity in Severity
    }


def summary(counted: Mapping[str, int]) -> str:
    """Say the counts in words. Pure."""
    parts = [f"{count} {word}{'' if count == 1 else 's'}" for word, count in counted.items() if count]
    return ", ".join(parts) or "nothing"


def grouped(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Put together what is the same on several nodes, in the order of the first of each. Pure."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for each in findings:
        key = (each.check, each.severity, _what(each), _command_of_all(each), each.fixed is None)
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _screen(diagnosis: Diagnosis) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for severity in Severity:
        groups = grouped([each for each in diagnosis.findings if each.severity is severity])
        if groups:
            parts.append(Text(HEADINGS[severity], style=STYLES[severity]))
            parts += [line for group in groups for line in _lines(group)]
            parts.append(Text())
    if diagnosis.unseen:
        parts.append(Text("could not be looked at", style="bold"))
        parts += [Text(visible(f"  {each}")) for each in diagnosis.unseen[:MAX_UNSEEN]]
        if (more := len(diagnosis.unseen) - MAX_UNSEEN) > 0:
            parts.append(Text(f"  and {more} more; --output json has all", style="dim"))
        parts.append(Text())
    fixed = sum(each.fixed is not None for each in diagnosis.findings)
    told = f"{len(diagnosis.checks)} checks made: {summary(counts(diagnosis.findings))} found"
    parts.append(Text(told + (f", {fixed} fixed" if fixed else "")))
    return Group(*parts)


def _lines(group: Sequence[Finding]) -> list[RenderableType]:
    from rich.text import Text

    first = group[0]
    names = [each.node for each in group if each.node is not None]
    if len(group) == 1:
        text = first.text
    else:
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        text = f"{', '.join(names[:MAX_NAMED])}{more}: {_what(first)}"
    lines: list[RenderableType] = [Text.assemble(("  " + first.check, "bold"), "  ", visible(text))]
    if first.fixed is not None:
        lines.append(Text(visible(f"      fixed: {first.fixed}"), style="green"))
    elif first.command is not None:
        lines.append(Text(visible(f"      {first.command}"), style="dim" if not first.is_fixable else ""))
        if first.is_fixable:
            lines.append(Text("      or: crawlctl doctor --fix"))
    return lines


def _what(finding: Finding) -> str:
    """Return what is said of the node, without its name."""
    return finding.text if finding.node is None else finding.text.removeprefix(f"{finding.node} ")


def _command_of_all(finding: Finding) -> str | None:
    """Return what kind of command it is: those that differ only by the node are one."""
    return (finding.command and finding.node and finding.command.replace(finding.node, "NODE")) or finding.command
