"""Runs ON a host: asks one process to close (SIGINT, as Scrapyd's cancel does), if it is still the one that was meant.

Arguments: its id, its start (`boot:ticks`), and for how many seconds its end is waited for. Prints how it went.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def start_of(pid: int) -> str:
    """Return the boot and the clock ticks at which a process began; nothing for one that is gone, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "" if fields[0] in {b"Z", b"X"} else f"{boot}:{int(fields[19])}"


def main(words: list[str]) -> int:
    """Ask, wait, and tell."""
    pid, start, within_s = int(words[0]), words[1], float(words[2])
    ends_at = time.monotonic() + within_s
    if start_of(pid) != start:
        sys.stdout.write("it had ended by itself\n")
        return 0
    os.kill(pid, signal.SIGINT)
    while start_of(pid) == start:
        if time.monotonic() > ends_at:
            sys.stdout.write(f"it was asked to end, and is still there after {within_s:g} s\n")
            return 1
        time.sleep(0.1)
    sys.stdout.write("it has ended\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
