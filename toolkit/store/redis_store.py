"""A cluster's shared memory in Redis: the door, the key names, and the two rooms behind them."""

from __future__ import annotations

from datetime import datetime

from toolkit.model.names import DEFAULT_CLUSTER
from toolkit.store.connect import RedisDoor
from toolkit.store.interfaces import MAX_JOBS
from toolkit.store.interfaces_alerts import AlertStore
from toolkit.store.interfaces_calls import NodeCalls, Redials
from toolkit.store.interfaces_crawls import Crawls
from toolkit.store.interfaces_logs import ShippedLogs
from toolkit.store.interfaces_queue import EggStore, JobQueue, NodeRegistry
from toolkit.store.interfaces_watch import Crons, Duties, Events, OwnMeasures, Samples
from toolkit.store.keys import Keys
from toolkit.store.redis_alerts import RedisAlerts
from toolkit.store.redis_audit import RedisAudit
from toolkit.store.redis_calls import RedisCalls
from toolkit.store.redis_crawls import RedisCrawls
from toolkit.store.redis_crons import RedisCrons
from toolkit.store.redis_eggs import RedisEggs
from toolkit.store.redis_events import RedisDuties, RedisEvents
from toolkit.store.redis_jobs import RedisJobs
from toolkit.store.redis_logs import RedisLogs
from toolkit.store.redis_measures import RedisMeasures
from toolkit.store.redis_nodes import RedisNodes
from toolkit.store.redis_queue import RedisQueue
from toolkit.store.redis_redials import RedisRedials
from toolkit.store.redis_releases import RedisReleases
from toolkit.store.redis_rollouts import RedisRollouts
from toolkit.store.redis_samples import RedisSamples


class RedisShared:
    """Keeps what `Shared` promises."""

    def __init__(self, door: RedisDoor, keys: Keys) -> None:
        self.queue: JobQueue = RedisQueue(door, keys)
        self.nodes: NodeRegistry = RedisNodes(door, keys)
        self.eggs: EggStore = RedisEggs(door, keys)
        self.crawls: Crawls = RedisCrawls(door)
        self.calls: NodeCalls = RedisCalls(door, keys)
        self.redials: Redials = RedisRedials(door, keys)
        self.logs: ShippedLogs = RedisLogs(door, keys)
        self.events: Events = RedisEvents(door, keys)
        self.duties: Duties = RedisDuties(door, keys)
        self.alerts: AlertStore = RedisAlerts(door, keys)
        self.measures: OwnMeasures = RedisMeasures(door, keys)
        self.samples: Samples = RedisSamples(door, keys)
        self.crons: Crons = RedisCrons(door, keys)


class RedisStore:
    """Keeps what `Store` promises. Opening it asks the server once, so that a wrong password is told at once.

    Raises:
        ConfigurationError: the cluster's name cannot be used.
        StoreUnreachableError: the server does not answer, or refuses.

    """

    def __init__(self, door: RedisDoor, *, cluster: str = DEFAULT_CLUSTER, max_jobs: int = MAX_JOBS) -> None:
        keys = Keys(cluster)
        self._door = door
        self._releases = RedisReleases(self._door, keys)
        self._jobs = RedisJobs(self._door, keys, max_jobs=max_jobs)
        self._rollouts = RedisRollouts(self._door, keys)
        self._audit = RedisAudit(self._door, keys)
        self._shared = RedisShared(self._door, keys)
        try:
            self._door.ask("PING")
        except BaseException:
            self._door.close()
            raise

    @property
    def releases(self) -> RedisReleases:
        """The releases of each project."""
        return self._releases

    @property
    def shared(self) -> RedisShared:
        """Queue, nodes and eggs."""
        return self._shared

    @property
    def jobs(self) -> RedisJobs:
        """The jobs scheduled through crawlctl."""
        return self._jobs

    @property
    def rollouts(self) -> RedisRollouts:
        """The rollouts in waves."""
        return self._rollouts

    @property
    def audit(self) -> RedisAudit:
        """Who changed what."""
        return self._audit

    def now(self) -> datetime:
        """Return Redis' own time."""
        return self._door.now()

    def close(self) -> None:
        """Close the connections; twice is harmless."""
        self._door.close()
