"""Looks at everything at once, each source in a thread of its own and for a bounded time; changes nothing.

What was not seen by then is said, and never counts as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from toolkit.cluster.fanout import fan_out
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import ScrapydNode
from toolkit.config.inventory import Inventory
from toolkit.doctor.checks import Source, sources_of
from toolkit.doctor.cluster import look_at_cluster
from toolkit.doctor.drift import Drift, DriftEvidence
from toolkit.doctor.evidence import Evidence
from toolkit.doctor.host_health import JobsKnown, orphans
from toolkit.doctor.hosts import HostEvidence, look_at_host, redis_of
from toolkit.doctor.inventory import look_at_files
from toolkit.doctor.judged import named
from toolkit.doctor.names import Resolved, names_of, resolve
from toolkit.doctor.nodes import NodeEvidence, look_at_node
from toolkit.doctor.software import Software, ask_software, of_record
from toolkit.model.errors import CrawlctlError
from toolkit.model.hosts import Host
from toolkit.model.names import JobId, NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.model.outcomes import Outcome
from toolkit.model.snapshot import NodeState
from toolkit.provision.everywhere import everywhere
from toolkit.provision.remote import Connect, Remote
from toolkit.store.address import RedisAddress, parse_address
from toolkit.store.interfaces import Shared, Store

DNS_WITHIN_S = 10.0
PARALLEL_HOSTS = 64
PARALLEL_QUESTIONS = 64
LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Patient:
    """What is looked at: some hosts of an inventory, or all of them (`is_whole`), and how they and the store are asked.

    `nodes` are the clients of just these hosts. Without `connect` nothing is asked over SSH.
    """

    inventory: Inventory
    hosts: tuple[Host, ...]
    nodes: Nodes
    open_store: Callable[[], Store]
    connect: Connect | None
    state_folder: Path
    is_whole: bool = True

    @property
    def reached_by_ssh(self) -> tuple[Host, ...]:
        """The hosts that are other machines."""
        return tuple(host for host in self.hosts if not host.is_local)


class Examination:
    """One look at everything: `progress` says how far it is, also from another thread."""

    def __init__(self, patient: Patient, *, checks: Collection[str], timeout_s: float) -> None:
        self.evidence = Evidence(patient.hosts, _redis_address(patient.inventory))
        self._patient = patient
        self._timeout_s = timeout_s
        self._ends_at = time.monotonic() + timeout_s
        self._store_lock = threading.Lock()
        self._questions = threading.BoundedSemaphore(PARALLEL_QUESTIONS)
        self._bugs: list[BaseException] = []
        wanted = sources_of(checks)
        self._wants_drift = Source.DRIFT in wanted
        self._looks = {source: look for source, look in self._all_looks().items() if source in wanted}
        if {Source.HOSTS, Source.DRIFT} & wanted and patient.reached_by_ssh and patient.connect is None:
            self.evidence.unseen.append(f"{Source.HOSTS.value}: --no-ssh")

    def run(self) -> Evidence:
        """Look, and return what was found by the end of the time."""
        threads = {source: threading.Thread(target=self._look, args=(source,), daemon=True) for source in self._looks}
        for thread in threads.values():
            thread.start()
        while any(thread.is_alive() for thread in threads.values()) and time.monotonic() < self._ends_at:
            time.sleep(LOOK_EVERY_S)
            if self._bugs:
                raise self._bugs[0]
        late = [source for source, thread in threads.items() if thread.is_alive()]
        self.evidence.unseen += [f"{source.value}: not all within {self._timeout_s:g} s" for source in late]
        # A thread that is late goes on writing to its own; what is judged stays as it is now.
        return _frozen(self.evidence)

    def progress(self) -> str:
        """Say how far the looks are."""
        evidence, patient = self.evidence, self._patient
        parts = []
        if Source.NODES in self._looks:
            parts.append(f"nodes {len(evidence.nodes)} of {len(patient.hosts)}")
        if Source.HOSTS in self._looks:
            seen = len(evidence.by_ssh) + len(evidence.ssh_errors)
            parts.append(f"hosts over SSH {seen} of {len(patient.reached_by_ssh)}")
        return f"looking: {', '.join(parts)}" if parts else "looking"

    def _all_looks(self) -> dict[Source, Callable[[], None]]:
        patient = self._patient
        looks: dict[Source, Callable[[], None]] = {
            Source.FILES: self._look_at_files,
            Source.NAMES: self._look_at_names,
            Source.CLUSTER: self._look_at_cluster,
            Source.NODES: self._look_at_nodes,
        }
        if patient.inventory.redis is not None:
            looks[Source.REDIS] = self._look_at_redis
        if patient.connect is not None and patient.reached_by_ssh:
            looks[Source.HOSTS] = self._look_at_hosts
        return looks

    def _look(self, source: Source) -> None:
        try:
            self._looks[source]()
            self.evidence.done.add(source)
        except CrawlctlError as error:
            self.evidence.unseen.append(f"{source.value}: {error.message}")
        except BaseException as error:  # noqa: BLE001 - a bug must reach the caller, not die in this thread
            self._bugs.append(error)

    def _store(self) -> Store:
        with self._store_lock:
            return self._patient.open_store()

    def _look_at_files(self) -> None:
        self.evidence.files = look_at_files(self._patient.inventory, self._patient.hosts)

    def _look_at_names(self) -> None:
        address = self.evidence.redis_address
        redis_hosts = [] if address is None else [name for name, _ in address.hosts]
        names = [_Name(NodeName(name)) for name in names_of(self._patient.hosts, redis_hosts)]
        told = fan_out(
            names, lambda each: resolve(each.name), deadline_s=lambda _: DNS_WITHIN_S, on_done=self._resolved
        )
        if late := [outcome.node for outcome in told.failed]:
            self.evidence.unseen.append(f"where {named(late)} leads: no answer within {DNS_WITHIN_S:g} s")

    def _resolved(self, outcome: Outcome[Resolved]) -> None:
        if outcome.value is not None:
            self.evidence.names[outcome.value.name] = outcome.value

    def _look_at_redis(self) -> None:
        # Loading the redis library takes 0.1 s, and not every cluster has one.
        from toolkit.store.redis_health import read_health  # noqa: PLC0415 - late

        if self._patient.inventory.redis is None:
            return
        try:
            self.evidence.redis = read_health(self._patient.inventory.redis)
        except CrawlctlError as error:
            self.evidence.redis_error = error

    def _look_at_cluster(self) -> None:
        patient = self._patient
        listed = frozenset(host.name for host in patient.inventory.hosts)
        cluster = look_at_cluster(patient.nodes, self._store, listed=listed, is_whole=patient.is_whole)
        self.evidence.cluster = cluster
        if cluster.known.error is not None:
            raise cluster.known.error
        self._ask_software(cluster.chosen_records)

    def _ask_software(self, records: Collection[NodeRecord]) -> None:
        self.evidence.software.update({record.name: of_record(record) for record in records})
        shared = self._store().shared
        living = [record for record in records if record.state is not NodeState.LOST]
        if shared is None or not living:
            return
        told = fan_out(living, partial(self._software_of, shared), on_done=self._software_told)
        if silent := [outcome.node for outcome in told.failed]:
            self.evidence.unseen.append(f"all packages of {named(silent)}: {told.failed[0].error}")

    def _software_of(self, shared: Shared, record: NodeRecord) -> Software:
        # Each question that waits has a connection to Redis.
        with self._questions:
            return ask_software(shared, record)

    def _software_told(self, outcome: Outcome[Software]) -> None:
        if outcome.value is not None:
            self.evidence.software[outcome.node] = outcome.value

    def _look_at_nodes(self) -> None:
        told = self._patient.nodes.ask(look_at_node, calls=3, on_done=self._node_told)
        if late := [outcome.node for outcome in told.failed]:
            self.evidence.unseen.append(f"the answers of {named(late)}: {told.failed[0].error}")

    def _node_told(self, outcome: Outcome[NodeEvidence]) -> None:
        if outcome.value is not None:
            self.evidence.nodes[outcome.node] = outcome.value

    def _look_at_hosts(self) -> None:
        patient, address = self._patient, self.evidence.redis_address
        shared = address.hosts[0] if address is not None and address.hosts and address.service is None else None
        if patient.connect is None:
            return
        drift = Drift(patient.inventory, patient.state_folder)
        try:
            everywhere(
                patient.reached_by_ssh,
                patient.connect,
                lambda remote, _: self._look_at_host(remote, redis_of(remote.host, shared), drift),
                parallel=PARALLEL_HOSTS,
                on_done=self._host_told,
            )
        finally:
            drift.close()
        self.evidence.jobs = self._jobs_of_orphans()
        self.evidence.done.add(Source.DRIFT)

    def _look_at_host(self, remote: Remote, redis: tuple[str, int] | None, drift: Drift) -> HostEvidence:
        seen = look_at_host(remote, redis=redis, timeout_s=self._timeout_s)
        name = remote.host.name
        if self._wants_drift and not seen.is_provisioned:
            self.evidence.drift[name] = DriftEvidence(name, is_provisioned=False)
        elif self._wants_drift:
            try:
                self.evidence.drift[name] = drift.of(remote)
            except CrawlctlError as error:
                self.evidence.unseen.append(f"{Source.DRIFT.value} on {name}: {error.message}")
        return seen

    def _host_told(self, outcome: Outcome[HostEvidence]) -> None:
        if outcome.value is not None:
            self.evidence.by_ssh[outcome.node] = outcome.value
        elif outcome.error is not None:
            self.evidence.ssh_errors[outcome.node] = outcome.error

    def _jobs_of_orphans(self) -> JobsKnown:
        """Ask the store, and the nodes concerned, about processes that look as if nobody had them."""
        found = {name: orphans(each) for name, each in self.evidence.by_ssh.items()}
        job_ids = [each.job for group in found.values() for each in group if each.job is not None]
        if not any(found.values()):
            return JobsKnown()
        concerned = self._patient.nodes.only(name for name, group in found.items() if group)
        listed = concerned.ask(_running_on)
        try:
            known = self._store().jobs.get_many(job_ids)
        except CrawlctlError as error:
            self.evidence.unseen.append(f"whose the spiders without a node are: {error.message}")
            known = {}
        return JobsKnown(frozenset(job.id for job in known.values() if job.state.is_final), listed.values)


@dataclass(frozen=True, slots=True)
class _Name:
    name: NodeName


def _running_on(node: ScrapydNode) -> frozenset[JobId]:
    return frozenset(row.job.id for row in node.jobs() if not row.job.state.is_final)


def _redis_address(inventory: Inventory) -> RedisAddress | None:
    return None if inventory.redis is None else parse_address(inventory.redis)


def _frozen(evidence: Evidence) -> Evidence:
    return replace(
        evidence,
        names=dict(evidence.names),
        software=dict(evidence.software),
        nodes=dict(evidence.nodes),
        by_ssh=dict(evidence.by_ssh),
        ssh_errors=dict(evidence.ssh_errors),
        drift=dict(evidence.drift),
        done=set(evidence.done),
        unseen=list(evidence.unseen),
    )
