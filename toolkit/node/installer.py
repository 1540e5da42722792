"""Bring onto this node what the cluster has made active or offered, and prove what somebody brought by hand.

It takes nothing away. What cannot be installed is shown as behind, with the reason, and tried again ever more rarely.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapyd.exceptions import ScrapydError
from twisted.logger import Logger

from toolkit.model.errors import CrawlctlError, EggError, StoreUnreachableError, StoreUnreadableError, UntrustedError
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.releases import Release
from toolkit.node.catalogue import Key, Surroundings
from toolkit.node.machine import later, reactor
from toolkit.node.membership import Membership, membership, shared_of
from toolkit.node.shelf import Shelf, shelf
from toolkit.store.interfaces import Store

if TYPE_CHECKING:
    from scrapyd.config import Config

FIRST_RETRY_S = 30.0
LAST_RETRY_S = 1800.0
STORE_RETRY_S = 5.0
LOOK_EVERY_S = 60.0
"""How often the folder of eggs is looked at for what somebody brought by hand."""

_NOT_KEPT = "its egg is not in the store: deploy it again, or copy it here by hand"

_log = Logger()


class Patience:
    """When what failed may be tried again: after 30 s, then twice as long each time, up to half an hour."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[tuple[Key, object], tuple[int, float]] = {}

    def is_due(self, key: Key, what: object) -> bool:
        """Tell whether this may be tried now; `what` are the bytes in question: other ones are another matter."""
        _, again_at = self._failures.get((key, what), (0, 0.0))
        return self._clock() >= again_at

    def failed(self, key: Key, what: object) -> None:
        """Note a failure."""
        times, _ = self._failures.get((key, what), (0, 0.0))
        wait_s = min(LAST_RETRY_S, FIRST_RETRY_S * 2.0**times)
        self._failures[key, what] = (times + 1, self._clock() + wait_s)

    def keep(self, keys: frozenset[Key]) -> None:
        """Forget the failures of what nobody wants any more."""
        self._failures = {each: failure for each, failure in self._failures.items() if each[0] in keys}


