"""The duty of judging the thresholds of alerts: any survivor does it, one node in a while.

What fires, and what is over, is told once: Redis remembers the state of each, whoever judges. A job that a rule pauses
or cancels is asked for that before it is told, so that no death in between forgets it; both may be done twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from toolkit.alerts.matching import OF_RULE, may_admit_job
from toolkit.alerts.thresholds import errors_per_minute, fires, idle_s, reason, usual_items
from toolkit.model.alerts import Action, Alerts, Rule, RuleKind
from toolkit.model.events import Change, Event, EventKind
from toolkit.model.jobs import Job, JobFilter, JobState
from toolkit.model.names import CrawlId, JobId, job_of
from toolkit.model.queue import read_line_name
from toolkit.model.samples import JobSample
from toolkit.store.interfaces import Shared, Store

EVERY_S = 10.0
"""How often thresholds are judged, by whichever node comes first."""

CANCEL_GRACE_S = 30.0
FIRING, OVER = "firing", "over"
PAUSED = "paused "
"""So begins the state of a job's progress that was seen paused; when it was so last, in milliseconds, follows."""

WATCHED = "alert:"
JUDGED = "alerts:judged"
"""The watched thing whose state is the id of the last event whose run was judged."""

_JUDGE = "judge"
_S_A_NODE, _LONGEST_S = 0.1, 10.0
_OF_JOBS = (RuleKind.ERRORS, RuleKind.PROGRESS)


def interval_s(*, live_nodes: int, chance: float) -> float:
    """Return how long a node waits before it asks whether judging is due; `chance` is from 0 to 1. Pure."""
    return min(max(live_nodes * _S_A_NODE, EVERY_S / 2), _LONGEST_S) * (0.75 + chance / 2)


def judge(store: Store, shared: Shared) -> int:
    """Judge all thresholds, unless another node has just done so, and tell what has changed; return how many.

    Raises:
        StoreUnreachableError: Redis does not answer.

    """
    if shared.alerts.revision() == 0 or not shared.duties.take(_JUDGE, for_s=EVERY_S):
        return 0
    alerts = shared.alerts.read()
    states = shared.events.states()
    now = store.now()
    silent = {each.rule for each in shared.alerts.silences()}
    changes = [
        *_of_jobs(store, shared, alerts, states, now=now, silent=silent),
        *_of_queue(shared, alerts, states),
        *_of_runs(store, shared, alerts, states),
    ]
    told = shared.events.turns(changes)
    last = {change.watched: change.state for change in changes}
    shared.events.unwatch(forgotten(alerts, states, over=[name for name, state in last.items() if state == OVER]))
    return sum(was_told and change.event is not None for was_told, change in zip(told, changes, strict=True))


def forgotten(alerts: Alerts, states: Mapping[str, str], *, over: Sequence[str]) -> list[str]:
    """Return what need not be watched any more: what is over, and what belongs to rules that are gone. Pure."""
    ours = (name for name in states if name.startswith(WATCHED))
    gone = [name for name in ours if name.removeprefix(WATCHED).partition(":")[0] not in alerts.rules]
    return [*gone, *over]


def verdict(watched: str, states: Mapping[str, str], event: Event, *, is_firing: bool | None) -> list[Change]:
    """Return the change that tells of what fires now and did not, or did and does not any more. Pure."""
    was = states.get(watched, "")
    if is_firing and was != FIRING:
        return [Change(watched, FIRING, event, was=was)]
    if is_firing is False and was == FIRING:
        about = {**event.about, "reason": f"it is so no more: {event.about['reason']}"}
        return [Change(watched, OVER, replace(event, kind=EventKind.ALERT_OVER, about=about), was=FIRING)]
    return []


def measured(rule: Rule, samples: Sequence[JobSample], *, now: datetime) -> float | None:
    """Return what a rule about running jobs measures of one. Pure."""
    if rule.kind is RuleKind.ERRORS:
        return errors_per_minute(samples, now=now, within_s=rule.within_s)
    return idle_s(samples, now=now)


def unpaused(value: float | None, state: str, *, now: datetime) -> float | None:
    """Return for how long a job had no progress since it was seen paused last: being told to rest is no fault. Pure."""
    if value is None or not state.startswith(PAUSED):
        return value
    return min(value, now.timestamp() - int(state.removeprefix(PAUSED)) / 1000)


