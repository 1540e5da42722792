"""The pages of a cluster in a real browser, each by what somebody wants of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from support.browser import PHONE, WIDE, Tab, Theme, chromium, flaws_of
from support.queue_desk import a_pending_job, an_ending
from support.redis_server import RedisServer
from support.stores import SHOP, V1, V2, a_lock, a_rollout
from support.web_scene import Scene, web_scene
from support.web_server import PASSWORD, WebServer, web_server

from toolkit.model.crons import Cron
from toolkit.model.events import Event, EventKind
from toolkit.model.hosts import Secret
from toolkit.model.jobs import JobState
from toolkit.model.names import JobId, NodeName, SpiderName, VersionName
from toolkit.store.open import open_store

pytestmark = pytest.mark.timeout(180)

PATHS = (
    *("/", "/nodes", "/nodes/node-1", "/jobs", "/jobs?state=failed", "/crawls", "/crawls/books?shelf=pending"),
    *("/releases", "/releases/shop", "/crons", "/crons/stock", "/events", "/audit", "/account", "/nothing-there"),
)
NARROW = ("/", "/nodes", "/jobs", "/crawls/books", "/releases/shop", "/events", "/account")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module", autouse=True)
def scene(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    if not redis_server.is_running:
        redis_server.start()
    redis_server.flush()
    with web_scene(redis_server.url, tmp_path_factory.mktemp("scene"), nodes=12, jobs=160) as filled:
        yield filled


@pytest.fixture(scope="module")
def web(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    folder = tmp_path_factory.mktemp("web")
    store = open_store(Secret(redis_server.url), folder / "store")
    with web_server(folder, lambda: store) as server:
        yield server
    store.close()


@pytest.fixture
def tab(browser: Browser, web: WebServer) -> Iterator[Tab]:
    opened = Tab(browser, web.url)
    opened.sign_in("ada", PASSWORD)
    yield opened
    opened.close()
    assert opened.complaints == []


def test_every_page_is_for_everybody_and_asks_nobody_else(browser: Browser, web: WebServer, tmp_path: Path) -> None:
    looks: list[tuple[Theme, tuple[int, int], Sequence[str]]] = [("light", WIDE, PATHS), ("dark", PHONE, NARROW)]
    for theme, size, paths in looks:
        tab = Tab(browser, web.url, theme=theme, size=size)
        tab.sign_in("ada", PASSWORD)
        for path in paths:
            page = tab.open(path)
            assert flaws_of(page) == [], f"{path} in {theme}"
            name = path.strip("/").partition("?")[0].replace("/", "-") or "overview"
            page.screenshot(path=tmp_path / f"{name}-{theme}.png")
        tab.close()
        assert [each for each in tab.complaints if "404" not in each] == []


def test_the_overview_shows_what_runs_what_is_wrong_and_what_fires_next(tab: Tab, scene: Scene) -> None:
    page = tab.open("/")
    expect(page.locator(".tile", has_text="Nodes live")).to_contain_text("11")
    expect(page.locator("#attention")).to_contain_text("node-12 takes no new job")
    expect(page.locator("#attention code")).to_have_text("crawlctl nodes resume node-12")
    expect(page.locator("#next tbody tr").first).to_contain_text("stock")
    expect(page.locator("#running tbody tr")).to_have_count(10)
    expect(page.locator("#throughput canvas")).to_be_visible()
    expect(page.locator("#crawls")).to_contain_text("books")
    # It stays true without a reload: a job fails, and a toast says so.
    before = page.locator("#trouble tbody tr").first.inner_text()
    claim = scene.running()[0]
    scene.finish(claim, an_ending(JobState.FAILED, exit_code=1))
    # The toast goes again after seconds, so it is looked for first.
    expect(page.locator(".toast", has_text="job.failed")).to_be_visible()
    expect(page.locator("#trouble tbody tr").first).not_to_have_text(before)
    expect(page.locator("#trouble tbody tr").first).to_contain_text(claim.job.id[:10])


def test_a_node_is_drained_and_taken_up_again(tab: Tab, scene: Scene) -> None:
    page = tab.open("/nodes?q=node-3")
    page.get_by_label("Pick node-3").check()
    page.get_by_role("button", name="Drain picked").click()
    expect(page.get_by_role("status").first).to_contain_text("no new job is taken")
    page.goto(f"{tab.url}/nodes/node-3")
    expect(page.locator("#node-state")).to_contain_text("draining")
    expect(page.locator("#facts")).to_contain_text("ada@web")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#node-state")).to_contain_text("live")
    assert [entry.action for entry in scene.store.audit.entries(limit=2)] == ["nodes resume", "nodes drain"]


def test_jobs_are_found_paged_through_and_put_back(tab: Tab, scene: Scene) -> None:
    page = tab.open("/jobs")
    page.keyboard.press("/")
    page.keyboard.type(scene.running()[1].job.id[:12])
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("searchbox").fill("books")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("tbody tr").first).to_contain_text("books")
    page.get_by_role("link", name="Clear").click()
    first = page.locator("tbody th").first.inner_text()
    page.get_by_role("link", name="Older").click()
    expect(page.locator(".pages")).to_contain_text("51 to 100")
    page.get_by_role("link", name="Newer").click()
    expect(page.locator("tbody th").first).to_have_text(first)
    page.get_by_label("State").select_option("failed")
    expect(page.locator("tbody .state").first).to_contain_text("failed")
    ids = [JobId(str(row.get_attribute("value"))) for row in page.locator("tbody input[name=job]").all()[:2]]
    for job_id in ids:
        page.locator(f"input[value='{job_id}']").check()
    page.get_by_role("button", name="Retry picked").click()
    expect(page.get_by_role("status").first).to_contain_text("2 jobs back in the queue")
    jobs = scene.store.jobs
    assert all(not job.state.is_final for job in jobs.get_many(ids).values())


def test_a_crawl_is_looked_into_limited_blocked_and_paused(tab: Tab) -> None:
    page = tab.open("/crawls")
    page.get_by_role("link", name="books").click()
    expect(page.locator("#frontier")).to_contain_text("Waiting")
    expect(page.locator("#workers tbody tr")).to_have_count(2)
    page.get_by_label("Domain, or *").fill("shop-1.example")
    page.get_by_label("Requests a second").fill("2.5")
    page.get_by_role("button", name="Limit").click()
    expect(page.locator("#domains tr", has_text="shop-1.example")).to_contain_text("2.5")
    page.get_by_label("Domain, or pattern of URLs").fill("*/calendar/*")
    page.get_by_role("button", name="Block", exact=True).click()
    expect(page.locator("#blocks")).to_contain_text("*/calendar/*")
    page.get_by_role("button", name="Unblock").click()
    expect(page.locator("#blocks")).to_contain_text("Nothing is blocked")
    page.get_by_label("Domain, or pattern of URLs").fill("*")
    page.get_by_role("button", name="Block", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("blocks everything")


def test_a_release_is_rolled_back_by_who_administers_only(tab: Tab, browser: Browser, web: WebServer) -> None:
    page = tab.open("/releases/shop")
    expect(page.locator("#rows tr", has_text=V2)).to_contain_text("active")
    page.locator("#rows tr", has_text=V1).get_by_text("Roll back…").click()
    page.get_by_role("button", name="Roll back", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text(f"{V1} is the active release")
    expect(page.locator("#history tbody tr").first).to_contain_text("rollback")
    expect(page.locator("#history tbody tr").first).to_contain_text("ada@web")
    other = Tab(browser, web.url)
    other.sign_in("olga", PASSWORD)
    expect(other.open("/releases/shop").get_by_text("Roll back…")).to_have_count(0)
    other.close()


def test_a_cron_is_run_and_paused(tab: Tab) -> None:
    page = tab.open("/crons")
    expect(page.locator("tbody tr").first).to_contain_text("stock")
    page.get_by_role("link", name="hourly-prices").click()
    page.get_by_text("Run now…").click()
    page.get_by_role("button", name="Run now", exact=True).click()
    expect(page.locator("#history tbody tr").first).to_contain_text("fired")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#cron-state")).to_contain_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#cron-state")).to_contain_text("due")


def test_events_come_by_themselves_and_are_filtered(tab: Tab, scene: Scene) -> None:
    page = tab.open("/events?kind=node")
    scene.shared.events.note(Event(EventKind.NODE_LOST, "node-77", {"reason": "no heartbeat"}))
    expect(page.locator("tbody tr").first).to_contain_text("node-77")
    page.get_by_label("Kind").select_option("job.failed")
    expect(page.locator("tbody tr").first).to_contain_text("job.failed")
    expect(page.locator("tbody")).not_to_contain_text("node.lost")


def test_the_theme_is_switched_and_stays(tab: Tab) -> None:
    page = tab.open("/nodes")
    colour = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.get_by_role("button", name="Switch between dark and light").click()
    dark = page.evaluate(colour)
    assert dark != light
    assert tab.open("/crons").evaluate(colour) == dark
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Search")


def test_without_scripts_all_is_shown_and_acts_are_done(browser: Browser, web: WebServer) -> None:
    tab = Tab(browser, web.url, has_scripts=False)
    tab.sign_in("olga", PASSWORD)
    page = tab.open("/")
    expect(page.locator(".tile .spark").first).to_be_visible()
    page.goto(f"{tab.url}/nodes/node-4")
    page.get_by_text("Drain…").click()
    page.get_by_role("button", name="Drain", exact=True).click()
    expect(page.locator("#node-state")).to_contain_text("draining")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#node-state")).to_contain_text("live")
    tab.close()


def test_a_job_leads_to_its_crawl_if_that_is_known(tab: Tab, scene: Scene) -> None:
    plain = replace(a_pending_job("plain-books", spider="books", version=V2), args={})
    lamps = replace(plain, id=JobId("lamps-books"), args={"category": "lamps"})
    scene.shared.queue.add([plain, lamps])
    for job, links in ((plain, 1), (lamps, 0)):
        expect(tab.open(f"/jobs/{job.id}").locator('main a[href^="/crawls/"]')).to_have_count(links)


def test_who_may_only_look_sees_no_act(browser: Browser, web: WebServer, scene: Scene) -> None:
    tab = Tab(browser, web.url)
    tab.sign_in("alice", PASSWORD)
    for path in ("/nodes", "/jobs", f"/jobs/{scene.running()[2].job.id}", "/crawls/books", "/crons/stock"):
        acts = tab.open(path).locator("main form[method=post]")
        assert acts.count() == 0, path
    tab.close()
    assert tab.complaints == []


def test_what_changes_elsewhere_comes_to_the_pages_of_a_node_and_a_project(tab: Tab, scene: Scene) -> None:
    page = tab.open("/nodes/node-5")
    report, fresh = scene.reports[4], VersionName("20261122-101500-ccccccc")
    expect(page.locator("#versions")).to_contain_text(V2)
    expect(page.locator("#versions")).not_to_contain_text(fresh)
    scene.reports[4] = replace(report, versions={SHOP: (V1, V2, fresh)}, software={"scrapy": "9.9.9"})
    expect(page.locator("#versions")).to_contain_text(fresh)
    expect(page.locator("#software")).to_contain_text("9.9.9")
    scene.reports[4] = report

    page = tab.open("/releases/shop")
    before = scene.store.releases.actives()[SHOP].version
    after = V1 if before == V2 else V2
    expect(page.locator("#active")).to_contain_text(before)
    lock = a_lock(scene.store)
    scene.store.releases.activate(a_rollout(after), lock, held_by=[report.name for report in scene.reports])
    scene.store.releases.unlock(lock)
    expect(page.locator("#active")).to_contain_text(after)


def test_a_cron_that_is_changed_or_removed_elsewhere_is_so_in_a_page_that_shows_it(tab: Tab, scene: Scene) -> None:
    weekly = Cron("weekly", SpiderName("books"), project=SHOP, at="@weekly", comment="what the shop shows")
    scene.shared.crons.put([weekly], by="ann@desk")
    page = tab.open("/crons/weekly")
    expect(page.locator("#cron")).to_contain_text("what the shop shows")
    scene.shared.crons.put([replace(weekly, comment="what the shop hides", args={"city": "Basel"})], by="bob@desk")
    expect(page.locator("#cron")).to_contain_text("what the shop hides")
    expect(page.locator("#cron")).to_contain_text("Basel")
    expect(page.locator("#cron")).to_contain_text("bob@desk")
    scene.shared.crons.remove(["weekly"])
    expect(page.locator("main")).to_contain_text("there is no cron 'weekly'")
    tab.complaints[:] = [each for each in tab.complaints if "404" not in each]


def test_a_page_in_which_something_is_unfolded_stays_true_and_unfolded(tab: Tab, scene: Scene) -> None:
    job = JobId("f01ded00")
    scene.shared.queue.add([replace(a_pending_job(job), version=V2)])
    page = tab.open(f"/jobs/{job}")
    expect(page.locator("#state .state").first).to_contain_text("pending")
    page.get_by_text("Node by node").click()
    row = page.locator("#state li", has=page.get_by_role("link", name="node-1", exact=True))
    expect(row).to_contain_text("could take it")
    scene.shared.nodes.drain([NodeName("node-1")], who="olga")
    expect(row).to_contain_text("takes no new job")
    expect(row).to_be_visible()
    scene.shared.nodes.resume([NodeName("node-1")])
    scene.shared.queue.cancel([job], grace_s=0)
    expect(page.locator("#state .state").first).to_contain_text("cancelled")


def test_a_page_says_that_redis_is_away_and_recovers(tab: Tab, redis_server: RedisServer) -> None:
    page = tab.open("/")
    expect(page.locator("#throughput canvas")).to_be_visible()
    shown = page.locator("#as-of").inner_text()
    redis_server.stop()
    try:
        expect(page.locator("#away")).to_contain_text("cannot be asked")
    finally:
        redis_server.start()
    expect(page.locator("#away")).to_be_hidden()
    expect(page.locator("#as-of")).not_to_have_text(shown)
    # A plot that was asked for just then had no answer, and keeps what it shows.
    tab.complaints[:] = [each for each in tab.complaints if "503" not in each]
