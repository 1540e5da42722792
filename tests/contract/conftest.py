"""What the contract tests of the stores share: the same store, opened again and again, a queue and a crawl on Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.crawl_desk import CrawlDesk, crawl_desk
from support.queue_desk import QueueDesk, queue_desk
from support.stores import BACK_ENDS, Opener, opener, redis_of

from toolkit.store.interfaces import Store


@pytest.fixture(params=BACK_ENDS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Give what opens the same store again and again."""
    with opener(redis_of(request), tmp_path / "state") as open_again:
        yield open_again


@pytest.fixture
def store(opened: Opener) -> Store:
    return opened()


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[QueueDesk]:
    """Give the queue of a cluster that nobody has used yet."""
    with queue_desk(redis_url, tmp_path / "state") as desk:
        yield desk


@pytest.fixture
def crawl(redis_url: str, tmp_path: Path) -> Iterator[CrawlDesk]:
    """Give a crawl that nobody has joined yet."""
    with crawl_desk(redis_url, tmp_path / "state") as crawl:
        yield crawl
