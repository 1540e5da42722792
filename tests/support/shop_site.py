"""The sample project's shop as a server for tests, on a free port, with the arithmetic of what it holds."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Self

from support.ports import free_port
from support.processes import end, quiet_environment, start
from support.waiting import wait_until

SHOP_PROJECT = Path(__file__).parents[2] / "projects" / "shop"


class ShopSite:
    """The shop, open from entering the context to leaving it; quicker than by default, for tests to be short."""

    def __init__(
        self,
        *,
        pages: int = 300,
        seed: int = 7,
        latency_ms: int = 1,
        port: int | None = None,
        address: str = "127.0.0.1",
    ) -> None:
        self.pages = pages
        self.seed = seed
        self.latency_ms = latency_ms
        self.address = address
        self.port = port or free_port(address)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The shop's address, for the spiders' argument `site`."""
        return f"http://{self.address}:{self.port}"

    def expected_products(self, category: str | None = None) -> set[str]:
        """Return the SKUs that a full crawl finds."""
        skus: set[str] = shop_code().expected_products(self.pages, self.seed, category)
        return skus

    def expected_prices(self) -> dict[str, str]:
        """Return the price of every SKU on the price list."""
        prices: dict[str, str] = shop_code().expected_prices(self.pages, self.seed)
        return prices

    def __enter__(self) -> Self:
        options = {
            "address": self.address,
            "port": self.port,
            "pages": self.pages,
            "seed": self.seed,
            "latency-ms": self.latency_ms,
        }
        command = [sys.executable, "-B", str(SHOP_PROJECT / "site.py")]
        command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
        with tempfile.TemporaryDirectory(prefix="shop-") as folder:
            said = Path(folder) / "shop.log"
            with said.open("wb") as log:
                self._process = start(command, cwd=Path(folder), env=quiet_environment(Path(folder)), output=log)
            try:
                wait_until(lambda: self._is_open(said), deadline_s=60, what="the shop to open")
            except BaseException:
                end(self._process)
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            end(self._process)

    def _is_open(self, said: Path) -> bool:
        assert self._process is not None
        text = said.read_text()
        assert self._process.poll() is None, f"the shop closed at once:\n{text}"
        return "is open" in text


def shop_code() -> ModuleType:
    """Return the shop's own code, loaded once under a name that shadows nothing."""
    name = "sample_shop_site"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, SHOP_PROJECT / "site.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