def _of_jobs(
    store: Store, shared: Shared, alerts: Alerts, states: Mapping[str, str], *, now: datetime, silent: set[str]
) -> Iterator[Change]:
    rules = [rule for rule in alerts.rules.values() if rule.kind in _OF_JOBS]
    if not rules:
        return
    jobs = store.jobs.get_many(shared.queue.active())
    asleep = _asleep(shared, rules, jobs.values())
    ids = {job.id for job in asleep}
    pairs = [
        (rule, job)
        for rule in rules
        for job in jobs.values()
        if _is_watched(rule, job) and not (rule.kind is RuleKind.PROGRESS and job.id in ids)
    ]
    samples = shared.samples.of_jobs({job.id for _, job in pairs})
    yield from _paused(rules, asleep, states, now=now)
    for rule, job in pairs:
        watched = _watched(rule, job.id)
        value = unpaused(measured(rule, samples.get(job.id, ()), now=now), states.get(watched, ""), now=now)
        is_firing = fires(rule, value)
        done, held = Action.NONE, ""
        if is_firing and states.get(watched) != FIRING:
            held = _held(shared, rule, job)
            done = Action.NONE if rule.name in silent else _act(shared, rule, job)
        yield from verdict(watched, states, _event(rule, job, value, done=done, more=held), is_firing=is_firing)
    yield from _ended(rules, jobs, states)


def _asleep(shared: Shared, rules: Sequence[Rule], jobs: Collection[Job]) -> list[Job]:
    """Return the jobs that are to make no progress now: they are paused, or the crawl is that they work on."""
    if not any(rule.kind is RuleKind.PROGRESS for rule in rules):
        return []
    crawls = {job.id: job.crawl or CrawlId(job.spider) for job in jobs}
    paused = shared.crawls.paused(frozenset(crawls.values()))
    return [job for job in jobs if job.state is JobState.PAUSED or crawls[job.id] in paused]


def _paused(
    rules: Sequence[Rule], asleep: Sequence[Job], states: Mapping[str, str], *, now: datetime
) -> Iterator[Change]:
    """Remember which jobs are paused now that a rule about progress watches when they run; it is no event."""
    for rule in (rule for rule in rules if rule.kind is RuleKind.PROGRESS):
        for job in (job for job in asleep if _is_meant(rule, job)):
            was = states.get(_watched(rule, job.id), "")
            if was != FIRING:
                yield Change(_watched(rule, job.id), f"{PAUSED}{now.timestamp() * 1000:.0f}", was=was)


def _is_watched(rule: Rule, job: Job) -> bool:
    return job.state is JobState.RUNNING and job.cancel_requested_at is None and _is_meant(rule, job)


def _is_meant(rule: Rule, job: Job) -> bool:
    return may_admit_job(rule, project=job.project, spider=job.spider, node=job.node)


def _act(shared: Shared, rule: Rule, job: Job) -> Action:
    """Ask for what the rule does to the job; asked twice, it is one."""
    if rule.do is Action.PAUSE:
        shared.queue.pause(job.id, is_paused=True)
    elif rule.do is Action.CANCEL:
        shared.queue.cancel([job.id], grace_s=CANCEL_GRACE_S)
    return rule.do


def _ended(rules: Sequence[Rule], jobs: Mapping[JobId, Job], states: Mapping[str, str]) -> Iterator[Change]:
    """Tell that it is over for jobs that are."""
    for rule in rules:
        for watched, state in states.items():
            job_id = watched.removeprefix(_watched(rule, ""))
            if job_id == watched or JobId(job_id) in jobs:
                continue
            if state.startswith(PAUSED):
                yield Change(watched, OVER, was=state)
            elif state == FIRING:
                about = {OF_RULE: rule.name, "job": job_id, "reason": "the job runs no more"}
                event = Event(EventKind.ALERT_OVER, f"{rule.name} {job_id}", about)
                yield Change(watched, OVER, event, was=FIRING)


