"""What the first page costs: how long the server takes for it, what goes over the wire, and when it can be read."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser
from support.browser import Tab, chromium
from support.redis_server import RedisServer
from support.web_scene import far_scene
from support.web_server import PASSWORD, WebServer, web_server

from toolkit.model.hosts import Secret
from toolkit.store.open import open_store

NODES, JOBS = 300, 5_000
LOOKS, LOADS = 10, 5
STALE_AFTER_S = 2.2
"""Nothing that was read longer ago is shown again: such a look reads all of it."""

_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


@dataclass(frozen=True, slots=True)
class WebFigures:
    """The median time of a fresh overview, the kB of all its parts as sent, the median time to its first paint."""

    web_overview_ms: float
    page_kb: float
    first_paint_ms: float


def measure_web(folder: Path, *, nodes: int = NODES, jobs: int = JOBS, looks: int = LOOKS) -> WebFigures:
    """Measure the overview of so large a cluster, in a real browser."""
    with RedisServer(folder / "redis") as redis, far_scene(redis.url, folder / "scene", nodes=nodes, jobs=jobs):
        store = open_store(Secret(redis.url), folder / "store")
        with web_server(folder / "web", lambda: store) as web, chromium() as browser:
            overview_ms = overview_of(web, looks=looks)
            page_kb, paint_ms = weight_of(browser, web)
        store.close()
    return WebFigures(overview_ms, page_kb, paint_ms)


def overview_of(web: WebServer, *, looks: int) -> float:
    """Return the median time of the overview, all of it read anew each time."""
    client = web.signed_in("alice")
    client.get("/")
    took = []
    for _ in range(looks):
        time.sleep(STALE_AFTER_S)
        begin = time.perf_counter()
        client.get("/").raise_for_status()
        took.append((time.perf_counter() - begin) * 1000)
    return round(statistics.median(took), 1)


def weight_of(browser: Browser, web: WebServer) -> tuple[float, float]:
    """Return what the page and all its parts weigh as they are sent, nothing being kept, and when it is painted."""
    tab = Tab(browser, web.url)
    tab.sign_in("alice", PASSWORD)
    wire = tab.context.new_cdp_session(tab.page)
    sent: list[int] = []
    wire.send("Network.enable")
    wire.send("Network.setCacheDisabled", {"cacheDisabled": True})
    wire.on("Network.loadingFinished", lambda told: sent.append(int(told["encodedDataLength"])))
    weights, paints = [], []
    for _ in range(LOADS):
        # From a page that asks for nothing.
        tab.page.goto("about:blank")
        time.sleep(STALE_AFTER_S)
        sent.clear()
        page = tab.open("/")
        page.wait_for_selector("#queue canvas")
        weights.append(sum(sent) / 1000)
        paints.append(float(page.evaluate(_PAINTED)))
    tab.close()
    return round(max(weights), 1), round(statistics.median(paints), 1)
