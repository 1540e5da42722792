"""One Scrapyd process as a member of the cluster: its settings, identity, road to Redis, and what it says of itself.

Every component gets the same one by `membership(config)`; a web service, which is given only Scrapyd's root, by
`root.poller.membership`. Nothing here waits on the reactor's thread.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from twisted.logger import Logger

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.names import JobId, ProjectName, Session, Token, VersionName
from toolkit.model.nodes import IS_STARTING, IS_STOPPING, NodeReport
from toolkit.node.catalogue import Catalogue
from toolkit.node.claims import environments_in_use
from toolkit.node.environment_making import Sources
from toolkit.node.environments import Environments
from toolkit.node.home import Home
from toolkit.node.load import shortage
from toolkit.node.machine import Machine
from toolkit.node.present import Present
from toolkit.node.settings import NodeSettings
from toolkit.store.interfaces import Shared, Store
from toolkit.store.open import open_store

if TYPE_CHECKING:
    from scrapyd.config import Config
    from twisted.internet.defer import Deferred

T = TypeVar("T")
_SOFTWARE = ("crawlctl", "scrapyd", "scrapy", "twisted")
_log = Logger()


class Membership:
    """What the components of one Scrapyd process share.

    `session` names this life of the process. `running` counts its jobs, `jobs` returns those that have a process here,
    `tokens` their claims' and those of jobs whose end is not told yet or was told lately; `beat` gives a sign of life
    now. `unready` says why no job may be taken now; `is_registered` tells whether a heartbeat
    of this session was ever answered, `returned_ms` when Redis came back by the last answer, `waits_for` what it waits
    for; `redials` says that the node changes its address now, `is_stopping` that Scrapyd waits for its spiders before
    it stops. Launcher, heartbeat and redials keep them.
    """

    def __init__(self, settings: NodeSettings, machine: Machine | None = None) -> None:
        self.settings = settings
        self.machine = machine or Machine()
        self.session = Session(self.machine.identifier())
        self.started_at = datetime.now(UTC)
        self.running = 0
        self.unready: str | None = IS_STARTING
        self.is_registered = False
        self.returned_ms: int | None = None
        self.waits_for: str | None = None
        self.redials: str | None = None
        self.is_stopping = False
        self.present = Present(settings.address)
        self.tokens: Callable[[], Sequence[Token]] = tuple
        self.jobs: Callable[[], Collection[JobId]] = tuple
        self.beat: Callable[[], object] = lambda: None
        self._woken: list[Callable[[], object]] = []
        self._store: Store | None = None
        self._store_lock = threading.Lock()

    @cached_property
    def home(self) -> Home:
        """The node's folder, with its identity (`home.id`); entered when first asked for.

        Raises:
            ConfigurationError: another Scrapyd lives there, or it cannot be written.

        """
        return Home(self.settings.state_dir, node_id=self.settings.node_id)

    @cached_property
    def redis_file(self) -> Path:
        """The file from which a spider learns the URL of the cluster's Redis: its own, the node's, or one made of that.

        Raises:
            ConfigurationError: the folder cannot be written.

        """
        settings = self.settings
        return settings.spider_redis_file or settings.redis_file or self.home.keep_redis(settings.redis)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The versions that this node has proven to hold."""
        return Catalogue(self.settings.state_dir / "catalogue.json")

    @cached_property
    def environments(self) -> Environments:
        """The environments that releases have of their own on this node."""
        settings = self.settings
        sources = Sources(settings.wheelhouse, settings.index_file, settings.environment_timeout_s)
        folder = settings.state_dir / "environments"
        return Environments(folder, sources=sources, in_use=lambda: environments_in_use(self.home.runs))

    def call(self, work: Callable[[Store], T]) -> Deferred[T]:
        """Answer what somebody asked this node, in a thread; what comes of it comes back on the reactor's thread.

        `StoreUnreachableError` also when the store could not be opened; the next call tries again. Not for work that
        takes more than seconds: the threads are few.
        """
        return self.machine.in_thread("crawlctl-callers", lambda: work(self.store()))

    def ask(self, work: Callable[[Shared], T]) -> Deferred[T]:
        """Do as `call` does what the node's own life depends on, with the rooms that nodes share.

        In threads of its own: a crowd of readers, who wait for long lists, must not cost the node its leases.
        """
        return self.machine.in_thread("crawlctl", lambda: work(shared_of(self.store())))

    def tend(self, work: Callable[[Store], T]) -> Deferred[T]:
        """Do as `call` does a turn at one of the cluster's duties, in threads of their own: some take their time."""
        return self.machine.in_thread("crawlctl-duties", lambda: work(self.store()))

    def store(self) -> Store:
        """Return the open store; only in a thread, since it may wait.

        Raises:
            StoreUnreachableError: Redis does not answer.

        """
        with self._store_lock:
            if self._store is None:
                settings = self.settings
                self._store = open_store(settings.redis, settings.state_dir, cluster=settings.cluster)
            return self._store

    def versions(self) -> Mapping[ProjectName, tuple[VersionName, ...]]:
        """Return what this node may run: the proven versions of each project."""
        return self.catalogue.versions()

    def report(self) -> NodeReport:
        """Say what the node is now, and in `unfit` why it takes no job, if so; cheap enough for every claim."""
        settings = self.settings
        load = self.machine.measure(settings.logs_dir or settings.state_dir)
        short = shortage(load, min_memory_mb=settings.min_memory_mb, min_disk_mb=settings.min_disk_mb)
        report = NodeReport(
            name=settings.name,
            session=self.session,
            home=self.home.id,
            address=settings.address,
            slots=settings.slots,
            running=self.running,
            lease_s=settings.lease_s,
            load=load.load,
            memory_free_mb=load.memory_free_mb,
            disk_free_mb=load.disk_free_mb,
            versions=self.versions(),
            software=_software(),
            labels=settings.labels,
            behind=self.catalogue.behind(),
            environments=self.environments.shown(self.catalogue.environments()),
            unfit=self.unready or (IS_STOPPING if self.is_stopping else None) or self.redials or short,
            started_at=self.started_at,
        )
        return self.present.of(report)

    def wake(self) -> None:
        """Look into the queue and give a sign of life at once; from any thread. After a version came or went."""
        for callback in self._woken:
            self.machine.soon(callback)

    def when_woken(self, callback: Callable[[], object]) -> None:
        """Call this on the reactor's thread at every `wake`."""
        self._woken.append(callback)


_MEMBERSHIPS: WeakKeyDictionary[Config, Membership] = WeakKeyDictionary()


def membership(config: Config) -> Membership:
    """Return the one membership of the Scrapyd process that has this configuration.

    Raises:
        ConfigurationError: the configuration names no Redis, or is wrong.

    """
    known = _MEMBERSHIPS.get(config)
    if known is None:
        known = _MEMBERSHIPS[config] = Membership(NodeSettings.read(config))
    return known


def shared_of(store: Store) -> Shared:
    """Return the rooms that nodes share.

    Raises:
        StoreUnreachableError: the store has none.

    """
    if store.shared is None:
        raise StoreUnreachableError("the node's store holds no shared queue")
    return store.shared


_versions: dict[str, str] = {}


def _software() -> Mapping[str, str]:
    if not _versions:
        _versions.update({name: metadata.version(name) for name in _SOFTWARE}, python=platform.python_version())
    return _versions
