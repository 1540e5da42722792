"""Opens the frontier for a worker of a crawl: what a spider's process loads of the store, and no more."""

from __future__ import annotations

from toolkit.model.crawls import CrawlPlan
from toolkit.model.hosts import Secret
from toolkit.store.interfaces_crawls import Frontier


def open_frontier(url: Secret, plan: CrawlPlan) -> Frontier:
    """Return the crawl's frontier in the Redis of this URL; nothing is sent yet.

    Raises:
        ConfigurationError: the URL cannot be understood.

    """
    from toolkit.store.redis_frontier import RedisFrontier  # noqa: PLC0415 - redis is loaded only where it is used

    return RedisFrontier(url, plan)
