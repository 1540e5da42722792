"""What the stories on real hosts share: a reason to skip them, labs of their own, and packages to carry to hosts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.lab.base import why_not
from support.lab.lab import BringUp, Lab
from support.lab.wheels import ensure_wheelhouse
from support.lab.wishes import HostWish
from support.require import require


@pytest.fixture(scope="module")
def bring_up(request: pytest.FixtureRequest) -> Iterator[BringUp]:
    """Give what brings up a lab for a file of stories; it is gone after them."""
    require_lab()
    name = f"{Path(request.path).stem.removeprefix('test_').replace('_', '-')}-{os.getpid()}"
    with ExitStack() as labs:
        yield lambda *hosts: labs.enter_context(Lab(name, hosts))


def require_lab() -> None:
    """Go on where there can be a lab; else skip the test, or fail it in CI."""
    reason = why_not()
    require(reason is None, reason or "")


@pytest.fixture(scope="session")
def wheelhouse() -> Path:
    """Give the packages for hosts that reach no index."""
    require_lab()
    return ensure_wheelhouse()


@pytest.fixture(scope="session")
def redis_host() -> HostWish:
    return HostWish("redis", redis=True)
