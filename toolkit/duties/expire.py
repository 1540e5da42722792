"""The duty of forgetting what is too old to keep: any survivor does it. When is decided here; what, in Redis."""

from __future__ import annotations

from collections.abc import Callable

from toolkit.store.interfaces import Shared

MOST_CALLS = 100
"""Of each kind so many calls a turn at most; each takes away some hundreds, between which Redis does other things."""

EVERY_S = 60.0
LONGEST_S = 3600.0
DAY_S = 86_400.0


def interval_s(*, live_nodes: int, chance: float) -> float:
    """Return how long a node waits before its next turn, for about one a minute in the cluster. Pure.

    `chance` is a random number from 0 to 1; half of the interval is left to it.
    """
    return min(EVERY_S * max(1, live_nodes), LONGEST_S) * (0.75 + chance / 2)


def expire(shared: Shared, *, history_days: float, history_jobs: int, keep_logs_s: float | None = None) -> int:
    """Forget the oldest ended jobs beyond age or number, and the eggs that nobody names; return how many. Idempotent.

    So go crawls that were called by their arguments, a day after nothing was left of them; with `keep_logs_s` also the
    shipped logs to which nothing came for so long.

    Raises:
        StoreUnreachableError: Redis does not answer.

    """
    dropped = _all_of(lambda: shared.queue.drop_old(max_age_s=history_days * DAY_S, max_jobs=history_jobs))
    if keep_logs_s is not None:
        dropped += _all_of(lambda: shared.logs.drop_old(keep_s=keep_logs_s))
    return dropped + shared.eggs.drop_unused() + shared.crawls.forget_some(kept_s=DAY_S)


def _all_of(drop: Callable[[], int]) -> int:
    """Call until nothing is left to forget: what comes in a minute may be more than one call takes away."""
    dropped = 0
    for _ in range(MOST_CALLS):
        some = drop()
        dropped += some
        if not some:
            break
    return dropped
