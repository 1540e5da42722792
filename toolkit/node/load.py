"""How much this machine has left: processors, memory, disk. Read from the system, with nothing but Python."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Load:
    """What is left; `None` where the system does not tell. `load` is the one-minute load average a processor."""

    load: float | None = None
    memory_free_mb: int | None = None
    disk_free_mb: int | None = None


def measure(folder: Path) -> Load:
    """Look at the machine now, and at the disk that holds the folder. Takes well under a millisecond."""
    return Load(load=_load(), memory_free_mb=_memory_free_mb(), disk_free_mb=_disk_free_mb(folder))


def shortage(load: Load, *, min_memory_mb: int, min_disk_mb: int) -> str | None:
    """Say what there is too little of to take another job, or return `None`. What is not known is no shortage."""
    if load.memory_free_mb is not None and load.memory_free_mb < min_memory_mb:
        return f"only {load.memory_free_mb} MB of memory are free, fewer than min_memory_mb = {min_memory_mb}"
    if load.disk_free_mb is not None and load.disk_free_mb < min_disk_mb:
        return f"only {load.disk_free_mb} MB of disk are free, fewer than min_disk_mb = {min_disk_mb}"
    return None


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)
    except OSError:
        return None


def _memory_free_mb() -> int | None:
    """Return the smaller of what the machine has available and what the container's limit leaves."""
    known = [free for free in (_available_bytes(), _left_in_container_bytes()) if free is not None]
    return min(known) // _MB if known else None


def _available_bytes() -> int | None:
    try:
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _left_in_container_bytes() -> int | None:
    """Read control group v2; page cache, which the kernel gives back under pressure, counts as left."""
    try:
        limit = (_CGROUP / "memory.max").read_text(encoding="ascii").strip()
        if not limit.isdecimal():
            return None
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text(encoding="ascii").splitlines())
        return max(0, int(limit) - used + int(stat.get("inactive_file", 0)))
    except (OSError, ValueError):
        return None


def _disk_free_mb(folder: Path) -> int | None:
    existing = next((place for place in (folder, *folder.parents) if place.exists()), None)
    try:
        return None if existing is None else shutil.disk_usage(existing).free // _MB
    except OSError:
        return None
