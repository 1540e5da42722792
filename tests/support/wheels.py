"""Tiny packages made on the fly, in a folder that serves as a wheelhouse: no test needs an index."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

_BACK_END = """
import pathlib
import shutil
import time

HERE = pathlib.Path(__file__).parent


def build_wheel(folder, config_settings=None, metadata_directory=None):
    gate = pathlib.Path({gate!r})
    (gate / "begun").touch()
    while not (gate / "open").exists():
        time.sleep(0.02)
    shutil.copy(HERE / {wheel!r}, folder)
    return {wheel!r}
"""


def wheel_name(name: str, version: str) -> str:
    """Return the file name of a pure wheel."""
    return f"{name}-{version}-py3-none-any.whl"


def wheel(name: str, version: str, *, requires: Sequence[str] = ()) -> bytes:
    """Return a wheel of one module, which says its `VERSION`."""
    folder = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    files = {
        f"{name}.py": f'VERSION = "{version}"\n',
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{folder}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_hash(text)},{len(text)}\n" for path, text in files.items())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in {**files, f"{folder}/RECORD": f"{record}{folder}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return buffer.getvalue()


def add_wheel(house: Path, name: str, version: str, *, requires: Sequence[str] = ()) -> None:
    """Put a wheel into the wheelhouse."""
    house.mkdir(parents=True, exist_ok=True)
    (house / wheel_name(name, version)).write_bytes(wheel(name, version, requires=requires))


def add_gated_source(house: Path, name: str, version: str, *, gate: Path) -> None:
    """Put a source package there whose build makes the file `begun` in `gate`, and goes on when `open` is there."""
    gate.mkdir(parents=True, exist_ok=True)
    built = wheel_name(name, version)
    back_end = _BACK_END.format(gate=str(gate), wheel=built)
    files: dict[str, str | bytes] = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "back_end"\nbackend-path = ["."]\n'
        f'[project]\nname = "{name}"\nversion = "{version}"\n',
        "PKG-INFO": f"Metadata-Version: 2.2\nName: {name}\nVersion: {version}\n",
        "back_end.py": back_end,
        built: wheel(name, version),
    }
    with tarfile.open(house / f"{name}-{version}.tar.gz", "w:gz") as archive:
        for path, content in files.items():
            body = content if isinstance(content, bytes) else content.encode()
            member = tarfile.TarInfo(f"{name}-{version}/{path}")
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
