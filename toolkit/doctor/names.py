"""Looks names up (DNS), and judges where they lead: nowhere, to several machines, to ourselves, over the internet."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolkit.doctor.judged import ERROR, WARNING, Judged, found, named
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName

TLS_COMMAND = "crawlctl docs security"


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a name means here and now: its addresses, or why it has none."""

    name: str
    addresses: tuple[str, ...] = ()
    why: str | None = None

    @property
    def is_name(self) -> bool:
        """It is no address itself."""
        return self.addresses != (self.name,)


def resolve(name: str) -> Resolved:
    """Look a name up as every program does; blocks for as long as the name service does."""
    if is_address(name):
        return Resolved(name, (name,))
    try:
        told = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return Resolved(name, why=(getattr(error, "strerror", None) or str(error)).lower())
    return Resolved(name, tuple(dict.fromkeys(str(each[4][0]) for each in told)))


def names_of(hosts: Sequence[Host], redis_hosts: Sequence[str]) -> tuple[str, ...]:
    """Return every name that is to be looked up, each once."""
    names = [name for host in hosts for name in (host.address, host.ssh.address) if name]
    return tuple(dict.fromkeys([*names, *redis_hosts]))


def judge_names(
    hosts: Sequence[Host],
    resolved: Mapping[str, Resolved],
    *,
    redis_hosts: Sequence[str] = (),
    is_redis_plain: bool = False,
) -> list[Judged]:
    """Say which names lead nowhere, astray, or over the internet in plain text. Pure.

    A name that is not in `resolved` was not looked up in time, and nothing is said of it.
    """
    judged = [each for host in hosts for each in _judge_host(host, resolved)]
    judged += _judge_same(hosts, resolved)
    for name in redis_hosts:
        there = resolved.get(name)
        if there is None:
            continue
        if there.why is not None:
            judged.append(found("dns-unknown", ERROR, f"the Redis' name {name} has no address: {there.why}"))
        elif is_redis_plain and (public := _public(there)):
            text = f"the Redis at {name} ({public}) is spoken to over the internet without TLS, its password too"
            judged.append(found("redis-plain", ERROR, text, command=TLS_COMMAND))
    return judged


def is_address(text: str) -> bool:
    """Tell whether it is an IP address, not a name."""
    return _ip(text) is not None


def is_public(address: str) -> bool:
    """Tell whether the address is one of the internet's."""
    ip = _ip(address)
    return ip is not None and ip.is_global and not ip.is_multicast


def is_loopback(name: str) -> bool:
    """Tell whether it is this machine's own address, or its usual name."""
    ip = _ip(name)
    return name == "localhost" if ip is None else ip.is_loopback


def _judge_host(host: Host, resolved: Mapping[str, Resolved]) -> Iterator[Judged]:
    show = f"crawlctl inventory show {host.name}"
    for name in dict.fromkeys(filter(None, (host.address, host.ssh.address))):
        there = resolved.get(name)
        if there is None:
            continue
        if there.why is not None:
            yield found("dns-unknown", ERROR, f"has the name {name}, which has no address: {there.why}", node=host.name)
            continue
        if len(_machines(there)) > 1:
            text = (
                f"has the name {name}, which leads to several addresses ({named(_machines(there))}): calls may differ"
            )
            yield found("dns-several", WARNING, text, node=host.name, command=show)
        if there.is_name and name != "localhost" and any(is_loopback(each) for each in there.addresses):
            text = f"has the name {name}, which leads to this machine itself"
            yield found("dns-loopback", WARNING, text, node=host.name, command="getent hosts " + name)
    here = resolved.get(host.address)
    if host.scheme == "http" and here is not None and (public := _public(here)):
        text = f"is spoken to over the internet ({public}) without TLS, its password too"
        yield found("node-plain", ERROR, text, node=host.name, command=TLS_COMMAND)


def _judge_same(hosts: Sequence[Host], resolved: Mapping[str, Resolved]) -> Iterator[Judged]:
    places: dict[tuple[str, int, str], list[NodeName]] = {}
    for host in hosts:
        there = resolved.get(host.address)
        for address in set(there.addresses if there else ()):
            places.setdefault((address, host.port, host.path), []).append(host.name)
    told: set[tuple[NodeName, ...]] = set()
    for (address, port, _), group in places.items():
        names = tuple(group)
        if len(names) > 1 and names not in told:
            told.add(names)
            text = f"{named(names)} are one place: their names all lead to {address}, port {port}"
            yield found("dns-same", ERROR, text, command="crawlctl inventory list")


def _machines(there: Resolved) -> tuple[str, ...]:
    """Return the addresses that cannot be one machine's: of each kind, IPv4 and IPv6, it usually has one."""
    kinds: dict[int, list[str]] = {}
    for address in there.addresses:
        ip = _ip(address)
        if ip is not None:
            kinds.setdefault(ip.version, []).append(address)
    return tuple(next((group for group in kinds.values() if len(group) > 1), ()))


def _public(there: Resolved) -> str | None:
    return next((each for each in there.addresses if is_public(each)), None)


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
