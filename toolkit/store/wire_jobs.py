"""How jobs, progress, wishes and endings look at rest. What Lua reads holds no null, and times in milliseconds.

A job lies in three parts: its facts, which the queue's scripts read and write; its order (arguments and settings),
which never changes; and, while it is active, its progress.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from toolkit.model.errors import StoreUnreadableError, UsageError
from toolkit.model.jobs import PRIORITY_DECIMALS, Job, JobState
from toolkit.model.names import JobId, LineName, NodeName, ProjectName, SpiderName, Token, VersionName
from toolkit.model.queue import Ending, Progress, Wish, line_name, place_of
from toolkit.store.envelope import read, write
from toolkit.store.fields import Fields
from toolkit.store.ordering import microseconds

_DIGITS = 14
_COUNTS = ("pages", "items", "errors", "retries", "bytes")


def line_of(job: Job) -> LineName:
    """Return the line in which the job waits.

    Raises:
        ValueError: it has no version, so no line.

    """
    if job.version is None:
        raise ValueError(f"job {job.id} names no version")
    return line_name(job.project, job.version, job.spider, place_of(job.on))


def priority_of(job: Job) -> float:
    """Return the priority as the queue keeps it."""
    return round(job.priority or 0, PRIORITY_DECIMALS)


def likeness(job: Job) -> str:
    """Return what jobs with the same project, spider and arguments have in common."""
    what = json.dumps([job.project, job.spider, sorted((job.args or {}).items())])
    return hashlib.sha256(what.encode()).hexdigest()[:16]


def write_job(job: Job) -> str:
    """Return the whole job as JSON, for a store without a queue."""
    return write({**_facts(job), **_order(job)})


def write_facts(job: Job, more: Mapping[str, object] | None = None) -> str:
    """Return a queued job's facts as JSON: all but its order. Its times are to the millisecond.

    `more` are facts that only the queue's scripts know what to do with.

    Raises:
        ValueError: it has no version, so no line.
        UsageError: a name in it is no Unicode, which would keep the queue's scripts from reading it.

    """
    _check_names(job)
    facts = _facts(job)
    # More digits would be lost at the first change: Redis' JSON keeps 14.
    times: dict[str, Any] = {name: math.floor(facts[name]) for name in ("scheduled_ms", "due_ms") if name in facts}
    extra = {"line": line_of(job), "place": place_of(job.on), "same": likeness(job), "priority": priority_of(job)}
    return write(_known({**facts, **times, **extra, "attempt": 0, "attempts": job.attempts or 1, **(more or {})}))


def _check_names(job: Job) -> None:
    for name in (job.project, job.spider, job.version, job.scheduled_by):
        try:
            (name or "").encode()
        except UnicodeEncodeError:
            raise UsageError(f"job {job.id} cannot be queued: {name!r} is no Unicode text") from None


def write_order(job: Job) -> str:
    """Return a job's arguments and settings as JSON."""
    return write(_order(job))


def read_job(
    body: str | bytes, *, order: str | bytes | None = None, progress: str | None = None, on: str | None = None
) -> Job:
    """Return the job that the JSON describes; `order` and `progress` are its other parts, `on` its place's nodes.

    Raises:
        StoreUnreadableError: it is no job, has a state that this crawlctl does not know, or a newer format.

    """
    fields = read(body, "job")
    asked = read(order, "job") if order is not None else fields
    version, node = fields.maybe_text("version"), fields.maybe_text("node")
    line, token = fields.maybe_text("line"), fields.maybe_text("token")
    state = fields.choice("state", JobState)
    now = read_progress(progress) if progress is not None and state.is_active else None
    if now is not None and state is JobState.RUNNING and now.state is JobState.PAUSED:
        state = JobState.PAUSED
    told = _counts(fields) if now is None else _told(now)
    return Job(
        id=JobId(fields.text("id")),
        project=ProjectName(fields.text("project")),
        spider=SpiderName(fields.text("spider")),
        state=state,
        version=None if version is None else VersionName(version),
        node=None if node is None else NodeName(node),
        args=asked.maybe_mapping("args"),
        settings=asked.maybe_mapping("settings"),
        priority=fields.maybe_number("priority"),
        scheduled_at=fields.maybe_moment("scheduled_ms"),
        started_at=fields.maybe_moment("started_ms"),
        ended_at=fields.maybe_moment("ended_ms"),
        cancel_requested_at=fields.maybe_moment("cancel_ms"),
        reason=fields.maybe_text("reason"),
        line=None if line is None else LineName(line),
        on=None if on is None else tuple(NodeName(name) for name in read(on, "list of nodes").texts("nodes")),
        attempt=fields.maybe_whole("attempt"),
        attempts=fields.maybe_whole("attempts"),
        retries_failed=fields.maybe_flag("retries_failed"),
        timeout_s=fields.maybe_number("timeout_s"),
        due_at=fields.maybe_moment("due_ms"),
        is_held=fields.maybe_flag("is_held"),
        token=None if token is None else Token(token),
        pid=fields.maybe_whole("pid"),
        exit_code=fields.maybe_whole("exit_code"),
        signal=fields.maybe_text("signal"),
        scheduled_by=fields.maybe_text("scheduled_by"),
        **{"finish_reason": fields.maybe_text("finish_reason"), **told},
    )


