"""What the tests of the gate share: one server on a store of this machine, with a user of each role."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.web_server import WebServer, web_server

from toolkit.store.interfaces import Store
from toolkit.store.open import open_store


@pytest.fixture(scope="module")
def local_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Give a store of this machine."""
    store = open_store(None, tmp_path_factory.mktemp("store"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, local_store: Store) -> Iterator[WebServer]:
    """Give a server that the tests of a module share: they leave its users as they were."""
    with web_server(tmp_path_factory.mktemp("web"), lambda: local_store) as server:
        yield server
