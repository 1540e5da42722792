"""Runs the stories on real hosts: `python tests/lab/run_stories.py [WORDS FOR PYTEST]`; the last line counts them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


class _Count:
    """Counts tests by how they ended; a test fails also when what it stands on does."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed += 1


def main() -> int:
    """Run them, and return pytest's exit code."""
    count = _Count()
    exit_code = pytest.main([str(Path(__file__).parent), *sys.argv[1:]], plugins=[count])
    sys.stdout.write(f"{count.passed} passed, {len(count.failed)} failed\n")
    return int(exit_code)


if __name__ == "__main__":
    sys.exit(main())