def place_in(body: str | bytes) -> str | None:
    """Return the short name of the nodes that may take the job, if only some may."""
    return read(body, "job").maybe_text("place")


def write_progress(progress: Progress) -> str:
    """Return the progress as JSON."""
    return write(_known({"state": progress.state.value, **_told(progress)}))


def read_progress(body: str) -> Progress:
    """Return the progress that the JSON describes.

    Raises:
        StoreUnreadableError: it is none.

    """
    fields = read(body, "progress")
    reason = fields.maybe_text("finish_reason")
    return Progress(state=fields.choice("state", JobState), finish_reason=reason, **_counts(fields))


def write_ending(ending: Ending) -> str:
    """Return what an ending adds to the job's facts, as JSON; state, reason and age travel beside it."""
    told = {} if ending.progress is None else _told(ending.progress)
    return json.dumps(_known({**told, "exit_code": ending.exit_code, "signal": ending.signal}))


def read_wish(body: str) -> Wish:
    """Return the wish that the JSON describes.

    Raises:
        StoreUnreadableError: it is none.

    """
    try:
        content = json.loads(body)
    except ValueError as error:
        raise StoreUnreadableError("a wish in the shared store is not JSON") from error
    fields = Fields(content if isinstance(content, dict) else {}, what="wish")
    return Wish(
        cancel_grace_s=fields.maybe_number("cancel_grace_s"),
        is_paused=fields.maybe_flag("is_paused"),
        concurrency=fields.maybe_whole("concurrency"),
        delay_s=fields.maybe_number("delay_s"),
    )


def milliseconds(moment: datetime | None) -> float | None:
    """Return the milliseconds from 1970 to the moment, exact to the microsecond until the year 2109."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone; times at rest are UTC")
    since_us = microseconds(moment)
    return since_us / 1000 if since_us % 1000 else since_us // 1000


def _facts(job: Job) -> dict[str, Any]:
    return _known(
        {
            "id": job.id,
            "project": job.project,
            "spider": job.spider,
            "state": job.state.value,
            "version": job.version,
            "node": job.node,
            "priority": job.priority,
            "scheduled_ms": milliseconds(job.scheduled_at),
            "started_ms": milliseconds(job.started_at),
            "ended_ms": milliseconds(job.ended_at),
            "cancel_ms": milliseconds(job.cancel_requested_at),
            "due_ms": milliseconds(job.due_at),
            "finish_reason": job.finish_reason,
            "pages": job.pages,
            "items": job.items,
            "errors": job.errors,
            "retries": job.retries,
            "bytes": job.bytes,
            "pages_per_minute": job.pages_per_minute,
            "memory_mb": job.memory_mb,
            "statuses": None if job.statuses is None else dict(job.statuses),
            "reason": job.reason,
            "attempts": job.attempts,
            "retries_failed": job.retries_failed or None,
            "timeout_s": job.timeout_s,
            "is_held": job.is_held or None,
            "exit_code": job.exit_code,
            "signal": job.signal,
            "scheduled_by": job.scheduled_by,
            # Arguments and settings say it too, but are never read by the scripts.
            "crawl": job.crawl,
        }
    )


def _order(job: Job) -> dict[str, Any]:
    return {
        "args": None if job.args is None else dict(job.args),
        "settings": None if job.settings is None else dict(job.settings),
    }


def _known(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if value is not None}


def _counts(fields: Fields) -> dict[str, Any]:
    counts: dict[str, Any] = {name: fields.maybe_whole(name) for name in _COUNTS}
    rates = {name: fields.maybe_number(name) for name in ("pages_per_minute", "memory_mb")}
    return counts | rates | {"statuses": fields.maybe_wholes("statuses")}


def _told(progress: Progress) -> dict[str, Any]:
    numbers = {name: getattr(progress, name) for name in (*_COUNTS, "pages_per_minute", "memory_mb")}
    told: dict[str, Any] = {name: number if _is_kept(number) else None for name, number in numbers.items()}
    kept = {status: count for status, count in (progress.statuses or {}).items() if _is_kept(count)}
    told["statuses"] = kept or None
    reason = progress.finish_reason
    # Half a character, which a spider may well say, is nothing that a script could read again.
    return told if reason is None else told | {"finish_reason": reason.encode(errors="replace").decode()}


def _is_kept(number: float | None) -> bool:
    """Tell whether Redis' JSON gives the number back as it is: no infinity, and 14 digits at most."""
    return number is not None and abs(number) < 10**_DIGITS
