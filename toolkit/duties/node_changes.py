"""What nodes' states, held against those that were last told, make worth an event. Pure decisions.

Watched is `node:<name>` (live, stale or lost) and `behind:<name>` (since when it lacks a release, or what was told).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolkit.model.events import Change, Event, EventKind
from toolkit.model.names import ProjectName, VersionName
from toolkit.model.nodes import NodeRecord, lacking
from toolkit.model.snapshot import NodeState

NODE, BEHIND = "node:", "behind:"
BEHIND_AFTER_S = 30.0
"""How long a node may lack a release before that is told: so long may it be on its way."""

_LIVE, _STALE, _LOST = NodeState.LIVE.value, NodeState.STALE.value, NodeState.LOST.value
_SINCE, _TOLD = "since ", "told "


def node_changes(records: Sequence[NodeRecord], states: Mapping[str, str], *, is_in_grace: bool) -> list[Change]:
    """Say which nodes went stale, were lost, or live again. Pure.

    A node that is first seen lost is remembered, and no news; in a time of grace nobody's silence counts.
    """
    changes = []
    for record in records:
        before, now = states.get(NODE + record.name, ""), _standing(record)
        is_silent = now != _LIVE
        # One that is lost and stale now has given a sign and missed others: it is back when it lives.
        if before == now or (is_silent and is_in_grace) or (before == _LOST and is_silent):
            continue
        event = None if is_silent and not before else _event(record, now, before)
        changes.append(Change(NODE + record.name, now, event, was=before))
    return changes


def behind_changes(
    records: Sequence[NodeRecord],
    active: Mapping[ProjectName, VersionName],
    states: Mapping[str, str],
    *,
    now_ms: int,
) -> list[Change]:
    """Say which nodes that are there have lacked a release for `BEHIND_AFTER_S` seconds. Pure."""
    changes = []
    for record in records:
        missing = {} if record.state is NodeState.LOST else lacking(record.report, active)
        if not missing:
            continue
        name, before = BEHIND + record.name, states.get(BEHIND + record.name, "")
        now = f"{_TOLD}{', '.join(missing)}"
        told = before.removeprefix(_TOLD).split(", ") if before.startswith(_TOLD) else None
        if told is None and not _is_long_ago(before, now_ms):
            if not before:
                changes.append(Change(name, f"{_SINCE}{now_ms}", was=""))
        elif before != now:
            fresh = {release: why for release, why in missing.items() if release not in (told or ())}
            changes.append(Change(name, now, _behind_event(record, fresh) if fresh else None, was=before))
    return changes


def unwatched(
    records: Sequence[NodeRecord], active: Mapping[ProjectName, VersionName], states: Mapping[str, str]
) -> list[str]:
    """Return what need not be watched any more: nodes that were forgotten, and lacks that are made good. Pure."""
    known = {NODE + record.name for record in records}
    known |= {
        BEHIND + record.name for record in records if record.state is NodeState.LOST or lacking(record.report, active)
    }
    return [name for name in states if name.startswith((NODE, BEHIND)) and name not in known]


def _standing(record: NodeRecord) -> str:
    return {NodeState.STALE: _STALE, NodeState.LOST: _LOST}.get(record.state, _LIVE)


def _event(record: NodeRecord, now: str, before: str) -> Event:
    report = record.report
    about = {"node": report.name, "address": report.address}
    if now == _LIVE:
        return Event(EventKind.NODE_BACK, report.name, {**about, "was": before or "new"})
    about |= {"silent_s": f"{record.age_s:.1f}", "lease_s": f"{report.lease_s:g}", "running": str(report.running)}
    return Event(EventKind.NODE_LOST if now == _LOST else EventKind.NODE_STALE, report.name, about)


def _behind_event(record: NodeRecord, missing: Mapping[str, str]) -> Event:
    reasons = "; ".join(dict.fromkeys(_reasons(missing)))
    about = {"node": record.name, "releases": ", ".join(missing), **({"reason": reasons} if reasons else {})}
    return Event(EventKind.NODE_BEHIND, record.name, about)


def _reasons(missing: Mapping[str, str]) -> Iterator[str]:
    return (why for why in missing.values() if why)


def _is_long_ago(before: str, now_ms: int) -> bool:
    since = before.removeprefix(_SINCE)
    return since.isdecimal() and now_ms - int(since) >= BEHIND_AFTER_S * 1000
