"""The releases, rollout locks and histories of a cluster without Redis, in a file of this machine."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.releases import Release, Rollout, RolloutLock
from toolkit.store import refusals, wire
from toolkit.store.interfaces import MAX_HISTORY
from toolkit.store.local_file import LocalFile
from toolkit.store.ordering import newest_first, ttl_ms


class LocalReleases:
    """Keeps what `ReleaseStore` promises, by this machine's clock."""

    def __init__(self, file: LocalFile) -> None:
        self._file = file

    def lock(self, project: ProjectName, *, who: str, why: str, ttl_s: float, steal: bool = False) -> RolloutLock:
        """See `ReleaseStore.lock`."""
        claim = wire.write_claim(who=who, why=why)
        with self._file.writing() as rows:
            now = _now_ms()
            standing = _standing_lock(rows, project, now)
            if standing is not None and not steal:
                raise refusals.lock_held(standing)
            # The clock is the floor of the counter, so that a token is new even in a file restored from a backup.
            token = max(rows.execute("SELECT last FROM tokens").fetchone()[0] + 1, now)
            rows.execute("UPDATE tokens SET last = ?", (token,))
            expires = now + ttl_ms(ttl_s)
            rows.execute("REPLACE INTO locks VALUES (?, ?, ?, ?, ?)", (project, token, claim, now, expires))
        return wire.read_lock(project, token=token, claim=claim, since_ms=now, expires_ms=expires)

    def renew(self, lock: RolloutLock, *, ttl_s: float) -> None:
        """See `ReleaseStore.renew`."""
        with self._file.writing() as rows:
            check_ours(rows, lock.project, lock)
            expires = _now_ms() + ttl_ms(ttl_s)
            rows.execute("UPDATE locks SET expires_ms = ? WHERE project = ?", (expires, lock.project))

    def unlock(self, lock: RolloutLock) -> None:
        """See `ReleaseStore.unlock`."""
        with self._file.writing() as rows:
            rows.execute("DELETE FROM locks WHERE project = ? AND token = ?", (lock.project, lock.token))

    def holder(self, project: ProjectName) -> RolloutLock | None:
        """See `ReleaseStore.holder`."""
        with self._file.reading() as rows:
            return _standing_lock(rows, project, _now_ms())

    def record(self, release: Release, lock: RolloutLock) -> None:
        """See `ReleaseStore.record`."""
        project, version, digest = release.project, release.version, release.digest
        body = wire.write_release(release)
        with self._file.writing() as rows:
            check_ours(rows, project, lock)
            known = rows.execute(
                "SELECT digest FROM releases WHERE project = ? AND version = ?", (project, version)
            ).fetchone()
            if known is not None and known[0] != digest:
                raise refusals.other_bytes(project, version)
            if known is None:
                rows.execute("INSERT INTO releases VALUES (?, ?, ?, ?, NULL)", (project, version, digest, body))

    def sign(self, release: Release, lock: RolloutLock) -> None:
        """See `ReleaseStore.sign`."""
        project, version = release.project, release.version
        with self._file.writing() as rows:
            check_ours(rows, project, lock)
            found = rows.execute(
                "SELECT body FROM releases WHERE project = ? AND version = ?", (project, version)
            ).fetchone()
            if found is None:
                raise refusals.no_such_release(project, version)
            known = wire.read_release(found[0])
            if known.digest != release.digest:
                raise refusals.other_bytes(project, version)
            signed = wire.write_release(replace(known, signature=release.signature))
            rows.execute("UPDATE releases SET body = ? WHERE project = ? AND version = ?", (signed, project, version))

    def activate(self, rollout: Rollout, lock: RolloutLock, *, held_by: Sequence[NodeName]) -> None:
        """See `ReleaseStore.activate`."""
        project, version = rollout.project, rollout.version
        nodes, body = wire.write_nodes(held_by), wire.write_rollout(rollout)
        with self._file.writing() as rows:
            check_ours(rows, project, lock)
            held = rows.execute(
                "UPDATE releases SET holders = ? WHERE project = ? AND version = ?", (nodes, project, version)
            )
            if held.rowcount == 0:
                raise refusals.no_such_release(project, version)
            rows.execute("REPLACE INTO active VALUES (?, ?)", (project, version))
            _append(rows, project, body)

    def note(self, rollout: Rollout) -> None:
        """See `ReleaseStore.note`."""
        body = wire.write_rollout(rollout)
        with self._file.writing() as rows:
            _append(rows, rollout.project, body)

    def forget(self, project: ProjectName, version: VersionName, lock: RolloutLock) -> None:
        """See `ReleaseStore.forget`."""
        with self._file.writing() as rows:
            check_ours(rows, project, lock)
            if rows.execute("SELECT 1 FROM active WHERE project = ? AND version = ?", (project, version)).fetchone():
                raise refusals.release_is_active(project, version)
            rows.execute("DELETE FROM releases WHERE project = ? AND version = ?", (project, version))

    def active(self, project: ProjectName) -> Release | None:
        """See `ReleaseStore.active`."""
        return self.actives().get(project)

    def actives(self) -> Mapping[ProjectName, Release]:
        """See `ReleaseStore.actives`."""
        with self._file.reading() as rows:
            found = rows.execute(
                "SELECT project, body FROM active JOIN releases USING (project, version) ORDER BY project"
            ).fetchall()
        return {ProjectName(project): wire.read_release(body) for project, body in found}

    def get(self, project: ProjectName, version: VersionName) -> Release | None:
        """See `ReleaseStore.get`."""
        with self._file.reading() as rows:
            found = rows.execute(
                "SELECT body FROM releases WHERE project = ? AND version = ?", (project, version)
            ).fetchone()
        return None if found is None else wire.read_release(found[0])

    def with_digest(self, project: ProjectName, digest: str) -> Release | None:
        """See `ReleaseStore.with_digest`."""
        return next((release for release in self.releases(project) if release.digest == digest), None)

    def releases(self, project: ProjectName) -> Sequence[Release]:
        """See `ReleaseStore.releases`."""
        with self._file.reading() as rows:
            found = rows.execute("SELECT body FROM releases WHERE project = ?", (project,)).fetchall()
        return newest_first(wire.read_release(body) for (body,) in found)

    def holders(self, project: ProjectName, version: VersionName) -> frozenset[NodeName]:
        """See `ReleaseStore.holders`."""
        with self._file.reading() as rows:
            found = rows.execute(
                "SELECT holders FROM releases WHERE project = ? AND version = ?", (project, version)
            ).fetchone()
        return frozenset() if found is None or found[0] is None else wire.read_nodes(found[0])

    def history(self, project: ProjectName, *, limit: int = 50) -> Sequence[Rollout]:
        """See `ReleaseStore.history`."""
        with self._file.reading() as rows:
            found = rows.execute(
                "SELECT body FROM history WHERE project = ? ORDER BY place DESC LIMIT ?", (project, max(0, limit))
            ).fetchall()
        return tuple(wire.read_rollout(body) for (body,) in found)

    def projects(self) -> Sequence[ProjectName]:
        """See `ReleaseStore.projects`."""
        with self._file.reading() as rows:
            found = rows.execute("SELECT DISTINCT project FROM releases ORDER BY project").fetchall()
        return tuple(ProjectName(project) for (project,) in found)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _standing_lock(rows: sqlite3.Connection, project: ProjectName, now_ms: int) -> RolloutLock | None:
    found = rows.execute(
        "SELECT token, claim, since_ms, expires_ms FROM locks WHERE project = ? AND expires_ms > ?", (project, now_ms)
    ).fetchone()
    if found is None:
        return None
    token, claim, since_ms, expires_ms = found
    return wire.read_lock(project, token=token, claim=claim, since_ms=since_ms, expires_ms=expires_ms)


def check_ours(rows: sqlite3.Connection, project: ProjectName, lock: RolloutLock) -> None:
    """Make sure, within a transaction, that the lock is still its taker's.

    Raises:
        ConflictError: it has expired or was stolen.

    """
    held = rows.execute("SELECT token FROM locks WHERE project = ? AND expires_ms > ?", (project, _now_ms())).fetchone()
    if held is None or held[0] != lock.token:
        raise refusals.lock_lost(lock)


def _append(rows: sqlite3.Connection, project: ProjectName, body: str) -> None:
    last = rows.execute("SELECT body FROM history WHERE project = ? ORDER BY place DESC LIMIT 1", (project,)).fetchone()
    # The same rollout again is a caller who did not learn of its success: it is in the history.
    if last is not None and last[0] == body:
        return
    rows.execute("INSERT INTO history (project, body) VALUES (?, ?)", (project, body))
    rows.execute(
        "DELETE FROM history WHERE place IN"
        " (SELECT place FROM history WHERE project = ? ORDER BY place DESC LIMIT -1 OFFSET ?)",
        (project, MAX_HISTORY),
    )
