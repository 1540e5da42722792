"""What operators wish of a running spider, as `control.json` carries it from the node to the process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.model.queue import Wish

MAX_CONCURRENCY = 10_000
MAX_DELAY_S = 86_400.0


def control_of(wish: Wish) -> dict[str, Any]:
    """Return the content of `control.json`. A cancel is not in it: that is the node's to carry out, by signals."""
    return {"paused": wish.is_paused, "concurrency": wish.concurrency, "delay_s": wish.delay_s}


def read_control(content: Mapping[str, Any] | None) -> Wish:
    """Return what is wished; what is absent, or nonsense, is not."""
    if not content:
        return Wish()
    return Wish(
        is_paused=content.get("paused") is True,
        concurrency=_concurrency(content.get("concurrency")),
        delay_s=_delay_s(content.get("delay_s")),
    )


def _concurrency(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 1 <= value <= MAX_CONCURRENCY else None


def _delay_s(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MAX_DELAY_S else None
