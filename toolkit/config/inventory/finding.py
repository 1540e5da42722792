"""Where the inventory lies: named on the command line, in the environment, or found in this folder or above."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolkit.config.options import INVENTORY_VARIABLE
from toolkit.config.paths import closest_file
from toolkit.model.errors import ConfigurationError, InventoryMissingError

INVENTORY_NAME = "inventory.yaml"
_HINT = "`crawlctl init` writes an inventory; -i or CRAWLCTL_INVENTORY names one"


def find(explicit: Path | None, *, start: Path, environ: Mapping[str, str]) -> Path:
    """Return the inventory's path: `explicit`, else $CRAWLCTL_INVENTORY, else `inventory.yaml` in `start` or above.

    A relative path is meant from `start`. An empty variable counts as unset.

    Raises:
        ConfigurationError: the file that was named is not there.
        InventoryMissingError: none was named, and none found.

    """
    named = environ.get(INVENTORY_VARIABLE)
    if explicit is not None:
        return _existing(start / explicit, named_by="-i")
    if named:
        return _existing(start / named, named_by=INVENTORY_VARIABLE)
    found = closest_file(INVENTORY_NAME, start=start)
    if found is None:
        raise InventoryMissingError(f"there is no {INVENTORY_NAME} in {start} or above", hint=_HINT)
    return found


def _existing(path: Path, *, named_by: str) -> Path:
    if path.is_dir():
        raise ConfigurationError(f"the inventory {path} (from {named_by}) is a folder", hint=_HINT)
    if not path.exists():
        raise ConfigurationError(f"the inventory {path} (from {named_by}) does not exist", hint=_HINT)
    return path
