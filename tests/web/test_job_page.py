"""The page of a job that really runs, on a real node: its log as it is written, its course, and what it obeys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from support.browser import PHONE, Tab, chromium, flaws_of
from support.node_spiders import a_node_job, ended
from support.plugin_node import PluginNode
from support.redis_server import RedisServer
from support.spider_cluster import spider_nodes, store_of
from support.web_server import PASSWORD, WebServer, web_server

from toolkit.cluster import queued
from toolkit.cluster.node_life import drain, resume
from toolkit.model.names import JobId, NodeName
from toolkit.store.interfaces import Store

NODE = NodeName("node-1")

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def nodes(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[PluginNode]]:
    with spider_nodes(1, redis_server, tmp_path_factory.mktemp("nodes"), lease_s=6.0) as started:
        yield started


@pytest.fixture(scope="module")
def store(
    nodes: list[PluginNode], redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    with store_of(nodes, redis_server, tmp_path_factory.mktemp("store")) as opened:
        yield opened


@pytest.fixture(scope="module")
def web(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    with web_server(tmp_path_factory.mktemp("web"), lambda: store) as server:
        yield server


@pytest.fixture(scope="module")
def tab(web: WebServer) -> Iterator[Tab]:
    with chromium() as browser:
        opened = Tab(browser, web.url)
        opened.sign_in("olga", PASSWORD)
        yield opened
        assert opened.complaints == []


def test_a_job_is_followed_from_its_queue_to_its_end(tab: Tab, store: Store, tmp_path: Path) -> None:
    assert store.shared is not None
    until = tmp_path / "until"
    job = a_node_job("f0110eed", args={"until": str(until)})
    page = tab.open("/nodes")
    store.shared.queue.add([job])
    page.goto(f"{tab.url}/jobs/f0110")
    state = page.locator("#state .state").first
    expect(state).to_contain_text("running")
    # What the spider writes comes without a reload, whole lines in their order, each once.
    expect(page.locator("#log")).to_contain_text("Spider opened")
    until.touch()
    expect(state).to_contain_text("finished")
    expect(page.locator("#log")).to_contain_text("Spider closed (finished)")
    lines = page.locator("#log").inner_text().splitlines()
    assert len([line for line in lines if "Spider opened" in line]) == 1
    assert lines.index(next(line for line in lines if "Spider opened" in line)) < len(lines) - 1
    expect(page.locator("#state")).to_contain_text("Items")
    page.get_by_label("Level").select_option("warning")
    expect(page.locator("#log .i").first).to_be_hidden()
    assert flaws_of(page) == []


def test_the_log_and_the_course_of_a_job_come_to_a_page_that_was_open_before_it_started(
    tab: Tab, store: Store, tmp_path: Path
) -> None:
    assert store.shared is not None
    until = tmp_path / "until"
    drain(store, [NODE], who="olga")
    store.shared.queue.add([a_node_job("ea51ab1e", args={"until": str(until)})])
    page = tab.open("/jobs/ea51ab1e")
    expect(page.locator("#no-log")).to_contain_text("no node has run it yet")
    expect(page.locator("#log")).to_be_hidden()
    expect(page.locator("#course")).to_be_hidden()
    resume(store, [NODE])
    expect(page.locator("#log")).to_contain_text("Spider opened", timeout=30_000)
    expect(page.locator("#no-log")).to_be_hidden()
    expect(page.locator("#course canvas").first).to_be_visible(timeout=60_000)
    until.touch()
    expect(page.locator("#log")).to_contain_text("Spider closed (finished)", timeout=30_000)
    assert page.locator("#log").inner_text().count("Spider opened") == 1
    assert flaws_of(page) == []


def test_a_job_that_somebody_puts_back_goes_on_in_a_page_that_was_opened_after_its_end(tab: Tab, store: Store) -> None:
    assert store.shared is not None
    store.shared.queue.add([a_node_job("dead1ab1e", "dies")])
    ended(store, "dead1ab1e")
    page = tab.open("/jobs/dead1ab1e")
    expect(page.locator("#state .state").first).to_contain_text("failed")
    expect(page.locator("#log")).to_contain_text("Spider opened")
    store.shared.queue.retry([JobId("dead1ab1e")])
    expect(page.locator("#log")).to_have_text(re.compile(r"(Spider opened.*){2}", re.DOTALL), timeout=60_000)
    expect(page.locator("#no-log")).to_be_hidden()


def test_a_job_is_paused_resumed_and_cancelled_and_run_again(
    tab: Tab, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.shared is not None
    monkeypatch.setattr(queued, "HEARD_WITHIN_S", 60.0)
    store.shared.queue.add([a_node_job("ca11ab1e", args={"sleep_s": "60"})])
    page = tab.open("/jobs/ca11ab1e")
    state = page.locator("#state .state").first
    expect(state).to_contain_text("running")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status").first).to_contain_text("is paused", timeout=60_000)
    expect(state).to_contain_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("status").first).to_contain_text("goes on", timeout=60_000)
    expect(state).to_contain_text("running")
    page.get_by_text("Tune…").click()
    page.get_by_label("Concurrent requests").fill("3")
    page.get_by_role("button", name="Tune", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("obeys within seconds")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert flaws_of(page) == []
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("it is cancelled", timeout=30_000)
    expect(state).to_contain_text("cancelled")
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("status").first).to_contain_text("back in the queue")
    expect(state).to_contain_text("running")
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(state).to_contain_text("cancelled", timeout=30_000)
    actions = [entry.action for entry in store.audit.entries(limit=6)]
    assert actions == ["cancel", "jobs retry", "cancel", "jobs tune", "jobs resume", "jobs pause"]


def test_a_job_that_is_not_there_is_told_as_such(tab: Tab) -> None:
    page = tab.open("/jobs/abcdef")
    expect(page.locator("main")).to_contain_text("no job's id begins with 'abcdef'")
    tab.complaints.clear()
