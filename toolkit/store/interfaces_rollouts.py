"""What a store keeps of rollouts in waves, so that anybody can finish or undo one. Both back ends keep it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolkit.model.names import ProjectName
from toolkit.model.releases import RolloutLock
from toolkit.model.rollouts import WaveRollout

MAX_ROLLOUTS = 50
"""How many rollouts in waves are kept, the newest ones by their begin; those that are open are kept all."""


class Rollouts(Protocol):
    """The rollouts in waves, and the eggs of those that are open. Every write is refused once the lock is not ours."""

    def begin(self, rollout: WaveRollout, content: bytes, lock: RolloutLock) -> None:
        """Keep an open rollout and its egg. The same one twice is one.

        Raises:
            ConflictError: the lock is no longer ours, or another rollout of the project is open; nothing was kept.
            RefusedError: the egg is larger than `MAX_EGG_BYTES`.

        """

    def update(self, rollout: WaveRollout, lock: RolloutLock) -> None:
        """Replace what is known of a rollout; once it is not open any more, its egg is no longer kept for it.

        Raises:
            ConflictError: the lock is no longer ours; nothing was changed.

        """

    def open(self, project: ProjectName) -> WaveRollout | None:
        """Return the project's rollout that is running or held; there is one at most."""

    def get(self, rollout_id: str) -> WaveRollout | None:
        """Return one rollout."""

    def recent(self, *, limit: int = MAX_ROLLOUTS) -> Sequence[WaveRollout]:
        """Return the rollouts, the one that began last first."""

    def egg(self, rollout: WaveRollout) -> bytes | None:
        """Return the egg of an open rollout; `None` when it is not there any more.

        Raises:
            StoreUnreadableError: the bytes there have another digest.

        """
