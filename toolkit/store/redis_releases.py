"""The releases, rollout locks and histories of one cluster in Redis. Every write is one script (`lua/`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toolkit.model.events import EventKind
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.releases import ROLLBACK, Release, Rollout, RolloutLock
from toolkit.store import refusals, wire
from toolkit.store.connect import RedisDoor
from toolkit.store.interfaces import MAX_HISTORY
from toolkit.store.interfaces_watch import MAX_EVENTS
from toolkit.store.keys import Keys
from toolkit.store.ordering import newest_first, ttl_ms
from toolkit.store.wire_events import write_about

MAX_TRIES = 5


class RedisReleases:
    """Keeps what `ReleaseStore` promises, by Redis' own clock."""

    def __init__(self, door: RedisDoor, keys: Keys) -> None:
        self._door = door
        self._keys = keys

    def lock(self, project: ProjectName, *, who: str, why: str, ttl_s: float, steal: bool = False) -> RolloutLock:
        """See `ReleaseStore.lock`."""
        verdict, token, claim, since_ms, expires_ms = self._door.run(
            "lock",
            keys=[self._keys.lock(project), self._keys.tokens],
            args=[wire.write_claim(who=who, why=why), ttl_ms(ttl_s), "1" if steal else "0"],
        )
        standing = wire.read_lock(
            project, token=int(token), claim=claim, since_ms=int(since_ms), expires_ms=int(expires_ms)
        )
        if verdict == "held":
            raise refusals.lock_held(standing)
        return standing

    def renew(self, lock: RolloutLock, *, ttl_s: float) -> None:
        """See `ReleaseStore.renew`."""
        verdict = self._door.run("renew", keys=[self._keys.lock(lock.project)], args=[lock.token, ttl_ms(ttl_s)])
        if verdict == "not_ours":
            raise refusals.lock_lost(lock)

    def unlock(self, lock: RolloutLock) -> None:
        """See `ReleaseStore.unlock`."""
        self._door.run("unlock", keys=[self._keys.lock(lock.project)], args=[lock.token])

    def holder(self, project: ProjectName) -> RolloutLock | None:
        """See `ReleaseStore.holder`."""
        token, claim, since_ms, expires_ms = self._door.ask(
            "HMGET", self._keys.lock(project), "token", "claim", "since_ms", "expires_ms"
        )
        if token is None:
            return None
        return wire.read_lock(
            project, token=int(token), claim=claim, since_ms=int(since_ms), expires_ms=int(expires_ms)
        )

    def record(self, release: Release, lock: RolloutLock) -> None:
        """See `ReleaseStore.record`."""
        project = release.project
        verdict = self._door.run(
            "record",
            keys=[self._keys.lock(project), self._keys.releases(project), self._keys.projects],
            args=[lock.token, project, release.version, release.digest, wire.write_release(release)],
        )
        if verdict == "not_ours":
            raise refusals.lock_lost(lock)
        if verdict == "other_bytes":
            raise refusals.other_bytes(project, release.version)

    def sign(self, release: Release, lock: RolloutLock) -> None:
        """See `ReleaseStore.sign`."""
        keys, project, version = self._keys, release.project, release.version
        for _ in range(MAX_TRIES):
            body = self._door.ask("HGET", keys.releases(project), version)
            if body is None:
                raise refusals.no_such_release(project, version)
            known = wire.read_release(body)
            if known.digest != release.digest:
                raise refusals.other_bytes(project, version)
            if known.signature == release.signature:
                return
            signed = wire.write_release(replace(known, signature=release.signature))
            verdict = self._door.run(
                "sign",
                keys=[keys.lock(project), keys.releases(project), keys.active, keys.changes],
                args=[lock.token, project, version, body, signed],
            )
            if verdict == "not_ours":
                raise refusals.lock_lost(lock)
            if verdict == "done":
                self._door.ask("PUBLISH", keys.wake, "releases")
                return
        raise refusals.lock_lost(lock)

    def activate(self, rollout: Rollout, lock: RolloutLock, *, held_by: Sequence[NodeName]) -> None:
        """See `ReleaseStore.activate`."""
        keys, project = self._keys, rollout.project
        verdict = self._door.run(
            "activate",
            keys=[
                keys.lock(project),
                keys.releases(project),
                keys.active,
                keys.holders(project),
                keys.history(project),
                keys.changes,
                keys.events,
            ],
            args=[
                *(lock.token, project, rollout.version),
                *(wire.write_nodes(held_by), wire.write_rollout(rollout), MAX_HISTORY),
                *(MAX_EVENTS, *_told(rollout, held_by)),
            ],
        )
        if verdict == "not_ours":
            raise refusals.lock_lost(lock)
        if verdict == "unknown":
            raise refusals.no_such_release(project, rollout.version)

    def note(self, rollout: Rollout) -> None:
        """See `ReleaseStore.note`."""
        self._door.run(
            "note", keys=[self._keys.history(rollout.project)], args=[wire.write_rollout(rollout), MAX_HISTORY]
        )

    def forget(self, project: ProjectName, version: VersionName, lock: RolloutLock) -> None:
        """See `ReleaseStore.forget`."""
        keys = self._keys
        verdict = self._door.run(
            "forget",
            keys=[
                *(keys.lock(project), keys.releases(project), keys.active, keys.holders(project)),
                *(keys.projects, keys.changes),
            ],
            args=[lock.token, project, version],
        )
        if verdict == "not_ours":
            raise refusals.lock_lost(lock)
        if verdict == "is_active":
            raise refusals.release_is_active(project, version)

    def active(self, project: ProjectName) -> Release | None:
        """See `ReleaseStore.active`."""
        body = self._door.ask("HGET", self._keys.active, project)
        return None if body is None else wire.read_release(body)

    def actives(self) -> Mapping[ProjectName, Release]:
        """See `ReleaseStore.actives`."""
        bodies: dict[str, str] = self._door.ask("HGETALL", self._keys.active)
        return {ProjectName(project): wire.read_release(bodies[project]) for project in sorted(bodies)}

    def get(self, project: ProjectName, version: VersionName) -> Release | None:
        """See `ReleaseStore.get`."""
        body = self._door.ask("HGET", self._keys.releases(project), version)
        return None if body is None else wire.read_release(body)

    def with_digest(self, project: ProjectName, digest: str) -> Release | None:
        """See `ReleaseStore.with_digest`."""
        return next((release for release in self.releases(project) if release.digest == digest), None)

    def releases(self, project: ProjectName) -> Sequence[Release]:
        """See `ReleaseStore.releases`."""
        return newest_first(wire.read_release(body) for body in self._door.ask("HVALS", self._keys.releases(project)))

    def holders(self, project: ProjectName, version: VersionName) -> frozenset[NodeName]:
        """See `ReleaseStore.holders`."""
        body = self._door.ask("HGET", self._keys.holders(project), version)
        return frozenset() if body is None else wire.read_nodes(body)

    def history(self, project: ProjectName, *, limit: int = 50) -> Sequence[Rollout]:
        """See `ReleaseStore.history`."""
        if limit < 1:
            return ()
        bodies = self._door.ask("LRANGE", self._keys.history(project), 0, limit - 1)
        return tuple(wire.read_rollout(body) for body in bodies)

    def projects(self) -> Sequence[ProjectName]:
        """See `ReleaseStore.projects`."""
        return tuple(ProjectName(name) for name in sorted(self._door.ask("SMEMBERS", self._keys.projects)))


def _told(rollout: Rollout, held_by: Sequence[NodeName]) -> tuple[str, str]:
    """Return the kind of the event that tells of a rollout, and what it says."""
    kind = EventKind.RELEASE_ROLLED_BACK if rollout.kind == ROLLBACK else EventKind.RELEASE_DEPLOYED
    about = {"project": rollout.project, "version": rollout.version, "by": rollout.by, "nodes": str(len(held_by))}
    return kind.value, write_about(about)
