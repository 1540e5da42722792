"""Opens the frontier for a worker of a crawl: what a spider's process loads of the store, and no more."""

from __future__ import annotations

from toolkit.model.crawls import DEFAULT_WORKER_LEASE_S, CrawlPlan
from toolkit.model.hosts import Secret
from toolkit.store.interfaces_crawls import Frontier

_LEAST_PATIENCE_S = 0.5


def open_frontier(url: Secret, plan: CrawlPlan, *, ttl_s: float = DEFAULT_WORKER_LEASE_S) -> Frontier:
    """Return the crawl's frontier in the Redis of this URL; nothing is sent yet.

    It waits for no answer longer than a third of the lease of `ttl_s` seconds, so that a silent connection is given up,
    and another tried, before the lease is over.

    Raises:
        ConfigurationError: the URL cannot be understood.

    """
    from toolkit.store.connect import RedisDoor  # noqa: PLC0415 - redis is loaded only where it is used
    from toolkit.store.redis_frontier import RedisFrontier  # noqa: PLC0415 - likewise

    return RedisFrontier(RedisDoor(url, patience_s=max(_LEAST_PATIENCE_S, ttl_s / 3)), plan)
