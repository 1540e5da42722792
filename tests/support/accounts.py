"""A user account of this machine for one test, with a password and rights of sudo; gone afterwards. Needs root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from support.debian import require_installed
from support.require import require

PASSWORD = "Tr0ub4dor & 3"
_TOOLS = {"useradd": "passwd", "sudo": "sudo", "pkill": "procps"}


class Account:
    """A user that may do with sudo what `sudo` says: `NOPASSWD`, `PASSWD`, or nothing."""

    def __init__(self, *, sudo: str = "") -> None:
        require(os.geteuid() == 0, "an account is made as root")
        require_installed(_TOOLS)
        self.name = f"crawlctl-{os.getpid()}-{id(self) % 10_000}"
        self._rights = Path("/etc/sudoers.d") / self.name
        self._sudo = sudo

    def __enter__(self) -> Self:
        subprocess.run(["useradd", "-m", "-s", "/bin/sh", self.name], check=True, capture_output=True)
        subprocess.run(["chpasswd"], check=True, input=f"{self.name}:{PASSWORD}", text=True)
        if self._sudo:
            self._rights.write_text(f"{self.name} ALL=(ALL:ALL) {self._sudo}: ALL\n")
            self._rights.chmod(0o440)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._rights.unlink(missing_ok=True)
        subprocess.run(["pkill", "-KILL", "-u", self.name], check=False)
        subprocess.run(["userdel", "-r", "-f", self.name], check=False, capture_output=True)
