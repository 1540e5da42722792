"""RUNS ON THE HOST: looks at everything that planning needs, and changes nothing. Sent there with `on_host.py`.

It prints one line that begins with `MARK`. With root's rights it reads files that others own, so it follows no links
and opens nothing but plain files.
"""
# ruff: noqa: PTH110, PTH112, PTH114, PTH115, PTH116, PTH118, PTH119, PTH120, PTH123, FBT001, PLR2004

import contextlib
import errno
import hashlib
import json
import os
import pwd
import shutil
import socket
import stat
import sys
import threading
import time

from toolkit.provision.on_host import boot_id, has_user, me, names, owner, plain, said

MARK = "crawlctl-facts:"
MAX_FILES = 100
REACH_WITHIN_S = 4.0
NEWER = ("python3.13", "python3.12", "python3.11")


def look(wishes: "dict[str, object]") -> "dict[str, object]":
    """Return the facts as JSON can hold them; `wishes` says where to look."""
    reached, asking = begin_reaching(wishes["redis"])  # type: ignore[arg-type]
    is_root = os.geteuid() == 0
    login = pwd.getpwnam(os.environ["SUDO_USER"]) if is_root and "SUDO_USER" in os.environ else me()
    service_user = str(wishes["user"]) if is_root else login.pw_name
    folder = str(wishes["folder"] or ("/opt/crawlctl" if is_root else "~/.local/share/crawlctl"))
    if folder.startswith("~/"):
        folder = os.path.join(login.pw_dir, folder[2:])
    user_unit = os.path.join(login.pw_dir, ".config/systemd/user", "{}.service".format(wishes["unit"]))
    system_unit = "/etc/systemd/system/{}.service".format(wishes["unit"])
    services = [each for each in (system_service(wishes), user_service(wishes), kept_service(folder)) if each]
    found = {
        "folder": folder,
        "home": login.pw_dir,
        "user": login.pw_name,
        "is_root": is_root,
        "service_user": service_user,
        "has_service_user": has_user(service_user),
        "python": [sys.executable, list(sys.version_info[:3])],
        "lacks_python": os.environ.get("LACKED_PYTHON"),
        "python_error": python_error(),
        "pythons": other_pythons() if sys.version_info < (3, 11) else [],
        "system": sys.platform,
        "machine": os.uname().machine,
        "libc": libc(),
        "has_systemd": os.path.isdir("/run/systemd/system"),
        "has_user_manager": has_user_manager(),
        "lingers": os.path.exists("/var/lib/systemd/linger/" + login.pw_name),
        "can_linger": can_linger(),
        "has_cron": shutil.which("crontab") is not None,
        "crontab": crontab(service_user, is_root),
        "is_writable": is_root or os.access(existing(folder), os.W_OK | os.X_OK),
        "disk_free_mb": disk_free_mb(folder),
        "memory_mb": memory_mb(),
        "processors": os.cpu_count() or 1,
        "files": files([folder, os.path.join(folder, "bin"), os.path.join(folder, "node")], [system_unit, user_unit]),
        "folders": folders(
            [folder] + [os.path.join(folder, name) for name in ("bin", "wheels", "envs", "cache", "node")]
        ),
        "environment": environment(os.path.join(folder, "env")),
        "wheels": names(os.path.join(folder, "wheels")),
        "uv": uv_version(os.path.join(folder, "bin", "uv")),
        "services": services,
        "bind_error": bind_error(str(wishes["bind"])),
        "port_holder": port_holder(int(str(wishes["port"])), [each["pid"] for each in services]),
        "firewalls": firewalls(is_root),
        "lock": lock(os.path.join(folder, ".provisioning")),
        "is_restart_due": os.path.exists(os.path.join(folder, ".restart-due")),
    }
    asking.join(REACH_WITHIN_S)
    found["redis"] = reached
    found["clock_s"] = time.time()
    return found


def other_pythons() -> "list[list[object]]":
    """Return the newer Pythons beside the one that runs this."""
    found = []  # type: list[list[object]]
    for name in NEWER:
        path = shutil.which(name)
        code, text = said([path, "-c", "import sys; print(*sys.version_info[:3])"]) if path else (1, "")
        if code == 0:
            found.append([path, [int(part) for part in text.split()]])
    return found


def python_error() -> "str | None":
    """Say which part of its standard library this Python lacks, as distributions split it."""
    for name in ("venv", "zipfile", "sqlite3", "ssl", "ctypes"):
        try:
            __import__(name)
        except ImportError as error:
            return str(error)
    return None


def libc() -> "list[object]":
    """Return the C library's kind and version."""
    try:
        kind, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
        return [kind, [int(part) for part in version.split(".")[:2]]]
    except (ValueError, OSError):
        return ["musl" if sys.platform == "linux" else "other", [0, 0]]


