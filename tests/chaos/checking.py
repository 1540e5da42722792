"""Compares what the store says with the spiders' journal, the faults and what was watched. Decides, touches nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from chaos.journal import Run
from chaos.plan import FaultKind, Order
from chaos.watching import Seen, Span, Tenure

from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName

SLACK_S = 2.0
"""How much later than a lease a lost node's jobs may run again."""
GRACE_SHARE = 0.8
"""An outage of more than this share of a lease surely gives every node a full term afterwards."""
REDIS = "redis"
_SETTLING_S = 1.5
_SILENCING = frozenset(
    {FaultKind.SCRAPYD_DIES, FaultKind.SCRAPYD_RESTARTS, FaultKind.MACHINE_FREEZES, FaultKind.NODE_CLOSES}
)
_CLOCK_SLACK_S = 0.2
_ITS_OWN_ENDS = frozenset({JobState.FINISHED, JobState.FAILED, JobState.CANCELLED})


@dataclass(frozen=True, slots=True)
class Hit:
    """A fault as it happened: what it hit (a node, `REDIS`, or a process), and from when to when.

    `rolled_back_to` is the time as of which Redis came back.
    """

    kind: FaultKind
    target: str
    span: Span
    pids: tuple[int, ...] = ()
    jobs: tuple[Tenure, ...] = ()
    rolled_back_to: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known at the end of a run. `cancels` are the states that jobs were cancelled in."""

    lease_s: float
    orders: Sequence[Order]
    jobs: Mapping[JobId, Job]
    runs: Sequence[Run]
    seen: Seen
    hits: Sequence[Hit]
    cancels: Mapping[JobId, JobState]
    slack_s: float = SLACK_S


@dataclass(slots=True)
class Verdict:
    """What was found: each broken promise in a sentence, and the figures."""

    broken: list[str] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=dict)
    without_outcome: int = 0
    ran_twice: int = 0
    ran_twice_wrongly: int = 0
    interrupted_wrongly: int = 0
    begun_too_often: int = 0
    requeues: list[float] = field(default_factory=list)
    lost_without_fault: int = 0


def judge(evidence: Evidence) -> Verdict:
    """Hold the product to its promises."""
    verdict = Verdict(broken=list(evidence.seen.broken))
    _check_outcomes(evidence, verdict)
    losses = node_losses(evidence)
    runs: dict[JobId, list[Run]] = defaultdict(list)
    for run in evidence.runs:
        runs[run.job].append(run)
    for order in evidence.orders:
        job = evidence.jobs.get(order.id)
        if job is not None and job.state.is_final:
            verdict.broken += _problems(order, job, runs[order.id], evidence)
        in_order = sorted(runs[order.id], key=lambda run: run.claimed_at)
        _check_runs(order, in_order, losses, evidence, verdict)
        _check_attempts(order, in_order, evidence, verdict)
    _check_requeues(evidence, verdict)
    _count_needless_losses(evidence, losses, verdict)
    return verdict


def node_losses(evidence: Evidence) -> dict[NodeName, list[Span]]:
    """Return when each node was lost: its machine died, or it was away or silent for a lease with Redis there."""
    losses: dict[NodeName, list[Span]] = defaultdict(list)
    for hit in evidence.hits:
        is_long = hit.span.end - hit.span.begin >= evidence.lease_s
        if hit.kind is FaultKind.MACHINE_DIES or (hit.kind in _SILENCING and is_long):
            losses[NodeName(hit.target)].append(hit.span)
    # After a shorter one there is no grace: who had been silent before it is lost in its time.
    long_outages = [each for each in evidence.seen.outages if each.end - each.begin > evidence.lease_s * GRACE_SHARE]
    for node, beats in evidence.seen.beats.items():
        for begin, end in pairwise(beats):
            if _silent_s(Span(begin, end), long_outages) >= evidence.lease_s:
                losses[node].append(Span(begin, end))
    return losses


def _silent_s(gap: Span, outages: Iterable[Span]) -> float:
    """Return the longest part of a gap in which Redis was there: the others count no silence while it is not."""
    edges = [gap.begin]
    for outage in sorted(outages, key=lambda each: each.begin):
        if outage.overlaps(gap.begin, gap.end):
            edges += [outage.begin, outage.end]
    edges.append(gap.end)
    return max(end - begin for begin, end in zip(edges[::2], edges[1::2], strict=True))


def _check_outcomes(evidence: Evidence, verdict: Verdict) -> None:
    states = Counter[str]()
    for order in evidence.orders:
        job = evidence.jobs.get(order.id)
        if job is None or not job.state.is_final:
            verdict.without_outcome += 1
            verdict.broken.append(f"{order.id} has no outcome: {'no record' if job is None else job.state.value}")
            continue
        states[job.state.value] += 1
        first = evidence.seen.finals.get(order.id)
        if first is not None and first["state"] != job.state.value and not _was_outcome_forgotten(order.id, evidence):
            verdict.broken.append(f"{order.id} was {first['state']} and is {job.state.value} now")
    verdict.outcomes = {state.value: states[state.value] for state in JobState if state.is_final}


def _problems(order: Order, job: Job, runs: Sequence[Run], evidence: Evidence) -> list[str]:
    """Say why a job's outcome cannot be true, if so."""
    own = [run for run in runs if run.token in {job.token, None}]
    killed = _killed(evidence)
    asked = evidence.cancels.get(order.id)
    is_exhausted = (job.attempt or 0) >= order.attempts
    doubts = {
        "it was cancelled while it was pending": asked is JobState.PENDING and job.state is not JobState.CANCELLED,
        "no run of this claim came to its end": job.state is JobState.FINISHED and not any(r.is_whole for r in own),
        "nothing made it fail": job.state is JobState.FAILED
        and not any(run.failed_by_itself or run.pid in killed for run in own),
        "nobody asked for that": job.state is JobState.CANCELLED and asked is None,
        "it had attempts left": job.state is JobState.LOST and asked is None and not is_exhausted,
        "nothing happened to its node": job.state is JobState.LOST and not _was_touched(order.id, evidence),
    }
    told = f"{order.id} ({order.spider}, attempt {job.attempt} of {order.attempts}) is {job.state.value} ({job.reason})"
    return [f"{told}, but {doubt}" for doubt, holds in doubts.items() if holds]


