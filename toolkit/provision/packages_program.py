"""RUNS ON THE HOST: operations that choose packages and make environments of them. Part of `steps_program`."""
# ruff: noqa: PLC0415 - what only some hosts need is loaded there

import contextlib
import errno
import json
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

from toolkit.provision.on_host import names, plain
from toolkit.provision.on_host_acting import Operation, OperationError, as_user, drop, is_disk_full, put, run


def program_of_wheel(wanted: Operation) -> None:
    """Take a program out of a wheel that lies in a folder."""
    start = f"{wanted['name']}-"
    for name in names(wanted["wheels"]):
        if name.startswith(start) and name.endswith(".whl"):
            with zipfile.ZipFile(Path(wanted["wheels"]) / name) as wheel:
                inside = next((each for each in wheel.namelist() if each.endswith(f"/scripts/{wanted['name']}")), None)
                if inside is not None:
                    with wheel.open(inside) as content:
                        drop(content, Path(wanted["path"]), 0o755, is_packed=False)
                    return
    raise OperationError(f"no wheel of {wanted['name']} fits this host")


def resolve(wanted: Operation) -> str:
    """Return exact versions of all that is required, one a line."""
    with tempfile.TemporaryDirectory(prefix="crawlctl-") as place:
        os.chmod(place, 0o755)  # noqa: S103, PTH101 - the service user reads there; nothing in it is secret
        # uv puts its answer in place with another file's name, so it must be able to write in that folder.
        answers = Path(place, "chosen")
        answers.mkdir(mode=0o700)
        required, limits, chosen = Path(place, "in.txt"), Path(place, "limits.txt"), answers / "pins.txt"
        required.write_text(wanted["requirements"], encoding="utf-8")
        limits.write_text(wanted["constraints"], encoding="utf-8")
        chosen.write_text(wanted["preferences"], encoding="utf-8")
        if os.geteuid() == 0:
            shutil.chown(answers, wanted["owner"])
            shutil.chown(chosen, wanted["owner"])
        words = [
            wanted["uv"],
            "pip",
            "compile",
            str(required),
            "--constraint",
            str(limits),
            "--output-file",
            str(chosen),
        ]
        words += ["--quiet", "--no-header", "--no-annotate", "--no-emit-package", "crawlctl"]
        words += ["--python", wanted["python"], *sources(wanted)]
        run(words, owner=wanted["owner"], environ=of_uv(wanted), within_s=wanted["timeout_s"])
        # Never through a link: that folder is the service user's, and we may be root.
        answer = plain(str(chosen))
        if answer is None:
            raise OperationError("uv has left no readable answer")
        return answer.decode("utf-8")


def environment(wanted: Operation) -> None:
    """Make a virtual environment with exactly these packages and let the link name it; one that is whole is kept."""
    place = Path(wanted["folder"], wanted["id"])
    owner = wanted["owner"]
    python = str(place / "bin" / "python")
    environ = of_uv(wanted)
    is_whole = (place / "complete.json").exists()
    if not is_whole:
        as_user(owner, lambda: shutil.rmtree(place, ignore_errors=True))
        words = [wanted["uv"], "venv", "--quiet", "--no-project", "--python", wanted["python"], str(place)]
        run(words, owner=owner, environ=environ)
    with tempfile.TemporaryDirectory(prefix="crawlctl-") as folder_:
        os.chmod(folder_, 0o755)  # noqa: S103, PTH101 - as above
        pins = Path(folder_, "pins.txt")
        pins.write_text(f"{wanted['pins']}\n{wanted['own']}\n", encoding="utf-8")
        words = [wanted["uv"], "pip", "install", "--quiet", "--no-deps", "--python", python, "-r", str(pins)]
        # On a full disk, some Pythons (3.11; 3.12 and 3.13 at first) write bytecode that ends in the middle, and cannot
        # import it afterwards. So all of it is written here, and nothing that runs in the environment writes any.
        words += [] if is_whole else ["--compile-bytecode"]
        run([*words, *sources(wanted)], owner=owner, environ=environ, within_s=wanted["timeout_s"])
    os.sync()  # After a power failure, what is noted as whole must not have files without their content.
    if is_disk_full(wanted["folder"]):
        # Writing bytecode reports no errors.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    noted = json.dumps(wanted["noted"]).encode()
    as_user(owner, lambda: put(place / "complete.json", noted, 0o644))


def sources(wanted: Operation) -> list[str]:
    """Return where packages come from, as options of uv."""
    return ["--no-index", "--find-links", wanted["wheels"]] if wanted["is_offline"] else []


def of_uv(wanted: Operation) -> dict[str, str]:
    """Return uv's environment; an index may hold a password, so it is no option."""
    environ = {
        "UV_CACHE_DIR": wanted["cache"],
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_SYSTEM_CERTS": "1",
        "UV_NO_PROGRESS": "1",
        "HOME": wanted["cache"],
    }
    index = wanted["index"] or index_of_pip()
    return environ | ({"UV_DEFAULT_INDEX": index} if index and not wanted["is_offline"] else {})


def index_of_pip() -> str | None:
    """Return the index that the host's pip is set to, since uv does not look there."""
    import configparser

    if os.environ.get("UV_DEFAULT_INDEX") or Path("/etc/uv/uv.toml").exists():
        return os.environ.get("UV_DEFAULT_INDEX")
    if told := os.environ.get("PIP_INDEX_URL"):
        return told
    parser = configparser.ConfigParser(interpolation=None)
    with contextlib.suppress(configparser.Error, OSError, UnicodeDecodeError):
        parser.read(["/etc/pip.conf", Path("~/.config/pip/pip.conf").expanduser()])
    return parser.get("global", "index-url", fallback=None)


def prune(wanted: Operation) -> None:
    """Remove environments that are neither kept nor used by any process."""
    kept = set(wanted["kept"]) | {os.path.basename(os.path.realpath(wanted["link"]))}  # noqa: PTH119 - no file is meant
    used = b""
    for pid in names("/proc"):
        if pid.isdigit():
            with contextlib.suppress(OSError):
                used += Path("/proc", pid, "cmdline").read_bytes()
    for name in set(names(wanted["folder"])) - kept:
        place = Path(wanted["folder"], name)
        if f"{place}/".encode() not in used:
            as_user(wanted["owner"], lambda place=place: shutil.rmtree(place, ignore_errors=True))  # type: ignore[misc]
