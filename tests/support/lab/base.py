"""The Debian that all hosts of all labs are made from: built once, kept, and only ever read afterwards.

Nothing of crawlctl and no package of Python's is in it. Building needs root and Debian's package servers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.debian import ensure_installed, untimed, why_not_installed
from support.lab.system import LAB_DIR, LabError, attempt, run

USER = "deploy"
PASSWORD = "the-one-of-deploy"

_SUITE = "bookworm"
_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "systemd-nspawn": "systemd-container",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
    "nft": "nftables",
}
_PACKAGES = (
    "ca-certificates",
    "cron",
    "dbus",
    "dbus-user-session",
    "iproute2",
    "iputils-ping",
    "libpam-systemd",
    "openssh-server",
    "procps",
    "python3",
    "redis-server",
    "sudo",
    "systemd",
    "systemd-sysv",
)

_MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "systemd-pstore.service",
    "console-getty.service",
)

_FURNISH = f"""
useradd -m -s /bin/bash {USER}
echo '{USER}:{PASSWORD}' | chpasswd
rm -f /etc/ssh/ssh_host_*
: > /etc/machine-id
printf 'UseDNS no\\nMaxStartups 100\\n' >> /etc/ssh/sshd_config
systemctl --root=/ disable -q redis-server
systemctl --root=/ mask -q {" ".join(_MASKED)}
sed -i 's/^bind .*/bind 0.0.0.0/; s/^appendonly .*/appendonly yes/' /etc/redis/redis.conf
"""


def why_not() -> str | None:
    """Say what this machine lacks for a lab, `None` where there can be one."""
    if os.geteuid() != 0:
        return "real hosts need root: containers, mounts, network namespaces"
    return why_not_installed(_TOOLS)


def ensure_base() -> Path:
    """Return the folder of the base, built where it is not there yet; whoever comes meanwhile waits for it."""
    digest = hashlib.sha256("\n".join((_SUITE, *_PACKAGES, _FURNISH)).encode()).hexdigest()[:12]
    base = LAB_DIR / f"base-{digest}"
    with untimed(), locked("base"):
        ensure_installed(_TOOLS)
        if not base.exists():
            _build(base)
    return base


@contextmanager
def locked(what: str) -> Iterator[None]:
    """Be the only process of this machine that does this to the lab's folder, which is there from then on."""
    LAB_DIR.mkdir(parents=True, exist_ok=True)
    with (LAB_DIR / f"{what}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(base: Path) -> None:
    """Make the base aside and move it in place whole: a build that was interrupted is never used."""
    aside = base.with_suffix(".new")
    if aside.exists():
        attempt("umount", "-R", aside / "proc")
        shutil.rmtree(aside)
    run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(_PACKAGES)}", _SUITE, aside)
    run("chroot", aside, "sh", "-ec", _FURNISH)
    if not (aside / "usr/bin/python3").exists():
        raise LabError(f"the base in {aside} has no Python")
    aside.rename(base)
