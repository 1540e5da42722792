"""A wheelhouse for tests that is made in a moment: its one wheel lends an environment the packages of the tests' own.

The node that is provisioned with it is a real Scrapyd; only where its packages lie is borrowed.
"""

from __future__ import annotations

import sysconfig
import zipfile
from pathlib import Path

from toolkit.provision.desired import Packages
from toolkit.provision.packages import PinsFolder

NAME = "borrowed"
_ABOUT = f"{NAME}-1.0.dist-info"


def make_wheelhouse(folder: Path) -> Path:
    """Return the folder with the wheel in it."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        f"{NAME}.pth": sysconfig.get_path("purelib") + "\n",
        f"{_ABOUT}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n",
        f"{_ABOUT}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*contents, f"{_ABOUT}/RECORD"])
    with zipfile.ZipFile(folder / f"{NAME}-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in {**contents, f"{_ABOUT}/RECORD": record}.items():
            wheel.writestr(name, text)
    return folder


def choose(state_folder: Path, kind: str, packages: Packages) -> None:
    """Let these be the versions that were chosen for such hosts, so that nothing else is asked for."""
    PinsFolder(state_folder).put(kind, packages.inputs, f"{NAME}==1.0\n")
