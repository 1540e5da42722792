"""Programs of the machine that tests need, installed where they are missing: by root, out of Debian's packages."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.require import require

_ROOTS = ("/usr/sbin", "/sbin")
_LOCK = Path("/tmp/crawlctl-tests-apt.lock")  # noqa: S108 - one for the machine, wherever temporary folders lie
_PATIENT = ("-o", "DPkg::Lock::Timeout=600")
"""A machine that has just booted may be installing its updates."""


def reach_roots_programs() -> None:
    """Let this process and its children find the programs that are root's, which are not on everybody's PATH."""
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join([*places, *(place for place in _ROOTS if place not in places)])


def missing(tools: Mapping[str, str]) -> list[str]:
    """Return the packages of those tools that are not there; `tools` maps a program, or a library, to its package."""
    reach_roots_programs()
    return [package for tool, package in tools.items() if not _is_there(tool)]


def _is_there(tool: str) -> bool:
    if ".so" not in tool:
        return shutil.which(tool) is not None
    try:
        ctypes.CDLL(tool)
    except OSError:
        return False
    return True


def why_not_installed(tools: Mapping[str, str]) -> str | None:
    """Say why these tools cannot be had on this machine; `None` where they are, or can be."""
    lacking = missing(tools)
    if lacking and (os.geteuid() != 0 or not shutil.which("apt-get")):
        return f"needs {', '.join(lacking)}, and only root on Debian can install that"
    return None


def require_installed(tools: Mapping[str, str]) -> None:
    """Install what is missing; where that cannot be, skip the test, or fail it in CI."""
    reason = why_not_installed(tools)
    require(reason is None, reason or "")
    ensure_installed(tools)


def ensure_installed(tools: Mapping[str, str]) -> None:
    """Install what is missing; of several test processes one does it, the others wait.

    Raises:
        CalledProcessError: it could not be installed.

    """
    if not missing(tools):
        return
    with untimed(), _LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if packages := missing(tools):
            env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(["apt-get", *_PATIENT, "update", "-q"], check=True, env=env, stdout=subprocess.DEVNULL)
            command = ["apt-get", *_PATIENT, "install", "-yq", "--no-install-recommends", *packages]
            subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)


@contextmanager
def untimed() -> Iterator[None]:
    """Stop the clock of the test that runs: what is made once for a machine may take long on a slow line."""
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left_s)
