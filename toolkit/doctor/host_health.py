"""Judges hosts by what they told over SSH: way in, Python, clock, disk, memory, what listens, and orphans. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from toolkit.doctor.hosts import HostEvidence, Spider
from toolkit.doctor.judged import ERROR, NOTE, WARNING, EndOrphan, Judged, found, named
from toolkit.doctor.names import is_public
from toolkit.doctor.redis import LARGE_SKEW_S, SKEW_S, SLOW_S, VERY_SLOW_S
from toolkit.model.errors import CrawlctlError, HostError, HostKeyError, HostRefusedError, HostUnauthorizedError
from toolkit.model.hosts import Host, SshAddress
from toolkit.model.names import JobId, NodeName

LEAST_PYTHON = (3, 11)
MB = 1_000_000
LITTLE_DISK, TOO_LITTLE_DISK, LITTLE_SHARE = 1_000 * MB, 200 * MB, 0.05
LITTLE_MEMORY = 300 * MB
YOUNG_S = 60.0
ANYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - looked for, not listened on


@dataclass(frozen=True, slots=True)
class JobsKnown:
    """What the cluster knows of jobs whose processes look like orphans.

    `ended` are recorded as ended; `listed` maps each stock node that was asked to the jobs that it says it runs.
    """

    ended: frozenset[JobId] = frozenset()
    listed: Mapping[NodeName, Collection[JobId]] = field(default_factory=dict)


def judge_way_in(host: Host, error: CrawlctlError) -> Judged:
    """Say why a host could not be looked at; where the inventory says nothing of SSH, perhaps nobody wants it."""
    is_wanted = host.ssh != SshAddress()
    why = error.why if isinstance(error, HostError) else error.message
    # Without the address, what many hosts have in common can be told once.
    for place in filter(None, (host.ssh.address, host.address)):
        why = re.sub(rf"(?<![\w.]){re.escape(place)}(:\d+)?(?![\w.-])", "it", why)
    why = why.replace("its name it is", "its name is")
    login = f"crawlctl inventory show {host.name}"
    if isinstance(error, HostKeyError):
        text = f"shows a key that we cannot trust: {why}"
        return found(
            "ssh-host-key", ERROR if is_wanted else WARNING, text, node=host.name, command="crawlctl docs bare-hosts"
        )
    if isinstance(error, HostUnauthorizedError):
        return found("ssh-login", ERROR if is_wanted else NOTE, f"lets us not in: {why}", node=host.name, command=login)
    if isinstance(error, HostRefusedError):
        return found("host-python", ERROR, f"cannot be looked at: {why}", node=host.name, command=login)
    return found(
        "ssh-unreachable",
        ERROR if is_wanted else NOTE,
        f"cannot be reached over SSH: {why}",
        node=host.name,
        command=login,
    )


def judge_host(
    evidence: HostEvidence, *, redis_ahead_s: float | None, redis_addresses: Sequence[str], jobs: JobsKnown
) -> list[Judged]:
    """Say what is wrong on a host. `redis_ahead_s` is how far Redis' clock is before ours, `None` if not known."""
    return [
        *_judge_rights(evidence),
        *_judge_clock(evidence, redis_ahead_s),
        *_judge_room(evidence),
        *_judge_openness(evidence),
        *_judge_redis(evidence, redis_addresses),
        *_judge_spiders(evidence, jobs),
    ]


def orphans(evidence: HostEvidence) -> list[Spider]:
    """Return the processes of jobs that are no child of a Scrapyd, and no node can be seen to have."""
    return [
        each
        for each in evidence.spiders or ()
        if not each.has_scrapyd and each.age_s > YOUNG_S and (each.has_folder is False or not each.is_ours)
    ]


def _judge_rights(evidence: HostEvidence) -> Iterator[Judged]:
    name, version = evidence.host.name, evidence.python
    if version is not None and version < LEAST_PYTHON:
        text = f"has Python {'.'.join(map(str, version))} as {evidence.host.provision.python}: a node needs 3.11"
        yield found("host-python", ERROR, text, node=name, command="crawlctl docs bare-hosts")
    if evidence.sudo_error is not None:
        needs_it = evidence.host.provision.service == "system"
        text = f"does not let us become root: {evidence.sudo_error}"
        yield found("ssh-sudo", ERROR if needs_it else NOTE, text, node=name, command="crawlctl docs bare-hosts")


