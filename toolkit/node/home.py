"""A node's folder: the identity that it keeps for good, and the lock that lets one Scrapyd at a time live there."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import secrets
from pathlib import Path

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret

_LOCK, _ID, _RUNS, _REDIS = "lock", "home", "runs", "redis.url"


class Home:
    """The folder `state_dir`, ours from its making to `leave`, or to the death of this process.

    `node_id` stands for the machine in the identity, where a machine is not known by its name for long: a container's
    is another each time it is made.

    Raises:
        ConfigurationError: another Scrapyd lives there, or the folder cannot be written.

    """

    def __init__(self, path: Path, *, node_id: str | None = None) -> None:
        self.path = path
        self._place = f"{platform.node()} {_machine_id()}" if node_id is None else f"node_id {node_id}"
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.runs.mkdir(exist_ok=True)
            self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(f"state_dir {path} cannot be used: {error}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.id = self._identity()
        except OSError as error:
            os.close(self._lock)
            if isinstance(error, BlockingIOError):
                raise ConfigurationError(
                    f"another Scrapyd already lives in state_dir {path}: give each its own"
                ) from error
            raise ConfigurationError(f"state_dir {path} cannot be used: {error}") from error

    @property
    def runs(self) -> Path:
        """Where each running job has its folder (`toolkit/runs/folder.py`)."""
        return self.path / _RUNS

    def keep_redis(self, url: Secret) -> Path:
        """Write the URL of the cluster's Redis into a file that its owner alone can read, for the spiders; return it.

        Raises:
            ConfigurationError: the folder cannot be written.

        """
        path = self.path / _REDIS
        draft = path.with_suffix(".draft")
        try:
            draft.unlink(missing_ok=True)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(url.reveal() + "\n")
            draft.replace(path)
        except OSError as error:
            raise ConfigurationError(f"state_dir {self.path} cannot be used: {error}") from error
        return path

    def leave(self) -> None:
        """Let another Scrapyd live there."""
        os.close(self._lock)

    def _identity(self) -> str:
        """Return the text by which the cluster tells this folder from others, copies on other machines among them."""
        return hashlib.sha256(f"{self._number()} {self._place}".encode()).hexdigest()[:16]

    def _number(self) -> str:
        """Return the folder's own random number, made at the first start."""
        path = self.path / _ID
        known = path.read_text(encoding="ascii").strip() if path.exists() else ""
        if known:
            return known
        draft = path.with_suffix(".draft")
        draft.write_text(made := secrets.token_hex(8), encoding="ascii")
        draft.replace(path)
        return made


def _machine_id() -> str:
    """Return systemd's name of this machine, where there is one (machine-id(5))."""
    with contextlib.suppress(OSError):
        return Path("/etc/machine-id").read_text(encoding="ascii").strip()
    return ""
