"""Signing releases: what a deploy brings along, and what was recorded before there was a key."""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.names import ProjectName, VersionName
from toolkit.model.releases import Release
from toolkit.rollout.lock import holding_lock
from toolkit.rollout.push import Cargo
from toolkit.store.interfaces import Store
from toolkit.trust.keys import SigningKey
from toolkit.trust.signatures import countersign


def signed(store: Store, cargo: Cargo, key: SigningKey | None) -> Cargo:
    """Return the cargo with its signature; without a key it keeps the one that the release has already, if any."""
    release = store.releases.get(cargo.project, cargo.version)
    known = release.signature if release is not None and release.digest == cargo.digest else None
    if key is not None:
        known = countersign(known, cargo.project, cargo.version, cargo.digest, key=key)
    return replace(cargo, signature=known)


def sign_releases(
    store: Store, project: ProjectName, version: VersionName | None, key: SigningKey, *, steal: bool = False
) -> list[Release]:
    """Sign one recorded release, or all of a project; return those that are signed by this key now, newest first.

    Nodes that hold the active one take the signature up by themselves. What is signed is the digest that the store
    has: sign only what you know to be yours.

    Raises:
        LockHeldError: a rollout of the project is under way.
        ConflictError: the lock was stolen meanwhile.

    """
    done = []
    with holding_lock(store.releases, project, why="sign releases", steal=steal) as held:
        for release in store.releases.releases(project):
            if version is None or release.version == version:
                text = countersign(release.signature, project, release.version, release.digest, key=key)
                now = replace(release, signature=text)
                if text != release.signature:
                    store.releases.sign(now, held.lock)
                done.append(now)
    return done
