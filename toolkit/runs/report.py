"""What a spider process says of itself: `report.json` while it runs, `exit.json` at its end. Read with suspicion.

The writer runs the operator's spiders, so a reader believes no type and no size: what is nonsense counts as not said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from signal import Signals
from typing import Any

from toolkit.model.jobs import JobState
from toolkit.model.queue import Progress

MAX_WORD_CHARS = 200
"""A longer finish reason is cut."""
MAX_COUNT = 2**53
"""Above it, a JSON reader elsewhere would lose the last digits."""
MAX_EXIT_CODE = 255
MAX_STATUSES = 20
"""A server may answer with any of a thousand; so many tell how a crawl fares."""

_STATUS = re.compile("[0-9]{3}")
_STATES = frozenset({JobState.RUNNING, JobState.PAUSED})


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process says that it ended: with an exit code, or by a signal (`SIGINT`).

    `node_was_lost`: it ended only because its node gave no sign of life for a whole lease.
    """

    exit_code: int | None = None
    signal: str | None = None
    node_was_lost: bool = False


def report_of(progress: Progress) -> dict[str, Any]:
    """Return the content of `report.json`."""
    return {**asdict(progress), "state": progress.state.value}


def read_report(content: Mapping[str, Any] | None) -> Progress | None:
    """Return what a report says; a field that is nonsense is `None`, and so is a report without a state."""
    state = _state(content.get("state")) if content else None
    if not content or state is None:
        return None
    return Progress(
        state=state,
        pages=_count(content.get("pages")),
        items=_count(content.get("items")),
        errors=_count(content.get("errors")),
        retries=_count(content.get("retries")),
        bytes=_count(content.get("bytes")),
        pages_per_minute=_measure(content.get("pages_per_minute")),
        memory_mb=_measure(content.get("memory_mb")),
        finish_reason=_word(content.get("finish_reason")),
        statuses=_statuses(content.get("statuses")),
    )


def most_statuses(counts: Mapping[str, int]) -> Mapping[str, int] | None:
    """Return the statuses that came most, in their order; nothing for none."""
    most = sorted(counts, key=lambda status: (-counts[status], status))[:MAX_STATUSES]
    return {status: counts[status] for status in sorted(most)} or None


def exit_of(ended: Exit) -> dict[str, Any]:
    """Return the content of `exit.json`."""
    return asdict(ended)


def read_exit(content: Mapping[str, Any] | None) -> Exit | None:
    """Return how the process ended, or `None` when it did not say, or said nonsense."""
    if not content:
        return None
    code, name = _count(content.get("exit_code")), _signal(content.get("signal"))
    is_lost = content.get("node_was_lost") is True
    if (code is None or code > MAX_EXIT_CODE) and name is None:
        return None
    return Exit(None, name, is_lost) if name else Exit(code, None, is_lost)


def _state(value: object) -> JobState | None:
    return next((state for state in _STATES if state.value == value), None)


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MAX_COUNT else None


def _statuses(value: object) -> Mapping[str, int] | None:
    if not isinstance(value, Mapping):
        return None
    known = {str(status): number for status, count in value.items() if (number := _count(count)) is not None}
    return most_statuses({status: count for status, count in known.items() if _STATUS.fullmatch(status)})


def _measure(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MAX_COUNT else None


def _word(value: object) -> str | None:
    return value[:MAX_WORD_CHARS] if isinstance(value, str) and value else None


def _signal(value: object) -> str | None:
    return value if isinstance(value, str) and value in Signals.__members__ else None