def runtime() -> "dict[str, str]":
    """Return what systemctl --user needs to find its manager."""
    return {"XDG_RUNTIME_DIR": os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"}


def has_user_manager() -> bool:
    """Tell whether systemd's user manager of this user answers."""
    if not os.path.exists(os.path.join(runtime()["XDG_RUNTIME_DIR"], "systemd", "private")):
        return False
    return said(["systemctl", "--user", "show-environment"], runtime())[0] == 0


def can_linger() -> bool:
    """Tell whether this user may let its own services run without a login; without polkit only root may."""
    action = ["--action-id", "org.freedesktop.login1.set-self-linger", "--process", str(os.getpid())]
    return shutil.which("pkcheck") is not None and said(["pkcheck", *action])[0] == 0


def system_service(wishes: "dict[str, object]") -> "dict[str, object] | None":
    """Return what the system manager says of the node."""
    if not os.path.isdir("/run/systemd/system"):
        return None
    return shown("system", ["systemctl"], str(wishes["unit"]), {})


def user_service(wishes: "dict[str, object]") -> "dict[str, object] | None":
    """Return what the user manager says of the node."""
    if os.geteuid() == 0 or not has_user_manager():
        return None
    return shown("user", ["systemctl", "--user"], str(wishes["unit"]), runtime())


def shown(manager: str, words: "list[str]", unit: str, environ: "dict[str, str]") -> "dict[str, object] | None":
    """Return what systemd says of a unit, `None` for one that it does not know."""
    properties = "LoadState,ActiveState,SubState,UnitFileState,MainPID,NeedDaemonReload"
    _, text = said([*words, "show", unit + ".service", "--property=" + properties], environ)
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if values.get("LoadState", "not-found") == "not-found":
        return None
    return {
        "manager": manager,
        "is_active": values.get("ActiveState") in {"active", "reloading"},
        "is_enabled": values.get("UnitFileState") == "enabled",
        "pid": int(values.get("MainPID") or 0) or None,
        "sub_state": "{} ({})".format(values.get("ActiveState"), values.get("SubState")),
        "needs_reload": values.get("NeedDaemonReload") == "yes",
    }


def kept_service(folder: str) -> "dict[str, object] | None":
    """Return what a keeper of crawlctl's own has noted, where one was there."""
    try:
        noted = json.loads((plain(os.path.join(folder, "node", "keeper.json")) or b"").decode())
        pid, keeper = int(noted["pid"]), int(noted["keeper_pid"])
        runs = lives(pid, str(noted["start"]))
        is_kept = lives(keeper, str(noted["keeper_start"]))
    except (ValueError, KeyError, TypeError):
        return None
    stopped = os.path.exists(os.path.join(folder, "node", "keeper.stopped"))
    return {
        "manager": "supervisor",
        "is_active": runs and is_kept,
        "is_enabled": not stopped,
        "pid": pid if runs else None,
        "sub_state": "stopped" if stopped else "kept" if is_kept else "not kept",
        "needs_reload": False,
    }


def lives(pid: int, start: str) -> bool:
    """Tell whether the process with this id and start time runs."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZXx" and start == f"{boot_id()}:{fields[19]}"


def crontab(user: str, is_root: bool) -> str:
    """Return the user's crontab, empty where there is none."""
    if shutil.which("crontab") is None or (is_root and not has_user(user)):
        return ""
    code, text = said(["crontab", "-l"] + (["-u", user] if is_root else []))
    return text if code == 0 else ""


def existing(path: str) -> str:
    """Return the path, or the nearest folder above it that is there."""
    while not os.path.isdir(path) and path != "/":
        path = os.path.dirname(path) or "/"
    return path


def disk_free_mb(folder: str) -> int:
    """Return how much room is left for us where the folder is, or would be."""
    room = os.statvfs(existing(folder))
    return int(room.f_bavail * room.f_frsize // 1_000_000)


def memory_mb() -> int:
    """Return how much memory the host has."""
    try:
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000)
    except (ValueError, OSError):
        return 0


def files(places: "list[str]", more: "list[str]") -> "dict[str, object]":
    """Return the small files that lie in these folders themselves, and some more."""
    found = {}  # type: dict[str, object]
    inside = [os.path.join(place, name) for place in places for name in names(place)]
    for path in inside + more:
        content = plain(path) if len(found) < MAX_FILES else None
        if content is None:
            continue
        about = os.lstat(path)
        try:
            text = content.decode()  # type: str | None
        except UnicodeDecodeError:
            text = None
        found[path] = [hashlib.sha256(content).hexdigest(), stat.S_IMODE(about.st_mode), owner(about), text]
    return found


def folders(paths: "list[str]") -> "dict[str, object]":
    """Return mode and owner of the folders that are there."""
    found = {}  # type: dict[str, object]
    for path in paths:
        with contextlib.suppress(OSError):
            about = os.lstat(path)
            if stat.S_ISDIR(about.st_mode):
                found[path] = ["", stat.S_IMODE(about.st_mode), owner(about), None]
    return found


def environment(link: str) -> "dict[str, object] | None":
    """Return what is in the environment that the link names."""
    if not os.path.islink(link):
        return None
    place = os.path.realpath(link)
    packages = {}  # type: dict[str, str]
    for library in names(os.path.join(place, "lib")):
        site = os.path.join(place, "lib", library, "site-packages")
        for name in names(site):
            if name.endswith(".dist-info") and "-" in name:
                package, version = name[: -len(".dist-info")].rsplit("-", 1)
                packages[package.lower().replace("_", "-").replace(".", "-")] = version
    try:
        noted = json.loads((plain(os.path.join(place, "complete.json")) or b"null").decode())
    except ValueError:
        noted = None
    return {"id": os.path.basename(place), "packages": packages, "noted": noted}


def uv_version(path: str) -> "str | None":
    """Return the version of the uv that provisioning brought here; nobody else's program is run with our rights."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    is_ours = about.st_uid in {0, os.geteuid()} and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    code, text = said([path, "--version"]) if is_ours else (1, "")
    return text.split()[1] if code == 0 and len(text.split()) > 1 else None


def bind_error(address: str) -> "str | None":
    """Say why nothing can listen on this address of ours."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
            probe.bind((address, 0))
    except OSError as error:
        return "not ours" if error.errno == errno.EADDRNOTAVAIL else str(error)
    return None


def port_holder(port: int, own: "list[object]") -> "str | None":
    """Return the process that listens on the port, unless it is the node."""
    sockets = set()  # type: set[str]
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table) as lines:
            for line in lines:
                fields = line.split()
                if len(fields) > 9 and fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    sockets.add(f"socket:[{fields[9]}]")
    if not sockets or any(pid and holds(str(pid), sockets) for pid in own):
        return None
    for pid in names("/proc"):
        if pid.isdigit() and holds(pid, sockets):
            return named(pid)
    return "another process"


