"""What can be done from the screens: what is asked before, how it is done, and what is said of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolkit.cluster.acts import GRACE_S, Acts
from toolkit.cluster.cancel import Cancelled
from toolkit.model.errors import CrawlctlError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import NodeName

MAX_NAMED = 6
SHORT_ID = 8
RETRIABLE = frozenset({JobState.FAILED, JobState.LOST, JobState.CANCELLED})


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one thing. What was not verified `is_bad`, as is what went wrong."""

    text: str
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """Something to be done once somebody has said yes: the question, to what it is done, and what that means."""

    question: str
    doing: str
    subjects: tuple[str, ...]
    perform: Callable[[Acts], Sequence[Told]]
    note: str = ""


def performed(act: Act, acts: Acts) -> Sequence[Told]:
    """Do it and say what became of it; what was refused or went wrong is said with its hint."""
    try:
        return act.perform(acts)
    except CrawlctlError as error:
        return [_trouble(error)]


def cancel(jobs: Sequence[Job]) -> Act | str:
    """Cancel jobs, or say why there is nothing to cancel. Pure."""
    alive = [job for job in jobs if not job.state.is_final]
    if not alive:
        return _none(jobs, "has ended already", "have ended already")
    running = sum(job.state.is_active for job in alive)
    note = "What waits is taken out of the queue at once."
    if running:
        whose = "Its spider is" if len(alive) == 1 else f"{running} of them are with a node: their spiders are"
        note = f"{whose} asked to close, with {GRACE_S:g} s to do so; then told again, then killed."
    return Act(
        f"Cancel {_count(alive, 'job')}?",
        f"cancelling {_count(alive, 'job')}",
        tuple(map(job_words, alive)),
        lambda acts: [cancelled_words(each) for each in acts.cancel([job.id for job in alive])],
        note,
    )


def pause(jobs: Sequence[Job], *, is_paused: bool) -> Act | str:
    """Let running spiders begin no new download, or paused ones go on. Pure."""
    meant = JobState.RUNNING if is_paused else JobState.PAUSED
    fit = [job for job in jobs if job.state is meant and job.is_queued]
    if not fit:
        verb = "paused" if is_paused else "resumed"
        return f"only a {meant.value} job of the shared queue can be {verb}"
    word, doing = ("Pause", "pausing") if is_paused else ("Resume", "resuming")

    def perform(acts: Acts) -> list[Told]:
        wish = acts.pause_job if is_paused else acts.resume_job
        return [_each(job, lambda one: wish(one.id).state.value) for job in fit]

    note = "It keeps its slot and its process." if is_paused else ""
    return Act(f"{word} {_count(fit, 'job')}?", f"{doing} {_count(fit, 'job')}", _words(fit), perform, note)


def retry(jobs: Sequence[Job]) -> Act | str:
    """Put jobs that did not end well back into the queue. Pure."""
    fit = [job for job in jobs if job.state in RETRIABLE and job.is_queued]
    if not fit:
        return "only a failed, lost or cancelled job of the shared queue can be retried"
    return Act(
        f"Retry {_count(fit, 'job')}?",
        f"retrying {_count(fit, 'job')}",
        _words(fit),
        lambda acts: [
            Told(f"{job.id[:SHORT_ID]} is {job.state.value} again") for job in acts.retry([job.id for job in fit])
        ],
        "The same job runs again, from its beginning and with all its attempts.",
    )


def tune(job: Job, *, concurrency: int | None, delay_s: float | None) -> Act:
    """Wish a running spider another concurrency or delay. Pure; whoever calls has asked for the numbers."""
    wanted = _tuned_words(concurrency, delay_s)

    def wish(one: Job, acts: Acts) -> str:
        now = acts.tune_job(one.id, concurrency=concurrency, delay_s=delay_s)
        return f"{now.state.value}, and told: {wanted}"

    return Act(
        f"Tune this job: {wanted}?",
        f"tuning {job.id[:SHORT_ID]}",
        (job_words(job),),
        lambda acts: [_each(job, lambda one: wish(one, acts))],
        "It holds for this job until it ends; its spider hears of it within seconds.",
    )


def drain(names: Sequence[NodeName]) -> Act:
    """Let nodes take no new job. Pure."""
    return Act(
        f"Drain {_count(names, 'node')}?",
        f"draining {_count(names, 'node')}",
        tuple(names),
        lambda acts: [
            Told(f"{each.name} takes no new job; it still runs {each.running}") for each in acts.drain(names)
        ],
        "What they run goes on to its end; nothing new is taken until they are resumed.",
    )


def resume_nodes(names: Sequence[NodeName]) -> Act:
    """Let drained nodes take jobs again. Pure."""
    return Act(
        f"Resume {_count(names, 'node')}?",
        f"resuming {_count(names, 'node')}",
        tuple(names),
        lambda acts: [Told(f"{name} takes jobs again") for name in acts.resume_nodes(names)],
    )


def pause_crawl(crawl: str, *, is_paused: bool) -> Act:
    """Let the workers of a crawl take no entry, or take them again. Pure."""
    word, doing = ("Pause", "pausing") if is_paused else ("Resume", "resuming")

    def perform(acts: Acts) -> list[Told]:
        obeyed = acts.pause_crawl(crawl, is_paused=is_paused)
        state = "paused" if obeyed.controls.is_paused else "going on"
        heard = f"{obeyed.heard} of {obeyed.workers} workers have heard of it, {obeyed.in_flight} entries in flight"
        return [Told(f"{crawl} is {state}: {heard}", is_bad=not obeyed.is_settled)]

    note = "No worker is given an entry until it is resumed." if is_paused else ""
    return Act(f"{word} crawl {crawl}?", f"{doing} {crawl}", (crawl,), perform, note)


def cancelled_words(cancelled: Cancelled) -> Told:
    """Say what became of a job that was to be cancelled. Pure."""
    name = cancelled.job.id[:SHORT_ID]
    if cancelled.error is not None:
        return _trouble(cancelled.error)
    if cancelled.before.is_final:
        return Told(f"{name}: it was {cancelled.before.value} already")
    if cancelled.after is JobState.CANCELLED:
        was = "its process is gone" if cancelled.before.is_active else "it never ran"
        return Told(f"{name}: gone ({was})")
    return Told(f"{name}: gone (it {cancelled.after.value} by itself before)")


def job_words(job: Job) -> str:
    """Name a job so that whoever is asked knows which is meant. Pure."""
    where = f" on {job.node}" if job.node else ""
    return f"{job.id[:SHORT_ID]} {job.spider} {job.state.value}{where}"


def _each(job: Job, do: Callable[[Job], str]) -> Told:
    try:
        return Told(f"{job.id[:SHORT_ID]}: {do(job)}")
    except CrawlctlError as error:
        return _trouble(error)


def _trouble(error: CrawlctlError) -> Told:
    return Told(error.message + (f" ({error.hint})" if error.hint else ""), is_bad=True)


def _words(jobs: Sequence[Job]) -> tuple[str, ...]:
    return tuple(map(job_words, jobs))


def _tuned_words(concurrency: int | None, delay_s: float | None) -> str:
    told = (
        None if concurrency is None else f"concurrency {concurrency}",
        None if delay_s is None else f"delay {delay_s:g} s",
    )
    return ", ".join(word for word in told if word)


def _none(things: Sequence[object], one: str, many: str) -> str:
    if not things:
        return "there is nothing under the cursor"
    return f"it {one}" if len(things) == 1 else f"all {len(things)} {many}"


def _count(things: Sequence[object], what: str) -> str:
    return f"{len(things):,} {what}" + ("" if len(things) == 1 else "s")
