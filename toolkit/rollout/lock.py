"""Holding a project's lock while a rollout runs: taken, kept alive in the background, given back."""

from __future__ import annotations

import getpass
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from toolkit.model.errors import ConflictError, StoreUnreachableError
from toolkit.model.names import ProjectName
from toolkit.model.releases import RolloutLock
from toolkit.store.interfaces import ReleaseStore

TTL_S = 60.0
RENEW_EVERY_S = 15.0


class HeldLock:
    """A lock that renews itself until it is given back, or until somebody else has it."""

    def __init__(self, releases: ReleaseStore, lock: RolloutLock) -> None:
        self.lock = lock
        self._releases = releases
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Make sure that it is still ours, right now.

        Raises:
            ConflictError: it was stolen or has expired.

        """
        self._releases.renew(self.lock, ttl_s=TTL_S)

    def end(self) -> None:
        """Stop renewing and give it back; with a store that is away it expires by itself."""
        self._ended.set()
        self._thread.join()
        # What was done under the lock stands, and its result or error must not be hidden by this.
        with suppress(StoreUnreachableError):
            self._releases.unlock(self.lock)

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_EVERY_S):
            try:
                self._releases.renew(self.lock, ttl_s=TTL_S)
            except ConflictError:
                return  # every write under it is refused from now on, and says so
            except StoreUnreachableError:
                continue  # three more tries before it expires; `activate` is refused if it did


@contextmanager
def holding_lock(
    releases: ReleaseStore, project: ProjectName, *, why: str, steal: bool = False, who: str | None = None
) -> Iterator[HeldLock]:
    """Hold the project's lock within the block, under the operator's name and process unless it is for another.

    Raises:
        LockHeldError: another rollout holds it and `steal` was not asked for.

    """
    lock = releases.lock(project, who=who or operator(), why=why, ttl_s=TTL_S, steal=steal)
    held = HeldLock(releases, lock)
    try:
        yield held
    finally:
        held.end()


def operator() -> str:
    """Name who is at work: user, host and process, as in `ann@laptop:4711`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}:{os.getpid()}"