def _killed(evidence: Evidence) -> set[int]:
    return {pid for hit in evidence.hits if hit.kind is FaultKind.SPIDER_DIES for pid in hit.pids}


def _was_touched(job_id: JobId, evidence: Evidence) -> bool:
    last = max((each for each in evidence.seen.tenures if each.job == job_id), key=lambda each: each.end, default=None)
    if last is None:
        return False
    begin = last.begin - evidence.lease_s
    return any(hit.target in {last.node, REDIS} and hit.span.overlaps(begin, last.end) for hit in evidence.hits)


def _check_runs(
    order: Order,
    in_order: Sequence[Run],
    losses: Mapping[NodeName, Sequence[Span]],
    evidence: Evidence,
    verdict: Verdict,
) -> None:
    """See whether a job ran again only when its node was lost since it was claimed."""

    def was_lost(one: Run, other: Run) -> bool:
        spans = losses.get(one.claimed.node, ()) if one.claimed else ()
        is_lost = any(span.overlaps(one.claimed_at, other.began_at) for span in spans)
        return is_lost or _was_closed(one, other, evidence) or _was_forgotten(order, one, evidence)

    killed = _killed(evidence)
    for one, other in pairwise(run for run in in_order if run.is_whole):
        verdict.ran_twice += 1
        # Killed between its last line and its end, it failed, and failed jobs of this kind are to be repeated.
        was_to_be_repeated = one.pid in killed and order.retries_failed
        if not was_to_be_repeated and not was_lost(one, other):
            verdict.ran_twice_wrongly += 1
            verdict.broken.append(f"{one.job} ran twice to its end: {_told(one)}, {_told(other)}")
    for one, other in pairwise(in_order):
        was_its_own_doing = one.is_whole or one.failed_by_itself or one.pid in killed
        if not was_its_own_doing and not was_lost(one, other):
            verdict.interrupted_wrongly += 1
            verdict.broken.append(f"{one.job} was begun again, its node not lost: {_told(one)}, {_told(other)}")


def _check_attempts(order: Order, in_order: Sequence[Run], evidence: Evidence, verdict: Verdict) -> None:
    """See whether a job was begun more often than it has attempts, and whether each claim was begun once."""
    tokens = Counter(run.token for run in in_order if run.token)
    verdict.broken += [f"{order.id} was begun {n} times under {token}" for token, n in tokens.items() if n > 1]
    uncounted = sum(
        _was_closed(one, other, evidence) or _was_forgotten(order, one, evidence) for one, other in pairwise(in_order)
    )
    if len(in_order) > order.attempts + uncounted:
        verdict.begun_too_often += 1
        told = "; ".join(map(_told, in_order))
        verdict.broken.append(f"{order.id} was begun {len(in_order)} times with {order.attempts} attempts: {told}")


