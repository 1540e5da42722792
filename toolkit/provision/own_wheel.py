"""Makes a wheel of crawlctl out of the running installation, since hosts get the very crawlctl that provisions them.

An installed package and a checkout give the same wheel: sorted names, fixed times, no caches.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from toolkit.config.paths import sample_file
from toolkit.model.errors import ConfigurationError
from toolkit.provision.private_files import disk_errors

NAME = "crawlctl"
_PACKAGE = Path(__file__).resolve().parents[1]
_SAMPLES = ("inventory.yaml", "scrapyd.conf", "projects")
_SKIPPED_OF_CODE = frozenset({"__pycache__", "samples"})
_SKIPPED_OF_SAMPLES = frozenset({"__pycache__", "eggs", "dbs", "logs", "items", "build", "dist"})
_SKIPPED_ENDS = (".pyc", ".pyo", ".egg-info")
_LATE_METADATA = ("METADATA", "entry_points.txt")
_WHEEL = "Wheel-Version: 1.0\nGenerator: crawlctl\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class OwnWheel:
    """A wheel of crawlctl; `digest` is of its content, whichever way that was packed."""

    path: Path
    version: str
    digest: str


def make_own_wheel(folder: Path) -> OwnWheel:
    """Write the wheel into the folder below one named after its digest, unless it is there, and return it.

    Atomic: a wheel that is there is whole.

    Raises:
        ConfigurationError: this installation is not whole, or the folder cannot be written.

    """
    version, contents = _contents()
    digest = hashlib.sha256(contents[_record_name(version)]).hexdigest()[:16]
    path = folder / digest / f"{NAME}-{version}-py3-none-any.whl"
    if not path.exists():
        with disk_errors(path, "write"):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = path.with_name(f".{secrets.token_hex(4)}.part")
            try:
                _pack(fresh, contents)
                fresh.replace(path)
            finally:
                fresh.unlink(missing_ok=True)
    return OwnWheel(path, version, digest)


def _contents() -> tuple[str, dict[str, bytes]]:
    try:
        about = metadata.distribution(NAME)
    except metadata.PackageNotFoundError as error:
        raise ConfigurationError(
            "crawlctl is not installed as a package", hint="pip install it, then try again"
        ) from error
    folder = f"{NAME}-{about.version}.dist-info"
    contents = dict(_code()) | dict(_samples())
    for name in _LATE_METADATA:
        contents[f"{folder}/{name}"] = (about.read_text(name) or "").encode()
    contents[f"{folder}/WHEEL"] = _WHEEL.encode()
    ordered = {name: contents[name] for name in sorted(contents, key=lambda name: (name.startswith(folder), name))}
    return about.version, ordered | {_record_name(about.version): _record(ordered, about.version)}


def _code() -> Iterator[tuple[str, bytes]]:
    yield from _files(_PACKAGE, below="toolkit", skipped=_SKIPPED_OF_CODE)


def _samples() -> Iterator[tuple[str, bytes]]:
    for name in _SAMPLES:
        source = sample_file(name)
        if source.is_dir():
            yield from _files(source, below=f"toolkit/samples/{name}", skipped=_SKIPPED_OF_SAMPLES)
        else:
            yield f"toolkit/samples/{name}", source.read_bytes()


def _files(folder: Path, *, below: str, skipped: frozenset[str]) -> Iterator[tuple[str, bytes]]:
    with disk_errors(folder, "read"):
        for path in sorted(folder.iterdir()):
            if path.name.startswith(".") or path.name.endswith(_SKIPPED_ENDS):
                continue
            if path.is_dir() and path.name not in skipped:
                yield from _files(path, below=f"{below}/{path.name}", skipped=skipped)
            elif path.is_file():
                yield f"{below}/{path.name}", path.read_bytes()


def _record_name(version: str) -> str:
    return f"{NAME}-{version}.dist-info/RECORD"


def _record(contents: Mapping[str, bytes], version: str) -> bytes:
    lines = [f"{name},sha256={_hash(content)},{len(content)}" for name, content in contents.items()]
    return "\n".join([*lines, f"{_record_name(version)},,", ""]).encode()


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _pack(path: Path, contents: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
