"""What is old is forgotten as fast as it comes, however little a call takes away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from toolkit.duties import expire as module
from toolkit.duties.expire import expire


def test_all_that_is_too_old_goes_in_one_turn_and_a_turn_has_an_end() -> None:
    left = {"jobs": 2500, "logs": 10**9}

    def drop(what: str, most: int) -> int:
        some = min(most, left[what])
        left[what] -= some
        return some

    shared: Any = SimpleNamespace(
        queue=SimpleNamespace(drop_old=lambda **_: drop("jobs", 1000)),
        logs=SimpleNamespace(drop_old=lambda **_: drop("logs", 100)),
        eggs=SimpleNamespace(drop_unused=lambda: 1),
        crawls=SimpleNamespace(forget_some=lambda **_: 2),
    )
    dropped = expire(shared, history_days=1, history_jobs=1, keep_logs_s=1)
    assert left["jobs"] == 0
    assert dropped == 2500 + 100 * module.MOST_CALLS + 3