def _held(shared: Shared, rule: Rule, job: Job) -> str:
    """Say which entry of the job's crawl a worker has had in hand for so long: all others may be waiting for it."""
    if rule.kind is not RuleKind.PROGRESS or (view := shared.crawls.view(job.crawl or CrawlId(job.spider))) is None:
        return ""
    entry = view.held_for(rule.within_s)
    if entry is None or entry.worker is None or entry.taken_at is None:
        return ""
    minutes = (view.now - entry.taken_at).total_seconds() / 60
    return f"; job {job_of(entry.worker)} has had entry {entry.leased.entry.hex()} in hand for {minutes:.0f} min"


def _event(rule: Rule, job: Job, value: float | None, *, done: Action, more: str) -> Event:
    about = {OF_RULE: rule.name, "severity": rule.severity.value, "job": job.id}
    about |= {"project": job.project, "spider": job.spider} | ({"node": job.node} if job.node else {})
    about["reason"] = "" if value is None else reason(rule, value) + more
    if done is not Action.NONE:
        about["done"] = done.value
        about["reason"] += f"; it shall {done.value}"
    return Event(EventKind.ALERT_FIRING, f"{rule.name} {job.id}", about)


def _of_queue(shared: Shared, alerts: Alerts, states: Mapping[str, str]) -> Iterator[Change]:
    rules = [rule for rule in alerts.rules.values() if rule.kind is RuleKind.WAITING]
    waiting = shared.measures.waiting_s() if rules else {}
    for rule in rules:
        value = 0.0
        for line, seconds in waiting.items():
            project, _, spider, _ = read_line_name(line)
            value = max(value, seconds if may_admit_job(rule, project=project, spider=spider, node=None) else 0.0)
        about = {OF_RULE: rule.name, "severity": rule.severity.value, "reason": reason(rule, value)}
        event = Event(EventKind.ALERT_FIRING, f"{rule.name} queue", about)
        yield from verdict(_watched(rule, "queue"), states, event, is_firing=fires(rule, value))


def _of_runs(store: Store, shared: Shared, alerts: Alerts, states: Mapping[str, str]) -> Iterator[Change]:
    """Judge each run that has finished since the last that was judged; that it was is noted in the very same step."""
    rules = [rule for rule in alerts.rules.values() if rule.kind is RuleKind.ITEMS]
    if not rules:
        return
    before = states.get(JUDGED, "")
    if not before:
        yield Change(JUDGED, shared.events.newest(), was="")
        return
    events = shared.events.after(before, limit=200)
    if not events:
        return
    ids = [JobId(event.subject) for event in events if event.kind is EventKind.JOB_FINISHED]
    found = store.jobs.get_many(ids)
    now_states = dict(states)
    for job in (found[job_id] for job_id in ids if job_id in found):
        for rule in (
            each for each in rules if may_admit_job(each, project=job.project, spider=job.spider, node=job.node)
        ):
            changes = _of_run(rule, job, _runs_before(store, job, most=rule.of_last), now_states)
            now_states |= {change.watched: change.state for change in changes}
            yield from changes
    yield Change(JUDGED, events[-1].id, was=before)


def _of_run(rule: Rule, job: Job, before: Sequence[Job], states: Mapping[str, str]) -> list[Change]:
    usual = usual_items([each.items for each in before])
    value = float(job.items or 0)
    is_firing = fires(rule, value, usual=usual)
    about = {OF_RULE: rule.name, "severity": rule.severity.value, "job": job.id}
    about |= {"project": job.project, "spider": job.spider}
    about["reason"] = reason(rule, value, usual=usual or 0.0)
    what = f"{job.project}/{job.spider}"
    event = Event(EventKind.ALERT_FIRING, f"{rule.name} {what}", about)
    return verdict(_watched(rule, what), states, event, is_firing=is_firing)


def _runs_before(store: Store, job: Job, *, most: int) -> list[Job]:
    """Return the spider's finished runs that ended before this one did, the newest first."""
    wanted = JobFilter(states=frozenset({JobState.FINISHED}), spider=job.spider, project=job.project)
    runs = store.jobs.recent(wanted, limit=most * 2 + 1)
    older = [each for each in runs if each.id != job.id and _ended_before(each, job)]
    return older[:most]


def _ended_before(run: Job, job: Job) -> bool:
    return run.ended_at is not None and job.ended_at is not None and run.ended_at <= job.ended_at


def _watched(rule: Rule, what: str) -> str:
    return f"{WATCHED}{rule.name}:{what}"
