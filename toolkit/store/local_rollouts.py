"""The rollouts in waves of a cluster without Redis, in a file of this machine, with the eggs of those that are open."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from toolkit.model.errors import StoreUnreadableError
from toolkit.model.names import ProjectName
from toolkit.model.releases import RolloutLock
from toolkit.model.rollouts import WaveRollout
from toolkit.store import refusals
from toolkit.store.interfaces_queue import MAX_EGG_BYTES
from toolkit.store.interfaces_rollouts import MAX_ROLLOUTS
from toolkit.store.local_file import LocalFile
from toolkit.store.local_releases import check_ours
from toolkit.store.wire_rollouts import read_wave_rollout, write_wave_rollout


class LocalRollouts:
    """Keeps what `Rollouts` promises."""

    def __init__(self, file: LocalFile, *, max_rollouts: int = MAX_ROLLOUTS) -> None:
        self._file = file
        self._max_rollouts = max_rollouts

    def begin(self, rollout: WaveRollout, content: bytes, lock: RolloutLock) -> None:
        """See `Rollouts.begin`."""
        release, body = rollout.release, write_wave_rollout(rollout)
        if len(content) > MAX_EGG_BYTES:
            raise refusals.egg_too_large(len(content), MAX_EGG_BYTES)
        if (found := hashlib.sha256(content).hexdigest()) != release.digest:
            raise refusals.other_digest(release.digest, found)
        with self._file.writing() as rows:
            check_ours(rows, release.project, lock)
            others = "SELECT 1 FROM rollouts WHERE project = ? AND is_open AND id != ?"
            if rows.execute(others, (release.project, rollout.id)).fetchone():
                raise refusals.rollout_open(release.project)
            rows.execute(
                "INSERT INTO rollouts (id, project, is_open, body, egg) VALUES (?, ?, 1, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                (rollout.id, release.project, body, content),
            )
            rows.execute(
                "DELETE FROM rollouts WHERE NOT is_open AND place IN"
                " (SELECT place FROM rollouts ORDER BY place DESC LIMIT -1 OFFSET ?)",
                (self._max_rollouts,),
            )

    def update(self, rollout: WaveRollout, lock: RolloutLock) -> None:
        """See `Rollouts.update`."""
        body, is_open = write_wave_rollout(rollout), rollout.state.is_open
        with self._file.writing() as rows:
            check_ours(rows, rollout.project, lock)
            rows.execute(
                "UPDATE rollouts SET body = ?, is_open = ?, egg = CASE WHEN ? THEN egg END WHERE id = ?",
                (body, is_open, is_open, rollout.id),
            )

    def open(self, project: ProjectName) -> WaveRollout | None:
        """See `Rollouts.open`."""
        with self._file.reading() as rows:
            found = rows.execute("SELECT body FROM rollouts WHERE project = ? AND is_open", (project,)).fetchone()
        return None if found is None else read_wave_rollout(found[0])

    def get(self, rollout_id: str) -> WaveRollout | None:
        """See `Rollouts.get`."""
        with self._file.reading() as rows:
            found = rows.execute("SELECT body FROM rollouts WHERE id = ?", (rollout_id,)).fetchone()
        return None if found is None else read_wave_rollout(found[0])

    def recent(self, *, limit: int = MAX_ROLLOUTS) -> Sequence[WaveRollout]:
        """See `Rollouts.recent`."""
        with self._file.reading() as rows:
            found = rows.execute("SELECT body FROM rollouts ORDER BY place DESC LIMIT ?", (max(0, limit),)).fetchall()
        return tuple(read_wave_rollout(body) for (body,) in found)

    def egg(self, rollout: WaveRollout) -> bytes | None:
        """See `Rollouts.egg`."""
        with self._file.reading() as rows:
            found = rows.execute("SELECT egg FROM rollouts WHERE id = ?", (rollout.id,)).fetchone()
        content = None if found is None or found[0] is None else bytes(found[0])
        if content is not None and hashlib.sha256(content).hexdigest() != rollout.release.digest:
            raise StoreUnreadableError(f"the egg of the rollout {rollout.id} has other bytes than its release says")
        return content