def _judge_clock(evidence: HostEvidence, redis_ahead_s: float | None) -> Iterator[Judged]:
    ahead_s = evidence.clock_ahead_s - (redis_ahead_s or 0.0)
    if abs(ahead_s) - evidence.clock_error_s >= SKEW_S:
        whose = "this machine's" if redis_ahead_s is None else "that of Redis"
        text = f"has a clock {abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} {whose}"
        severity = ERROR if abs(ahead_s) >= LARGE_SKEW_S else WARNING
        command = f"crawlctl nodes exec --on {evidence.host.name} -- timedatectl status"
        yield found("host-clock", severity, text, node=evidence.host.name, command=command)


def _judge_room(evidence: HostEvidence) -> Iterator[Judged]:
    name, free, size = evidence.host.name, evidence.disk_free, evidence.disk_size
    if free is not None and (free < LITTLE_DISK or free < LITTLE_SHARE * (size or 0)):
        severity = ERROR if free < TOO_LITTLE_DISK else WARNING
        text = f"has {free / MB:.0f} MB of disk left for eggs, logs and items"
        yield found("host-disk", severity, text, node=name, command=f"crawlctl nodes exec --on {name} -- df -h")
    if evidence.memory_free is not None and evidence.memory_free < LITTLE_MEMORY:
        text = f"has {evidence.memory_free / MB:.0f} MB of memory left for spiders"
        yield found("host-memory", WARNING, text, node=name, command=f"crawlctl nodes exec --on {name} -- free -m")


def _judge_openness(evidence: HostEvidence) -> Iterator[Judged]:
    host, listening = evidence.host, evidence.listening or ()
    if host.scheme == "https" or host.provision.tls != "off":
        return
    own_public = [each for each in (*evidence.addresses, *listening) if is_public(each)]
    command = f"crawlctl inventory show {host.name}"
    if any(is_public(each) for each in listening) or (own_public and ANYWHERE & set(listening)):
        text = f"listens at {own_public[0]}, port {host.port}, for the whole internet, and without TLS"
        yield found("host-exposed", ERROR, text, node=host.name, command="crawlctl docs security")
    elif ANYWHERE & set(listening):
        text = f"listens on every address that it has, port {host.port}, and without TLS: provision.bind names one"
        yield found("host-exposed", NOTE, text, node=host.name, command=command)


def _judge_redis(evidence: HostEvidence, here: Sequence[str]) -> Iterator[Judged]:
    way, name = evidence.redis, evidence.host.name
    if way is None:
        return
    show = f"crawlctl inventory show {name}"
    if way.why is not None:
        yield found("host-redis", ERROR, f"cannot reach the Redis: {way.why}", node=name, command=show)
        return
    # Where the host has a word of its own for the Redis, other addresses are what was meant.
    is_same = not here or not way.addresses or bool(set(here) & set(way.addresses))
    if not is_same and evidence.host.provision.redis is None:
        text = f"finds the Redis at {named(way.addresses)}, and this machine at {named(list(here))}"
        yield found("host-redis", WARNING, text, node=name, command=show)
    if way.seconds is not None and way.seconds >= SLOW_S:
        severity = WARNING if way.seconds >= VERY_SLOW_S else NOTE
        text = f"has a round trip of {1000 * way.seconds:.0f} ms to the Redis: each commit of a crawl waits so long"
        yield found("host-redis", severity, text, node=name, command="crawlctl docs performance")


def _judge_spiders(evidence: HostEvidence, jobs: JobsKnown) -> Iterator[Judged]:
    name = evidence.host.name
    for each in orphans(evidence):
        if each.job is not None and each.job in jobs.listed.get(name, ()):
            continue
        hours = each.age_s / 3600
        what = f"job {each.job}" if each.job else "a job"
        text = f"runs a process of {what} that no node knows (pid {each.pid}, for {hours:.1f} h)"
        command = f"crawlctl nodes exec --on {name} -- kill -INT {each.pid}"
        # Its own node is asked too, but only a recorded end proves that nobody waits for it.
        is_nobodys = each.job in jobs.ended and (each.has_folder is False or name in jobs.listed)
        remedy = EndOrphan(name, each.pid, each.start, evidence.is_root) if is_nobodys else None
        yield found("host-orphan", WARNING, text, node=name, command=command, remedy=remedy)