def holds(pid: str, sockets: "set[str]") -> bool:
    """Tell whether a process has one of the sockets open."""
    place = f"/proc/{pid}/fd"
    for name in names(place):
        with contextlib.suppress(OSError):
            if os.readlink(os.path.join(place, name)) in sockets:
                return True
    return False


def named(pid: str) -> str:
    """Return a process's name and number."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            name = file.read().strip()
    except OSError:
        name = "a process"
    return "{} (pid {}, user {})".format(name, pid, owner(os.stat("/proc/" + pid)))


def firewalls(is_root: bool) -> "list[str]":
    """Return the firewalls that seem to be on."""
    found = []
    if os.path.exists("/etc/ufw/ufw.conf") and b"ENABLED=yes" in (plain("/etc/ufw/ufw.conf") or b""):
        found.append("ufw")
    if os.path.isdir("/run/firewalld"):
        found.append("firewalld")
    if not found and is_root and shutil.which("nft") and "hook input" in said(["nft", "list", "ruleset"])[1]:
        found.append("nft")
    return found


def lock(path: str) -> "dict[str, object] | None":
    """Return who provisions the host now, or was cut short."""
    try:
        noted = json.loads((plain(path) or b"").decode())
        age_s = time.time() - os.lstat(path).st_mtime
        is_of_this_boot = noted.get("boot") == boot_id()
        return {
            "who": str(noted["who"]),
            "token": str(noted["token"]),
            "age_s": max(0.0, age_s),
            "is_of_this_boot": is_of_this_boot,
        }
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None


def begin_reaching(places: "list[list[object]]") -> "tuple[dict[str, str | None], threading.Thread]":
    """Try to connect to each place, beside everything else; what has not answered by then is silent."""
    reached = {f"{host}:{port}": "no answer" for host, port in places}  # type: dict[str, str | None]

    def reach() -> None:
        for host, port in places:
            try:
                socket.create_connection((host, port), timeout=REACH_WITHIN_S - 1).close()  # type: ignore[arg-type]
            except OSError as error:
                reached[f"{host}:{port}"] = error.strerror or str(error)
            else:
                reached[f"{host}:{port}"] = None

    thread = threading.Thread(target=reach)
    thread.daemon = True
    thread.start()
    return reached, thread


def main(wishes: "dict[str, object]") -> None:
    """Print the facts."""
    sys.stdout.write("\n" + MARK + json.dumps(look(wishes)) + "\n")
    sys.stdout.flush()
