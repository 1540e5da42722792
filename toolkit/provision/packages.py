"""Which packages a node's environment is made of: read from the operator's files, pinned, and told apart by digests.

Versions are chosen once for each kind of host and kept as pins in the state folder, so that all hosts have the same
ones until an upgrade chooses anew.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Host
from toolkit.provision import private_files
from toolkit.provision.desired import Packages
from toolkit.provision.facts import Facts
from toolkit.provision.own_wheel import NAME, OwnWheel

PINS_FOLDER = "pins"
RESOLVE_WITHIN_S = 120.0
_INCLUDE = re.compile(r"^(?:-r|-c|--requirement|--constraint)[ =]?\s*(?P<path>\S+)$")
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;]+)")
_WHOLE_PIN = re.compile(
    r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._ -]*\])?==[A-Za-z0-9][A-Za-z0-9.!+_-]*( *;[^@]*)?$"
)
_DRAWN = " ×╰─▶│"  # noqa: RUF001 - the marks that uv draws
_MANYLINUX = (17, 28, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40)


def packages_of(host: Host, own: OwnWheel, *, folder: Path, wheelhouse: Path | None = None) -> Packages:
    """Return what the host's environment is made of; paths in the inventory are relative to its `folder`.

    Raises:
        ConfigurationError: a file or folder that the inventory names cannot be read, or cannot be carried to a host.

    """
    wishes = host.provision
    wheels = wheelhouse or (_path(wishes.wheelhouse, folder) if wishes.wheelhouse else None)
    if wheels is not None and not wheels.is_dir():
        raise ConfigurationError(f"there is no wheelhouse {wheels}", hint=f"crawlctl nodes wheelhouse {wheels}")
    requirements = _text(_path(wishes.requirements, folder)) if wishes.requirements else ""
    constraints = _text(_path(wishes.constraints, folder)) if wishes.constraints else ""
    needs = "\n".join(metadata.requires(NAME) or ())
    inputs = _digest(requirements, constraints, needs)[:16]
    return Packages(own.path, own.digest, inputs, requirements, constraints, wishes.index, wheels)


def lines_of(path: Path) -> Iterator[str]:
    """Give the lines of a requirements file, those of files that it includes in their place.

    Raises:
        ConfigurationError: it cannot be read, or names something of this machine that a host would not have.

    """
    with private_files.disk_errors(path, "read"):
        text = path.read_text(encoding="utf-8", errors="replace")
    for number, written in enumerate(text.splitlines(), start=1):
        line = re.sub(r"(^|\s)#.*$", "", written).strip()
        if include := _INCLUDE.match(line):
            yield from lines_of(path.parent / include["path"])
        elif line.startswith(("-", ".", "/", "file:")) or " @ file:" in line:
            raise ConfigurationError(
                f"{path}:{number}: {line[:80]!r} cannot be carried to a host",
                hint="name packages only; put wheels of your own into a wheelhouse, an index into provision.index",
            )
        elif line:
            yield line


def versions_of(pins: str) -> Mapping[str, str]:
    """Return the version of each package, by its normalised name."""
    found = (match for line in pins.splitlines() if (match := _PIN.match(line.strip())))
    return {normal(match["name"]): match["version"] for match in found}


def odd_pin(pins: str, *, requirements: str) -> str | None:
    """Return the first line that is no exact version, nor an address that the operator's own file asks for. Pure.

    What a host tells is installed on others: it must name neither an index nor a place of its own.
    """
    asked = {_address(line) for line in requirements.splitlines() if " @ " in line}
    for line in map(str.strip, pins.splitlines()):
        is_good = (
            not line or line.startswith("#") or _WHOLE_PIN.match(line) or (" @ " in line and _address(line) in asked)
        )
        if not is_good:
            return line
    return None


def bare_pins(pins: str) -> str:
    """Return only the names and versions of pins, sorted: what a resolver may prefer, and no more. Pure."""
    return "".join(f"{name}=={version}\n" for name, version in sorted(versions_of(pins).items()))


def normal(name: str) -> str:
    """Return a package's name as all spellings of it are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def own_requirement(path: str) -> str:
    """Return how a requirements file names crawlctl's wheel at a path of the host."""
    return f"{NAME}[node] @ file://{path}"


def environment_id(packages: Packages, facts: Facts) -> str:
    """Return the name of the environment that has exactly these packages, on this host's Python."""
    pins = "\n".join(f"{name}=={version}" for name, version in sorted(versions_of(packages.pins or "").items()))
    python = str(facts.python.version[:2]) if facts.python else ""
    return _digest(pins, packages.own_digest, python)[:12]


def kind_of(facts: Facts) -> str:
    """Return what hosts have in common that can have the same packages: Python, machine and C library."""
    python = facts.python.version[:2] if facts.python else (0, 0)
    return f"py{python[0]}.{python[1]}-{facts.machine}-{facts.libc}"


def is_offline(packages: Packages, record: Mapping[str, object]) -> bool:
    """Tell whether a host gets packages from carried wheels alone; it stays so until the inventory names an index."""
    return packages.wheelhouse is not None or (record.get("offline") is True and packages.index is None)


