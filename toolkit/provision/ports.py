"""Whether a port of this machine is free, and who has it if not."""

from __future__ import annotations

import contextlib
import errno
import socket

from toolkit.model.errors import ConfigurationError
from toolkit.provision.processes import load_psutil

_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared with, never bound


def check_free(address: str, port: int, *, who: str) -> None:
    """Return if a server could listen there; `who` is the one that wants to.

    Raises:
        ConfigurationError: somebody else has the port (named where the system tells), the address is not this
            machine's, or the port needs root.

    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigurationError(f"{who}: {address} is not an address: {error.strerror}") from error
    with socket.socket(family, kind, protocol) as probe:
        # As the servers themselves do: a port whose last connections only linger in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(place)
        except OSError as error:
            raise _refusal(error, address, port, who) from error


def is_free(address: str, port: int) -> bool:
    """Tell whether a server could listen there."""
    with contextlib.suppress(ConfigurationError):
        check_free(address, port, who="a server")
        return True
    return False


def listener(address: str, port: int) -> str | None:
    """Return who listens there, as `name (pid 123)`; `None` if the system does not tell."""
    psutil = load_psutil()
    with contextlib.suppress(psutil.Error, OSError):
        found = [c for c in psutil.net_connections(kind="tcp") if c.status == psutil.CONN_LISTEN and c.pid]
        same_port = [connection for connection in found if connection.laddr.port == port]
        # The same port of another address is somebody else's, unless no name matches as it is written.
        same_place = [connection for connection in same_port if connection.laddr.ip in {address, *_ANY_ADDRESS}]
        for connection in same_place or same_port:
            return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return None


def _refusal(error: OSError, address: str, port: int, who: str) -> ConfigurationError:
    place = f"{address}:{port}"
    if error.errno == errno.EADDRINUSE:
        holder = listener(address, port) or "another process"
        return ConfigurationError(
            f"{who} cannot listen on {place}: {holder} has that port",
            hint=f"end that process, or give {who} another port in the inventory",
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return ConfigurationError(
            f"{who} cannot listen on {place}: the address is not one of this machine",
            hint="a local host's address is 127.0.0.1 or another address of this machine",
        )
    return ConfigurationError(f"{who} cannot listen on {place}: {error.strerror}", hint="use a port from 1024 upwards")
