"""Where crawlctl's own samples lie, and where the state of local nodes is kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolkit.config.options import STATE_VARIABLE
from toolkit.model.errors import ConfigurationError

_TOOLKIT = Path(__file__).resolve().parents[1]
_STATE_NAME = ".crawlctl"


def sample_file(name: str) -> Path:
    """Return the path of a sample (`inventory.yaml`, `scrapyd.conf`, `projects/…`), installed or in a checkout.

    Raises:
        ConfigurationError: it is missing, so this installation is not whole.

    """
    # A wheel carries them inside the package, a checkout beside it.
    for folder in (_TOOLKIT / "samples", _TOOLKIT.parent):
        if (folder / name).exists():
            return folder / name
    raise ConfigurationError(
        f"the sample {name} is missing from this installation of crawlctl", hint="install crawlctl anew"
    )


def closest_file(name: str, *, start: Path) -> Path | None:
    """Return the file of this name in `start` or the nearest folder above; one that may not be looked into has none."""
    for folder in (start, *start.absolute().parents):
        try:
            if (folder / name).is_file():
                return folder / name
        except OSError:
            # Folders above may be closed to this user, and what is above them may not.
            continue
    return None


def state_path(inventory_path: Path, environ: Mapping[str, str]) -> Path:
    """Return where the state folder is, or would be: $CRAWLCTL_STATE, else `.crawlctl` beside the inventory."""
    named = environ.get(STATE_VARIABLE)
    return Path(named).absolute() if named else inventory_path.absolute().parent / _STATE_NAME


def state_folder(inventory_path: Path, environ: Mapping[str, str]) -> Path:
    """Return the folder for what local nodes keep: $CRAWLCTL_STATE, else `.crawlctl` beside the inventory.

    It is created if need be, for its owner only, and with a `.gitignore` that keeps all of it out of Git; a folder
    that is there already is left as it is. Safe to call again, also from two processes at once.

    Raises:
        ConfigurationError: it cannot be created, or something else is in its place.

    """
    folder = state_path(inventory_path, environ)
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"the state folder {folder} cannot be created: {error.strerror}",
            hint=f"{STATE_VARIABLE} names another folder",
        ) from error
    return folder
