"""RUNS ON THE HOST, with root's rights where there are any: carries out operations one after the other.

Each operation is a mapping with its kind under `do`; doing it twice is as good as once. What lies in folders of the
service user is touched only as that user, so that no link there leads root astray. The first one that fails ends the
program; its answer then says what was under way, and why. Sent there with `on_host.py`; needs Python 3.11.
"""

import base64
import contextlib
import hashlib
import http.client
import json
import os
import pwd
import shutil
import ssl
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolkit.provision.on_host import boot_id, has_user, plain, said
from toolkit.provision.on_host_acting import (
    LAST_LINES,
    Operation,
    OperationError,
    as_user,
    crontab_of,
    drop,
    is_disk_full,
    put,
    run,
)
from toolkit.provision.packages_program import environment, program_of_wheel, prune, resolve

MARK = "crawlctl-steps:"
JOINED_WITHIN_S = 10.0
FULL_WITHIN_S = 10.0
"""A node that did not start within this time on a full disk will not start."""


def user(wanted: Operation) -> None:
    """Make a user without a login, unless it is there."""
    if has_user(wanted["name"]):
        return
    words = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]
    if shutil.which("useradd") is None:
        words = ["adduser", "-S", "-D", "-H", "-s", "/sbin/nologin", "-h", wanted["home"], wanted["name"]]
        run(["addgroup", "-S", wanted["name"]], is_needed=False)
        run([*words[:2], "-G", wanted["name"], *words[2:]])
        return
    run([*words, "--home-dir", wanted["home"], wanted["name"]])


def folder(wanted: Operation) -> None:
    """Make a folder, with this mode and owner."""
    path = Path(wanted["path"])
    path.mkdir(parents=True, exist_ok=True)
    place = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.geteuid() == 0:
            account = pwd.getpwnam(wanted["owner"])
            os.fchown(place, account.pw_uid, account.pw_gid)
        os.fchmod(place, wanted["mode"])
    finally:
        os.close(place)


def file(wanted: Operation) -> None:
    """Put a file in place whole, with this mode, as the user whose it shall be."""
    content = wanted["text"].encode()
    as_user(wanted.get("owner"), lambda: put(Path(wanted["path"]), content, wanted["mode"]))


def remove(wanted: Operation) -> None:
    """Remove a file, if it is there."""
    as_user(wanted.get("owner"), lambda: Path(wanted["path"]).unlink(missing_ok=True))


def unpack(wanted: Operation) -> None:
    """Put what came in an archive where it belongs, once its bytes are what was sent; the archive goes."""
    archive = Path(wanted["archive"])
    try:
        with archive.open("rb") as opened:
            if hashlib.file_digest(opened, "sha256").hexdigest() != wanted["digest"]:
                raise OperationError("what came is not what was sent")
            opened.seek(0)
            with tarfile.open(fileobj=opened) as packed:
                for member in packed:
                    target = Path(wanted["into"][member.name])
                    content = packed.extractfile(member)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    if content is not None:
                        drop(content, target, member.mode, is_packed=member.name.endswith(".gz"))
    finally:
        archive.unlink(missing_ok=True)


def link(wanted: Operation) -> None:
    """Let a link name another place, in one move."""
    fresh = f"{wanted['path']}.{os.getpid()}"
    Path(fresh).symlink_to(wanted["target"])
    Path(fresh).replace(wanted["path"])


def command(wanted: Operation) -> None:
    """Run a command that must end well."""
    run(wanted["words"], owner=wanted.get("owner"), within_s=wanted.get("timeout_s", 90.0))


def crontab(wanted: Operation) -> None:
    """Let the user's crontab have exactly these lines that end with our mark, beside what else is in it."""
    whose = ["-u", wanted["owner"]] if os.geteuid() == 0 else []
    others = [line for line in crontab_of(whose).splitlines() if not line.endswith(wanted["mark"])]
    content = "".join(f"{line}\n" for line in [*others, *wanted["lines"]])
    run(["crontab", *whose, "-"], given=content.encode(errors="surrogateescape"))


def lock(wanted: Operation) -> None:
    """Take the right to provision this host, or keep it; take it over where that was decided."""
    path = Path(wanted["path"])
    noted = json.dumps({"who": wanted["who"], "token": wanted["token"], "boot": boot_id()}).encode()
    fresh = path.with_name(f"{path.name}.{wanted['token']}")
    put(fresh, noted, 0o644)
    try:
        # A link appears with its whole text, and fails if the name is taken.
        path.hardlink_to(fresh)
    except FileExistsError:
        held = json.loads(path.read_text(encoding="utf-8"))
        if held["token"] not in {wanted["token"], wanted["takes_over"]}:
            raise OperationError(f"{held['who']} provisions this host now") from None
        put(path, noted, 0o644)
    finally:
        fresh.unlink(missing_ok=True)


