"""One host as a container: its disk, an overlay over the base, and its processes, from boot to loss of power."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from support.lab.base import USER
from support.lab.system import LabError, attempt, is_there, run, text_of
from support.lab.wishes import HostWish
from support.waiting import wait_until

OFF_WITHIN_S = 60.0
_CGROUPS = Path("/sys/fs/cgroup")
_LEFT_BY_NSPAWN = Path("/run/systemd/nspawn/propagate")
_HIERARCHIES = ("", "unified", "systemd", "cpuacct")
_ENVIRONMENT = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
)
_SUDO = {"free": f"{USER} ALL=(ALL) NOPASSWD: ALL\n", "password": f"{USER} ALL=(ALL) ALL\n", "none": ""}
_MAY_REDIAL = "ALL ALL=(root) NOPASSWD: /usr/local/sbin/redial\n"

# What a host without systemd runs: a login over SSH, and cron.
_INIT = """#!/bin/sh
mkdir -p /run/sshd /run/lock
/usr/sbin/sshd
/usr/sbin/cron
while :; do sleep 1; done
"""

# Takes another address, as a dial-up line does when it is dialled again: 10.77.3.11 becomes 10.77.4.11.
_REDIAL = """#!/bin/sh
set -e
old=$(ip -4 -o address show dev eth0 | awk '{print $4; exit}')
new=$(echo "$old" | awk -F. '{print $1"."$2"."($3 % 250 + 1)"."$4}')
ip address del "$old" dev eth0
ip address add "$new" broadcast + dev eth0
ip neigh flush dev eth0
echo "${new%/*}"
"""

# The words after the files: each gets our process id before we become the container. Two systemds share no cgroup.
_IN_OWN_CGROUPS = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo 0 >"$1"; shift; n=$((n - 1)); done; exec "$@"'


class Container:
    """One host of a lab; `folder` is all that it has on this machine's disk."""

    def __init__(self, wish: HostWish, *, lab: str, folder: Path) -> None:
        self.wish = wish
        self.folder = folder
        self._lab = lab
        self._cgroup = f"lab/{lab}/{wish.name}"

    @property
    def root(self) -> Path:
        """Where the host's file system is mounted on this machine."""
        return self.folder / "root"

    @property
    def leader(self) -> int | None:
        """The host's first process as this machine numbers it, `None` when the host is off."""
        guardian = self._guardian
        if guardian is None:
            return None
        children = text_of(Path(f"/proc/{guardian}/task/{guardian}/children")).split()
        return int(children[0]) if children else None

    @property
    def host_key(self) -> str:
        """The public key of the host's SSH server, as known_hosts writes it."""
        return " ".join(text_of(self.root / "etc/ssh/ssh_host_ed25519_key.pub").split()[:2])

    def furnish(self, base: Path, *, authorized: str, redis_password: str) -> None:
        """Give a new host its disk and what distinguishes it."""
        self._mount(base)
        self.make_host_key()
        etc = self.root / "etc"
        (etc / "hostname").write_text(f"{self.wish.name}\n")
        (etc / "resolv.conf").unlink(missing_ok=True)
        (etc / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        keys = self.root / "home" / USER / ".ssh"
        run("install", "-d", "-m", "700", "-o", "1000", "-g", "1000", keys)
        (keys / "authorized_keys").write_text(authorized)
        sudo = etc / "sudoers.d" / USER
        sudo.write_text(_SUDO[self.wish.sudo] + (_MAY_REDIAL if self.wish.dials_up else ""))
        sudo.chmod(0o440)
        self._furnish_programs()
        if self.wish.redis:
            with (etc / "redis/redis.conf").open("a") as file:
                file.write(f"requirepass {redis_password}\n")
            run("systemctl", f"--root={self.root}", "enable", "-q", "redis-server")

    def make_host_key(self) -> None:
        """Give the host a new key, as it has after it was installed anew."""
        path = self.root / "etc/ssh/ssh_host_ed25519_key"
        for old in (path, path.with_suffix(".pub")):
            old.unlink(missing_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.wish.name, "-f", path)

    def boot(self, namespace: Path) -> None:
        """Start the host in a network namespace; it needs a moment to come up. Nothing happens when it runs."""
        if self._guardian is not None:
            return
        words = [
            "systemd-nspawn",
            "--quiet",
            "--register=no",
            "--keep-unit",
            f"--machine={self._lab}-{self.wish.name}",
            f"--hostname={self.wish.name}",
            f"--directory={self.root}",
            f"--network-namespace-path={namespace}",
            "--capability=CAP_NET_ADMIN",
            "--resolv-conf=off",
            "--timezone=off",
            "--console=pipe",
            *(("--boot",) if self.wish.systemd else ("--as-pid2", "/usr/local/sbin/lab-init")),
        ]
        groups = [str(group / "cgroup.procs") for group in self._own_cgroups()]
        with (self.folder / "console.log").open("ab") as console:
            guardian = subprocess.Popen(
                ["sh", "-c", _IN_OWN_CGROUPS, "sh", str(len(groups)), *groups, *words],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        guardian.returncode = 0  # Another process may end it: nobody here waits for it.
        (self.folder / "pid").write_text(str(guardian.pid))

    def crash(self) -> None:
        """Cut the power: every process of the host is gone at once, its disk stays as it is."""
        leader = self.leader
        if leader is not None:
            os.kill(leader, signal.SIGKILL)  # A PID namespace ends with its first process.
        elif (guardian := self._guardian) is not None:
            os.kill(guardian, signal.SIGKILL)
        wait_until(lambda: self._guardian is None, deadline_s=OFF_WITHIN_S, what=f"{self.wish.name} to be off")

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command that runs these words on the host as root, in a login's plain environment.

        Raises:
            LabError: the host is off.

        """
        leader = self.leader
        if leader is None:
            raise LabError(f"{self.wish.name} is off; its console: {self.folder / 'console.log'}")
        return ["nsenter", "-t", str(leader), "-a", "-r", "-w", "env", "-i", *_ENVIRONMENT, *words]

    def cpu_s(self) -> float:
        """Return how many seconds of processors all processes of the host have used so far."""
        nanoseconds = text_of(_CGROUPS / "cpuacct" / self._cgroup / "cpuacct.usage")
        if nanoseconds:
            return int(nanoseconds) / 1e9
        lines = dict(line.split() for line in text_of(_CGROUPS / self._cgroup / "cpu.stat").splitlines())
        return int(lines.get("usage_usec", 0)) / 1e6

    def remove(self) -> None:
        """Take the host away with its disk."""
        self.crash()
        for place in (self.root, self.folder / "disk"):
            if os.path.ismount(place):
                run("umount", "-l", place)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(_LEFT_BY_NSPAWN / f"{self._lab}-{self.wish.name}", ignore_errors=True)
        for group in self._cgroup_folders():
            for folder, _, _ in os.walk(group, topdown=False):
                Path(folder).rmdir()
            with suppress(OSError):  # Other hosts of the lab are still there.
                group.parent.rmdir()

    @property
    def _guardian(self) -> int | None:
        """The process of this machine that holds the container, while it does."""
        pid = int(text_of(self.folder / "pid") or 0)
        if not pid or not is_there(pid):
            return None
        said = text_of(Path(f"/proc/{pid}/cmdline"))
        return pid if f"--directory={self.root}\0" in said else None

    def _mount(self, base: Path) -> None:
        disk = self.folder / "disk"
        for folder in (self.root, disk):
            folder.mkdir(parents=True)
        if self.wish.disk_mb is not None:
            run("mount", "-t", "tmpfs", "-o", f"size={self.wish.disk_mb}m", "lab", disk)
        for folder in (disk / "upper", disk / "work"):
            folder.mkdir()
        layers = f"lowerdir={base},upperdir={disk}/upper,workdir={disk}/work"
        # volatile: nobody's data is on these disks, and they are mounted until they are removed.
        if not attempt("mount", "-t", "overlay", "lab", "-o", f"{layers},volatile", self.root):
            run("mount", "-t", "overlay", "lab", "-o", layers, self.root)

    def _furnish_programs(self) -> None:
        brought = {} if self.wish.systemd else {"lab-init": _INIT}
        if self.wish.dials_up:
            brought["redial"] = _REDIAL
        for name, text in brought.items():
            program = self.root / "usr/local/sbin" / name
            program.write_text(text)
            program.chmod(0o755)
        if not self.wish.python:
            for program in (self.root / "usr/bin").glob("python3*"):
                program.unlink()

    def _own_cgroups(self) -> list[Path]:
        groups = self._cgroup_folders(must_exist=False)
        for group in groups:
            group.mkdir(parents=True, exist_ok=True)
        return groups

    def _cgroup_folders(self, *, must_exist: bool = True) -> list[Path]:
        tops = [_CGROUPS / name for name in _HIERARCHIES]
        folders = [top / self._cgroup for top in tops if (top / "cgroup.procs").exists()]
        return [folder for folder in folders if folder.exists() or not must_exist]
