"""Fingerprints are Scrapy's own, whatever is remembered of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request, Spider
from scrapy.http import JsonRequest
from scrapy.utils.request import fingerprint
from scrapy.utils.test import get_crawler

from toolkit.spider import fingerprints as module
from toolkit.spider.fingerprints import Fingerprints


def fingerprints(settings: dict[str, Any] | None = None) -> Fingerprints:
    crawler = get_crawler(Spider, settings)
    crawler._apply_settings()
    return Fingerprints(crawler)


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=40))
def test_they_are_scrapys_own_however_often_they_are_asked_for(paths: list[str]) -> None:
    ours = fingerprints()
    for path in paths:
        request = Request(f"http://example.com/{path}?b=2&a=1#{path}")
        assert ours.of(request) == fingerprint(Request(request.url))


def test_what_else_a_request_says_than_its_url_is_not_forgotten() -> None:
    ours, url = fingerprints(), "http://example.com/?b=2&a=1"
    all_kinds = [
        Request(url),
        Request(url, method="HEAD"),
        Request(url, body=b"x"),
        JsonRequest(url, data={"a": 1}),
        Request(url, meta={"verbatim_url": True}),
    ]
    found = [ours.of(request) for request in all_kinds]
    assert found == [fingerprint(request) for request in all_kinds]
    assert len(set(found)) == len(found)


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HALF", 10)
    ours = fingerprints()
    for number in range(100):
        ours.of(Request(f"http://example.com/{number}"))
    assert len(ours._newer) + len(ours._older) <= 20
    assert ours.of(Request("http://example.com/1")) == fingerprint(Request("http://example.com/1"))


class ByLength:
    """A fingerprinter of a project's own, of few bytes."""

    def fingerprint(self, request: Request) -> bytes:
        return bytes([len(str(request.meta.get("user")))])


def test_a_projects_own_fingerprinter_is_asked_each_time_and_made_to_fit() -> None:
    ours = fingerprints({"REQUEST_FINGERPRINTER_CLASS": ByLength})
    ann, bob = (Request("http://example.com/", meta={"user": user}) for user in ("ann", "robert"))
    assert ours.of(ann) != ours.of(bob)
    assert len(ours.of(ann)) == 20
