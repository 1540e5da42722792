"""Opens the keys of scrapy-redis for whoever takes them over."""

from __future__ import annotations

from toolkit.model.hosts import Secret
from toolkit.store.interfaces_foreign import Foreign


def open_foreign(url: Secret) -> Foreign:
    """Return the keys of the Redis of this URL; nothing is sent yet. Close it after use.

    Raises:
        ConfigurationError: the URL cannot be understood.

    """
    from toolkit.store.redis_foreign import RedisForeign  # noqa: PLC0415 - redis is loaded only where it is used

    return RedisForeign(url)
