"""What a test does when something it needs is absent: skip on a laptop, fail in CI, where everything must be there."""

from __future__ import annotations

import os

import pytest


def require(condition: object, reason: str) -> None:
    """Go on if the condition holds; else skip the test, or fail it where the environment variable `CI` is set."""
    if condition:
        return
    if os.environ.get("CI"):
        pytest.fail(f"needed in CI: {reason}")
    pytest.skip(reason)