def _was_closed(one: Run, other: Run, evidence: Evidence) -> bool:
    """Tell whether a run's node was stopped and closed it: that is no attempt."""
    return one.claimed is not None and any(
        hit.kind is FaultKind.NODE_CLOSES
        and hit.target == one.claimed.node
        and hit.span.overlaps(one.claimed_at, other.began_at)
        for hit in evidence.hits
    )


def _was_forgotten(order: Order, run: Run, evidence: Evidence) -> bool:
    """Tell whether Redis came back without a run's claim, and its node was not there to say so in time.

    A lease is waited for nodes before a last attempt is begun, and half of one before others are.
    """
    claimed = run.claimed
    if claimed is None:
        return False
    waits_s = evidence.lease_s * (1 if claimed.attempt == order.attempts else 0.5)
    return _was_untold(claimed.node, claimed.at, evidence, waits_s=waits_s)


def _was_outcome_forgotten(job_id: JobId, evidence: Evidence) -> bool:
    """Tell whether Redis came back without a job's outcome, and its node was not there to tell it again in time.

    That a job is lost is found by others: its node, back meanwhile, may know better.
    """
    return any(
        _was_untold(each.node, each.end, evidence, waits_s=0 if each.after is JobState.LOST else evidence.lease_s)
        for each in evidence.seen.tenures
        if each.job == job_id and each.after is not None and each.after.is_final
    )


def _was_untold(node: NodeName, at: float, evidence: Evidence, *, waits_s: float) -> bool:
    """Tell whether Redis forgot what was told at a time, and the node died, or was not heard for so long after that."""
    for hit in evidence.hits:
        since = hit.rolled_back_to
        if since is None or not since - _CLOCK_SLACK_S <= at <= hit.span.end + _CLOCK_SLACK_S:
            continue
        heard_at = min((each for each in evidence.seen.beats[node] if each >= hit.span.begin), default=float("inf"))
        deaths = [each.span for each in evidence.hits if (each.kind, each.target) == (FaultKind.MACHINE_DIES, node)]
        if heard_at > hit.span.end + waits_s - _CLOCK_SLACK_S or any(span.overlaps(at, heard_at) for span in deaths):
            return True
    return False


def _told(run: Run) -> str:
    return f"process {run.pid} under {run.token} from {run.began_at:.2f}"


def _check_requeues(evidence: Evidence, verdict: Verdict) -> None:
    bound_to = {order.id: order.on for order in evidence.orders}
    for hit in evidence.hits:
        if hit.kind is not FaultKind.MACHINE_DIES:
            continue
        for held in hit.jobs:
            took_s = _requeue_s(hit, held, evidence, on=bound_to.get(held.job))
            if took_s is None:
                continue
            verdict.requeues.append(took_s)
            if took_s > evidence.lease_s + evidence.slack_s:
                verdict.broken.append(f"{held.job} was taken from {hit.target} only {took_s:.2f} s after its death")


def _requeue_s(hit: Hit, held: Tenure, evidence: Evidence, *, on: NodeName | None) -> float | None:
    """Return the seconds from a machine's death to the next claim of its job, as far as there was a slot for it.

    Where there was none, to the end of the dead claim; `None` when Redis was away, or full, meanwhile. A job for one
    node has slots there only.
    """
    seen, killed_at = evidence.seen, hit.span.begin
    own = next((each for each in seen.tenures if each.token == held.token), None)
    # What had ended, or was taken from it, before its death does not count.
    if own is None or own.end <= killed_at or own.after in _ITS_OWN_ENDS:
        return None
    again = min((each.begin for each in seen.tenures if each.job == held.job and each.begin > own.end), default=None)
    looks = [look for look in seen.looks if own.end <= look.at <= (again or own.end)]
    # Only an uninterrupted choice of slots shows that the job itself was late.
    had_room = again is not None and all(on in look.free if on else look.free for look in looks)
    ends_at = again if again is not None and had_room else own.end
    disturbed = (*seen.outages, *(each.span for each in evidence.hits if each.target == REDIS))
    if any(span.overlaps(killed_at - _SETTLING_S, ends_at) for span in disturbed):
        return None
    return ends_at - killed_at


def _count_needless_losses(evidence: Evidence, losses: Mapping[NodeName, Sequence[Span]], verdict: Verdict) -> None:
    for node, spans in losses.items():
        for span in spans:
            if not any(hit.target == node and hit.span.overlaps(span.begin, span.end) for hit in evidence.hits):
                verdict.lost_without_fault += 1
