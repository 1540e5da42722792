"""The one way by which an egg comes onto this node: staged, checked, listed, and published only when all went well.

The web service uses it for what is pushed, the installer for what is pulled. It works in any thread and waits for
processes and disks, so it is never called on the reactor. Nothing here speaks to the store.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar
from weakref import WeakKeyDictionary

from scrapyd.webservice import spider_list
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from toolkit.config.requirements import in_words, lacking, needs_of
from toolkit.model.errors import ConflictError, EggError, UntrustedError
from toolkit.model.names import ProjectName, VersionName
from toolkit.node.archive import UNPACKED_FACTOR, check_archive
from toolkit.node.catalogue import Catalogue, Proof, Surroundings, with_file
from toolkit.node.eggstorage import ProvenEggStorage, held_as
from toolkit.node.environments import Environments
from toolkit.node.listing import SpiderLister
from toolkit.node.machine import reactor
from toolkit.node.membership import membership
from toolkit.node.once import Once
from toolkit.node.trusting import Trust

if TYPE_CHECKING:
    from scrapyd.config import Config
    from twisted.internet.defer import Deferred

T = TypeVar("T")
THREADS = 4
"""How many eggs may be staged or listed at a time."""

STAGING_S = 7200.0
"""How long everything about a staged egg but its listing takes at most; its environment may take most of it."""

_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class StagedEgg:
    """An egg that lies in Scrapyd's folder under a name which nobody is told."""

    project: ProjectName
    path: Path
    digest: str
    size_bytes: int


