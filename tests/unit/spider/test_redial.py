"""When a spider asks for another address, what it waits for, and which pages are fetched again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse, Response
from scrapy.settings import Settings
from scrapy.signalmanager import SignalManager
from scrapy.statscollectors import MemoryStatsCollector

from toolkit.config.options import Scope, options
from toolkit.model.errors import ConfigurationError
from toolkit.runs.folder import REDIAL, REDIALLED, RunFolder
from toolkit.spider import redial as module
from toolkit.spider.ban_signs import BanRule, BanSigns
from toolkit.spider.redial import RedialMiddleware, read_rule

RULE = BanRule(statuses={403}, texts=(b"are you a robot",), share=0.5, window_s=60, min_responses=4)


def signs_of(answers: str) -> BanSigns:
    """Return what was counted at second 0: `x` is a ban, `.` a page."""
    signs = BanSigns(RULE)
    for each in answers:
        signs.note(is_ban=each == "x", now=0.0)
    return signs


def test_a_ban_is_a_status_or_a_text() -> None:
    assert RULE.is_ban(403, b"")
    assert RULE.is_ban(200, b"<p>are you a robot?</p>")
    assert not RULE.is_ban(200, b"<p>welcome</p>")
    assert not BanRule(statuses={403}).is_ban(404, b"are you a robot")


def test_a_share_means_nothing_until_there_are_enough_answers() -> None:
    assert signs_of("xxx").too_many(0) is None
    assert signs_of("xx..").too_many(0) == "2 of the last 4 answers were bans"
    assert signs_of("x...").too_many(0) is None


def test_old_answers_count_no_more() -> None:
    signs = signs_of("xxxx")
    assert signs.too_many(59) is not None
    assert signs.too_many(61) is None


def test_what_is_counted_is_bounded() -> None:
    signs = BanSigns(RULE)
    for number in range(25_000):
        signs.note(is_ban=number < 20_000, now=0)
    assert signs.too_many(0) == "5000 of the last 10000 answers were bans"


def test_under_another_address_counting_begins_anew() -> None:
    signs = signs_of("xxxx")
    signs.clear()
    assert signs.too_many(0) is None


def test_every_default_is_that_of_the_option_table() -> None:
    rule = read_rule(Settings())
    assert rule == BanRule(frozenset({403, 407, 429, 503}), (), 0.5, 60.0, 20)
    assert all(each.name.startswith(("FRONTIER_", "REDIAL_")) or each.default is None for each in options(Scope.SPIDER))


@pytest.mark.parametrize(("written", "meant"), [([403, 500], {403, 500}), ("403, 500", {403, 500}), ("", set())])
def test_statuses_may_be_a_list_or_a_text(written: object, meant: set[int]) -> None:
    assert read_rule(Settings({"REDIAL_STATUSES": written})).statuses == meant


def test_a_wrong_setting_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigurationError, match="REDIAL_STATUSES is HTTP statuses"):
        read_rule(Settings({"REDIAL_STATUSES": "banned"}))
    with pytest.raises(ConfigurationError, match="REDIAL_SHARE"):
        read_rule(Settings({"REDIAL_SHARE": 0}))


class Desk:
    """A middleware whose node is a folder that the test answers in."""

    def __init__(self, folder: RunFolder | None, monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
        self.folder = folder
        self.looks: list[Any] = []
        monkeypatch.setattr(module, "repeating", self._repeating)
        self.slot = SimpleNamespace(closing=False)
        crawler: Any = SimpleNamespace(
            settings=Settings({"REDIAL_MIN_RESPONSES": 2, "REDIAL_RETRY_TIMES": 1, **settings}),
            signals=SignalManager(),
            engine=SimpleNamespace(_slot=self.slot),
            stats=None,
        )
        self.stats = crawler.stats = MemoryStatsCollector(crawler)
        self.middleware = RedialMiddleware(crawler, folder)

    def sent(self, number: int = 0) -> Request:
        request = Request(f"http://shop.example/{number}")
        self.middleware.process_request(request)
        return request

    async def answered(self, request: Request, status: int = 403) -> Response | Request:
        return await self.middleware.process_response(request, HtmlResponse(request.url, status=status))

    def waits(self, request: Request) -> asyncio.Task[Response | Request]:
        return asyncio.ensure_future(self.answered(request))

    def tell(self, **fields: object) -> None:
        assert self.folder is not None
        self.folder.write(REDIALLED, {"number": 1, "old": "1.1.1.1", "new": "2.2.2.2", "why": None, **fields})
        self.look()

    def look(self) -> None:
        self.looks[-1]()

    def _repeating(self, function: Any) -> Any:
        self.looks.append(function)
        return SimpleNamespace(start=lambda *_, **__: None, stop=lambda: None, running=True)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(RunFolder(tmp_path), monkeypatch)


def test_banned_pages_wait_for_the_node_and_are_fetched_again(desk: Desk) -> None:
    async def story() -> None:
        first, second, third = (desk.sent(number) for number in range(3))
        assert isinstance(await desk.answered(first), Response)
        waiting = desk.waits(second)
        await asyncio.sleep(0)
        assert desk.folder is not None
        wish = desk.folder.read(REDIAL)
        assert wish is not None
        assert (wish["number"], wish["why"]) == (1, "2 of the last 2 answers were bans")
        desk.look()
        assert not waiting.done()
        desk.tell()
        again = await waiting
        assert isinstance(again, Request)
        assert (again.url, again.dont_filter) == (second.url, True)
        # Sent under the old address, answered under the new one.
        assert isinstance(await desk.answered(third), Request)
        # Once more is what was set.
        desk.middleware.process_request(again)
        assert isinstance(await desk.answered(again), Response)

    asyncio.run(with_asyncio(story()))
    assert desk.stats.get_value("redial/repeated") == 2
    assert desk.stats.get_value("redial/changed") == 1


def test_without_another_address_the_pages_are_the_spider_s(desk: Desk) -> None:
    async def story() -> None:
        await desk.answered(desk.sent())
        waiting = desk.waits(desk.sent())
        await asyncio.sleep(0)
        desk.tell(why="it has no redial_command", new=None)
        assert isinstance(await waiting, Response)
        # Within the cooldown nothing is asked, and nothing waits.
        assert isinstance(await desk.answered(desk.sent()), Response)

    asyncio.run(with_asyncio(story()))
    assert desk.stats.get_value("redial/asked") == 1


def test_a_spider_that_closes_waits_no_longer(desk: Desk) -> None:
    async def story() -> None:
        await desk.answered(desk.sent())
        waiting = desk.waits(desk.sent())
        await asyncio.sleep(0)
        desk.slot.closing = True
        desk.look()
        assert isinstance(await waiting, Response)

    asyncio.run(with_asyncio(story()))


def test_good_pages_pass_while_the_node_redials(desk: Desk) -> None:
    async def story() -> None:
        await desk.answered(desk.sent())
        waiting = desk.waits(desk.sent())
        await asyncio.sleep(0)
        assert isinstance(await desk.answered(desk.sent(), 200), Response)
        desk.middleware.engine_stopped()
        await waiting

    asyncio.run(with_asyncio(story()))


def test_without_a_node_it_says_so_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(None, monkeypatch, REDIAL_COOLDOWN_S=0)

    async def story() -> None:
        for _ in range(5):
            assert isinstance(await desk.answered(desk.sent()), Response)

    asyncio.run(with_asyncio(story()))
    assert [record.getMessage() for record in caplog.records if "no node to ask" in record.getMessage()] == [
        "2 of the last 2 answers were bans; there is no node to ask for another address"
    ]


async def with_asyncio(story: Any) -> None:
    """Let what the middleware waits for be futures of this loop, as with Scrapy's asyncio reactor."""
    module_any: Any = module
    before = module_any.maybe_deferred_to_future
    module_any.maybe_deferred_to_future = lambda deferred: deferred.asFuture(asyncio.get_running_loop())
    try:
        await story
    finally:
        module_any.maybe_deferred_to_future = before
