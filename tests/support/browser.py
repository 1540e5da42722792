"""A real browser, Debian's Chromium without a window, and what a page may not do in it: complain, or ask elsewhere."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright
from support.debian import require_installed

CHROMIUM = {"chromium": "chromium", "libatomic.so.1": "libatomic1"}
"""The browser, and what Playwright's own program needs."""
# They stop the browser's own connections, which have nothing to do with any page.
ARGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
WIDE, PHONE = (1280, 900), (390, 844)
SOON_MS = 20_000
"""What a page shows at last; how soon it does is for benchmarks to say, and a busy machine is no fault of a page."""

Theme = Literal["light", "dark"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser; installed first where it is missing and may be."""
    require_installed(CHROMIUM)
    expect.set_options(timeout=SOON_MS)
    # A path of temporary folders may be too long for the name of its socket.
    with tempfile.TemporaryDirectory(prefix="chromium-", dir="/tmp") as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            headless=True,
            args=list(ARGS),
            env={**os.environ, "TMPDIR": folder},
        )
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """One window on the pages of a server; `complaints` are all errors of the page and requests to elsewhere."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        *,
        size: tuple[int, int] = WIDE,
        theme: Theme = "light",
        has_scripts: bool = True,
    ) -> None:
        self.url = url
        self.complaints: list[str] = []
        self.context: BrowserContext = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=theme, java_script_enabled=has_scripts
        )
        self.context.set_default_timeout(SOON_MS)
        self.page: Page = self.context.new_page()
        self.page.on("console", lambda said: self._complain(said.text) if said.type in {"error", "warning"} else None)
        self.page.on("pageerror", lambda error: self._complain(str(error)))
        self.page.on("request", self._look_at)

    def sign_in(self, name: str, password: str) -> None:
        """Sign a user in."""
        self.open("/sign-in")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(lambda url: "/sign-in" not in url)

    def open(self, path: str) -> Page:
        """Go to a page of the server."""
        self.page.goto(self.url + path)
        return self.page

    def close(self) -> None:
        """Close the window."""
        self.context.close()

    def _complain(self, text: str) -> None:
        self.complaints.append(text)

    def _look_at(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self._complain(f"a request to {request.url}")


NAMELESS = """
() => [...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea, summary, [role=img]")]
  .filter((each) => each.checkVisibility())
  .filter((each) => {
    const labels = each.labels ? [...each.labels].map((label) => label.innerText) : [];
    const by = (each.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id));
    const texts = [...labels, ...by.map((other) => other?.innerText), each.innerText, each.title];
    return !(each.getAttribute("aria-label") || texts.some((text) => text?.trim()));
  })
  .map((each) => each.outerHTML.slice(0, 200))
"""
BAD_STRUCTURE = """
() => {
  const found = [];
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  ids.filter((id, at) => ids.indexOf(id) !== at).forEach((id) => found.push(`two elements are called ${id}`));
  if (!document.documentElement.lang) found.push("no language");
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  if (!document.querySelector("main")) found.push("no main");
  for (const table of document.querySelectorAll("table:not(.u-legend)")) {
    if (!table.caption) found.push("a table without a caption");
    if ([...table.querySelectorAll("th")].some((cell) => !cell.scope)) found.push("a header cell without a scope");
  }
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) found.push(`${width} px wide`);
  return found;
}
"""


def flaws_of(page: Page) -> list[Any]:
    """Return what keeps some people from using a page: controls without a name, tables without headers, overflow."""
    return [*page.evaluate(NAMELESS), *page.evaluate(BAD_STRUCTURE)]