class Shelf:
    """This node's eggs and what is proven of them."""

    def __init__(
        self,
        *,
        eggs: ProvenEggStorage,
        catalogue: Catalogue,
        lister: SpiderLister,
        environments: Environments,
        max_egg_bytes: int,
        trust: Trust | None = None,
    ) -> None:
        self.eggs = eggs
        self.catalogue = catalogue
        self.max_egg_bytes = max_egg_bytes
        self.trust = trust or Trust(None)
        self._lister = lister
        self._environments = environments
        self._listings: Once[tuple[ProjectName, str, Surroundings], Proof] = Once()
        self._lock = threading.Lock()

    @contextmanager
    def staged(self, project: ProjectName, content: BinaryIO, *, digest: str | None = None) -> Iterator[StagedEgg]:
        """Stage an egg for the time of a `with`; it is gone afterwards unless it was published.

        Raises:
            EggError: it is no ZIP file, too large packed or unpacked, or not the bytes that `digest` (SHA-256) says.
            DirectoryTraversalError: the project's name leaves the folder of eggs.

        """
        egg = self.stage(project, content, digest=digest)
        try:
            yield egg
        finally:
            self.discard(egg)

    def stage(self, project: ProjectName, content: BinaryIO, *, digest: str | None = None) -> StagedEgg:
        """Do as `staged`; whoever calls this calls `discard`, whatever comes of the egg."""
        path = self.eggs.stage(project)
        try:
            return self._stage(project, path, content, digest)
        except BaseException:
            self.eggs.discard(path)
            raise

    def discard(self, staged: StagedEgg) -> None:
        """Remove what was staged, unless it was published. Idempotent."""
        self.eggs.discard(staged.path)

    def held_digest(self, project: ProjectName, version: VersionName) -> str | None:
        """Return the digest of the egg that lies under this version now."""
        return self.eggs.digest(project, version)

    def prove(self, staged: StagedEgg) -> Proof:
        """List a staged egg's spiders, unless that was done before with the same bytes, Python and packages.

        Raises:
            EggError: see `SpiderLister.spiders`.

        """
        surroundings = Surroundings.now()
        known = self.catalogue.remembered(staged.project, digest=staged.digest, surroundings=surroundings)
        if known is not None and self._environments.has(known.environment):
            return known
        return self._list(staged.project, staged.path, staged.digest, surroundings)

    def publish(
        self,
        staged: StagedEgg,
        version: VersionName,
        proof: Proof,
        *,
        replaces: str | None,
        signature: str | None = None,
    ) -> None:
        """Let a proven egg be this version; `replaces` is the digest of what lay there when that was last looked at.

        The signature is laid beside it; without one, what lay beside other bytes is taken away.

        Raises:
            UntrustedError: these bytes may not be used under this name; the version is as it was.
            ConflictError: somebody else has published another egg under this version meanwhile; it stays.
            OSError: it could not be written; the version is as it was.

        """
        with self._lock:
            held = self.held_digest(staged.project, version)
            if held not in {replaces, staged.digest}:
                raise ConflictError(f"somebody else has just uploaded {staged.project} {version} with other bytes")
            # Again, since a key may have been revoked while the spiders were listed.
            self.trust.require(staged.project, version, staged.digest, signature)
            if signature is not None or held != staged.digest:
                self.eggs.keep_signature(staged.project, version, signature)
            self.eggs.publish(staged.path, staged.project, version)
            self._note(staged.project, version, proof)

    def prove_held(self, project: ProjectName, version: VersionName, surroundings: Surroundings) -> bool:
        """Prove what lies in the folder, listing it only when need be; return whether anything changed by that.

        Raises:
            EggError: the egg cannot be listed, or is none; it stays where it is, and does not count as held.
            UntrustedError: no trusted key has signed it, so its code was not loaded; else the same.

        """
        file = self.eggs.file(project, version)
        if file is None:
            self.catalogue.drop(project, version)
            return True
        digest = self.catalogue.known_digest(project, version, file=file)
        if self.trust.is_wanted:
            digest = digest or self.eggs.digest(project, version) or ""
            self.trust.require(project, version, digest, self.eggs.signature(project, version))
        is_proven = self.catalogue.proof(project, version) is not None
        is_there = self._environments.has
        if self.catalogue.confirm(project, version, file=file, surroundings=surroundings, is_there=is_there):
            self._tell_scrapyd(project, version)
            return not is_proven
        path = self.eggs.path(project, version)
        digest = digest or self.eggs.digest(project, version) or ""
        proof = self.catalogue.remembered(project, digest=digest, surroundings=surroundings)
        if proof is None or not is_there(proof.environment):
            self.catalogue.suspend(project, version, "its spiders are being listed")
            self._check(path)
            proof = self._list(project, path, digest, surroundings)
        self._note(project, version, with_file(proof, file))
        return True

    def stamp(self, project: ProjectName, version: VersionName) -> object:
        """Return what changes when a version that could not be proven should be looked at again."""
        eggs = self.eggs
        return eggs.file(project, version), eggs.signature_file(project, version), self.trust.stamp

    def countersign(self, project: ProjectName, version: VersionName, digest: str, signature: str | None) -> bool:
        """Keep the signature that the cluster knows for bytes that are held; return whether it is news.

        One that this node does not trust does not take the place of one that it does.
        """
        if signature is None or (self.eggs.signature(project, version) or "").strip() == signature.strip():
            return False
        with self._lock:
            if self.held_digest(project, version) != digest:
                return False
            try:
                self.trust.require(project, version, digest, signature)
            except UntrustedError:
                return False
            self.eggs.keep_signature(project, version, signature)
        return True

    def tidy(self) -> None:
        """Remove what a crash left of eggs that were being staged."""
        self.eggs.discard_old_staged(older_than_s=self._lister.timeout_s + STAGING_S)

    def tidy_environments(self) -> None:
        """Remove the environments that no version needs any more; only when all that lies here was looked at."""
        self._environments.drop_unused(self.catalogue.environments())

    def drop(self, project: str, version: str | None = None) -> None:
        """Remove a version, or a whole project. Quick enough for the reactor.

        Raises:
            EggNotFoundError: there is no such version.
            ProjectNotFoundError: there is no such project.
            DirectoryTraversalError: the project's name leaves the folder of eggs.

        """
        self.eggs.delete(project, version)
        self.catalogue.drop(project, None if version is None else held_as(version))
        spider_list.delete(project, version)

    def call(self, work: Callable[[], T]) -> Deferred[T]:
        """Do work in one of the few threads that wait for disks and listings; answers on the reactor's thread."""
        return deferToThreadPool(reactor(), self._pool, work)

    @cached_property
    def _pool(self) -> ThreadPool:
        pool = ThreadPool(minthreads=0, maxthreads=THREADS, name="eggs")
        pool.start()
        reactor().addSystemEventTrigger("before", "shutdown", self.close)
        reactor().addSystemEventTrigger("after", "shutdown", pool.stop)
        return pool

    def close(self) -> None:
        """End the listings that are under way."""
        self._lister.close()
        self._environments.close()

    def _stage(self, project: ProjectName, path: Path, content: BinaryIO, digest: str | None) -> StagedEgg:
        with path.open("wb") as file:
            shutil.copyfileobj(content, file, _PIECE_BYTES)
            size_bytes = file.tell()
        if size_bytes > self.max_egg_bytes:
            raise EggError(too_large(size_bytes, self.max_egg_bytes))
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if digest is not None and found != digest.lower():
            raise EggError(f"the egg that arrived has the digest {found}, not {digest:.80}: it was changed on its way")
        self._check(path)
        return StagedEgg(project, path, found, size_bytes)

    def _list(self, project: ProjectName, egg: Path, digest: str, surroundings: Surroundings) -> Proof:
        """List an egg's spiders where all that it needs is: here, or in an environment of its own.

        An egg that is offered in the store while it is uploaded comes by both ways at once, and is listed once.
        """
        key = (project, digest, surroundings)
        return self._listings.do(key, lambda: self._listed(project, egg, digest, surroundings))

    def _listed(self, project: ProjectName, egg: Path, digest: str, surroundings: Surroundings) -> Proof:
        needs = needs_of(egg)
        environment = self._environments.ensure(needs.lines) if needs.has_environment else None
        if environment is None and (lacks := lacking(needs.lines)):
            raise EggError(in_words(lacks))
        python = self._environments.python(environment)
        spiders = self._lister.spiders(project, egg.stem, python=python)
        return Proof(digest, spiders, surroundings, datetime.now(UTC), environment=environment)

    def _check(self, path: Path) -> None:
        check_archive(path, max_unpacked_bytes=self.max_egg_bytes * UNPACKED_FACTOR)

    def _note(self, project: ProjectName, version: VersionName, proof: Proof) -> None:
        """Let the catalogue know, and Scrapyd's own list of spiders, which other plug-ins may ask."""
        self.catalogue.add(project, version, with_file(proof, self.eggs.file(project, version)))
        self._tell_scrapyd(project, version)

    def _tell_scrapyd(self, project: ProjectName, version: VersionName) -> None:
        spider_list.cache[project].pop(None, None)
        spider_list.cache[project][version] = list(self.catalogue.spiders(project, version) or ())


_SHELVES: WeakKeyDictionary[Config, Shelf] = WeakKeyDictionary()


def shelf(config: Config) -> Shelf:
    """Return the one shelf of the Scrapyd process that has this configuration."""
    known = _SHELVES.get(config)
    if known is None:
        node = membership(config)
        settings = node.settings
        known = _SHELVES[config] = Shelf(
            eggs=ProvenEggStorage(config),
            catalogue=node.catalogue,
            lister=SpiderLister(runner=settings.runner, timeout_s=settings.listing_timeout_s),
            environments=node.environments,
            max_egg_bytes=settings.max_egg_mb * 1_000_000,
            trust=Trust(settings.trusted_keys),
        )
    return known


def too_large(size_bytes: int, max_bytes: int) -> str:
    """Say that an egg is larger than this node takes."""
    return f"the egg is too large: {size_bytes / 1e6:.1f} MB; this node takes {max_bytes / 1e6:g} MB (max_egg_mb)"
