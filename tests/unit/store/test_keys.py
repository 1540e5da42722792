"""All keys of one cluster share one prefix and one slot, and each is described."""

from __future__ import annotations

import pytest

from toolkit.model.errors import ConfigurationError
from toolkit.model.names import ProjectName
from toolkit.store import keys as module
from toolkit.store.keys import Keys

SHOP = ProjectName("shop")


def all_keys(keys: Keys) -> list[str]:
    fixed = [keys.tokens, keys.projects, keys.active, keys.jobs, keys.unfinished_jobs, keys.final_jobs, keys.job_ids]
    return [*fixed, keys.lock(SHOP), keys.releases(SHOP), keys.holders(SHOP), keys.history(SHOP)]


def test_every_key_begins_with_the_clusters_hash_tag() -> None:
    assert all(key.startswith("crawlctl:{eu-1}:") for key in all_keys(Keys("eu-1")))
    assert all(key.startswith("crawlctl:{main}:") for key in all_keys(Keys()))


def test_no_two_keys_are_one() -> None:
    assert len(set(all_keys(Keys()))) == len(all_keys(Keys()))
    assert not set(all_keys(Keys("a"))) & set(all_keys(Keys("b")))


def test_every_key_is_described() -> None:
    described = module.__doc__ or ""
    for key in all_keys(Keys()):
        name = key.removeprefix("crawlctl:{main}:").replace("shop", "<project>")
        assert f"| `{name}` |" in described


@pytest.mark.parametrize("cluster", ["", "a}b", "a b", "a:b", "x" * 101, "é"])
def test_a_name_that_would_break_the_hash_tag_is_refused(cluster: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be used"):
        Keys(cluster)
