"""Fills a folder with all wheels that a node needs, for hosts of another kind than this machine too.

Versions are chosen by uv, since it reads requirements as the target would; pip fetches them, since uv does not.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from toolkit.model.errors import ConfigurationError, UsageError
from toolkit.model.provisioning import Wheelhouse
from toolkit.provision.own_wheel import NAME, make_own_wheel
from toolkit.provision.packages import lines_of, own_requirement, run_uv, versions_of, wheels_for
from toolkit.provision.private_files import disk_errors

FETCH_WITHIN_S = 900.0
_PYTHON = re.compile(r"3\.(11|12|13)")
_MACHINES = ("x86_64", "aarch64")
# The newest first: pip takes wheels of any of them. Debian 10 and later, and all that is younger than 2018, have 2.28.
_TAGS = ("manylinux_2_28_{0}", "manylinux_2_17_{0}", "manylinux2014_{0}", "linux_{0}")
_DRAWN = re.compile(r"^\s*(error|hint|×|╰─▶|warning):?\s*", re.IGNORECASE)  # noqa: RUF001 - marks that uv draws


def fill(
    folder: Path,
    *,
    python: str = "3.11",
    platform: str = "linux-x86_64",
    requirements: Path | None = None,
    constraints: Path | None = None,
) -> Wheelhouse:
    """Fetch the wheels of crawlctl's node, of uv, and of what the spiders need, into the folder; idempotent.

    What is there already is not fetched again, and other wheels there stay.

    Raises:
        UsageError: the Python or platform is none that nodes run on.
        ConfigurationError: a file cannot be read, or something has no wheel for the platform.

    """
    machine = _machine(platform)
    if not _PYTHON.fullmatch(python):
        raise UsageError(f"{python!r} is no Python that nodes run on", hint="--python 3.11, 3.12 or 3.13")
    wanted = "\n".join(lines_of(requirements)) if requirements else ""
    limits = "\n".join(lines_of(constraints)) if constraints else ""
    with disk_errors(folder, "make the folder"):
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="crawlctl-") as scratch_name:
        scratch = Path(scratch_name)
        own = make_own_wheel(scratch / "own")
        pins = _chosen(f"{own_requirement(str(own.path))}\n{wanted}\n", limits, python, machine, scratch)
        _, missing = wheels_for(pins, folder, machine)
        if missing:
            _fetch(missing, folder, python, machine, scratch)
        with disk_errors(folder, "write to"):
            shutil.copyfile(own.path, folder / own.path.name)
    wheels, lacking = wheels_for(pins, folder, machine)
    if lacking:
        raise ConfigurationError(
            f"{folder} still lacks {', '.join(lacking)}", hint="look into the folder, and try again"
        )
    size = sum(path.stat().st_size for path in wheels) + (folder / own.path.name).stat().st_size
    return Wheelhouse(folder, python, platform, len(versions_of(pins)) + 1, len(missing), size)


def _machine(platform: str) -> str:
    kind, _, machine = platform.partition("-")
    if kind != "linux" or machine not in _MACHINES:
        known = " or ".join(f"linux-{name}" for name in _MACHINES)
        raise UsageError(f"{platform!r} is no platform that nodes run on", hint=f"--platform {known}")
    return machine


def _chosen(requirements: str, constraints: str, python: str, machine: str, scratch: Path) -> str:
    required, limits, chosen = scratch / "in.txt", scratch / "limits.txt", scratch / "pins.txt"
    required.write_text(requirements, encoding="utf-8")
    limits.write_text(constraints, encoding="utf-8")
    words = ["pip", "compile", str(required), "--constraint", str(limits), "--output-file", str(chosen), "--quiet"]
    words += ["--no-header", "--no-annotate", "--no-emit-package", NAME, "--only-binary", ":all:"]
    words += ["--python-version", python, "--python-platform", f"{machine}-manylinux_2_28"]
    done = run_uv(words, within_s=FETCH_WITHIN_S)
    if done.returncode:
        raise ConfigurationError(
            f"no set of wheels fits Python {python} on linux-{machine}: {_told(done.stderr)}",
            hint="loosen the requirements, or build the wheel that is missing and put it into the folder",
        )
    return chosen.read_text(encoding="utf-8")


def _fetch(pins: Sequence[str], folder: Path, python: str, machine: str, scratch: Path) -> None:
    wanted = scratch / "wanted.txt"
    wanted.write_text("\n".join(pins) + "\n", encoding="utf-8")
    words = ["tool", "run", "--quiet", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    words += ["--only-binary=:all:", "--dest", str(folder), "--python-version", python, "-r", str(wanted)]
    words += [f"--platform={tag.format(machine)}" for tag in _TAGS]
    done = run_uv(words, within_s=FETCH_WITHIN_S)
    if done.returncode:
        raise ConfigurationError(
            f"wheels for Python {python} on linux-{machine} cannot be fetched: {_told(done.stderr)}",
            hint="is the package index reachable from here? Wheels that are fetched already stay",
        )


def _told(text: str) -> str:
    lines = [_DRAWN.sub("", line).strip() for line in text.splitlines()]
    return " ".join(line for line in lines if line)[-600:] or "no reason was given"