class PinsFolder:
    """The versions that were chosen for this inventory's hosts, a file for each kind of host and set of wishes."""

    def __init__(self, state_folder: Path) -> None:
        self._folder = state_folder / PINS_FOLDER

    def get(self, kind: str, inputs: str) -> str | None:
        """Return the pins, `None` while there are none."""
        return private_files.read(self._path(kind, inputs))

    def preferences(self, kind: str) -> str:
        """Return the latest pins of this kind of host, whatever they were made of: versions to keep where possible."""
        with private_files.disk_errors(self._folder, "read"):
            paths = sorted(self._folder.glob(f"{kind}-*.txt"), key=lambda path: path.stat().st_mtime)
        return (private_files.read(paths[-1]) or "") if paths else ""

    def put(self, kind: str, inputs: str, pins: str) -> None:
        """Keep pins for the hosts to come."""
        private_files.make_folder(self._folder)
        private_files.write(self._path(kind, inputs), pins)

    def _path(self, kind: str, inputs: str) -> Path:
        return self._folder / f"{kind}-{inputs}.txt"


def platform_of(facts: Facts) -> str:
    """Return the host's platform in uv's words."""
    if facts.libc == "musl":
        return f"{facts.machine}-unknown-linux-musl"
    minor = max((each for each in _MANYLINUX if (2, each) <= facts.libc_version), default=17)
    return f"{facts.machine}-manylinux_2_{minor}"


def resolved_here(
    packages: Packages, facts: Facts, *, wheelhouse: Path, python: str, preferences: str, scratch: Path
) -> str:
    """Return the pins for a host out of its wheelhouse alone.

    Raises:
        ConfigurationError: the wheelhouse lacks something, in uv's words.

    """
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    required, limits, chosen = scratch / "in.txt", scratch / "limits.txt", scratch / "pins.txt"
    required.write_text(f"{own_requirement(str(packages.own_wheel))}\n{packages.requirements}\n", encoding="utf-8")
    limits.write_text(packages.constraints, encoding="utf-8")
    chosen.write_text(preferences, encoding="utf-8")
    words = ["pip", "compile", str(required), "--constraint", str(limits), "--output-file", str(chosen), "--quiet"]
    words += ["--no-header", "--no-annotate", "--no-emit-package", NAME]
    words += ["--no-index", "--find-links", str(wheelhouse)]
    words += ["--python-version", python, "--python-platform", platform_of(facts)]
    done = run_uv(words, within_s=RESOLVE_WITHIN_S)
    if done.returncode:
        raise ConfigurationError(
            f"the wheelhouse {wheelhouse} is not enough for {platform_of(facts)}, Python {python}: "
            f"{_told(done.stderr)}",
            hint="crawlctl nodes wheelhouse fetches what is needed; crawlctl docs no-internet",
        )
    return chosen.read_text(encoding="utf-8")


def run_uv(words: list[str], *, within_s: float) -> subprocess.CompletedProcess[str]:
    """Run the uv that came with crawlctl.

    Raises:
        ConfigurationError: it is not there, or takes too long.

    """
    import uv  # noqa: PLC0415 - needed only where packages are chosen here

    environ = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_SYSTEM_CERTS": "1", "UV_NO_PROGRESS": "1"}
    try:
        return subprocess.run(
            [uv.find_uv_bin(), *words],
            capture_output=True,
            text=True,
            env=environ,
            stdin=subprocess.DEVNULL,
            timeout=within_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise ConfigurationError("uv is missing from this installation", hint="pip install uv") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"uv {words[0]} {words[1]} took longer than {within_s:g} s") from error


def wheels_for(pins: str, wheelhouse: Path, machine: str) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the wheels of a folder that the pins name, and the pins that it has none for."""
    with private_files.disk_errors(wheelhouse, "read"):
        wheels = [path for path in sorted(wheelhouse.iterdir()) if path.suffix == ".whl" and _fits(path.name, machine)]
    by_pin: dict[tuple[str, str], list[Path]] = {}
    for path in wheels:
        name, version = path.name.split("-")[:2]
        by_pin.setdefault((normal(name), version), []).append(path)
    wanted = versions_of(pins)
    found = [path for pin in wanted.items() for path in by_pin.get(pin, ())]
    return tuple(found), tuple(
        f"{name}=={version}" for name, version in wanted.items() if (name, version) not in by_pin
    )


def _fits(name: str, machine: str) -> bool:
    platform = name.removesuffix(".whl").rpartition("-")[2]
    return platform == "any" or machine in platform


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _address(line: str) -> tuple[str, str]:
    """Return a requirement's name and address, without the revision."""
    name, _, place = line.partition(" @ ")
    scheme, _, rest = place.partition(";")[0].strip().partition("://")
    path, mark, revision = rest.partition("#")[0].rpartition("@")
    return normal(
        name.partition("[")[0].strip()
    ), f"{scheme}://{path if mark and '/' not in revision else path + mark + revision}"


def _path(written: str, folder: Path) -> Path:
    return folder / Path(written).expanduser()


def _text(path: Path) -> str:
    return "\n".join(lines_of(path))


def _told(stderr: str) -> str:
    lines = [line.strip(_DRAWN) for line in stderr.splitlines() if line.strip()]
    return " ".join(line for line in lines if line)[:600]