class Installer:
    """Keeps one node at what the cluster wants of it. `sync` works in any thread, one at a time."""

    def __init__(self, its: Shelf, node: NodeName, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._shelf = its
        self._node = node
        self._patience = Patience(clock)
        self._lock = threading.Lock()
        self._surroundings: Surroundings | None = None

    def survey(self) -> bool:
        """Prove what lies in the folder of eggs, and forget what does not; return whether the catalogue changed."""
        with self._lock:
            return self._survey()

    def sync(self, store: Store) -> bool:
        """Install what is active or offered and not proven here; return whether the catalogue changed.

        What fails on the way is in `Catalogue.behind`, and is tried again by a later call when its time has come.

        Raises:
            StoreUnreachableError: the store does not answer; what lies here was surveyed all the same.

        """
        return self.survey() | self.install(store)

    def install(self, store: Store) -> bool:
        """Do as `sync`, without looking at what lies here."""
        with self._lock:
            changed = False
            wanted = _wanted(store, self._node)
            for key, release in wanted.items():
                changed |= self._install(store, key, release)
            held = frozenset(self._shelf.eggs.held())
            for key in held - frozenset(wanted):
                changed |= self._countersign_former(store, key)
            concerned = frozenset(wanted) | held
            self._shelf.catalogue.keep_behind(concerned)
            self._patience.keep(concerned)
            return changed

    def _survey(self) -> bool:
        changed, surroundings = False, Surroundings.now()
        self._surroundings = surroundings
        self._shelf.tidy()
        held = frozenset(self._shelf.eggs.held())
        for key in held:
            # What is lacking may have been installed meanwhile.
            stamp = self._shelf.stamp(*key), surroundings
            if self._patience.is_due(key, stamp):
                try:
                    changed |= self._shelf.prove_held(*key, surroundings)
                except (EggError, UntrustedError, OSError) as error:
                    self._failed(key, stamp, error)
                    changed = True
        for project, versions in self._shelf.catalogue.versions().items():
            for version in versions:
                if (project, version) not in held:
                    changed |= self._shelf.prove_held(project, version, surroundings)
        self._shelf.tidy_environments()
        return changed

    def _install(self, store: Store, key: Key, release: Release) -> bool:
        project, version = key
        proof = self._shelf.catalogue.proof(project, version)
        if proof is not None and proof.digest == release.digest:
            self._shelf.countersign(*key, release.digest, release.signature)
            return False
        what = (release.digest, release.signature, self._shelf.trust.stamp, self._surroundings)
        if not self._patience.is_due(key, what):
            return False
        held = self._shelf.held_digest(project, version)
        if proof is None and held == release.digest:
            return self._countersign(key, release)  # Else the survey has tried these very bytes.
        try:
            self._fetch(store, key, release, held)
        except StoreUnreadableError as error:
            self._failed(key, what, error)
        except StoreUnreachableError:
            raise
        except (CrawlctlError, ScrapydError, OSError) as error:
            self._failed(key, what, error)
        return True

    def _countersign_former(self, store: Store, key: Key) -> bool:
        """Look whether the cluster knows a signature for a release that is held for a rollback, and does not count."""
        if not self._shelf.trust.is_wanted or self._shelf.catalogue.proof(*key) is not None:
            return False
        release = store.releases.get(*key)
        return release is not None and self._countersign(key, release)

    def _countersign(self, key: Key, release: Release) -> bool:
        """Look again at what lies here unproven, if the cluster knows a signature for it that this node trusts."""
        if not self._shelf.countersign(*key, release.digest, release.signature):
            return False
        try:
            return self._shelf.prove_held(*key, Surroundings.now())
        except (EggError, UntrustedError, OSError) as error:
            self._failed(key, (self._shelf.stamp(*key), self._surroundings), error)
            return True

    def _fetch(self, store: Store, key: Key, release: Release, held: str | None) -> None:
        self._shelf.catalogue.try_again(*key)
        self._shelf.trust.require(*key, release.digest, release.signature)
        content = shared_of(store).eggs.fetch(release.digest, max_bytes=self._shelf.max_egg_bytes)
        if content is None:
            raise EggError(_NOT_KEPT)
        with self._shelf.staged(key[0], io.BytesIO(content), digest=release.digest) as staged:
            proof = self._shelf.prove(staged)
            # Making its environment may have taken so long that the deploy was given up meanwhile.
            if proof.environment is not None and key not in _wanted(store, self._node):
                raise EggError("it was taken back before its environment was made")
            self._shelf.publish(staged, key[1], proof, replaces=held, signature=release.signature)
        _log.info("Installed {project} {version} from the store", project=key[0], version=key[1])

    def _failed(self, key: Key, what: object, error: Exception) -> None:
        self._patience.failed(key, what)
        self._shelf.catalogue.suspend(*key, _last_line(error))
        _log.warn("{project} {version} is not held: {error}", project=key[0], version=key[1], error=error)


class Installing:
    """Runs an installer beside Scrapyd's reactor: at the start, when asked, every minute, and after every failure."""

    def __init__(self, node: Membership, its: Shelf, update_projects: Callable[[], object]) -> None:
        self._node = node
        self._shelf = its
        self._installer = Installer(its, node.settings.name)
        self._update_projects = update_projects
        self._is_at_work = False
        self._is_wanted = False
        self._later: Any = None

    def look(self) -> None:
        """Look now at what is wanted and at what is here; on the reactor's thread. Never two at a time."""
        if self._is_at_work:
            self._is_wanted = True
            return
        if self._later is not None and self._later.active():
            self._later.cancel()
        self._is_at_work, self._is_wanted = True, False
        done = self._shelf.call(self._sync)
        done.addErrback(lambda failure: _log.failure("The eggs could not be looked after", failure=failure))
        done.addBoth(self._looked)

    def _sync(self) -> float:
        """Do the work, in a thread; return when to look again."""
        changed = self._installer.survey()
        if changed:
            self._tell()
        try:
            if self._installer.install(self._node.store()):
                self._tell()
        except StoreUnreachableError:
            return STORE_RETRY_S
        return LOOK_EVERY_S

    def _tell(self) -> None:
        reactor().callFromThread(self._update_projects)
        self._node.wake()

    def _looked(self, again_s: float | None) -> None:
        self._is_at_work = False
        if self._is_wanted:
            self.look()
        else:
            self._later = later(again_s or LOOK_EVERY_S, self.look)


def _wanted(store: Store, node: NodeName) -> Mapping[Key, Release]:
    """Return what the cluster wants of a node; the active release wins over an offer of the same version."""
    releases = [*shared_of(store).eggs.offered(node=node), *store.releases.actives().values()]
    return {(ProjectName(each.project), VersionName(each.version)): each for each in releases}


def _last_line(error: Exception) -> str:
    """Return what fits into a table: the last line that says anything."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


_INSTALLINGS: WeakKeyDictionary[Config, Installing] = WeakKeyDictionary()


def installing(config: Config, update_projects: Callable[[], object]) -> Installing:
    """Return the one installer of the Scrapyd process that has this configuration; `look` starts it.

    `update_projects` is called on the reactor's thread when projects may have come or gone.
    """
    known = _INSTALLINGS.get(config)
    if known is None:
        its = shelf(config)
        known = _INSTALLINGS[config] = Installing(membership(config), its, update_projects)
    return known
