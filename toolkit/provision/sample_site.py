"""The sample project's web shop as a process of this machine, for the demo to have something to crawl."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from toolkit.config.paths import sample_file
from toolkit.model.errors import ConfigurationError
from toolkit.provision import processes

READY_S = 15.0
_LOOPBACK = "127.0.0.1"


@contextmanager
def sample_shop(folder: Path, *, pages: int, environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Serve the shop within the block and yield its base URL; its process is gone afterwards.

    Raises:
        ConfigurationError: it does not come up.

    """
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    site = sample_file("projects") / "shop" / "site.py"
    argv = [sys.executable, str(site), "--port", str(port), "--pages", str(pages)]
    log = folder / "site.log"
    kept = processes.start(argv, cwd=folder, log=log, env=environ, record=folder / "site.json")
    try:
        _wait_until_open(port, log)
        yield f"http://{_LOOPBACK}:{port}"
    finally:
        processes.stop(kept, grace_s=2.0)


def free_port() -> int:
    """Return a port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _wait_until_open(port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex((_LOOPBACK, port)) == 0:
                return
        time.sleep(0.05)
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:] or ["its log is empty"]
    raise ConfigurationError(f"the sample shop did not come up within {READY_S:g} s: {last[0]}")