def keep_lock(wanted: Operation) -> None:
    """Make sure that the host is still ours: our operator may be gone, and another one at work here."""
    held = json.loads((plain(wanted["path"]) or b"{}").decode())
    if held.get("token", wanted["token"]) != wanted["token"]:
        raise OperationError(f"{held['who']} provisions this host now")


def unlock(wanted: Operation) -> None:
    """Give the right back, if it is still ours."""
    path = Path(wanted["path"])
    with contextlib.suppress(OSError, ValueError):
        if json.loads(path.read_text(encoding="utf-8")).get("token") == wanted["token"]:
            path.unlink()


def answers(wanted: Operation) -> str | None:
    """Wait until the node answers under its name and has joined its cluster; return why it takes no job, if it does."""
    begun = time.monotonic()
    waited = None
    while True:
        name, unfit = asked(wanted)
        if name == wanted["name"] and unfit == wanted["waits"]:
            waited = waited or time.monotonic()
            if time.monotonic() - waited > JOINED_WITHIN_S:
                raise OperationError(f"it runs and has not joined its cluster; its last words: {last_words(wanted)}")
        elif name == wanted["name"] and unfit != wanted["is_starting"]:
            return unfit
        passed_s = time.monotonic() - begun
        if passed_s > wanted["within_s"] or (passed_s > FULL_WITHIN_S and is_disk_full(wanted["folder"])):
            raise OperationError(f"it does not answer: {unfit or name}; its last words: {last_words(wanted)}")
        time.sleep(0.1)


def asked(wanted: Operation) -> tuple[str, str | None]:
    """Return the name that answers, and why it takes no job."""
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(wanted["bind"]) or str(wanted["bind"])  # noqa: S104 - never bound
    connection: http.client.HTTPConnection
    if wanted["is_tls"]:
        # It is this very host, and the name in its certificate is the one that others call it by.
        context = ssl._create_unverified_context()  # noqa: S323, SLF001
        connection = http.client.HTTPSConnection(address, wanted["port"], timeout=5, context=context)
    else:
        connection = http.client.HTTPConnection(address, wanted["port"], timeout=5)
    token = base64.b64encode(f"{wanted['username']}:{wanted['password']}".encode()).decode()
    try:
        connection.request("GET", f"/{wanted['page']}", headers={"Authorization": f"Basic {token}"})
        response = connection.getresponse()
        body = json.loads(response.read(1_000_000))
        return str(body.get("node_name")), body.get("unfit")
    except ValueError:
        return f"HTTP {response.status}", None
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__, None
    finally:
        connection.close()


def last_words(wanted: Operation) -> str:
    """Return what the node said last, without time stamps; not that it was asked, nor what systemd says of it."""
    page, unit = f"/{wanted['page']} ", f"{wanted['unit']}.service"
    lines = [line for line in said(wanted["log"])[1].splitlines() if page not in line][-LAST_LINES:]
    own = [line for line in lines if unit not in line] or lines or ["nothing"]
    telling = [line for line in own if any(word in line for word in ("Error", "error", "Errno"))] or own
    stamp, _, words = telling[-1].strip().partition("] ")
    return (words if stamp[:1].isdigit() and words else telling[-1].strip())[-300:]


KINDS: dict[str, Callable[[Operation], Any]] = {
    each.__name__: each
    for each in (
        *(user, folder, file, remove, unpack, program_of_wheel, resolve, environment, link, prune),
        *(command, crontab, lock, unlock, answers),
    )
}


def main(wanted: Operation) -> None:
    """Carry out the operations; answer with the result of each, or with the first failure."""
    os.umask(0o022)
    results: list[Any] = []
    answer: dict[str, Any] = {"results": results}
    locks = [each for each in wanted["operations"][:1] if each["do"] == "lock"]
    for operation in wanted["operations"]:
        try:
            for lock_ in locks if results else ():
                keep_lock(lock_)
            results.append(KINDS[operation["do"]](operation))
        except (OperationError, OSError, KeyError, ValueError, tarfile.TarError, zipfile.BadZipFile) as error:
            why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            answer |= {"failed": operation["doing"], "why": why, "is_disk_full": is_disk_full(wanted["folder"])}
            break
    sys.stdout.write(f"\n{MARK}{json.dumps(answer)}\n")
    sys.stdout.flush()
