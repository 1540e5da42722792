"""The operator of a lab: a home folder with a key and known hosts, an inventory, and `crawlctl` run in `ops`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from support.cli import Finished, RunningCrawlctl
from support.lab.lab import Lab

LONG_S = 240.0


class LabCrawlctl(RunningCrawlctl):
    """A command under way on the lab's network; see `RunningCrawlctl`."""

    def __init__(self, lab: Lab, *args: str, cwd: Path, env: Mapping[str, str], answers: str = "") -> None:
        super().__init__(*args, cwd=cwd, env=env, answers=answers)
        self._lab = lab

    def __enter__(self) -> Self:
        with self._lab.inside():
            return super().__enter__()


class LabOperator:
    """Somebody with `crawlctl` and an inventory of the lab's hosts, in a folder of their own."""

    def __init__(self, lab: Lab, folder: Path, *, env: Mapping[str, str] | None = None) -> None:
        self.lab = lab
        self.folder = folder
        self.inventory = folder / "inventory.yaml"
        self._env = {"HOME": str(folder / "home"), **(env or {})}
        ssh = folder / "home" / ".ssh"
        ssh.mkdir(parents=True, mode=0o700, exist_ok=True)
        shutil.copy(lab.key, ssh / "id_ed25519")
        self.knows_hosts()

    def knows_hosts(self) -> None:
        """Note the keys that the hosts have now as known, at the addresses that they have now."""
        (self.folder / "home" / ".ssh" / "known_hosts").write_text(self.lab.known_hosts())

    def has_inventory(
        self,
        hosts: Sequence[str] | None = None,
        *,
        redis: bool = True,
        variables: Mapping[str, Mapping[str, Any]] | None = None,
        everywhere: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the inventory: these hosts (or all), with `variables` of each, and `everywhere` those of all.

        Variables have the names of the option table: `ssh.key` is the key `key` of `ssh`.
        """
        written: dict[str, Any] = {"redis": self.lab.redis_url} if redis else {}
        written["defaults"] = _nested(everywhere or {})
        written["hosts"] = {
            name: _nested({**self._place(name), **(variables or {}).get(name, {})}) for name in hosts or self.lab.hosts
        }
        self.inventory.touch(mode=0o600)
        # JSON is YAML.
        self.inventory.write_text(json.dumps(written, indent=2) + "\n")

    def begins(self, *args: str, answers: str = "") -> LabCrawlctl:
        """Return a command to be started by entering its context."""
        return LabCrawlctl(self.lab, *args, cwd=self.folder, env=self._env, answers=answers)

    def crawlctl(self, *args: str, answers: str = "", timeout_s: float = LONG_S) -> Finished:
        """Run a command to its end, and return how that was."""
        with self.begins(*args, answers=answers) as command:
            return command.wait(timeout_s=timeout_s)

    def expects(self, *args: str, exit_code: int = 0, timeout_s: float = LONG_S) -> Finished:
        """Run a command that must end with this exit code, and return what it said."""
        return self.crawlctl(*args, timeout_s=timeout_s).expect(exit_code)

    def _place(self, name: str) -> dict[str, Any]:
        address, port = self.lab.ssh_place(name)
        ssh: dict[str, Any] = {"ssh.user": self.lab.user}
        if port != 22:
            ssh |= {"ssh.address": address, "ssh.port": port}
        return {"address": self.lab.address(name), **ssh}


def _nested(variables: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in variables.items():
        section, _, key = name.rpartition(".")
        (found.setdefault(section, {}) if section else found)[key] = value
    return found
