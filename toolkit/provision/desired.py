"""What a host shall be: its node's configuration, secrets, packages and service, out of the inventory. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Host, Secret
from toolkit.model.names import check_project
from toolkit.provision.local_nodes import SharedQueue, node_settings, settings, stock_settings
from toolkit.provision.node_security import READ_ANEW, NodeSecurity
from toolkit.store.address import parse_address

INDEX_FILE = "index.url"
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Packages:
    """What the node's environment is made of. `requirements` and `constraints` are the texts of the operator's files.

    `own_wheel` is crawlctl itself, `own_digest` the identity of its content, `inputs` that of all that versions are
    chosen by. `wheelhouse` is a folder of wheels on this machine that the host gets instead of an index. `pins` are
    exact versions for this kind of host, one a line, `None` while they are not chosen yet; where they are `chosen_anew`
    those that the host has are no answer.
    """

    own_wheel: Path
    own_digest: str
    inputs: str
    requirements: str = ""
    constraints: str = ""
    index: Secret | None = None
    wheelhouse: Path | None = None
    pins: str | None = None
    chosen_anew: bool = False


@dataclass(frozen=True, slots=True)
class Desired:
    """The state that a host shall have.

    `scrapyd` and `crawlctl` are lines of the sections of scrapyd.conf, the latter `None` for a stock node. `redis` is
    the URL as the node reaches it. `extra_files` are more files of the working folder, by name, for the service user
    alone; a change of those in `read_anew` needs no restart.
    """

    host: Host
    scrapyd: Mapping[str, str]
    packages: Packages
    crawlctl: Mapping[str, str] | None = None
    redis: Secret | None = None
    extra_files: Mapping[str, Secret] = field(default_factory=dict)
    read_anew: frozenset[str] = frozenset()

    @property
    def is_stock(self) -> bool:
        """It shall be a Scrapyd without the plug-in."""
        return self.crawlctl is None


def desired_state(
    host: Host, packages: Packages, *, redis: Secret | None, cluster: str, security: NodeSecurity
) -> Desired:
    """Return what a host of the inventory shall be: a node of the shared queue, or without a Redis a stock one.

    Raises:
        ConfigurationError: the inventory asks for what cannot be.

    """
    url = redis_of(host, redis)
    _check_possible(host, is_stock=url is None)
    if url is None:
        return Desired(host, _scrapyd_lines(host, is_stock=True), packages)
    _check_redis(host, url)
    lines = node_settings(host, SharedQueue(url, cluster))
    if bind_of(host) != host.address:
        lines["address"] = host.place
    files = dict(security.files)
    if packages.index is not None:
        lines["index_file"] = INDEX_FILE
        files[INDEX_FILE] = Secret(f"{packages.index.reveal()}\n")
    return Desired(
        host,
        _scrapyd_lines(host, is_stock=False),
        packages,
        crawlctl=lines | dict(security.settings),
        redis=security.redis or url,
        extra_files=files,
        read_anew=frozenset(files) & READ_ANEW,
    )


def redis_of(host: Host, redis: Secret | None) -> Secret | None:
    """Return the URL of the inventory's Redis as the host reaches it; `None` where it becomes a stock node."""
    return None if host.kind == "stock" else host.provision.redis or redis


def bind_of(host: Host) -> str:
    """Return the address that the node is to listen on: as wished, or the host's where that is an IP address."""
    if host.provision.bind is not None:
        return host.provision.bind
    try:
        ipaddress.ip_address(host.address)
    except ValueError:
        return _LOOPBACK
    return host.address


def redis_places(desired: Desired) -> tuple[tuple[str, int], ...]:
    """Return what the host must be able to connect to: the Redis, or its Sentinels."""
    return () if desired.redis is None else parse_address(desired.redis).hosts


def _scrapyd_lines(host: Host, *, is_stock: bool) -> dict[str, str]:
    lines = stock_settings(host) if is_stock else settings(host)
    lines |= {"bind_address": bind_of(host), "max_proc": str(host.slots or 0)}
    return lines


def _check_possible(host: Host, *, is_stock: bool) -> None:
    check_project(host.name)
    if host.path or (host.scheme == "https" and host.provision.tls == "off"):
        raise ConfigurationError(
            f"{host.name} is {host.url}, but a provisioned node is reached directly",
            hint="take `path` and `scheme` out, or say `provision.tls: generated` for TLS without a proxy",
        )
    if host.provision.tls == "generated" and is_stock:
        raise ConfigurationError(
            f"{host.name}: a stock node speaks no TLS", hint="make it a node: kind and redis; or put a proxy before it"
        )
    if not (host.username and host.password):
        raise ConfigurationError(f"{host.name} has no user name and password", hint="set both, or neither")
    if ":" in host.username or any(mark in host.username + host.password.reveal() for mark in "\r\n"):
        raise ConfigurationError(
            f"{host.name}: the user name holds a colon, or it or the password a line break",
            hint="Scrapyd can take neither",
        )


def _check_redis(host: Host, url: Secret) -> None:
    address = parse_address(url)
    if host.is_local or address.socket_path is not None:
        return
    if any(name == "localhost" or name.startswith("127.") or name == "::1" for name, _ in address.hosts):
        raise ConfigurationError(
            f"{host.name}: the Redis at {address} is this machine's own; on {host.name} that name means itself",
            hint="give redis an address that hosts reach, or say how they reach it: provision.redis",
        )
