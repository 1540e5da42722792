"""The settings that crawlctl wants of a Redis: of the primary, and of its replicas, since any may take its place.

`plan_settings` and `notes_on` decide and are pure; `configure_servers` reads the servers and sets what differs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from toolkit.model.crawls import DEFAULT_WORKER_LEASE_S
from toolkit.model.errors import CrawlctlError, RefusedError, StoreUnreachableError
from toolkit.model.hosts import Secret
from toolkit.store.address import RedisAddress, parse_address
from toolkit.store.connect import RedisDoor
from toolkit.store.redis_errors import LACKS
from toolkit.store.redis_health import MIN_REPLICAS, config_pairs, told

MAX_LAG = "min-replicas-max-lag"
MAX_LAG_S = 2
"""Replicas acknowledge once a second, so a limit of 1 s would refuse writes again and again."""
NAMES = ("appendonly", "appendfsync", "maxmemory-policy", MIN_REPLICAS, MAX_LAG)
PRIMARY, REPLICA, SENTINEL = "primary", "replica", "sentinel"

DOWN_AFTER = "down-after-milliseconds"
ADVISED_DOWN_AFTER_MS = 5000
FIRST_FILE_WITHIN_S = 120.0
_LOOK_EVERY_S = 0.1
_SENTINEL_HINT = "check the Sentinels' addresses, the service's name and sentinel_password in the redis URL"
_LOGIN_HINT = "give it the same user and password as the primary: Redis does not copy them to replicas"
_GONE_HINT = "start it, or if it is gone for good, let each Sentinel forget it: SENTINEL RESET"
_AGAIN_HINT = "crawlctl redis configure shows what is set now"
_CONFIG_HINT = (
    "redis_admin in the inventory names the Redis as its administrator reaches it; where a provider runs the Redis, "
    "these settings are changed there"
)


@dataclass(frozen=True, slots=True)
class ServerState:
    """What one server says: how many replicas its primary has, how many of them keep up, and its settings.

    Behind Sentinel `replicas` are those that Sentinel names, also while they are down.
    """

    is_primary: bool
    replicas: int
    in_step: int
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: the value that was found, and the one that crawlctl wants; `None` where it only advises."""

    name: str
    value: str
    wanted: str | None

    @property
    def differs(self) -> bool:
        """It has to be changed."""
        return self.wanted is not None and self.value != self.wanted


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What was found, and with `is_applied` set, on one server, or why that failed.

    `survives_restart` is known once the server was told to rewrite its configuration file.
    """

    place: str
    role: str
    settings: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()
    is_applied: bool = False
    survives_restart: bool | None = None
    error: CrawlctlError | None = None


@dataclass(frozen=True, slots=True)
class _Group:
    """The servers of one Redis, and what its Sentinels say."""

    primary: RedisAddress
    replicas: tuple[RedisAddress, ...]
    sentinels: tuple[ServerReport, ...] = ()


def plan_settings(state: ServerState) -> tuple[Setting, ...]:
    """Return each setting with the value that it should have; a value that protects more is left as it is."""
    accepted: dict[str, Sequence[str]] = {
        "appendonly": ("yes",),
        "appendfsync": ("everysec", "always"),
        "maxmemory-policy": ("noeviction",),
        **_accepted_min_replicas(state),
    }
    found = state.values
    return tuple(
        Setting(name, found[name], found[name] if found[name] in values else values[0])
        for name, values in accepted.items()
    )


def notes_on(state: ServerState) -> tuple[str, ...]:
    """Say what an operator should know of these settings before they are set."""
    is_set = "0" not in {state.values[MIN_REPLICAS], state.values[MAX_LAG]}
    consequence = "it refuses every write now" if is_set else "otherwise it would refuse every write"
    if not state.replicas:
        return (f"it has no replica, so {MIN_REPLICAS} must be 0: {consequence}",)
    notes = []
    if state.is_primary and not state.in_step:
        notes.append(
            f"no replica keeps up with it ({state.replicas} known), so {MIN_REPLICAS} is left at"
            f" {state.values[MIN_REPLICAS]}: {consequence}; run the command again when a replica is back"
        )
    if state.is_primary and state.replicas == 1:
        notes.append(
            f"with one replica and {MIN_REPLICAS} 1, writes are refused while either server is down; a second replica"
            " avoids that"
        )
    return tuple(notes)


def _accepted_min_replicas(state: ServerState) -> dict[str, Sequence[str]]:
    as_found: dict[str, Sequence[str]] = {name: (state.values[name],) for name in (MIN_REPLICAS, MAX_LAG)}
    if not state.replicas:
        return {**as_found, MIN_REPLICAS: ("0",)}
    if state.is_primary and not state.in_step:
        # Setting them now would stop every write, and taking them back would give up what they protect.
        return as_found
    return {
        MIN_REPLICAS: [str(number) for number in range(1, state.replicas + 1)],
        MAX_LAG: [str(number) for number in range(MAX_LAG_S, 0, -1)],
    }


def configure_servers(url: Secret, *, apply: bool = False) -> list[ServerReport]:
    """Read the settings of every server that belongs to this Redis, and with `apply` set those that differ. Idempotent.

    The primary comes first, then its replicas, then the Sentinels of the URL. Each server is set by one CONFIG SET, all
    of it or nothing, is read back, and is told to rewrite its configuration file. One server's failure is in its
    report, and keeps no other from being set.

    Raises:
        ConfigurationError: the URL cannot be understood.
        RefusedError: the URL names a replica; or the only server that there is does not allow CONFIG.
        StoreUnreachableError: no Sentinel, or the only server that there is, can be asked.

    """
    address = parse_address(url)
    group = _by_sentinel(address) if address.service else _by_primary(address)
    # The primary last: once it has min-replicas it needs the others.
    servers = [(each, REPLICA) for each in group.replicas[::-1]] + [(group.primary, PRIMARY)]
    reports = [_configured(each, role, replicas=len(group.replicas), apply=apply) for each, role in servers][::-1]
    if len(reports) == 1 and reports[0].error is not None:
        raise reports[0].error
    return [*reports, *group.sentinels]


def _by_primary(address: RedisAddress) -> _Group:
    with closing(RedisDoor(address)) as door, _as_admin(door):
        health = told(door.ask("INFO", "replication"))
    if health.role == "slave":
        raise RefusedError(
            f"the Redis at {address} is a replica", hint="name its primary, or its Sentinels, in redis_admin"
        )
    places = [each.address.rpartition(":") for each in health.replicas]
    return _Group(address, tuple(_at(address, host, port) for host, _, port in places))


def _by_sentinel(address: RedisAddress) -> _Group:
    service = address.service or ""
    primary: RedisAddress | None = None
    replicas: dict[str, RedisAddress] = {}
    reports, errors = [], []
    for host, port in address.hosts:
        sentinel = replace(
            _at(address, host, port), db=0, username=address.sentinel_username, password=address.sentinel_password
        )
        try:
            with closing(RedisDoor(sentinel)) as door:
                of_primary = config_pairs(door.ask("SENTINEL", "MASTER", service))
                of_replicas = [config_pairs(each) for each in door.ask("SENTINEL", "REPLICAS", service)]
        except StoreUnreachableError as error:
            error.hint = _SENTINEL_HINT
            errors.append(error)
            reports.append(ServerReport(str(sentinel), SENTINEL, error=error))
            continue
        primary = primary or _at(address, of_primary["ip"], of_primary["port"])
        found = [_at(address, each["ip"], each["port"]) for each in of_replicas]
        replicas |= {str(each): each for each in found}
        reports.append(_sentinel_report(str(sentinel), service, of_primary[DOWN_AFTER]))
    if primary is None:
        why = "; ".join(error.message.removeprefix("the shared store at ") for error in errors)
        raise StoreUnreachableError(f"no Sentinel names the servers of {service}: {why}", hint=_SENTINEL_HINT)
    replicas.pop(str(primary), None)
    return _Group(primary, tuple(replicas.values()), tuple(reports))


def _at(address: RedisAddress, host: str, port: int | str) -> RedisAddress:
    return replace(address, hosts=((host, int(port)),), socket_path=None, service=None)


def _sentinel_report(place: str, service: str, down_after_ms: str) -> ServerReport:
    notes = []
    after_s = int(down_after_ms) / 1000
    if after_s > DEFAULT_WORKER_LEASE_S / 2:
        notes.append(
            f"a failover begins {after_s:g} s after the primary died, and the lease of a crawl's worker is"
            f" {DEFAULT_WORKER_LEASE_S:g} s; advised: SENTINEL SET {service} {DOWN_AFTER} {ADVISED_DOWN_AFTER_MS}"
        )
    return ServerReport(place, SENTINEL, (Setting(DOWN_AFTER, down_after_ms, None),), tuple(notes))


def _configured(address: RedisAddress, role: str, *, replicas: int, apply: bool) -> ServerReport:
    report = ServerReport(str(address), role)
    try:
        with closing(RedisDoor(address)) as door, _as_admin(door):
            state = _read(door, role, replicas)
            report = replace(report, settings=plan_settings(state), notes=notes_on(state))
            return _applied(door, report) if apply else report
    except CrawlctlError as error:
        if role == REPLICA and isinstance(error, StoreUnreachableError):
            error.hint = _LOGIN_HINT if "password" in error.message else _GONE_HINT
        return replace(report, error=error)


def _read(door: RedisDoor, role: str, replicas: int) -> ServerState:
    values = config_pairs(door.ask("CONFIG", "GET", *NAMES))
    if unknown := [name for name in NAMES if name not in values]:
        raise RefusedError(f"the shared store at {door.address}: it has no setting {unknown[0]}")
    health = told(door.ask("INFO", "replication"))
    if (health.role == "master") != (role == PRIMARY):
        raise RefusedError(
            f"the shared store at {door.address}: it is not a {role} any more",
            hint="a failover is under way: try again in a moment",
        )
    in_step = sum(each.is_online and each.lag_s <= MAX_LAG_S for each in health.replicas)
    return ServerState(role == PRIMARY, replicas, in_step, values)


def _applied(door: RedisDoor, report: ServerReport) -> ServerReport:
    wanted = {each.name: str(each.wanted) for each in report.settings if each.differs}
    if wanted:
        try:
            door.ask("CONFIG", "SET", *(word for pair in wanted.items() for word in pair))
        except StoreUnreachableError as error:
            error.hint = _AGAIN_HINT
            raise
        found = config_pairs(door.ask("CONFIG", "GET", *wanted))
        if found != wanted:
            raise RefusedError(f"the shared store at {door.address}: after CONFIG SET it says {found}")
    try:
        _wait_for_first_file(door)
        door.ask("CONFIG", "REWRITE")
    except CrawlctlError as error:
        if not wanted:
            return report  # They may stand in a file that it cannot write, or on its command line.
        note = f"the changes will not survive a restart: {error.message.rpartition(': ')[2]}"
        return replace(report, notes=(*report.notes, note), is_applied=True, survives_restart=False)
    return replace(report, is_applied=bool(wanted), survives_restart=True)


def _wait_for_first_file(door: RedisDoor) -> None:
    """Return once the append-only file is complete: a server that starts with it switched on loads nothing else."""
    ends_at = time.monotonic() + FIRST_FILE_WITHIN_S
    while time.monotonic() < ends_at:
        said: Mapping[str, Any] = door.ask("INFO", "persistence")
        if not said.get("aof_rewrite_in_progress") and not said.get("aof_rewrite_scheduled"):
            if said.get("aof_last_bgrewrite_status") == "ok":
                return
            break
        time.sleep(_LOOK_EVERY_S)
    raise RefusedError("its append-only file is not complete yet; look at its log and run the command again")


@contextmanager
def _as_admin(door: RedisDoor) -> Iterator[None]:
    try:
        yield
    except StoreUnreachableError as error:
        if "may not do that" in error.message or LACKS in error.message:
            text = f"the shared store at {door.address}: CONFIG or INFO is not allowed there"
            raise RefusedError(text, hint=_CONFIG_HINT) from error
        raise
