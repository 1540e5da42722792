"""All that was seen of a cluster, source by source, and what was not; the judges are called from here. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from toolkit.doctor.checks import CHECKS, Source, in_order
from toolkit.doctor.cluster import ClusterEvidence, judge_cluster
from toolkit.doctor.drift import DriftEvidence, judge_drift
from toolkit.doctor.eggs import judge_eggs
from toolkit.doctor.host_health import JobsKnown, judge_host, judge_way_in
from toolkit.doctor.hosts import HostEvidence
from toolkit.doctor.inventory import FileEvidence, judge_files
from toolkit.doctor.jobs import judge_jobs
from toolkit.doctor.judged import ERROR, Judged, found, named, worst_first
from toolkit.doctor.names import Resolved, is_loopback, judge_names
from toolkit.doctor.nodes import NodeEvidence, judge_nodes
from toolkit.doctor.redis import judge_redis, unseen_of
from toolkit.doctor.software import Software, judge_software, of_host
from toolkit.model.errors import CrawlctlError
from toolkit.model.findings import Diagnosis
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName
from toolkit.model.redis_health import RedisHealth
from toolkit.store.address import RedisAddress


@dataclass(slots=True)
class Evidence:
    """What the looks have found until now; each source writes its own fields only.

    `done` are the sources that were looked at to their end. `unseen` says in words what was not.
    """

    hosts: tuple[Host, ...]
    redis_address: RedisAddress | None = None
    files: FileEvidence | None = None
    names: dict[str, Resolved] = field(default_factory=dict)
    redis: RedisHealth | None = None
    redis_error: CrawlctlError | None = None
    cluster: ClusterEvidence | None = None
    software: dict[NodeName, Software] = field(default_factory=dict)
    nodes: dict[NodeName, NodeEvidence] = field(default_factory=dict)
    by_ssh: dict[NodeName, HostEvidence] = field(default_factory=dict)
    ssh_errors: dict[NodeName, CrawlctlError] = field(default_factory=dict)
    drift: dict[NodeName, DriftEvidence] = field(default_factory=dict)
    jobs: JobsKnown = field(default_factory=JobsKnown)
    done: set[Source] = field(default_factory=set)
    unseen: list[str] = field(default_factory=list)


def judge(evidence: Evidence, *, now: datetime) -> list[Judged]:
    """Return everything that is wrong, the worst first; `now` is this machine's time."""
    records = {} if evidence.cluster is None else evidence.cluster.records
    judged = [*_judge_here(evidence), *_judge_redis(evidence), *_judge_cluster(evidence), *_judge_hosts(evidence)]
    judged += judge_nodes(evidence.nodes, records, now=now)
    return worst_first(judged)


def diagnosis(evidence: Evidence, judged: list[Judged], *, checks: Collection[str]) -> Diagnosis:
    """Return the findings of the wanted checks, which of these were made, and what was not seen."""
    findings = tuple(each.finding for each in judged if each.finding.check in checks)
    done = evidence.done | ({Source.SOFTWARE} if evidence.software or evidence.by_ssh else set())
    made = in_order(name for name in checks if CHECKS[name].source in done)
    refused = () if evidence.redis is None else unseen_of(evidence.redis)
    of_cluster = () if evidence.cluster is None else evidence.cluster.unseen
    unseen = [*evidence.unseen, *refused, *of_cluster, *_not_reached(evidence)]
    return Diagnosis(findings, made, tuple(dict.fromkeys(unseen)))


def _not_reached(evidence: Evidence) -> Iterator[str]:
    """Name those of whom nothing but that is known."""
    names = [host.name for host in evidence.hosts]
    if silent := [name for name in names if name in evidence.nodes and evidence.nodes[name].load is None]:
        yield f"how {named(silent)} would answer: not reached over HTTP, or not let in"
    if away := [name for name in names if name in evidence.ssh_errors]:
        yield f"what is on {named(away)}: could not be looked at over SSH"


def _judge_here(evidence: Evidence) -> Iterator[Judged]:
    """Judge what this machine tells: files and names."""
    if evidence.files is not None:
        # Of a node that was seen to let everybody in, that is what is told.
        open_ones = {name for name, each in evidence.nodes.items() if each.is_open}
        yield from judge_files(evidence.files, [host for host in evidence.hosts if host.name not in open_ones])
    address = evidence.redis_address
    redis_hosts = () if address is None else tuple(name for name, _ in address.hosts)
    yield from judge_names(
        evidence.hosts,
        evidence.names,
        redis_hosts=redis_hosts,
        is_redis_plain=address is not None and address.tls is None,
    )


def _judge_redis(evidence: Evidence) -> Iterator[Judged]:
    address, error = evidence.redis_address, evidence.redis_error
    if error is not None:
        way_out = f" ({error.hint})" if error.hint else ""
        command = "crawlctl up" if address is not None and _is_here(address) else "crawlctl docs runbook"
        yield found("redis-unreachable", ERROR, f"{error.message}{way_out}", command=command)
    if evidence.redis is not None and address is not None:
        yield from judge_redis(evidence.redis, is_of_this_machine=_is_here(address))


def _judge_cluster(evidence: Evidence) -> Iterator[Judged]:
    cluster = evidence.cluster
    if cluster is None:
        return
    if cluster.known.error is not None and evidence.redis_address is None:
        yield found("store-unreachable", ERROR, cluster.known.error.message, command="crawlctl docs runbook")
    yield from judge_cluster(cluster, looked_at=frozenset(evidence.by_ssh))
    yield from judge_eggs(cluster, has_eggs=evidence.redis_address is not None)
    yield from judge_jobs(cluster.jobs, now=cluster.known.now)


def _judge_hosts(evidence: Evidence) -> Iterator[Judged]:
    for host in evidence.hosts:
        if (error := evidence.ssh_errors.get(host.name)) is not None:
            yield judge_way_in(host, error)
    ahead_s = None if evidence.redis is None else evidence.redis.clock_ahead_s
    address = evidence.redis_address
    leads_to = {each for name, _ in (address.hosts if address else ()) for each in _addresses(evidence, name)}
    for each in evidence.by_ssh.values():
        yield from judge_host(each, redis_ahead_s=ahead_s, redis_addresses=sorted(leads_to), jobs=evidence.jobs)
    hosts = {name: of_host(each, evidence.software.get(name)) for name, each in evidence.by_ssh.items()}
    yield from judge_software([each for each in {**evidence.software, **hosts}.values() if each is not None])
    for drift in evidence.drift.values():
        yield from judge_drift(drift)


def _addresses(evidence: Evidence, name: str) -> tuple[str, ...]:
    return evidence.names[name].addresses if name in evidence.names else ()


def _is_here(address: RedisAddress) -> bool:
    """Tell whether only this machine can reach it there."""
    return address.socket_path is not None or all(is_loopback(name) for name, _ in address.hosts)
