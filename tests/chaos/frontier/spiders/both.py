"""A spider that begins by itself, and is given more first pages through Redis."""

from __future__ import annotations

from chaos.frontier.spiders.plain import Plain
from chaos.frontier.spiders.seeded import Seeded


class Both(Plain, Seeded):
    """Has a `start()`, and reads seeds from `<crawl>:start_urls`."""
