"""How entries of jobs' logs are shown: to people after whose they are, to programs as objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.views.contract import time_text
from toolkit.views.view import View, plain_table

if TYPE_CHECKING:
    from typing import Any

    from toolkit.cluster.log_merge import JobEntry

SHOWN_ID, WHOLE_ID = 8, 16
"""So many characters of a job's id stand before its lines; one that has no more than the second is shown whole."""


def prefix_of(entry: JobEntry) -> str:
    """Return what stands before an entry's lines."""
    shown = entry.job_id if len(entry.job_id) <= WHOLE_ID else entry.job_id[:SHOWN_ID]
    return f"{shown}/{entry.node}"


def log_entry_row(entry: JobEntry) -> dict[str, Any]:
    """Show an entry to programs; what a line does not tell is null."""
    found = entry.entry
    return {
        "job": entry.job_id,
        "node": entry.node,
        "at": time_text(found.at),
        "level": found.level,
        "logger": found.logger,
        "text": found.text,
    }


def log_entry_view(entry: JobEntry) -> View:
    """Show one entry, as it comes."""
    row = log_entry_row(entry)
    return View(row, lambda: plain_table("JOB", "NODE", "AT", "LEVEL", "LOGGER", "", rows=[tuple(row.values())]))
