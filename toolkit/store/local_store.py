"""The shared memory of a cluster without Redis: one file, shared by the processes of this machine."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from toolkit.model.names import DEFAULT_CLUSTER
from toolkit.store.interfaces import MAX_JOBS
from toolkit.store.keys import Keys
from toolkit.store.local_audit import LocalAudit
from toolkit.store.local_file import LocalFile
from toolkit.store.local_jobs import LocalJobs
from toolkit.store.local_releases import LocalReleases
from toolkit.store.local_rollouts import LocalRollouts


class LocalStore:
    """Keeps what `Store` promises. Opening it makes folder and file where they are not there yet.

    Raises:
        ConfigurationError: the cluster's name cannot be used.
        StoreUnreachableError: the file cannot be made, read or written.

    """

    def __init__(self, folder: Path, *, cluster: str = DEFAULT_CLUSTER, max_jobs: int = MAX_JOBS) -> None:
        self._file = LocalFile(folder / f"store-{Keys(cluster).cluster}.sqlite3")
        self._releases = LocalReleases(self._file)
        self._jobs = LocalJobs(self._file, max_jobs=max_jobs)
        self._rollouts = LocalRollouts(self._file)
        self._audit = LocalAudit(self._file)
        self._file.open()

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def releases(self) -> LocalReleases:
        """The releases of each project."""
        return self._releases

    @property
    def jobs(self) -> LocalJobs:
        """The jobs scheduled through crawlctl."""
        return self._jobs

    @property
    def rollouts(self) -> LocalRollouts:
        """The rollouts in waves."""
        return self._rollouts

    @property
    def audit(self) -> LocalAudit:
        """Who changed what."""
        return self._audit

    @property
    def shared(self) -> None:
        """Nothing: a file of this machine serves no nodes."""

    def now(self) -> datetime:
        """Return this machine's time."""
        return datetime.now(UTC)

    def close(self) -> None:
        """Close the file; twice is harmless."""
        self._file.close()
