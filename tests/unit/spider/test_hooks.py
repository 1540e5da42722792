"""A Scrapy that lacks a place where the frontier takes hold is refused by its name, with nothing changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request

from toolkit.model.crawls import EntryId, Leased
from toolkit.model.errors import ConfigurationError
from toolkit.spider.hooks import Hooks
from toolkit.spider.leases import PAGE, Lease, Leases

URL = "https://books.example.com/"


def an_engine() -> Any:
    """Return what the frontier needs of an engine; which places were called, and in which page, is in `called`."""
    called: list[tuple[str, Lease | None]] = []

    async def scrape(*_: object) -> None:
        called.append(("scrape", PAGE.get()))

    slot = SimpleNamespace(inprogress={Request(URL)}, nextcall=None, closing=None, close=lambda: None)
    scraper = SimpleNamespace(
        slot=None,
        spidermw=None,
        _scrape=scrape,
        _process_spidermw_output=lambda *_: called.append(("output", PAGE.get())),
    )
    return SimpleNamespace(
        _slot=slot,
        scraper=scraper,
        downloader=SimpleNamespace(total_concurrency=16, active={1, 2, 3}),
        _start=None,
        _process_start_next=None,
        paused=False,
        _download=lambda *_: called.append(("download", PAGE.get())),
        _handle_downloader_output=lambda *_: called.append(("downloaded", PAGE.get())),
        called=called,
    )


def hooks(engine: Any) -> Hooks:
    crawler: Any = SimpleNamespace(engine=engine)
    return Hooks(crawler)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("_slot", "inprogress"),
        ("_slot", "nextcall"),
        ("_slot", "close"),
        ("scraper", "spidermw"),
        ("scraper", "_scrape"),
        ("scraper", "_process_spidermw_output"),
        ("", "_download"),
        ("", "_handle_downloader_output"),
        ("", "_start"),
        ("", "_process_start_next"),
    ],
)
def test_a_place_that_is_missing_is_named(owner: str, name: str) -> None:
    engine = an_engine()
    delattr(getattr(engine, owner) if owner else engine, name)
    with pytest.raises(ConfigurationError, match=f"has no {name}") as caught:
        hooks(engine)
    assert "scrapy" in str(caught.value.hint)


def test_the_end_of_each_request_is_reported_once_it_is_removed() -> None:
    engine = an_engine()
    (before,) = engine._slot.inprogress
    ended: list[Request] = []
    hooks(engine).report_ends(ended.append)
    request = Request(URL)
    engine._slot.inprogress.add(request)
    engine._slot.inprogress.remove(request)
    engine._slot.inprogress.remove(before)
    assert ended == [request, before]
    with pytest.raises(KeyError):
        engine._slot.inprogress.remove(request)


def test_code_that_runs_for_a_leased_request_knows_its_page_and_other_code_none() -> None:
    engine, leases = an_engine(), Leases()
    lease = Lease(Leased(EntryId(b"12345678"), b""))
    request, other = Request(URL), Request(URL)
    leases.begin(request, lease)
    hooks(engine).mark_pages(leases)
    for each in (request, other):
        engine._download(each)
        engine._handle_downloader_output(None, each)
        with pytest.raises(StopIteration):
            engine.scraper._scrape(None, each).send(None)
        PAGE.set(None)
    names = ("download", "downloaded", "scrape")
    assert engine.called == [(name, lease) for name in names] + [(name, None) for name in names]


def test_free_is_what_the_engine_would_take_now() -> None:
    engine = an_engine()
    assert hooks(engine).free() == 13
    engine.downloader.total_concurrency = 0
    assert hooks(engine).free() > 13
    engine.scraper.slot = SimpleNamespace(needs_backout=lambda: True)
    assert hooks(engine).free() == 0
