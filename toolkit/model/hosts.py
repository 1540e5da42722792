"""A host of the inventory: where its node listens and how it is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolkit.model.names import NodeName


class Secret:
    """A text that shows itself only when asked: printing, formatting or logging it gives `***`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself, for the one call that sends it."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True, slots=True)
class SshAddress:
    """How the host is reached over SSH; `None` leaves the choice to the operator's own SSH configuration.

    `host_key` pins the one key that is taken, as known_hosts writes it. `jump` is what ProxyJump of ssh_config(5)
    takes.
    """

    user: str | None = None
    port: int | None = None
    key: str | None = None
    address: str | None = None
    host_key: str | None = None
    jump: str | None = None
    config: str | None = None
    password: Secret | None = None
    sudo_password: Secret | None = None
    timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Provisioning:
    """What `crawlctl nodes provision` makes of the host; paths of files are on the operator's machine, `folder` is not.

    `service` is what keeps the node running, chosen on the host where it is `auto`. `redis` is the Redis as the host
    reaches it, where that differs.
    """

    user: str = "crawlctl"
    folder: str | None = None
    python: str = "python3"
    service: Literal["auto", "system", "user", "supervisor"] = "auto"
    bind: str | None = None
    redis: Secret | None = None
    index: Secret | None = None
    wheelhouse: str | None = None
    constraints: str | None = None
    requirements: str | None = None
    memory_mb: int | None = None
    open_files: int = 65_536
    tls: Literal["off", "generated"] = "off"


@dataclass(frozen=True, slots=True)
class Host:
    """One machine of the inventory with the one node that listens there.

    `slots` is how many jobs a local node runs at once (Scrapyd's `max_proc`); `None` lets `crawlctl up` choose. `kind`
    is what `crawlctl up` makes of a local host: a node of the shared queue where there is one, or a stock Scrapyd.
    `node` holds options of the section `[crawlctl]` of its scrapyd.conf, where crawlctl writes that. `ca_file`
    names the authorities (PEM) whose certificates alone count for it.
    """

    name: NodeName
    address: str = "127.0.0.1"
    port: int = 6800
    scheme: Literal["http", "https"] = "http"
    path: str = ""
    username: str | None = None
    password: Secret | None = None
    timeout_s: float = 10.0
    labels: Mapping[str, str] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()
    connection: Literal["local", "ssh"] = "ssh"
    kind: Literal["node", "stock"] = "node"
    ssh: SshAddress = SshAddress()
    provision: Provisioning = Provisioning()
    node: Mapping[str, str | int | float] = field(default_factory=dict)
    slots: int | None = None
    ca_file: str | None = None

    @property
    def url(self) -> str:
        """The node's base URL, without a slash at its end and without credentials."""
        return f"{self.scheme}://{self.place}{self.path}"

    @property
    def place(self) -> str:
        """Address and port as a URL writes them."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{address}:{self.port}"

    @property
    def is_local(self) -> bool:
        """The node is a process of this machine that `crawlctl up` starts."""
        return self.connection == "local"
