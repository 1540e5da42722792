"""What a node is told about shipping its jobs' logs: where to, how much, how long. Read once, at start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolkit.config.log_places import LogAddress
from toolkit.config.shipping_options import FOLDER, OFF, S3
from toolkit.model.errors import ConfigurationError, MissingExtraError
from toolkit.store.interfaces_logs import LogTerms

MB = 1_000_000
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class ShippingSettings:
    """Where the logs go: to `address`, or to Redis where that is `None`; `max_bytes` is kept of each."""

    address: LogAddress | None
    max_bytes: int
    terms: LogTerms


def read_shipping(own: Mapping[str, Any], *, logs_dir: Path | None) -> ShippingSettings | None:
    """Return what `[crawlctl]` says of shipping; `None` where it is off.

    Raises:
        ConfigurationError: what the chosen place needs is not said, or there are no logs to ship.
        MissingExtraError: it is S3, and what speaks that is not installed.

    """
    kind = own["ship_logs"]
    if kind == OFF:
        return None
    if logs_dir is None:
        raise ConfigurationError(f"ship_logs = {kind} has nothing to ship: logs_dir is empty")
    terms = LogTerms(own["ship_logs_days"] * DAY_S, own["ship_logs_total_mb"] * MB)
    return ShippingSettings(_address(kind, own), own["ship_logs_max_mb"] * MB, terms)


def _address(kind: str, own: Mapping[str, Any]) -> LogAddress | None:
    if kind == FOLDER:
        return LogAddress(str(Path(_given(own, "ship_logs_folder", kind)).absolute()))
    if kind != S3:
        return None
    if find_spec("obstore") is None:
        raise MissingExtraError("obstore, which ship_logs = s3 needs,", "node,s3")
    keys = own["ship_logs_keys"]
    address = LogAddress(
        _given(own, "ship_logs_url", kind).rstrip("/"),
        endpoint=(own["ship_logs_endpoint"] or "").rstrip("/") or None,
        region=own["ship_logs_region"],
        keys_file=Path(keys).absolute() if keys else None,
    )
    address.client_options()  # A file of keys that cannot be read stops the start, not the first log.
    return address


def _given(own: Mapping[str, Any], name: str, kind: str) -> str:
    text = own[name]
    if not text:
        raise ConfigurationError(f"ship_logs = {kind} needs {name}")
    return str(text)
