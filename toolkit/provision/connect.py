"""Chooses how a host is reached: over SSH, or as this machine. Loads Fabric only when one is reached over SSH."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Host
from toolkit.provision.by_shell import ByShell
from toolkit.provision.trusted_keys import TrustedKeys

if TYPE_CHECKING:
    from toolkit.provision.routes import Route
    from toolkit.provision.ssh_config import ConfigText
    from toolkit.provision.ssh_connection import Connector


def connector(
    state_folder: Path | None = None,
    *,
    trust_new_keys: bool = False,
    on_new_key: Callable[[str], object] | None = None,
) -> Door:
    """Return what makes the remote of a host; it keeps the protocol `Connect`, and connects nowhere yet.

    Host keys that were taken on first sight lie in `state_folder`; new ones are only taken with `trust_new_keys`, and
    `on_new_key` hears of each.
    """
    return Door(TrustedKeys(state_folder, takes_new=trust_new_keys, on_new=on_new_key))


class Door:
    """Makes the `Remote` of a host; those that go through the same jump host share the connection to it."""

    def __init__(self, trusted: TrustedKeys) -> None:
        self._trusted = trusted
        self._configs: dict[str | None, ConfigText] = {}
        self._lock = threading.Lock()

    def __call__(self, host: Host) -> ByShell:
        """Return the host's remote."""
        if host.is_local:
            from toolkit.provision.here import Here

            return Here(host)
        from toolkit.provision.ssh import Ssh

        return Ssh(host, lambda: self._route(host), self._connector)

    def close(self) -> None:
        """End the connections to jump hosts; those to hosts are ended by their own remotes."""
        if "_connector" in self.__dict__:
            self._connector.close()

    @cached_property
    def _connector(self) -> Connector:
        from toolkit.provision.ssh_connection import Connector

        return Connector(self._trusted)

    def _route(self, host: Host) -> Route:
        from toolkit.provision.routes import JumpError, route_to
        from toolkit.provision.ssh_config import read_config

        with self._lock:
            if host.ssh.config not in self._configs:
                self._configs[host.ssh.config] = read_config(host.ssh.config)
            config = self._configs[host.ssh.config]
        try:
            return route_to(host, config.lookup)
        except JumpError as error:
            raise ConfigurationError(f"{host.name}: {error}", hint="correct ssh.jump, or ProxyJump") from error
