"""Looks at hosts over SSH, one small program in one round trip, and reads what it tells. Judging is `host_health`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

from toolkit.model.errors import HostRefusedError, HostUnauthorizedError
from toolkit.model.hosts import Host
from toolkit.model.names import JobId
from toolkit.provision.places import SYSTEM_FOLDER
from toolkit.provision.remote import Remote
from toolkit.store.address import parse_address

LOOKING = "looking at it"


@dataclass(frozen=True, slots=True)
class Spider:
    """A process of a job on a host. `has_folder` is `None` for one of a stock node, or where we may not look."""

    pid: int
    start: str
    parent: int
    age_s: float
    is_ours: bool = False
    has_scrapyd: bool = False
    job: JobId | None = None
    has_folder: bool | None = None


@dataclass(frozen=True, slots=True)
class WayToRedis:
    """How a host reaches the Redis: seconds for a round trip, and where its name leads there; else why not."""

    seconds: float | None = None
    addresses: tuple[str, ...] = ()
    why: str | None = None


@dataclass(frozen=True, slots=True)
class HostEvidence:
    """What a host is like; `None` is what it did not tell. Sizes are in bytes.

    `clock_ahead_s` is how far its clock is before ours, give or take `clock_error_s`. `sudo_error` says why we are not
    root there, where that was tried.
    """

    host: Host
    python: tuple[int, ...] | None = None
    is_root: bool = False
    sudo_error: str | None = None
    clock_ahead_s: float = 0.0
    clock_error_s: float = 0.0
    disk_free: int | None = None
    disk_size: int | None = None
    memory_free: int | None = None
    memory_size: int | None = None
    listening: tuple[str, ...] | None = None
    addresses: tuple[str, ...] = ()
    spiders: tuple[Spider, ...] | None = None
    redis: WayToRedis | None = None
    is_provisioned: bool | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    """The distributions that the one Scrapyd there was started with, by lower-case name."""


def look_at_host(remote: Remote, *, redis: tuple[str, int] | None, timeout_s: float) -> HostEvidence:
    """Return what the host tells; as root where its node needs that, else as our login.

    Raises:
        HostError: it cannot be reached, lets us not in, or has no Python that can look.

    """
    evidence = _look(remote, redis, as_root=False, timeout_s=timeout_s)
    if evidence.is_root or remote.host.provision.service not in {"auto", "system"}:
        return evidence
    try:
        return _look(remote, redis, as_root=True, timeout_s=timeout_s)
    except HostUnauthorizedError as error:
        return replace(evidence, sudo_error=error.why)


def redis_of(host: Host, shared: tuple[str, int] | None) -> tuple[str, int] | None:
    """Return where the host finds the Redis: its own word for it, else the cluster's. Sockets and Sentinels: nothing.

    Raises:
        ConfigurationError: its URL cannot be understood.

    """
    if host.provision.redis is None:
        return shared
    address = parse_address(host.provision.redis)
    return address.hosts[0] if address.hosts and address.service is None else None


def _look(remote: Remote, redis: tuple[str, int] | None, *, as_root: bool, timeout_s: float) -> HostEvidence:
    host = remote.host
    place = [] if redis is None else [redis[0], str(redis[1])]
    words = [host.provision.python, "-", str(host.port), host.provision.folder or SYSTEM_FOLDER, *place]
    begun, begun_at = time.monotonic(), time.time()
    ran = remote.run(words, doing=LOOKING, as_root=as_root, stdin=_script(), timeout_s=timeout_s)
    took_s = time.monotonic() - begun
    if not ran.ok:
        raise HostRefusedError(host.name, LOOKING, f"{host.provision.python} does not run there: {ran.last_words}")
    try:
        told = json.loads(ran.stdout.splitlines()[-1])
        return read(host, told, begun_at=begun_at, took_s=took_s)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise HostRefusedError(host.name, LOOKING, f"it answered oddly: {ran.last_words}") from error


def read(host: Host, told: Mapping[str, Any], *, begun_at: float, took_s: float) -> HostEvidence:
    """Read what the program printed; its clock was read somewhere within the call. Pure.

    Raises:
        ValueError, KeyError, TypeError: it is not what the program prints.

    """
    disk, memory = told.get("disk") or (None, None), told.get("memory") or (None, None)
    spiders, listening, redis = told.get("spiders"), told.get("listening"), told.get("redis")
    return HostEvidence(
        host,
        python=tuple(map(int, told["python"])),
        is_root=told["uid"] == 0,
        clock_ahead_s=float(told["clock_s"]) - (begun_at + took_s / 2),
        clock_error_s=took_s / 2,
        disk_free=disk[0],
        disk_size=disk[1],
        memory_free=memory[0],
        memory_size=memory[1],
        listening=None if listening is None else tuple(map(str, listening)),
        addresses=tuple(map(str, told.get("addresses") or ())),
        spiders=None if spiders is None else tuple(_spider(each) for each in spiders),
        redis=None if redis is None else WayToRedis(redis["seconds"], tuple(redis["addresses"]), redis["why"]),
        is_provisioned=told.get("is_provisioned"),
        packages={str(name).lower(): str(version) for name, version in (told.get("packages") or {}).items()},
    )


def _spider(told: Mapping[str, Any]) -> Spider:
    return Spider(
        pid=int(told["pid"]),
        start=str(told["start"]),
        parent=int(told["parent"]),
        age_s=float(told["age_s"]),
        is_ours=bool(told["is_ours"]),
        has_scrapyd=bool(told["parent_is_scrapyd"]),
        job=None if told["job"] is None else JobId(str(told["job"])),
        has_folder=told["has_folder"],
    )


def _script() -> bytes:
    return resources.files("toolkit.doctor").joinpath("host_script.py").read_bytes()
