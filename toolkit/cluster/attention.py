"""What an operator should look at: pure decisions on what the nodes, the registry and the queue have just said."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from toolkit.cluster.membership import PLUG_IN
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.nodes import NodeRecord, lacking
from toolkit.model.queue import Line, stuck
from toolkit.model.redis_health import RedisHealth
from toolkit.model.snapshot import Attention, NodeState, NodeStatus

MAX_NAMED = 3
LOST_IN_A_DAY = "lost_day"
PENDING_JOBS = "crawlctl jobs list --state pending"


def find_attention(
    statuses: Sequence[NodeStatus],
    active: Mapping[ProjectName, VersionName],
    *,
    without_password: Sequence[NodeName],
    just_scheduled: Collection[NodeName],
) -> list[Attention]:
    """Say what an operator should look at of stock nodes, the worst first. Pure.

    A node that was given a job a moment ago is not yet blamed for not running it: stock Scrapyd looks every 5 s.
    """
    found: list[Attention] = []
    for state, one, many in (
        (NodeState.UNREACHABLE, "cannot be reached", "cannot be reached"),
        (NodeState.UNAUTHORIZED, "refuses our credentials", "refuse our credentials"),
    ):
        if names := [node.name for node in statuses if node.state is state]:
            found.append(_about(state.value, names, one=one, many=many))
    if without_password:
        found.append(
            _about(
                "open",
                without_password,
                one="runs anybody's code: it asks for no password",
                many="run anybody's code: they ask for no password",
                command="set username and password in its scrapyd.conf",
            )
        )
    live = [node for node in statuses if node.state is NodeState.LIVE and node.kind != PLUG_IN]
    for project, version in sorted(active.items()):
        behind = [node.name for node in live if version not in (node.projects or {}).get(project, ())]
        if behind:
            found.append(_not_holding(behind, f"{project} {version}", "crawlctl deploy"))
    idle = (node.name for node in live if node.pending and not node.running)
    if waiting := [name for name in idle if name not in just_scheduled]:
        what = {"one": "has jobs pending and runs none", "many": "have jobs pending and run none"}
        found.append(_about("waiting", waiting, **what, command=PENDING_JOBS))
    return found


def find_strays(
    statuses: Sequence[NodeStatus], versions: Mapping[ProjectName, frozenset[VersionName]]
) -> list[Attention]:
    """Name the nodes with versions that no release knows: left by a killed deploy, or brought by others. Pure."""
    found = []
    for project, known in sorted(versions.items()):
        names = [node.name for node in statuses if set((node.projects or {}).get(project, ())) - known]
        if names:
            what = f"versions of {project} that no release knows"
            command = f"crawlctl prune -p {project} --strays --dry-run"
            found.append(_about("stray", names, one=f"holds {what}", many=f"hold {what}", command=command))
    return found


def find_alerts(firing: Mapping[str, Sequence[str]]) -> list[Attention]:
    """Name the rules of alerts that fire, and for what. Pure."""
    found = []
    for rule, subjects in sorted(firing.items()):
        some = ", ".join(subjects[:MAX_NAMED]) + (", …" if len(subjects) > MAX_NAMED else "")
        found.append(Attention("alert", f"{rule} fires for {some}", command=f"crawlctl alerts show {rule}"))
    return found


def find_redis_attention(health: RedisHealth) -> list[Attention]:
    """Say why the Redis refuses changes, or will soon: then nothing begins, and no worker is rid of its work. Pure."""
    found = [] if (trouble := health.memory_trouble) is None else [trouble]
    if health.is_last_append_ok is False or health.is_last_snapshot_ok is False:
        found.append("could not write to its disk the last time: it refuses every change, or will")
    return [Attention("redis", f"the Redis at {health.place} {each}", command="crawlctl doctor") for each in found]


def find_plug_in_attention(
    records: Sequence[NodeRecord],
    active: Mapping[ProjectName, VersionName],
    *,
    counts: Mapping[str, int],
    lines: Sequence[Line],
) -> list[Attention]:
    """Say what an operator should look at of plug-in nodes and their queue, the worst first. Pure."""
    found: list[Attention] = []
    clashing = [record for record in records if record.clash]
    for each in clashing:
        what = f"is claimed by another node: {each.clash}"
        found.append(_about("clash", [each.name], one=what, many=what, command="give the other one another node_name"))
    for state, one, many in _STATES:
        if names := [record.name for record in records if record.state is state]:
            found.append(_about(state.value, names, one=one, many=many, command="crawlctl nodes list"))
    present = [record for record in records if record.state is not NodeState.LOST]
    found += _unfit((record, record.report.unfit) for record in present)
    found += _behind(present, active)
    if names := [record.name for record in records if record.is_draining]:
        resume = f"crawlctl nodes resume {' '.join(names) if len(names) <= MAX_NAMED else 'NAME...'}"
        found.append(_about("draining", names, one="takes no new job", many="take no new job", command=resume))
    if count := counts.get(LOST_IN_A_DAY, 0):
        what = f"{count} jobs were lost in the last day: their nodes went away"
        if count == 1:
            what = "1 job was lost in the last day: its node went away"
        found.append(Attention("jobs_lost", what, command="crawlctl jobs list --state lost"))
    return found + _waiting_for_nobody(records, lines)


_STATES = (
    (NodeState.LOST, "gives no sign of life any more", "give no sign of life any more"),
    (NodeState.STALE, "has missed heartbeats", "have missed heartbeats"),
)


def _behind(records: Sequence[NodeRecord], active: Mapping[ProjectName, VersionName]) -> list[Attention]:
    """Name who lacks what: an active release, or anything that the node says itself that it should hold."""
    behind: dict[tuple[str, str], list[NodeName]] = {}
    for record in records:
        for each in lacking(record.report, active).items():
            behind.setdefault(each, []).append(record.name)
    return [
        _not_holding(names, f"{release}{why and f': {why}'}", f"crawlctl nodes show {names[0]}")
        for (release, why), names in sorted(behind.items())
    ]


def _unfit(reasons: Iterable[tuple[NodeRecord, str | None]]) -> list[Attention]:
    names: dict[str, list[NodeName]] = {}
    for record, reason in reasons:
        if reason:
            names.setdefault(reason, []).append(record.name)
    return [
        _about(
            "unfit",
            group,
            one=f"takes no job: {reason}",
            many=f"take no job: {reason}",
            command=f"crawlctl nodes show {group[0]}",
        )
        for reason, group in names.items()
    ]


def _waiting_for_nobody(records: Sequence[NodeRecord], lines: Sequence[Line]) -> list[Attention]:
    """Name the lines of the queue that no node there can serve, whatever it runs now."""
    if not lines:
        return []
    takers = [record.report for record in records if record.may_take]
    if not takers:
        return [Attention("waiting", "jobs are pending, and no node is there to take them", command=PENDING_JOBS)]
    names = [f"{line.spider} of {line.project} {line.version}" for line in stuck(lines, takers)]
    if not names:
        return []
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    message = f"no node may take the pending jobs of {', '.join(names[:MAX_NAMED])}{more}"
    return [Attention("waiting", message, command=PENDING_JOBS)]


def _not_holding(names: Sequence[NodeName], release: str, command: str) -> Attention:
    return _about("behind", names, one=f"does not hold {release}", many=f"do not hold {release}", command=command)


def _about(kind: str, names: Sequence[NodeName], *, one: str, many: str, command: str | None = None) -> Attention:
    """Say of these nodes what is said of one, or of many of them."""
    what, more = one if len(names) == 1 else many, len(names) - MAX_NAMED
    some = ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    return Attention(kind, f"{some} {what}", tuple(names), command)
