"""Free ports for test servers, below the range from which the system picks ports for outgoing connections."""

from __future__ import annotations

import os
import random
import re
import socket

FIRST_PORT = 12_000
PORTS_A_WORKER = 1_200
WORKERS = 16

_RANDOM = random.Random(os.getpid())  # noqa: S311 - spreads processes over ports, protects nothing
_GIVEN: set[int] = set()


def free_port(address: str = "127.0.0.1") -> int:
    """Return a port on which nothing listens and that this process was not given before.

    Each pytest-xdist worker draws from a range of its own; two unrelated runs differ by their process ids.

    Raises:
        RuntimeError: the whole range is in use.

    """
    worker = int(re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or 0) % WORKERS
    first = FIRST_PORT + worker * PORTS_A_WORKER
    for port in _RANDOM.sample(range(first, first + PORTS_A_WORKER), PORTS_A_WORKER):
        if port not in _GIVEN and _is_free(address, port):
            _GIVEN.add(port)
            return port
    raise RuntimeError(f"no free port in {first}..{first + PORTS_A_WORKER - 1} on {address}")


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port whose last connections only linger in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
