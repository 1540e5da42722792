"""RUNS ON THE HOST: how the programs there run commands, write files, and become the service user for it.

What lies in folders of the service user is touched only as that user, so that no link there leads root astray. Sent
with `on_host.py`; needs Python 3.11.
"""

import gzip
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

LAST_LINES = 12
FULL_BYTES = 1 << 20
"""A disk with less room is full: what was begun and taken back may have left some."""

Operation = dict[str, Any]


class OperationError(Exception):
    """An operation failed; says why in the words of what refused."""


def is_disk_full(folder: str) -> bool:
    """Tell whether the disk of a folder takes no more files; one that is not there is on no full disk."""
    try:
        about = os.statvfs(folder)
    except OSError:
        return False
    has_no_inode = about.f_files > 0 and about.f_favail == 0
    return has_no_inode or about.f_bavail * about.f_frsize < FULL_BYTES


def put(path: Path, content: bytes, mode: int) -> None:
    """Write beside the place, then move there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fchmod(opened.fileno(), mode)
            os.fsync(opened.fileno())
        Path(fresh).replace(path)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise


def drop(content: Any, target: Path, mode: int, *, is_packed: bool) -> None:
    """Copy one member of an archive to its place, whole or not at all."""
    fresh = target.with_name(f".{target.name}.part")
    with fresh.open("wb") as written:
        shutil.copyfileobj(gzip.GzipFile(fileobj=content) if is_packed else content, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())
    fresh.chmod(mode)
    fresh.replace(target)


def crontab_of(whose: list[str]) -> str:
    """Return a user's crontab, empty where there is none; one that cannot be read must not be written over."""
    try:
        done = subprocess.run(
            ["crontab", "-l", *whose],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
            timeout=30,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OperationError("crontab -l does not answer") from error
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode and not any(words in said.lower() for words in ("no crontab", "no such file")):
        raise OperationError(said or f"crontab -l ended with {done.returncode}")
    return "" if done.returncode else done.stdout.decode(errors="surrogateescape")


def run(
    words: list[str],
    *,
    owner: str | None = None,
    environ: dict[str, str] | None = None,
    within_s: float = 60.0,
    given: bytes = b"",
    is_needed: bool = True,
) -> None:
    """Run a command, as a user where we may; its last words tell why it failed."""
    account = pwd.getpwnam(owner) if owner and os.geteuid() == 0 else None
    whose: dict[str, Any] = {}
    if account is not None:
        groups = os.getgrouplist(account.pw_name, account.pw_gid)
        whose = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": groups}
    own = {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name} if account else {}
    lean = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "HOME": os.environ.get("HOME", "/")}
    proxies = {name: text for name, text in os.environ.items() if name.lower().endswith("_proxy")}
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    every = {**lean, **proxies, "XDG_RUNTIME_DIR": runtime, **own, **(environ or {})}
    try:
        done = subprocess.run(
            words, input=given, capture_output=True, env=every, cwd="/", timeout=within_s, check=False, **whose
        )
    except subprocess.TimeoutExpired as error:
        raise OperationError(f"{Path(words[0]).name} took longer than {within_s:g} s") from error
    if done.returncode and is_needed:
        said_ = (done.stderr or done.stdout).decode(errors="replace")
        lines = [line.strip() for line in said_.splitlines() if line.strip()][-LAST_LINES:]
        raise OperationError(" ".join(lines)[-900:] or f"{Path(words[0]).name} ended with {done.returncode}")


def as_user(owner: str | None, act: Callable[[], Any]) -> None:
    """Do something as another user, in a process of its own; as ourselves where we are not root."""
    if owner is None or os.geteuid() != 0 or owner == "root":
        act()
        return
    account = pwd.getpwnam(owner)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            os.initgroups(owner, account.pw_gid)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            act()
            code = 0
        except BaseException as error:  # noqa: BLE001 - a child tells its parent everything, and ends here
            os.write(writing, str(error).encode()[:2000])
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        why = told.read().decode(errors="replace")
    if os.waitpid(child, 0)[1]:
        raise OperationError(why)
