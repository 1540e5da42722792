"""Names a release: the version that nodes see, and the commit that its source came from."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from toolkit.model.names import VersionName, check_version

_DIGEST_CHARS = 7
_GIT_TIMEOUT_S = 30.0


def make_version(digest: str, now: datetime) -> VersionName:
    """Return `20261120-101500-9f3c2a1`: UTC time, then the head of the egg's digest.

    It sorts right as plain text, and Scrapyd's egg storage keeps it unchanged. `now` must be aware.

    Raises:
        ValueError: `now` has no time zone.

    """
    if now.tzinfo is None:
        raise ValueError("a version is made from an aware time")
    return check_version(f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{digest[:_DIGEST_CHARS]}")


def source_revision(root: Path) -> str | None:
    """Return the commit that the project is at, with `-dirty` behind it if the project's files differ from it.

    `None` where there is no git, no repository or no commit. The repository is only read: not even its index is
    refreshed.
    """
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    if not commit:
        return None
    changes = _git(root, "status", "--porcelain", "--untracked-files=normal", "--", ".")
    return f"{commit}-dirty" if changes or changes is None else commit


def _git(root: Path, *args: str) -> str | None:
    # In a git hook, GIT_DIR and its like name another repository than the project's.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", os.fspath(root), *args],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_GIT_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None
