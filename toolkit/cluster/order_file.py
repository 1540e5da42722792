"""Orders from a file, one JSON object a line: every mistake is told with its line before anything is scheduled."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.cluster.choice import choose_queued
from toolkit.config.nearest import did_you_mean
from toolkit.model.errors import CrawlctlError, NotFoundError, UsageError
from toolkit.model.names import JobId, check_job_id
from toolkit.model.nodes import NodeRecord
from toolkit.model.orders import Order, check_queued
from toolkit.store.interfaces import ReleaseStore

FIELDS = ("spider", "args", "settings", "priority", "id", "project", "version")
MAX_SHOWN = 20
STDIN = Path("-")
_EXAMPLE = 'one JSON object a line is expected: {"spider": "products"}'


def orders_from_file(
    path: Path, releases: ReleaseStore, records: Sequence[NodeRecord], *, project: str | None = None
) -> list[Order]:
    """Return the orders of a file of JSON lines (`-`: standard input), an empty line counting for nothing.

    A line is `{"spider": …}` and may hold `args` and `settings` (by name), `priority`, `id`, `project` and `version`;
    `project` here serves the lines that name none. Each spider's version is looked up once.

    Raises:
        UsageError: the file cannot be read or has no order; or lines are wrong: all of them, each with its number.

    """
    name = "standard input" if path == STDIN else str(path)
    try:
        text = sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} cannot be read: it is not UTF-8 text", hint=_EXAMPLE) from error
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}", hint=_EXAMPLE) from error
    return orders_from_lines(text.split("\n"), releases, records, project=project, name=name)


def orders_from_lines(
    lines: Iterable[str],
    releases: ReleaseStore,
    records: Sequence[NodeRecord],
    *,
    project: str | None = None,
    name: str = "the file",
) -> list[Order]:
    """Return the orders of the lines; see `orders_from_file`. `name` stands for the file in messages."""
    reader = _Reader(releases, records, project)
    mistakes: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            reader.add(line, number)
        except CrawlctlError as error:
            hint = f" ({error.hint})" if error.hint else ""
            mistakes.append(f"{name}:{number}: {error.message}{hint}")
    if mistakes:
        more = [f"and {len(mistakes) - MAX_SHOWN} more"] if len(mistakes) > MAX_SHOWN else []
        raise UsageError(
            "\n".join([*mistakes[:MAX_SHOWN], *more]), hint="nothing was scheduled; one JSON object a line is expected"
        )
    if not reader.orders:
        raise UsageError(f"{name} names no job", hint=_EXAMPLE)
    return reader.orders


class _Reader:
    """Makes orders of lines, and remembers what each (project, version, spider) was found to mean."""

    def __init__(self, releases: ReleaseStore, records: Sequence[NodeRecord], project: str | None) -> None:
        self.orders: list[Order] = []
        self._releases = releases
        self._records = records
        self._project = project
        self._known: dict[tuple[str, str | None, str | None], Order | CrawlctlError] = {}
        self._ids: dict[JobId, int] = {}

    def add(self, line: str, number: int) -> None:
        """Take a line in, or raise what is wrong with it."""
        row = _row(line)
        spider = _text(row, "spider")
        if spider is None:
            raise UsageError("no spider is named")
        project = _text(row, "project")
        base = self._base(spider, self._project if project is None else project, _text(row, "version"))
        job_id = _text(row, "id")
        order = Order(
            project=base.project,
            spider=base.spider,
            version=base.version,
            args=_texts(row, "args"),
            settings=_texts(row, "settings"),
            priority=_number(row, "priority"),
            job_id=None if job_id is None else self._new(check_job_id(job_id), number),
        )
        check_queued(order)
        self.orders.append(order)

    def _new(self, job_id: JobId, number: int) -> JobId:
        first = self._ids.setdefault(job_id, number)
        if first != number:
            raise UsageError(f"the id {job_id} is that of line {first} too")
        return job_id

    def _base(self, spider: str, project: str | None, version: str | None) -> Order:
        asked = (spider, project, version)
        if asked not in self._known:
            try:
                self._known[asked] = choose_queued(
                    self._releases, self._records, spider, project=project, version=version
                )
            except (UsageError, NotFoundError) as error:
                self._known[asked] = error
        found = self._known[asked]
        if isinstance(found, CrawlctlError):
            raise found
        return found


def _row(line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"no JSON: {error}") from error
    if not isinstance(row, dict):
        raise UsageError("a JSON object belongs here")
    for field in row:
        if field not in FIELDS:
            raise UsageError(f"there is no field {field!r}{did_you_mean(field, FIELDS)}")
    return row


def _text(row: Mapping[str, Any], field: str) -> str | None:
    value = row.get(field)
    if value is None or isinstance(value, str):
        return value
    raise UsageError(f"{field} is a text, not {value!r:.40}")


def _texts(row: Mapping[str, Any], field: str) -> dict[str, str]:
    """Return texts by name; a number or a yes-no is taken as it is written in JSON."""
    value = row.get(field) or {}
    if not isinstance(value, dict):
        raise UsageError(f"{field} is an object of names and texts, not {value!r:.40}")
    return {name: _as_text(field, name, each) for name, each in value.items()}


def _as_text(field: str, name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise UsageError(f"{name!r} of {field} is a text, not {value!r:.40}")


def _number(row: Mapping[str, Any], field: str) -> float:
    value = row.get(field)
    if value is None:
        return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise UsageError(f"{field} is a number, not {value!r:.40}")
