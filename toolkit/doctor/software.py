"""Asks plug-in nodes which packages they have, and judges old ones, known clashes, and differences between nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolkit.doctor.hosts import HostEvidence
from toolkit.doctor.judged import ERROR, WARNING, Judged, found, named
from toolkit.model.errors import NodeAnswerError
from toolkit.model.findings import Severity
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.store.interfaces import Shared

QUESTION = "software"
ANSWER_WITHIN_S = 5.0
MAX_ANSWER_BYTES = 1_000_000
PYTHON = "python"
# Below these, or from these on, something is known to break.
LEAST: Mapping[str, tuple[tuple[int, ...], Severity, str]] = {
    PYTHON: ((3, 11), ERROR, "a node needs Python 3.11"),
    "scrapyd": ((1, 6), WARNING, "crawlctl is tried with Scrapyd 1.6"),
    "scrapy": ((2, 11), WARNING, "the shared frontier needs Scrapy 2.11"),
}
BEFORE: Mapping[str, tuple[tuple[int, ...], str]] = {
    "setuptools": ((82,), "it has no pkg_resources any more, which Scrapyd imports to run a job"),
}
COMPARED = (PYTHON, "crawlctl", "scrapyd", "scrapy", "twisted", "setuptools")
"""What should be the same on all nodes, or a project runs on one and not on another."""


@dataclass(frozen=True, slots=True)
class Software:
    """The releases on one node by package, `python` among them; `is_whole` when the node named all it has."""

    node: NodeName
    versions: Mapping[str, str]
    is_whole: bool = False


def of_record(record: NodeRecord) -> Software:
    """Return what a node's heartbeat tells. Pure."""
    return Software(record.name, {name.lower(): version for name, version in record.report.software.items()})


def ask_software(shared: Shared, record: NodeRecord) -> Software:
    """Ask a node through Redis for every distribution that it has, and add them to what its heartbeat tells.

    Raises:
        NodeTimeoutError: it does not answer.
        NodeRefusedError: it does not know the question: an older plug-in.
        NodeAnswerError: what it answered cannot be read.

    """
    pieces = shared.calls.ask(record.name, QUESTION, {}, timeout_s=ANSWER_WITHIN_S, silence_s=ANSWER_WITHIN_S)
    content = b""
    for piece in pieces:
        content += piece
        if len(content) > MAX_ANSWER_BYTES:
            raise NodeAnswerError(record.name, QUESTION, "its list of packages is too long")
    return Software(record.name, {**_read(record.name, content), **of_record(record).versions}, is_whole=True)


def of_host(evidence: HostEvidence, known: Software | None) -> Software | None:
    """Return what the node of a host was started with, as it lies on the disk there; what it told itself counts more.

    `None` when no Scrapyd runs there, or several do that differ. Pure.
    """
    if not evidence.packages:
        return known
    told = {} if known is None else known.versions
    return Software(evidence.host.name, {**evidence.packages, **told}, is_whole=True)


def judge_software(each: Sequence[Software]) -> list[Judged]:
    """Say which nodes have releases that are known not to work, and where nodes differ. Pure."""
    judged = [judged for software in each for judged in _judge_old(software)]
    for package in COMPARED:
        groups: dict[str, list[NodeName]] = {}
        for software in each:
            if package in software.versions:
                groups.setdefault(_compared(package, software.versions[package]), []).append(software.node)
        if len(groups) > 1:
            judged.append(_differing(package, groups))
    return judged


def _judge_old(software: Software) -> Iterator[Judged]:
    command = f"crawlctl nodes show {software.node}"
    for package, (least, severity, why) in LEAST.items():
        version = software.versions.get(package)
        if version is not None and _numbers(version) < least:
            text = f"has {_name(package)} {version}: {why}"
            yield found("software-old", severity, text, node=software.node, command=command)
    for package, (first_bad, why) in BEFORE.items():
        version = software.versions.get(package)
        if version is not None and _numbers(version) >= first_bad:
            text = f"has {_name(package)} {version}: {why}"
            yield found("software-old", ERROR, text, node=software.node, command=command)


def _differing(package: str, groups: Mapping[str, Sequence[NodeName]]) -> Judged:
    """Tell the few from the many: the release that most nodes have is named last."""
    most_last = sorted(groups.items(), key=lambda item: (len(item[1]), item[0]))
    parts = [f"{version} on {named(names)}" for version, names in most_last[:3]]
    more = len(most_last) - 3
    told = "; ".join(parts) + (f"; and {more} more releases" if more > 0 else "")
    return found("software-differs", WARNING, f"nodes have different releases of {_name(package)}: {told}")


def _compared(package: str, version: str) -> str:
    """Return what has to be the same: of Python the first two numbers, of others all."""
    return ".".join(version.split(".")[:2]) if package == PYTHON else version


def _name(package: str) -> str:
    return package.capitalize() if package in {PYTHON, "scrapyd", "scrapy", "twisted"} else package


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def _read(node: NodeName, content: bytes) -> dict[str, str]:
    try:
        told = json.loads(content)
    except ValueError as error:
        raise NodeAnswerError(node, QUESTION, "no list of packages") from error
    if not isinstance(told, dict):
        raise NodeAnswerError(node, QUESTION, "no list of packages")
    return {str(name).lower(): str(version) for name, version in told.items()}
