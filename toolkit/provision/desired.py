"""What a host shall be: its node's configuration, secrets, packages and service, out of the inventory. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolkit.model.hosts import Host, Secret


@dataclass(frozen=True, slots=True)
class Packages:
    """What the node's environment is made of. `requirements` and `constraints` are the texts of the operator's files.

    `own_wheel` is crawlctl itself, `own_digest` the identity of its content. `wheelhouse` is a folder of wheels on this
    machine that the host gets instead of an index. `pins` are exact versions for this kind of host, one a line, `None`
    while they are not chosen yet.
    """

    own_wheel: Path
    own_digest: str
    requirements: str = ""
    constraints: str = ""
    index: Secret | None = None
    wheelhouse: Path | None = None
    pins: str | None = None


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
