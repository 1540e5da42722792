"""The eggs in Redis, each under its digest, and the offers that tell nodes to install before a release is active."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from toolkit.model.errors import StoreUnreadableError
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.releases import Release
from toolkit.store import refusals, wire
from toolkit.store.connect import RedisDoor
from toolkit.store.envelope import read
from toolkit.store.interfaces_queue import MAX_EGG_BYTES
from toolkit.store.keys import Keys

MAX_LOOKS = 5


class RedisEggs:
    """Keeps what `EggStore` promises."""

    def __init__(self, door: RedisDoor, keys: Keys) -> None:
        self._door = door
        self._keys = keys

    def offer(
        self,
        release: Release,
        content: bytes,
        *,
        nodes: Sequence[NodeName] | None = None,
        max_bytes: int = MAX_EGG_BYTES,
    ) -> None:
        """See `EggStore.offer`."""
        if len(content) > max_bytes:
            raise refusals.egg_too_large(len(content), max_bytes)
        if (found := hashlib.sha256(content).hexdigest()) != release.digest:
            raise refusals.other_digest(release.digest, found)
        self._door.run(
            "offer",
            keys=[self._keys.egg(release.digest), self._keys.offers, self._keys.changes, self._keys.digests],
            args=[
                _name(release.project, release.version),
                wire.write_offer(release, nodes=nodes),
                release.digest,
                content,
            ],
        )
        self._door.ask("PUBLISH", self._keys.wake, "releases")

    def withdraw(self, project: ProjectName, version: VersionName) -> None:
        """See `EggStore.withdraw`."""
        keys = [self._keys.offers, self._keys.changes]
        if self._door.run("withdraw_offer", keys=keys, args=[_name(project, version)]):
            self.drop_unused()

    def offered(self, *, node: NodeName | None = None) -> Sequence[Release]:
        """See `EggStore.offered`."""
        offers, actives = self._door.ask_together(("HVALS", self._keys.offers), ("HVALS", self._keys.active))
        active = {(each.project, each.version) for each in map(wire.read_release, actives)}
        found = (wire.read_offer(body) for body in sorted(offers))
        return [
            release
            for release, nodes in found
            if (release.project, release.version) not in active and (None in (node, nodes) or node in (nodes or ()))
        ]

    def fetch(self, digest: str, *, max_bytes: int = MAX_EGG_BYTES) -> bytes | None:
        """See `EggStore.fetch`."""
        key = self._keys.egg(digest)
        if (size_bytes := int(self._door.ask("STRLEN", key))) > max_bytes:
            raise refusals.egg_too_large_to_fetch(size_bytes, max_bytes)
        content = self._door.ask_for_bytes("GET", key)
        if content is not None and hashlib.sha256(content).hexdigest() != digest:
            raise StoreUnreadableError(f"the egg {digest[:12]} in the shared store has other bytes than its name says")
        return content

    def drop_unused(self) -> int:
        """See `EggStore.drop_unused`. An egg is offered before its release is recorded, so offers count as use."""
        for _ in range(MAX_LOOKS):
            seen = self._door.ask("GET", self._keys.changes) or ""
            unused = self._unused()
            if not unused:
                return 0
            eggs = [self._keys.egg(digest) for digest in unused]
            keys = [self._keys.changes, self._keys.digests, *eggs]
            dropped = self._door.run("drop_eggs", keys=keys, args=[seen, *unused])
            if dropped is not None:
                return int(dropped)
        # So much is going on that the next one who asks may do it.
        return 0

    def _unused(self) -> list[str]:
        keys = self._keys
        kept: set[str] = set(self._door.ask("SMEMBERS", keys.digests))
        used = {wire.read_release(body).digest for body in self._door.ask("HVALS", keys.offers)}
        used |= {read(body, "open rollout").text("digest") for body in self._door.ask("HVALS", keys.open_rollouts)}
        for project in self._door.ask("SMEMBERS", keys.projects):
            bodies = self._door.ask("HVALS", keys.releases(ProjectName(project)))
            used |= {wire.read_release(body).digest for body in bodies}
        return sorted(kept - used)


def _name(project: ProjectName, version: VersionName) -> str:
    return f"{project} {version}"
