"""Runs ON a host, fed to its own Python (3.7 or newer) over SSH: prints what a doctor wants to know, as a line of JSON.

Needs nothing but Python and /proc; looks, and changes nothing. Arguments: the node's port, its folder, and the Redis'
name and port as the host reaches it, or nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

RUNNERS = ("scrapyd.runner", "toolkit.node.runner")
OURS = RUNNERS[1]
VARIABLE = "CRAWLCTL_RUN="
LISTENS = "0A"
TRIES = 3
RECORD, OWN_FOLDER = "provisioned.json", "~/.local/share/crawlctl"
MAX_SPIDERS = 500
PROC = Path("/proc")


def disk(folder: str) -> object:
    """Return the free and the whole bytes of the disk that holds the folder, or would."""
    place = Path(folder).expanduser()
    existing = next(each for each in (place, *place.parents) if each.exists())
    usage = shutil.disk_usage(str(existing))
    return [usage.free, usage.total]


def memory() -> object:
    """Return the available and the whole bytes of memory."""
    known = dict(line.split(":", 1) for line in (PROC / "meminfo").read_text().splitlines())
    return [int(known[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal")]


def listening(port: int) -> object:
    """Return the addresses at which something listens on the port."""
    found = []
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        table = PROC / "net" / name
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            place, _, number = fields[1].partition(":")
            if fields[3] == LISTENS and int(number, 16) == port:
                words = [place[at : at + 8] for at in range(0, len(place), 8)]
                packed = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
                found.append(socket.inet_ntop(family, packed))
    return found


def addresses() -> object:
    """Return the IPv4 addresses of this host, as its routing table has them."""
    found, last = set(), ""
    for line in (PROC / "net" / "fib_trie").read_text().splitlines():
        words = line.replace("|--", " ").split()
        if "LOCAL" in words:
            found.add(last)
        elif words and "/" not in words[-1]:
            last = words[-1]
    return sorted(found)


def way_to(host: str, port: int) -> object:
    """Return how long connecting to a place takes, and where its name leads, or why that does not work."""
    try:
        told = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        taken = []
        for _ in range(TRIES):
            begun = time.time()
            socket.create_connection((host, port), timeout=5).close()
            taken.append(time.time() - begun)
    except OSError as error:
        return {"seconds": None, "addresses": [], "why": (error.strerror or str(error)).lower()}
    return {"seconds": min(taken), "addresses": sorted({str(each[4][0]) for each in told}), "why": None}


def spiders() -> object:
    """Return the processes of jobs: who they are, whose child, for how long, and whether their folder is there."""
    uptime_s = float((PROC / "uptime").read_text().split()[0])
    boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    found = []
    for pid in (each.name for each in PROC.iterdir() if each.name.isdigit()):
        words = words_of(pid)
        if "crawl" not in words or not any(name in words for name in RUNNERS):
            continue
        try:
            fields = (PROC / pid / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        ticks, parent = int(fields[19]), int(fields[1])
        found.append(
            {
                "pid": int(pid),
                "parent": parent,
                "parent_is_scrapyd": any("scrapyd" in word for word in words_of(str(parent))),
                "start": f"{boot}:{ticks}",
                "age_s": uptime_s - ticks / os.sysconf("SC_CLK_TCK"),
                "is_ours": OURS in words,
                "job": next((word[5:] for word in words if word.startswith("_job=")), None),
                "has_folder": has_folder(pid),
            }
        )
    return found[:MAX_SPIDERS]


def packages() -> object:
    """Return the distributions that the Scrapyd of this host was started with, where all that run have the same."""
    prefixes = set()
    for each in PROC.iterdir():
        words = words_of(each.name) if each.name.isdigit() else []
        if any(word == "scrapyd" or word.endswith("/scrapyd") for word in words[:4]) and words[0].startswith("/"):
            prefixes.add(Path(words[0]).parent.parent)
    if len(prefixes) != 1:
        return None
    found = {}
    for place in prefixes.pop().glob("lib/python3*/site-packages"):
        found["python"] = place.parent.name[len("python") :]
        for each in place.glob("*.dist-info"):
            name, _, version = each.name[: -len(".dist-info")].partition("-")
            found[name.replace("_", "-")] = version
    return found


def is_provisioned(folder: str) -> object:
    """Tell whether crawlctl has ever provisioned this host."""
    return any((Path(each).expanduser() / RECORD).exists() for each in (folder, OWN_FOLDER))


def words_of(pid: str) -> list[str]:
    """Return a process' command line."""
    try:
        return (PROC / pid / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


def has_folder(pid: str) -> object:
    """Tell whether a job's folder is still there; nothing when it has none, or we may not look."""
    try:
        variables = os.fsdecode((PROC / pid / "environ").read_bytes()).split("\0")
        path = next(each[len(VARIABLE) :] for each in variables if each.startswith(VARIABLE))
        Path(path).stat()
    except FileNotFoundError as error:
        return None if str(PROC) in str(error.filename) else False
    except (OSError, StopIteration):
        return None
    return True


def main(words: list[str]) -> None:
    """Print what this host is like; what the system does not tell is left out."""
    port, folder, redis_host, redis_port = (*words, "", "")[:4]
    told: dict[str, object] = {"clock_s": time.time(), "uid": os.getuid(), "python": list(sys.version_info[:3])}
    looks: dict[str, Callable[[], object]] = {
        "disk": lambda: disk(folder),
        "memory": memory,
        "listening": lambda: listening(int(port)),
        "addresses": addresses,
        "spiders": spiders,
        "packages": packages,
        "is_provisioned": lambda: is_provisioned(folder),
        "redis": lambda: way_to(redis_host, int(redis_port)) if redis_host else None,
    }
    for name, look in looks.items():
        try:
            told[name] = look()
        except (OSError, ValueError, KeyError, IndexError):
            told[name] = None
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
