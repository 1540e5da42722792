"""What may be scheduled: an order for jobs of one spider, its limits, and what no Scrapyd process could take."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from toolkit.model.errors import UsageError
from toolkit.model.jobs import DEFAULT_ATTEMPTS, MAX_PRIORITY, PRIORITY_DECIMALS, Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName, spider_problem
from toolkit.model.queue import line_name

MAX_ARGUMENT_BYTES = 100_000
MAX_ARGUMENTS_BYTES = 1_000_000
MAX_WORKERS = 10_000
MAX_ATTEMPTS = 100
# Scrapyd reads these out of the same form as the spider's arguments, or hands them on under these very names.
RESERVED_ARGUMENTS = frozenset(
    {"project", "spider", "_version", "jobid", "priority", "setting"}
    | {"_job", "_project", "_spider", "settings", "name", "spider_name", "self"}
)

_LONG_HINT = "put long values where the spider can fetch them: a URL, a key, a file"


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be run: `count` jobs of one spider of one release; `job_id` only with one job.

    The last five mean something in the shared queue alone; a stock node knows nothing of them. `delay_s` counts from
    the moment of scheduling; `due_at` names a moment and wins.
    """

    project: ProjectName
    spider: SpiderName
    version: VersionName
    args: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    priority: float = 0.0
    count: int = 1
    job_id: JobId | None = None
    attempts: int = DEFAULT_ATTEMPTS
    retries_failed: bool = False
    timeout_s: float | None = None
    delay_s: float | None = None
    due_at: datetime | None = None


def queued_job(
    order: Order, *, at: datetime, who: str, on: tuple[NodeName, ...] | None = None, place: str | None = None
) -> Job:
    """Make one pending job of the shared queue out of an order; its id is random where the order gives none.

    `place` is the name of `on` (`place_of`), which is made once for many jobs.
    """
    due_at = order.due_at
    if due_at is None and order.delay_s:
        due_at = at + timedelta(seconds=order.delay_s)
    return Job(
        id=order.job_id or new_job_id(),
        project=order.project,
        spider=order.spider,
        state=JobState.PENDING,
        version=order.version,
        args=dict(order.args),
        settings=dict(order.settings),
        priority=order.priority,
        scheduled_at=at,
        scheduled_by=who,
        line=line_name(order.project, order.version, order.spider, place),
        on=on,
        attempt=0,
        attempts=order.attempts,
        retries_failed=order.retries_failed,
        timeout_s=order.timeout_s,
        due_at=due_at,
    )


def check_order(order: Order) -> None:
    """Refuse what would cost a Scrapyd slot for good or be read as something else.

    Raises:
        UsageError: a spider's name that Scrapyd cannot run, a reserved argument, a NUL byte, what is no text, an
            argument beyond 100 kB (a process takes 128 kB) or all of them beyond 1 MB (2 MB with its environment), a
            count or priority that cannot be.

    """
    if not 1 <= order.count <= MAX_WORKERS:
        raise UsageError(f"{order.count} workers cannot be scheduled: 1 to {MAX_WORKERS} can")
    if order.job_id is not None and order.count > 1:
        raise UsageError(f"one id, {order.job_id!r}, cannot serve {order.count} workers")
    if not math.isfinite(order.priority):
        raise UsageError(f"a priority of {order.priority} has no place in a queue: give a number")
    if problem := spider_problem(order.spider):
        raise UsageError(f"the spider {order.spider!r} cannot be run by Scrapyd: {problem}", hint="rename the spider")
    for name in order.args:
        if name in RESERVED_ARGUMENTS:
            raise UsageError(
                f"the spider argument {name!r} would be read by Scrapyd itself", hint="rename the argument"
            )
    pairs = [("argument", *pair) for pair in order.args.items()] + [
        ("setting", *pair) for pair in order.settings.items()
    ]
    if sum(_size_bytes(*pair) for pair in pairs) > MAX_ARGUMENTS_BYTES:
        raise UsageError(
            f"the arguments and settings together are longer than {MAX_ARGUMENTS_BYTES // 1000} kB", hint=_LONG_HINT
        )


def check_queued(order: Order) -> None:
    """Refuse what the shared queue could not keep its promises for, besides what `check_order` refuses.

    Raises:
        UsageError: see `check_priority`; no attempt or more than 100, a time limit or delay that is no positive number.

    """
    check_order(order)
    check_priority(order.priority)
    if not 1 <= order.attempts <= MAX_ATTEMPTS:
        raise UsageError(f"{order.attempts} attempts cannot be made: 1 to {MAX_ATTEMPTS} can")
    if order.timeout_s is not None and not 0 < order.timeout_s < math.inf:
        raise UsageError(f"a time limit of {order.timeout_s:g} s cannot be kept: give a positive time")
    if order.delay_s is not None and not 0 <= order.delay_s < math.inf:
        raise UsageError(f"a delay of {order.delay_s:g} s cannot be kept: give a time")


def check_priority(priority: float) -> None:
    """Refuse a priority with which the shared queue would not keep its order exactly.

    Raises:
        UsageError: it is beyond ±1000, or has more than three decimals.

    """
    if not abs(priority) <= MAX_PRIORITY:
        raise UsageError(f"a priority of {priority:g} is out of range: -{MAX_PRIORITY} to {MAX_PRIORITY}")
    # What a computer adds up is off by far less than a billionth.
    if not math.isclose(priority, round(priority, PRIORITY_DECIMALS), rel_tol=0, abs_tol=1e-9):
        nearest = f"{round(priority, PRIORITY_DECIMALS):g}"
        raise UsageError(
            f"a priority of {priority!r} is too fine: {PRIORITY_DECIMALS} decimals count", hint=f"such as {nearest}"
        )


def _size_bytes(kind: str, name: str, value: str) -> int:
    """Return what a pair takes on a process' command line, or say why none takes it."""
    if "\0" in name or "\0" in value:
        raise UsageError(f"the {kind} {name!r} holds a NUL byte, which no process takes")
    try:
        size = len(f"{name}={value}".encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"the {kind} {name!r} is not text: {error.object!r:.80}") from error
    if size > MAX_ARGUMENT_BYTES:
        raise UsageError(f"the {kind} {name!r} is longer than {MAX_ARGUMENT_BYTES // 1000} kB", hint=_LONG_HINT)
    return size


def new_job_id() -> JobId:
    """Make an id that is short to type, and unique in the life of a cluster (64 random bits)."""
    return JobId(secrets.token_hex(8))
