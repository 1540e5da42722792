"""A server of this machine, as `crawlctl up` and `down` leave it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["started", "restarted", "unchanged", "stopped", "not running"]


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """What was done about one server of this machine; `pid` is `None` when it is not ours, or not running."""

    name: str
    address: str
    action: Action
    pid: int | None = None
    note: str = ""
