"""Judges which nodes lack a release or hold what nobody knows, and what killed deploys and rollouts have left. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from toolkit.cluster.attention import find_strays
from toolkit.cluster.membership import PLUG_IN
from toolkit.doctor.cluster import ClusterEvidence
from toolkit.doctor.judged import ERROR, NOTE, WARNING, BringEgg, Judged, RemoveStrays, WithdrawOffer, found, named
from toolkit.model.names import ProjectName, VersionName
from toolkit.model.nodes import NodeRecord
from toolkit.model.rollouts import RolloutState, is_left
from toolkit.model.snapshot import NodeState, NodeStatus

LONG = timedelta(hours=1)
_UNSIGNED = "is not signed"


def judge_eggs(evidence: ClusterEvidence, *, has_eggs: bool) -> list[Judged]:
    """Say where eggs are missing, left over or stuck; with `has_eggs` the store keeps them, to bring from there."""
    return [
        *_missing(evidence, has_eggs=has_eggs),
        *_judge_rollouts(evidence),
        *_judge_strays(evidence),
        *_judge_offers(evidence),
        *_judge_locks(evidence),
    ]


def _judge_strays(evidence: ClusterEvidence) -> Iterator[Judged]:
    is_open = {rollout.project for rollout in evidence.rollouts}
    for project, known in sorted(evidence.known.versions.items()):
        strays = [] if project in is_open else find_strays(evidence.snapshot.nodes, {project: known})
        for each in strays:
            text = f"{each.message}; nothing runs them unless it names them"
            yield found("egg-stray", NOTE, text, command=each.command, remedy=RemoveStrays(project))


def _judge_offers(evidence: ClusterEvidence) -> Iterator[Judged]:
    by_project: dict[ProjectName, list[VersionName]] = {}
    for release in evidence.offered:
        by_project.setdefault(release.project, []).append(release.version)
    for project, versions in sorted(by_project.items()):
        text = f"{project} {named(versions)} is still on offer to the nodes, and no deploy is under way: it was killed"
        command = "crawlctl doctor --fix --only release-offered"
        yield found("release-offered", WARNING, text, command=command, remedy=WithdrawOffer(project))


def _judge_locks(evidence: ClusterEvidence) -> Iterator[Judged]:
    for lock in evidence.locks:
        since = evidence.known.now - lock.since
        if since >= LONG:
            text = f"{lock.project} has been locked by {lock.who} for {since.total_seconds() / 3600:.1f} h: {lock.why}"
            yield found("lock-held", WARNING, text, command=f"crawlctl releases -p {lock.project} --history")


def _judge_rollouts(evidence: ClusterEvidence) -> Iterator[Judged]:
    holders = {lock.project: lock for lock in evidence.locks}
    for rollout in evidence.rollouts:
        what = f"the rollout {rollout.id} of {rollout.project} {rollout.version}"
        command = f"crawlctl rollouts resume {rollout.id}"
        if is_left(rollout, holders.get(rollout.project)):
            text = f"{what} was left by {rollout.who}, whose command was killed: finish it, or undo it"
            yield found("rollout-unfinished", ERROR, text, command=command)
        elif rollout.state is RolloutState.HELD:
            text = f"{what} by {rollout.who} is held{f': {rollout.why}' if rollout.why else ''}"
            yield found("rollout-unfinished", WARNING, text, command=command)


def _missing(evidence: ClusterEvidence, *, has_eggs: bool) -> Iterator[Judged]:
    records = evidence.records
    for status in evidence.snapshot.nodes:
        record = records.get(status.name)
        for project, version, why in _lacking(status, record, evidence):
            name = status.name
            reason = f": {why}" if why else ""
            text = f"does not hold {project} {version}, which is active{reason}: it gets none of its jobs"
            is_unsigned = _UNSIGNED in why
            is_ours = has_eggs and name in evidence.listed and not is_unsigned
            command = "crawlctl deploy" if record is None else f"crawlctl nodes show {name}"
            if is_unsigned:
                command = f"crawlctl keys sign {version} -p {project}"
            remedy = BringEgg(name, project, version) if is_ours else None
            yield found("egg-missing", ERROR, text, node=name, command=command, remedy=remedy)


def _lacking(
    status: NodeStatus, record: NodeRecord | None, evidence: ClusterEvidence
) -> Iterator[tuple[ProjectName, VersionName, str]]:
    """Yield each active release that the node is known to lack; of one that did not answer, nothing is known."""
    if status.state in {NodeState.LOST, NodeState.UNREACHABLE, NodeState.UNAUTHORIZED} or status.projects is None:
        return
    if status.kind == PLUG_IN and record is None:
        return
    for project, release in sorted(evidence.known.active.items()):
        if release.version not in status.projects.get(project, ()):
            why = "" if record is None else record.report.behind.get(f"{project} {release.version}", "")
            yield project, release.version, _last_line(why)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
