"""How a run ended, from all that is known of it: what the launcher saw, what the process said, who wanted it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from toolkit.model.jobs import FAILURE_REASONS, JobState
from toolkit.model.queue import Ending, Progress
from toolkit.runs.report import Exit, read_report, report_of

MAX_WORDS_CHARS = 300
_FINISHED, _SHUT_DOWN = "finished", "shutdown"


class Cause(StrEnum):
    """Why the node stopped a process."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    STALE = "stale"
    NODE = "node"


_WHY_STOPPED = {
    Cause.CANCEL: "stopped on request",
    Cause.TIMEOUT: "stopped after its time limit of {s:g} s",
    Cause.STALE: "stopped, since it was no longer this node's",
    Cause.NODE: "stopped with its node",
}
# With which a machine that goes down ends whatever runs.
_MACHINES_SIGNALS = frozenset({"SIGTERM", "SIGINT", "SIGHUP", "SIGKILL"})


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a process that is gone.

    `seen` is what its parent saw, `said` what it wrote itself. `is_node_going`: Scrapyd was being stopped, or was away,
    when it ended. `has_begun`: it had registered as the one that runs the job, before anything of the project was
    loaded. `last_words` is the end of what it printed.
    """

    seen: Exit | None = None
    said: Exit | None = None
    report: Progress | None = None
    stopped_for: Cause | None = None
    timeout_s: float | None = None
    is_node_going: bool = False
    has_begun: bool = True
    last_words: str = ""


def judge(evidence: Evidence) -> Ending:
    """Return the ending that the evidence shows; the queue makes cancelled of it where somebody had asked for that.

    Lost is only what the node caused, by its going or before the job was begun, so that it runs again elsewhere:
    everything else is the job's doing.
    """
    exit_ = evidence.seen or evidence.said
    state, reason = _verdict(evidence, exit_)
    return Ending(
        state=state,
        reason=reason,
        exit_code=exit_.exit_code if exit_ else None,
        signal=exit_.signal if exit_ else None,
        progress=evidence.report,
        is_counted=not (state is JobState.LOST and _went_in_order(evidence)),
        is_cancelled=evidence.stopped_for is Cause.CANCEL,
    )


def _went_in_order(evidence: Evidence) -> bool:
    """Tell whether the spider ended because its node was being stopped, not because that one failed."""
    if evidence.stopped_for is Cause.NODE:
        return True
    was_shut_down = evidence.report is not None and evidence.report.finish_reason == _SHUT_DOWN
    return was_shut_down and not (evidence.said is not None and evidence.said.node_was_lost)


def _verdict(evidence: Evidence, exit_: Exit | None) -> tuple[JobState, str]:
    finish_reason = evidence.report.finish_reason if evidence.report else None
    if finish_reason == _FINISHED and exit_ is not None and exit_.exit_code == 0:
        # It was done before any signal reached it.
        return JobState.FINISHED, _FINISHED
    if evidence.stopped_for not in {None, Cause.NODE}:
        return JobState.FAILED, _WHY_STOPPED[evidence.stopped_for].format(s=evidence.timeout_s or 0)
    if loss := _loss(evidence, exit_, finish_reason):
        return JobState.LOST, loss
    if exit_ is None:
        return JobState.FAILED, "its process ended without a word, as a killed one does"
    state, reason = _of_exit(exit_, finish_reason, evidence)
    if state is JobState.FAILED and not evidence.has_begun:
        # So ends every process of a node whose Python is just being upgraded. An attempt all the same: it might be the
        # job's doing, and must not go round for ever.
        return JobState.LOST, f"{reason}, before it came to its job"
    return state, reason


def _loss(evidence: Evidence, exit_: Exit | None, finish_reason: str | None) -> str | None:
    """Say how the node's own going ended the process, or return `None`."""
    if evidence.stopped_for is Cause.NODE and finish_reason in {None, _SHUT_DOWN}:
        return _WHY_STOPPED[Cause.NODE]
    if evidence.said is not None and evidence.said.node_was_lost:
        return "its node gave no sign of life, so it ended by itself"
    if not evidence.is_node_going:
        return None
    if exit_ is None:
        return "its process was gone when Scrapyd came back"
    if finish_reason == _SHUT_DOWN or exit_.signal in _MACHINES_SIGNALS:
        return "it was shut down with its node"
    return None


def _of_exit(exit_: Exit, finish_reason: str | None, evidence: Evidence) -> tuple[JobState, str]:
    if exit_.signal is not None:
        return JobState.FAILED, f"its process was ended by {exit_.signal}"
    if exit_.exit_code:
        words = f": {evidence.last_words}" if evidence.last_words else ""
        return JobState.FAILED, f"its process ended with exit code {exit_.exit_code}{words}"
    if finish_reason == _SHUT_DOWN:
        return JobState.FAILED, "it was shut down by a signal from outside"
    if finish_reason in FAILURE_REASONS:
        return JobState.FAILED, f"its spider was closed: {finish_reason}"
    if evidence.report is not None and finish_reason is None:
        return JobState.FAILED, "its process ended without closing the spider"
    return JobState.FINISHED, finish_reason or "its process ended with exit code 0"


def last_words_of(output: str) -> str:
    """Return the last line that says anything, cut to what fits into a record."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:MAX_WORDS_CHARS] if lines else ""


def write_ending(ending: Ending, *, ended_at: float) -> dict[str, Any]:
    """Return the content of `ending.json`; `ended_at` is in seconds since the epoch."""
    return {
        "state": ending.state.value,
        "reason": ending.reason,
        "exit_code": ending.exit_code,
        "signal": ending.signal,
        "progress": report_of(ending.progress) if ending.progress else None,
        "is_counted": ending.is_counted,
        "is_cancelled": ending.is_cancelled,
        "ended_at": ended_at,
    }


def read_ending(content: Mapping[str, Any] | None) -> tuple[Ending, float] | None:
    """Return what was written, and when the process had ended; `None` when there is nothing that makes sense."""
    try:
        ending = Ending(
            state=JobState((content or {})["state"]),
            reason=str((content or {})["reason"]),
            exit_code=(content or {})["exit_code"],
            signal=(content or {})["signal"],
            progress=read_report((content or {})["progress"]),
            is_counted=(content or {}).get("is_counted") is not False,
            is_cancelled=(content or {}).get("is_cancelled") is True,
        )
        return ending, float((content or {})["ended_at"])
    except (KeyError, TypeError, ValueError):
        return None
