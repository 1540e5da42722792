"""What `schedule SPIDER` means."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from toolkit.cluster.resolve import resolve_spider
from toolkit.model.errors import NotFoundError, UsageError
from toolkit.model.names import ProjectName, SpiderName, VersionName
from toolkit.model.releases import Release


def releases(**spiders: str) -> Mapping[ProjectName, Release]:
    return {ProjectName(project): release(project, names.split()) for project, names in spiders.items()}


def release(project: str, spiders: list[str]) -> Release:
    names = tuple(SpiderName(name) for name in spiders)
    at = datetime(2026, 11, 21, tzinfo=UTC)
    return Release(ProjectName(project), VersionName("v1"), "aa", names, 1, None, at, "ann@desk")


def test_the_only_project_with_the_spider_is_meant() -> None:
    active = releases(shop="books prices", news="headlines")
    assert resolve_spider(active, "headlines", project=None).project == "news"


def test_the_named_project_is_meant() -> None:
    active = releases(shop="books", news="books")
    assert resolve_spider(active, "books", project="news").project == "news"


def test_several_projects_are_all_named() -> None:
    with pytest.raises(UsageError, match="news, shop") as caught:
        resolve_spider(releases(shop="books", news="books"), "books", project=None)
    assert "-p" in (caught.value.hint or "")


def test_an_unknown_spider_names_the_nearest_right_one() -> None:
    with pytest.raises(NotFoundError, match="no spider 'boks'") as caught:
        resolve_spider(releases(shop="books prices"), "boks", project=None)
    assert caught.value.hint == "did you mean books?"


def test_a_spider_unlike_any_other_lists_them() -> None:
    with pytest.raises(NotFoundError, match="the active release of shop") as caught:
        resolve_spider(releases(shop="prices books", news="xyzzy"), "xyzzy", project="shop")
    assert caught.value.hint == "there are: books, prices"


@pytest.mark.parametrize(
    ("project", "words"), [(None, "there is no active release"), ("none", "project 'none' has no")]
)
def test_without_an_active_release_deploy_is_named(project: str | None, words: str) -> None:
    active = releases(shop="books") if project else {}
    with pytest.raises(NotFoundError, match=words) as caught:
        resolve_spider(active, "books", project=project)
    assert "crawlctl deploy" in (caught.value.hint or "")
