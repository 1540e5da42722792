"""What the rollout's tests share: clients for their own `fleet`, and a store of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.doors import nodes_of
from support.fleet import Fleet

from toolkit.cluster.nodes import Nodes
from toolkit.store.interfaces import Store
from toolkit.store.open import open_store


@pytest.fixture
def nodes(fleet: Fleet) -> Iterator[Nodes]:
    nodes = nodes_of(fleet.hosts, timeout_s=20)
    yield nodes
    nodes.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(None, tmp_path)
    yield store
    store.close()
