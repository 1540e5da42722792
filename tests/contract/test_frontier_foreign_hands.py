"""Who may work on crawls alone cannot have somebody with more rights touch other keys for him."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import redis

from toolkit.model.crawls import CrawlKeys
from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret
from toolkit.model.names import CrawlId
from toolkit.store.connect import RedisDoor
from toolkit.store.crawl_keys import GARBAGE, FrontierKeys, default_keys
from toolkit.store.redis_sweep import sweep

KEYS = default_keys(CrawlId("shop"))


@pytest.mark.parametrize("field", ["requests", "seen", "seeds", "items"])
@pytest.mark.parametrize("name", ["crawlctl:{main}:jobs", "crawlctl:{other}:active", "crawlctl:crawls"])
def test_no_crawl_has_a_key_that_is_crawlctls_own(field: str, name: str) -> None:
    with pytest.raises(ConfigurationError):
        FrontierKeys(replace(KEYS, **{field: name}))


def test_a_crawl_may_be_called_as_crawlctl_is() -> None:
    assert FrontierKeys(default_keys(CrawlId("crawlctl"))).requests == "crawlctl:requests"


def test_a_clusters_keys_are_not_swept_away_whatever_the_list_of_garbage_says(redis_url: str) -> None:
    victim, rubbish = "crawlctl:{main}:line:x:0", "shop:dupefilter:7:0"
    with redis.Redis.from_url(redis_url) as client:
        client.mset({victim: "here", rubbish: "here"})
        for of, epoch in (("crawlctl:{main}:line", "x"), ("shop:dupefilter", "7")):
            client.rpush(GARBAGE, json.dumps([of, epoch, "packed", 0, 0, "", 0]))
        door = RedisDoor(Secret(redis_url))
        sweep(door, FrontierKeys(CrawlKeys(KEYS.requests, KEYS.seen, KEYS.seeds, KEYS.items)).all)
        door.close()
        assert client.exists(victim)
        assert not client.exists(rubbish)
        assert not client.llen(GARBAGE)
