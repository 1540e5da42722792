"""RUNS ON THE HOST: what the programs share that are sent there over a connection's stdin.

They must run on any Python 3 from 3.6 on, with nothing but its standard library, so they are written for that one and
import nothing of crawlctl: `programs.py` puts them together.
"""
# ruff: noqa: PTH208

import os
import pwd
import stat
import subprocess

MAX_TEXT_BYTES = 200_000


def me() -> "pwd.struct_passwd":
    """Return who runs this; one that no user database knows has the home folder that the environment says."""
    try:
        return pwd.getpwuid(os.geteuid())
    except KeyError:
        home = os.environ.get("HOME", "/")
        return pwd.struct_passwd((str(os.geteuid()), "x", os.geteuid(), os.getegid(), "", home, "/bin/sh"))


def has_user(name: str) -> bool:
    """Tell whether the host knows this user."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def said(words: "list[str]", environ: "dict[str, str] | None" = None) -> "tuple[int, str]":
    """Run a program that only tells something; one that is not there, or hangs, says nothing."""
    try:
        done = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(os.environ, LC_ALL="C", **(environ or {})),
        )
        output = done.communicate(timeout=10)[0]
    except subprocess.TimeoutExpired:
        done.kill()
        return 1, ""
    except OSError:
        return 1, ""
    return done.returncode, output.decode("utf-8", "replace")


def plain(path: str) -> "bytes | None":
    """Return what is in a plain file that is not too large, never through a link."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_TEXT_BYTES:
            return None
        return os.read(file, MAX_TEXT_BYTES)
    finally:
        os.close(file)


def owner(about: "os.stat_result") -> str:
    """Return who a file belongs to, by name where there is one."""
    try:
        return pwd.getpwuid(about.st_uid).pw_name
    except KeyError:
        return str(about.st_uid)


def names(folder: str) -> "list[str]":
    """Return the names in a folder, none where there is no such folder."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def boot_id() -> str:
    """Return what tells this boot of the host from others."""
    return (plain("/proc/sys/kernel/random/boot_id") or b"").decode().strip()
