"""Opens connections: each server on the way has its key checked before anything is told to it. Foreign errors end here.

Fabric opens and keeps the connection; which keys are taken, and how one logs in, is decided in our own modules.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko
from fabric import Config, Connection
from paramiko import PKey, SSHClient, SSHException, Transport

from toolkit.model.errors import HostError, HostKeyError, HostUnauthorizedError, HostUnreachableError
from toolkit.provision import known_hosts
from toolkit.provision.known_hosts import Entry, HostKey, Verdict
from toolkit.provision.remote import CONNECT
from toolkit.provision.routes import Hop, Route
from toolkit.provision.ssh_login import Login, NotLetInError
from toolkit.provision.trusted_keys import TrustedKeys

# It tells of every broken connection on stderr; we tell of it ourselves, once.
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)

SILENT_S = 20.0
KEEPALIVE_S = 5


class _KeyError(SSHException):  # type: ignore[misc]  # paramiko has no types
    """A server's key is not taken; becomes a `HostKeyError` once it is known which host it is about."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


@dataclass
class _CheckedKey(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """Decides about the key of one server; paramiko knows none by itself, so it asks here each time."""

    hop: Hop
    known: list[Entry]
    trusted: TrustedKeys

    def missing_host_key(self, client: SSHClient, hostname: str, key: PKey) -> None:
        """Return if the key is taken."""
        del client, hostname
        shown = HostKey(key.get_name(), key.asbytes())
        verdict = known_hosts.judge(self.known, shown)
        name, where = self.hop.key_name, ", ".join(entry.place for entry in self.known)
        if verdict is Verdict.UNKNOWN and not self.trusted.takes_new:
            raise _KeyError(
                f"the key of {name} is not known: {shown.fingerprint}",
                f"compare it with the host's own, then: --trust-new-keys, or ssh.host_key: {shown.text}",
            )
        if verdict is Verdict.UNKNOWN:
            self.known = [self.trusted.add(name, shown)]
            verdict = known_hosts.judge(self.known, shown)
        if verdict is Verdict.REVOKED:
            raise _KeyError(f"the key of {name} is revoked ({where}): {shown.fingerprint}", "give the host a new key")
        if verdict is not Verdict.KNOWN:
            was = ", ".join(entry.key.fingerprint for entry in self.known if not entry.is_revoked)
            raise _KeyError(
                f"the key of {name} has changed: known is {was} ({where}), shown was {shown.fingerprint}",
                "it may be another machine: find out why; if it is right, remove the old key there",
            )


class Connector:
    """Opens connections and shares those to jump hosts; safe from several threads."""

    def __init__(self, trusted: TrustedKeys) -> None:
        self._trusted = trusted
        self._config = Config(lazy=True, ssh_config=paramiko.SSHConfig())
        self._jumps: dict[tuple[Hop, ...], Connection] = {}
        self._locks: dict[tuple[Hop, ...], threading.Lock] = {}
        self._lock = threading.Lock()

    def open(self, host: str, route: Route) -> Connection:
        """Return a connection to the last server of the route, logged in.

        Raises:
            HostKeyError: a server on the way shows a key that is not taken; nothing was sent to it.
            HostUnauthorizedError: one lets us not in.
            HostUnreachableError: one does not answer.

        """
        gateway = self._jump(host, route.hops[:-1])
        return self._opened(host, route, gateway, is_jump=False)

    def close(self) -> None:
        """End the connections to jump hosts, and with them all that go through them."""
        for jump in list(self._jumps.values()):
            with contextlib.suppress(SSHException, OSError, EOFError):
                jump.close()

    def _jump(self, host: str, hops: tuple[Hop, ...]) -> Connection | None:
        """Return the connection to the last jump host, opened by whoever needs it first."""
        if not hops:
            return None
        with self._lock:
            lock = self._locks.setdefault(hops, threading.Lock())
        with lock:
            there = self._jumps.get(hops)
            if there is None or not there.is_connected:
                gateway = self._jump(host, hops[:-1])
                there = self._jumps[hops] = self._opened(host, Route(hops), gateway, is_jump=True)
            return there

    def _opened(self, host: str, route: Route, gateway: Connection | None, *, is_jump: bool) -> Connection:
        hop = route.target
        with self._errors(host, route, is_jump=is_jump):
            known = self._known(hop)
            connection = Connection(
                hop.address,
                user=hop.user,
                port=hop.port,
                config=self._config,
                gateway=gateway or hop.command or False,
                connect_kwargs={
                    "timeout": hop.timeout_s,
                    "banner_timeout": hop.timeout_s,
                    "auth_timeout": hop.timeout_s,
                    "channel_timeout": hop.timeout_s,
                    "auth_strategy": Login(hop),
                    "transport_factory": lambda sock, **more: _transport(sock, known, **more),
                },
            )
            connection.client.set_missing_host_key_policy(_CheckedKey(hop, known, self._trusted))
            try:
                connection.open()
            except BaseException:
                connection.client.close()  # Fabric closes only what was opened whole
                raise
            connection.transport.set_keepalive(KEEPALIVE_S)
        return connection

    def _known(self, hop: Hop) -> list[Entry]:
        if hop.pinned is not None:
            pinned = known_hosts.parse_key(hop.pinned)
            if pinned is None:
                raise _KeyError(f"ssh.host_key is no public key: {hop.pinned[:40]}", "correct it in the inventory")
            return [Entry(hop.key_name, pinned, "ssh.host_key of the inventory")]
        files = [Path(path) for path in hop.known_hosts]
        entries = [*known_hosts.read_entries(files), *self._trusted.entries()]
        return known_hosts.entries_of(entries, hop.key_name)

    @contextlib.contextmanager
    def _errors(self, host: str, route: Route, *, is_jump: bool) -> Iterator[None]:
        """Translate what opening may raise."""
        hop = route.target
        doing = f"connect to its jump host {hop.place}" if is_jump else CONNECT
        if len(route.hops) > 1:
            doing += f" through {route.hops[-2].place}"
        try:
            yield
        except HostError:
            raise
        except _KeyError as error:
            raise HostKeyError(host, doing, str(error), hint=error.hint) from error
        except NotLetInError as error:
            raise HostUnauthorizedError(host, f"log in as {hop.place}", str(error), hint=error.hint) from error
        except (SSHException, OSError, EOFError) as error:
            raise HostUnreachableError(host, doing, _why(error, hop)) from error


def _transport(sock: socket.socket, known: list[Entry], **more: object) -> Transport:
    """Return a transport that asks for the kind of key that we know, and ends when the network has swallowed it."""
    # A jump's channel and a ProxyCommand are no sockets, and not every system has the second option.
    with contextlib.suppress(AttributeError, OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SILENT_S * 1000))
    transport = Transport(sock, **more)
    options = transport.get_security_options()
    options.key_types = known_hosts.algorithms_first(known, options.key_types)
    return transport


def _why(error: BaseException, hop: Hop) -> str:
    """Say in a few words what broke."""
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        error = next(iter(error.errors.values()))
    place, said = f"{hop.address}:{hop.port}", str(error).lower()
    is_late = isinstance(error, TimeoutError) or "timeout" in said or "timed out" in said
    meanings = (
        (isinstance(error, socket.gaierror), f"its name {hop.address} is not known"),
        (
            "banner" in said or "no existing session" in said,
            f"no SSH server greets on {place} within {hop.timeout_s:g} s",
        ),
        (is_late, f"{place} does not answer within {hop.timeout_s:g} s"),
        (isinstance(error, ConnectionRefusedError), f"nothing listens on {place}"),
        (isinstance(error, EOFError), f"{place} hung up"),
    )
    known = next((text for is_so, text in meanings if is_so), None)
    return known or f"{place}: {getattr(error, 'strerror', None) or error}"
