"""Asks every node over HTTP who it is, whether it asks for a password, and how long its certificate lasts."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from toolkit.cluster.scrapyd import NodeLoad, ScrapydNode
from toolkit.doctor.judged import ERROR, NOTE, WARNING, Judged, found
from toolkit.model.errors import (
    CrawlctlError,
    NodeAnswerError,
    NodeError,
    NodeRefusedError,
    NodeUnauthorizedError,
)
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.model.snapshot import NodeState

SLOW_S = 2.0
EXPIRES_SOON = timedelta(days=30)
SECURITY = "crawlctl docs security"


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """What one node did: its answer or its error, whether a stranger got one too, and the end of its certificate.

    `is_open` and the certificate are `None` where that could not be seen.
    """

    host: Host
    load: NodeLoad | None = None
    error: CrawlctlError | None = None
    seconds: float = 0.0
    is_open: bool | None = None
    certificate_ends: datetime | None = None
    certificate_error: str | None = None


def look_at_node(node: ScrapydNode) -> NodeEvidence:
    """Ask a node as ourselves, and once more as a stranger; never raises a `NodeError`."""
    host = node.host
    evidence = NodeEvidence(host)
    if host.scheme == "https":
        ends, why = _certificate(host)
        evidence = replace(evidence, certificate_ends=ends, certificate_error=why)
    begun = time.monotonic()
    try:
        load = node.load()
    except NodeError as error:
        return replace(evidence, error=error, seconds=time.monotonic() - begun)
    evidence = replace(evidence, load=load, seconds=time.monotonic() - begun)
    return replace(evidence, is_open=True if host.password is None else _lets_strangers_in(host))


def judge_nodes(
    evidence: Mapping[NodeName, NodeEvidence], records: Mapping[NodeName, NodeRecord], *, now: datetime
) -> list[Judged]:
    """Say what is wrong with the nodes as they answer. Pure.

    A node with the plug-in that lives needs not be reachable: its jobs and eggs come through Redis.
    """
    judged: list[Judged] = []
    for name, each in evidence.items():
        record = records.get(name)
        lives = record is not None and record.state is not NodeState.LOST
        if each.certificate_error is not None:
            text = f"shows a certificate that is not to be trusted: {each.certificate_error}"
            judged.append(found("tls-invalid", ERROR, text, node=name, command=SECURITY))
        elif each.error is not None:
            judged.append(_judge_error(each, lives=lives))
        judged += _judge_answer(each, now=now)
    return judged


def _judge_error(each: NodeEvidence, *, lives: bool) -> Judged:
    error, host = each.error, each.host
    # Without the address, what many nodes have in common can be told once.
    why = (error.why if isinstance(error, NodeError) else str(error)).replace(host.place, "it")
    if isinstance(error, NodeUnauthorizedError):
        text = f"refuses our credentials: {why}"
        return found("node-login", ERROR, text, node=host.name, command=f"crawlctl inventory show {host.name}")
    if isinstance(error, (NodeAnswerError, NodeRefusedError)):
        text = f"does not answer as Scrapyd does: {why}"
        return found("node-answer", ERROR, text, node=host.name, command=f"crawlctl inventory show {host.name}")
    if lives:
        text = f"cannot be reached over HTTP, and works on through Redis: {why}"
        return found("node-unreachable", NOTE, text, node=host.name, command=f"crawlctl nodes show {host.name}")
    command = "crawlctl up" if host.is_local else f"crawlctl status --on {host.name}"
    return found("node-unreachable", ERROR, f"cannot be reached: {why}", node=host.name, command=command)


def _judge_answer(each: NodeEvidence, *, now: datetime) -> Iterator[Judged]:
    name, load = each.host.name, each.load
    if each.is_open:
        text = "asks for no password: who reaches it can run code there"
        yield found("node-open", ERROR, text, node=name, command=SECURITY)
    if load is not None:
        if load.node_name != name:
            text = f"answers as {load.node_name!r}: the address is another's, or its node_name is not the inventory's"
            yield found("node-name", WARNING, text, node=name, command=f"crawlctl inventory show {name}")
        if each.seconds >= SLOW_S:
            text = f"took {each.seconds:.1f} s for an answer that takes milliseconds: it is busy, or far away"
            yield found("node-slow", WARNING, text, node=name, command=f"crawlctl nodes show {name}")
        slots = each.host.slots
        if load.running_here is None and slots is not None and load.running > slots:
            text = f"runs {load.running} jobs on {slots} slots: `slots` of the inventory is not its max_proc"
            yield found("node-slots", WARNING, text, node=name, command=f"crawlctl jobs list --on {name}")
    if each.certificate_ends is not None and each.certificate_ends - now < EXPIRES_SOON:
        left = (each.certificate_ends - now).days
        text = f"has a certificate that ends in {left} days, on {each.certificate_ends:%Y-%m-%d}"
        yield found("tls-expiring", WARNING, text, node=name, command=SECURITY)


def _lets_strangers_in(host: Host) -> bool | None:
    stranger = ScrapydNode(replace(host, username=None, password=None))
    try:
        stranger.load()
    except NodeUnauthorizedError:
        return False
    except NodeError:
        return None
    finally:
        stranger.close()
    return True


def _certificate(host: Host) -> tuple[datetime | None, str | None]:
    """Return when the certificate ends, and why it is not to be trusted; neither when nobody answers."""
    try:
        context = ssl.create_default_context(cafile=host.ca_file)
        with (
            socket.create_connection((host.address, host.port), timeout=host.timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=host.address) as secured,
        ):
            shown = secured.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        return None, error.verify_message
    except (OSError, ValueError):
        return None, None
    ends = shown.get("notAfter")
    return (datetime.fromtimestamp(ssl.cert_time_to_seconds(ends), UTC) if isinstance(ends, str) else None), None
