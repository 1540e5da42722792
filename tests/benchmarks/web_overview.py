"""What the first page costs: how long the server takes for it, what goes over the wire, and when it can be read."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
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

WATCHED_S = 20.0
"""For how long a page is left open to see what it costs Redis."""

_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


@dataclass(frozen=True, slots=True)
class WebFigures:
    """The median time of a fresh overview, the kB of all its parts as sent, the median time to its first paint.

    `redis_percent` is the share of a core that an open page costs Redis while its nodes and jobs stand still: their own
    signs of life cost ten times as much, and would hide it.
    """

    web_overview_ms: float
    page_kb: float
    first_paint_ms: float
    redis_percent: float


def measure_web(
    folder: Path, *, nodes: int = NODES, jobs: int = JOBS, looks: int = LOOKS, watched_s: float = WATCHED_S
) -> WebFigures:
    """Measure the overview of so large a cluster, in a real browser."""
    with (
        RedisServer(folder / "redis") as server,
        far_scene(server.url, folder / "scene", nodes=nodes, jobs=jobs) as scene,
    ):
        store = open_store(Secret(server.url), folder / "store")
        with web_server(folder / "web", lambda: store) as web, chromium() as browser:
            overview_ms = overview_of(web, looks=looks)
            page_kb, paint_ms = weight_of(browser, web)
            with signed_in(browser, web) as tab, at_rest(scene):
                tab.open("/").wait_for_selector("#queue canvas")
                redis_percent = _redis_percent(server.url, watched_s)
        store.close()
    return WebFigures(overview_ms, page_kb, paint_ms, round(redis_percent, 2))


@contextmanager
def signed_in(browser: Browser, web: WebServer) -> Iterator[Tab]:
    """Give a tab of somebody who may look."""
    tab = Tab(browser, web.url)
    tab.sign_in("alice", PASSWORD)
    yield tab
    tab.close()


@contextmanager
def at_rest(scene: int) -> Iterator[None]:
    """Let the scene's process stand still."""
    os.kill(scene, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(scene, signal.SIGCONT)


def _redis_percent(url: str, watched_s: float) -> float:
    """Return the share of a core that Redis takes from now on, for so long."""

    def spent_s() -> float:
        told = client.info("cpu")
        return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])

    with redis.Redis.from_url(url) as client:
        before_s, began_s = spent_s(), time.monotonic()
        time.sleep(watched_s)
        return 100 * (spent_s() - before_s) / (time.monotonic() - began_s)


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
    with signed_in(browser, web) as tab:
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
    return round(max(weights), 1), round(statistics.median(paints), 1)
