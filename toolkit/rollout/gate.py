"""The gate behind a wave: whether what was found lets the next one begin. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toolkit.model.jobs import Job, JobState
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.nodes import NodeRecord
from toolkit.model.releases import LATER, NodeResult
from toolkit.model.rollouts import SmokeCheck, WaveRollout
from toolkit.model.snapshot import NodeState
from toolkit.rollout.push import HELD

GATE = "gate"
"""The step of a node that took the release and was not well afterwards."""

FINISHED = "finished"
_SOME = 3


def failure_of(rollout: WaveRollout, at: int) -> str | None:
    """Say why the wave in this place does not pass, or `None` when it does.

    It fails when no node that is there took the release, when more nodes than allowed have failed so far, accepted
    waves aside, or when its smoke job did not end well.
    """
    wave = rollout.waves[at]
    present = [each for each in wave.results if each.step != LATER]
    if present and not any(each.is_proven for each in present):
        return f"no node of the wave took it: {_told(present)}"
    counted = [each for each in rollout.waves[: at + 1] if not each.is_accepted]
    tried = [result for each in counted for result in each.results]
    failed = [result for result in tried if not result.ok]
    allowed = rollout.rules.failures
    if not allowed.allows(len(failed), tried=len(tried)):
        return f"{len(failed)} of {len(tried)} node(s) failed, more than the {allowed} allowed: {_told(failed)}"
    if wave.smoke is not None and wave.smoke.error is not None:
        return f"the check on {wave.smoke.node} failed: {wave.smoke.error}"
    return None


def looked_at(results: Sequence[NodeResult], problems: Mapping[NodeName, str]) -> tuple[NodeResult, ...]:
    """Return the results as they are after a look at the nodes that took the release: well, or with a problem."""
    return tuple(_looked_at(result, problems.get(result.node)) for result in results)


def problem_of(record: NodeRecord | None, project: ProjectName, version: VersionName) -> str | None:
    """Say what is wrong with a plug-in node that took the release, by its own report."""
    if record is None:
        return "it was forgotten"
    if record.state not in {NodeState.LIVE, NodeState.DRAINING}:
        return f"it is {record.state.value}, {record.age_s:.0f} s without a sign of life"
    if record.clash is not None:
        return f"another node claims its name: {record.clash}"
    if record.report.unfit is not None:
        return f"it takes no job: {record.report.unfit}"
    if version not in record.report.versions.get(project, ()):
        return f"it no longer holds {version}"
    return None


def smoke_failure(job: Job, check: SmokeCheck) -> str | None:
    """Say why an ended smoke job proves nothing, or `None`: it came to its own end, with enough items."""
    if job.state is not JobState.FINISHED or job.finish_reason != FINISHED:
        how = job.finish_reason or job.reason or "nobody knows why"
        return f"the job {job.id} of {check.spider} ended as {job.state.value} ({how}), not with reason finished"
    if check.min_items and (job.items is None or job.items < check.min_items):
        found = "an unknown number of" if job.items is None else job.items
        return f"the job {job.id} of {check.spider} brought {found} items, fewer than {check.min_items}"
    return None


def _looked_at(result: NodeResult, problem: str | None) -> NodeResult:
    if problem is not None and result.is_proven:
        return replace(result, ok=False, step=GATE, error=problem)
    if problem is None and result.step == GATE:
        return replace(result, ok=True, step=HELD, error=None)
    return result


def _told(results: Sequence[NodeResult]) -> str:
    told = "; ".join(f"{each.node}: {each.step}: {each.error}" for each in results[:_SOME])
    return told if len(results) <= _SOME else f"{told}; and {len(results) - _SOME} more"
