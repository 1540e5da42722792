"""The way to a host: its SSH server and the jump hosts before it, out of the inventory and of ssh_config. Decides only.

What the inventory says goes before what ssh_config says. `StrictHostKeyChecking` is not read: keys are always checked.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from toolkit.model.hosts import Host, Secret, SshAddress
from toolkit.provision.known_hosts import SSH_PORT, name_of

MAX_JUMPS = 8
_JUMP = re.compile(
    r"^(?:ssh://)?(?:(?P<user>[^@]+)@)?(?P<host>\[[^\]]+\]|[^:@]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:]*)(?::(?P<port>\d+))?/?$"
)
_GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")

Lookup = Callable[[str, Mapping[str, str]], Mapping[str, object]]
"""Returns what ssh_config says of a name, the given settings going before it; keys are in lower case."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One SSH server on the way; `key_name` is what known_hosts calls it, `command` its ProxyCommand."""

    address: str
    port: int
    user: str
    key_name: str
    keys: tuple[str, ...] = ()
    is_only_keys: bool = False
    known_hosts: tuple[str, ...] = ()
    agent: str | None = None
    pinned: str | None = None
    password: Secret | None = None
    command: str | None = None
    timeout_s: float = 10.0

    @property
    def place(self) -> str:
        """As people write it."""
        return f"{self.user}@{self.address}" + ("" if self.port == SSH_PORT else f":{self.port}")


@dataclass(frozen=True, slots=True)
class Route:
    """The servers in the order in which they are connected to; the last one is the host's own."""

    hops: tuple[Hop, ...]

    @property
    def target(self) -> Hop:
        """The host's own server."""
        return self.hops[-1]


class JumpError(ValueError):
    """A jump host is written in a way that cannot be understood, or they go round in circles."""


def route_to(host: Host, lookup: Lookup) -> Route:
    """Return the way to a host.

    Raises:
        JumpError: the jump hosts make no sense.

    """
    ssh = host.ssh
    target, jumps = _hop(ssh.address or host.address, ssh, lookup)
    return Route((*_jump_hops(jumps, target, lookup, depth=1), target))


def _jump_hops(jumps: str, target: Hop, lookup: Lookup, *, depth: int) -> tuple[Hop, ...]:
    """Return the hops before the target; only the first one's own jump hosts count, as with ssh(1)."""
    if not jumps or jumps.lower() == "none":
        return ()
    if depth > MAX_JUMPS:
        raise JumpError(f"the jump hosts go round in a circle: {jumps}")
    hops: list[Hop] = []
    for at, text in enumerate(jumps.split(",")):
        jump = jump_of(text)
        hop, before = _hop(jump.address or "", replace(jump, timeout_s=target.timeout_s), lookup)
        if (hop.address, hop.port) == (target.address, target.port):
            return ()  # `Host *` with a ProxyJump is also about the jump host itself
        if at == 0:
            hops += _jump_hops(before, hop, lookup, depth=depth + 1)
        hops.append(hop if at == 0 else replace(hop, command=None))
    return tuple(hops)


def jump_of(text: str) -> SshAddress:
    """Return what `[USER@]HOST[:PORT]` says.

    Raises:
        JumpError: it is not written so.

    """
    found = _JUMP.match(text.strip())
    if found is None:
        raise JumpError(f"{text!r} is not a jump host: [USER@]HOST[:PORT]")
    port = found["port"]
    return SshAddress(user=found["user"], address=found["host"].strip("[]"), port=int(port) if port else None)


def _hop(name: str, ssh: SshAddress, lookup: Lookup) -> tuple[Hop, str]:
    """Return one hop, and the jump hosts that are before it."""
    given = {
        "User": ssh.user,
        "Port": None if ssh.port is None else str(ssh.port),
        "ProxyJump": ssh.jump,
        "ProxyCommand": "none" if ssh.jump else None,
    }
    said = lookup(name, {key: value for key, value in given.items() if value is not None})
    address = _text(said, "hostname") or name
    port = int(_text(said, "port") or SSH_PORT)
    alias = _text(said, "hostkeyalias")
    hop = Hop(
        address=address,
        port=port,
        user=_text(said, "user") or getpass.getuser(),
        key_name=alias.lower() if alias else name_of(address, port),
        keys=_keys(ssh, said),
        is_only_keys=_text(said, "identitiesonly").lower() == "yes" or ssh.key is not None,
        known_hosts=_known_hosts(said),
        agent=_text(said, "identityagent") or None,
        pinned=ssh.host_key,
        password=ssh.password,
        command=_command(said),
        timeout_s=ssh.timeout_s,
    )
    return hop, _text(said, "proxyjump")


def _keys(ssh: SshAddress, said: Mapping[str, object]) -> tuple[str, ...]:
    listed = said.get("identityfile")
    written = [ssh.key] if ssh.key is not None else list(listed) if isinstance(listed, list) else []
    return tuple(os.path.expanduser(str(each)) for each in written if str(each).lower() != "none")  # noqa: PTH111 - text


def _known_hosts(said: Mapping[str, object]) -> tuple[str, ...]:
    own = _text(said, "userknownhostsfile") or "~/.ssh/known_hosts ~/.ssh/known_hosts2"
    shared = _text(said, "globalknownhostsfile")
    paths = [*own.split(), *(shared.split() if shared else _GLOBAL_KNOWN_HOSTS)]
    return tuple(str(Path(path).expanduser()) for path in paths if path.lower() != "none")


def _command(said: Mapping[str, object]) -> str | None:
    command = _text(said, "proxycommand")
    return None if not command or command.lower() == "none" else command.removeprefix("exec ")


def _text(said: Mapping[str, object], key: str) -> str:
    value = said.get(key)
    return value if isinstance(value, str) else ""
