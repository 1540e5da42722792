"""The rollouts in waves of one cluster in Redis, and what keeps the eggs of those that are open."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from toolkit.model.names import ProjectName
from toolkit.model.releases import RolloutLock
from toolkit.model.rollouts import WaveRollout
from toolkit.store import refusals
from toolkit.store.connect import RedisDoor
from toolkit.store.envelope import read, write
from toolkit.store.interfaces_queue import MAX_EGG_BYTES
from toolkit.store.interfaces_rollouts import MAX_ROLLOUTS
from toolkit.store.keys import Keys
from toolkit.store.redis_eggs import RedisEggs
from toolkit.store.wire_rollouts import read_wave_rollout, write_wave_rollout


class RedisRollouts:
    """Keeps what `Rollouts` promises."""

    def __init__(self, door: RedisDoor, keys: Keys, *, max_rollouts: int = MAX_ROLLOUTS) -> None:
        self._door = door
        self._keys = keys
        self._eggs = RedisEggs(door, keys)
        self._max_rollouts = max_rollouts

    def begin(self, rollout: WaveRollout, content: bytes, lock: RolloutLock) -> None:
        """See `Rollouts.begin`."""
        release, keys = rollout.release, self._keys
        if len(content) > MAX_EGG_BYTES:
            raise refusals.egg_too_large(len(content), MAX_EGG_BYTES)
        if (found := hashlib.sha256(content).hexdigest()) != release.digest:
            raise refusals.other_digest(release.digest, found)
        verdict = self._door.run(
            "begin_rollout",
            keys=[
                *(keys.lock(release.project), keys.rollouts, keys.open_rollouts, keys.rollouts_by_begin),
                *(keys.egg(release.digest), keys.digests, keys.changes),
            ],
            args=[
                *(lock.token, release.project, rollout.id, write_wave_rollout(rollout), _open(rollout)),
                *(int(rollout.began_at.timestamp() * 1000), release.digest, content, self._max_rollouts),
            ],
        )
        if verdict == "not_ours":
            raise refusals.lock_lost(lock)
        if verdict == "open":
            raise refusals.rollout_open(release.project)

    def update(self, rollout: WaveRollout, lock: RolloutLock) -> None:
        """See `Rollouts.update`."""
        keys, is_open = self._keys, rollout.state.is_open
        verdict = self._door.run(
            "update_rollout",
            keys=[keys.lock(rollout.project), keys.rollouts, keys.open_rollouts, keys.changes],
            args=[
                *(lock.token, rollout.project, rollout.id, write_wave_rollout(rollout), _open(rollout)),
                "1" if is_open else "0",
            ],
        )
        if verdict == "not_ours":
            raise refusals.lock_lost(lock)
        if not is_open:
            self._eggs.drop_unused()

    def open(self, project: ProjectName) -> WaveRollout | None:
        """See `Rollouts.open`."""
        body = self._door.ask("HGET", self._keys.open_rollouts, project)
        return None if body is None else self.get(read(body, "open rollout").text("id"))

    def get(self, rollout_id: str) -> WaveRollout | None:
        """See `Rollouts.get`."""
        body = self._door.ask("HGET", self._keys.rollouts, rollout_id)
        return None if body is None else read_wave_rollout(body)

    def recent(self, *, limit: int = MAX_ROLLOUTS) -> Sequence[WaveRollout]:
        """See `Rollouts.recent`."""
        if limit < 1:
            return ()
        ids = self._door.ask("ZREVRANGE", self._keys.rollouts_by_begin, 0, limit - 1)
        bodies = self._door.ask("HMGET", self._keys.rollouts, *ids) if ids else ()
        return tuple(read_wave_rollout(body) for body in bodies if body is not None)

    def egg(self, rollout: WaveRollout) -> bytes | None:
        """See `Rollouts.egg`."""
        return self._eggs.fetch(rollout.release.digest)


def _open(rollout: WaveRollout) -> str:
    return write({"id": rollout.id, "digest": rollout.release.digest})
