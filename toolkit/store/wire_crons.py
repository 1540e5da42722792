"""How crons, their states and their firings look at rest. What Lua reads holds no null, and times in milliseconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from toolkit.model.crons import After, Cron, Due, Firing, FiringState, Late, Outcome, Overlap, Trigger
from toolkit.model.names import CrawlId, JobId, NodeName, ProjectName, SpiderName
from toolkit.store.envelope import read, write
from toolkit.store.fields import Fields
from toolkit.store.ordering import microseconds
from toolkit.store.wire import time_text

_WHAT = "cron"
_PARTS = 4


def revision_of(cron: Cron) -> str:
    """Return the digest of all that a cron is; equal crons have equal ones."""
    return hashlib.sha256(json.dumps(_cron_body(cron), sort_keys=True).encode()).hexdigest()[:16]


def write_cron(cron: Cron, *, by: str) -> str:
    """Return a cron's definition as JSON, with its revision, the digest of when it is due, and who wrote it."""
    follows = {} if cron.after is None else {"follows": followed(cron)}
    digests = {"revision": revision_of(cron), "timing": _timing(cron)}
    return write({**_cron_body(cron), **digests, "by": by, **follows})


def followed(cron: Cron) -> str:
    """Return the spider that a cron follows as the queue's scripts look it up; empty for none."""
    return "" if cron.after is None else f"{cron.project or ''}/{cron.after.spider}"


def read_cron(body: str | bytes) -> tuple[Cron, str, str]:
    """Return the cron that the JSON describes, its revision, and who defined it.

    Raises:
        StoreUnreadableError: it is no cron, or of a newer wire version.

    """
    fields = read(body, _WHAT)
    after = fields.part("after") if fields.has("after") else None
    project, crawl = fields.maybe_text("project"), fields.maybe_text("crawl")
    cron = Cron(
        name=fields.text("name"),
        spider=SpiderName(fields.text("spider")),
        at=fields.maybe_text("at"),
        after=None if after is None else After(SpiderName(after.text("spider")), after.choice("outcome", Outcome)),
        project=None if project is None else ProjectName(project),
        timezone=fields.text("timezone"),
        jitter_s=fields.number("jitter_s"),
        starts_at=fields.maybe_time("starts_at"),
        ends_at=fields.maybe_time("ends_at"),
        args=fields.maybe_mapping("args") or {},
        settings=fields.maybe_mapping("settings") or {},
        on=tuple(map(NodeName, fields.texts("on"))) if fields.has("on") else None,
        priority=fields.number("priority"),
        attempts=fields.whole("attempts"),
        timeout_s=fields.maybe_number("timeout_s"),
        workers=fields.whole("workers"),
        crawl=None if crawl is None else CrawlId(crawl),
        overlap=fields.choice("overlap", Overlap),
        late=fields.choice("late", Late),
        is_paused=fields.maybe_flag("is_paused"),
        comment=fields.maybe_text("comment"),
    )
    return cron, fields.text("revision"), fields.text("by")


def _cron_body(cron: Cron) -> dict[str, Any]:
    content = {
        "name": cron.name,
        "spider": cron.spider,
        "at": cron.at,
        "after": cron.after and {"spider": cron.after.spider, "outcome": cron.after.outcome.value},
        "project": cron.project,
        "timezone": cron.timezone,
        "jitter_s": cron.jitter_s,
        "starts_at": cron.starts_at and time_text(cron.starts_at),
        "ends_at": cron.ends_at and time_text(cron.ends_at),
        "args": dict(cron.args) or None,
        "settings": dict(cron.settings) or None,
        "on": None if cron.on is None else sorted(cron.on),
        "priority": cron.priority,
        "attempts": cron.attempts,
        "timeout_s": cron.timeout_s,
        "workers": cron.workers,
        "crawl": cron.crawl,
        "overlap": cron.overlap.value,
        "late": cron.late.value,
        "is_paused": cron.is_paused or None,
        "comment": cron.comment,
    }
    return {name: value for name, value in content.items() if value is not None}


def _timing(cron: Cron) -> str:
    """Return the digest of what a cron's due times follow from; its name is in its jitter."""
    term = (cron.starts_at, cron.ends_at, cron.is_paused)
    return hashlib.sha256(repr((cron.name, cron.at, cron.timezone, cron.jitter_s, *term)).encode()).hexdigest()[:16]


def trigger_text(trigger: Trigger) -> str:
    """Return what tells a firing from the others of its cron: milliseconds, job, project and word, a line each."""
    return "\n".join((str(due_ms(trigger.at)), trigger.job or "", trigger.project or "", trigger.word))


def trigger_in(text: str) -> Trigger:
    """Return the trigger of a text, which the queue's scripts may have written without the last line."""
    ms, job, project, word = (*text.split("\n"), "", "", "")[:_PARTS]
    return Trigger(moment(int(ms)), JobId(job) if job else None, ProjectName(project) if project else None, word)


def write_firing(firing: Firing) -> str:
    """Return a firing as the scripts write it into the history."""
    body: Mapping[str, Any] = {
        "due_ms": due_ms(firing.due_at),
        "at_ms": due_ms(firing.at),
        "state": firing.state.value,
        "by": firing.by,
        "jobs": list(firing.jobs) or None,
        "reason": firing.reason,
    }
    return json.dumps({name: value for name, value in body.items() if value is not None})


def read_firing(cron: str, body: str | bytes) -> Firing:
    """Return the firing of a line of history.

    Raises:
        StoreUnreadableError: it is none.

    """
    return firing_in(cron, Fields(json.loads(body), what="firing"))


def firing_in(cron: str, fields: Fields) -> Firing:
    """Return the firing that the fields of an object describe."""
    return Firing(
        cron=cron,
        due_at=moment(fields.whole("due_ms")),
        at=moment(fields.whole("at_ms")),
        state=fields.choice("state", FiringState),
        by=fields.text("by"),
        jobs=tuple(map(JobId, fields.maybe_texts("jobs"))),
        reason=fields.maybe_text("reason"),
    )


def state_in(body: str | bytes | None) -> Fields:
    """Return the fields of a cron's state; it may be empty."""
    return Fields(json.loads(body or "{}"), what="state of a cron")


def due_in(state: Fields) -> Due | None:
    """Return when the cron is due next by its expression, as its state says."""
    if not state.has("due_ms"):
        return None
    return Due(moment(state.whole("due_ms")), moment(state.whole("fires_ms")))


def due_ms(at: datetime) -> int:
    """Return the whole milliseconds from 1970 to the moment."""
    return microseconds(at) // 1000


def moment(ms: int) -> datetime:
    """Return the moment so many milliseconds after 1970."""
    return datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)
