"""Reads the `[deploy]` targets of a `scrapy.cfg` as hosts: to begin an inventory with, or instead of one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast
from urllib.parse import SplitResult, unquote, urlsplit

from toolkit.config.inventory.loading import Inventory
from toolkit.config.inventory.ranges import NAME
from toolkit.config.project import DeployTarget
from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Host, Secret
from toolkit.model.names import NodeName

_HINT = "without targets, `crawlctl init` writes an inventory of three nodes on this machine"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Target:
    """A deploy target whose URL is understood, under a name that a host may have."""

    name: str
    scheme: str
    address: str
    port: int
    path: str
    username: str | None
    password: Secret | None


def inventory_of_targets(cfg_path: Path, targets: Sequence[DeployTarget]) -> Inventory:
    """Return an inventory without Redis or groups whose hosts are the targets' nodes: the last resort.

    Raises:
        ConfigurationError: none of the targets has the URL of a node.

    """
    understood, _ = read_urls(targets)
    hosts = tuple(
        Host(
            NodeName(target.name),
            address=target.address,
            port=target.port,
            scheme=cast("Literal['http', 'https']", target.scheme),
            path=target.path,
            # Without a user name, scrapyd-client sends no password either.
            username=target.username,
            password=target.password if target.username else None,
        )
        for target in understood
    )
    return Inventory(cfg_path, None, hosts, {})


def read_urls(targets: Iterable[DeployTarget]) -> tuple[list[Target], list[str]]:
    """Return the targets that are nodes, each node once, and a remark on every target that was passed over.

    Raises:
        ConfigurationError: none of them has the URL of a node.

    """
    found: dict[tuple[str, int, str], Target] = {}
    remarks: list[str] = []
    for target in targets:
        shown = "".join(each for each in " ".join(target.name.split()) if each.isprintable())
        url = _split(target.url)
        if url is None or url.hostname is None:
            remarks.append(f"target {shown}: it has no http or https URL that can be read")
            continue
        read = _read(target, url)
        place = (read.address, read.port, read.path)
        if place in found:
            remarks.append(f"target {shown}: the same node as {found[place].name}")
            continue
        found[place] = replace(read, name=_free_name(target.name, {each.name for each in found.values()}))
    if not found:
        raise ConfigurationError("no [deploy] target in scrapy.cfg has an http or https URL", hint=_HINT)
    return list(found.values()), remarks


def _read(target: DeployTarget, url: SplitResult) -> Target:
    return Target(
        name=target.name,
        scheme=url.scheme,
        address=url.hostname or "",
        port=url.port or _DEFAULT_PORTS[url.scheme],
        path=url.path.rstrip("/"),
        username=target.username or (unquote(url.username) if url.username else None),
        password=target.password or (Secret(unquote(url.password)) if url.password else None),
    )


def _split(url: str | None) -> SplitResult | None:
    try:
        parts = urlsplit(url or "")
        is_good = parts.scheme in _DEFAULT_PORTS and parts.port != 0
    except ValueError:
        return None
    return parts if is_good else None


def _free_name(written: str, taken: set[str]) -> str:
    """Return the target's name with `-` for what no host's name may hold, and a number if it is taken."""
    wanted = _UNSAFE.sub("-", written).strip("-.") or "node"
    if wanted == "all" or not NAME.fullmatch(wanted):
        wanted = f"node-{wanted}"
    candidates = [wanted, *(f"{wanted}-{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in candidates if name not in taken)
