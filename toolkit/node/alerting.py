"""Tells the sinks of the alerts, each in a thread of its own: a slow webhook costs neither a lease nor another sink."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from toolkit.duties import deliver
from toolkit.duties.deliver import Teller
from toolkit.model.errors import CrawlctlError
from toolkit.node.machine import reactor
from toolkit.node.membership import Membership, shared_of
from toolkit.store.interfaces import Store

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from toolkit.model.alerts import SinkLease

AGAIN_S = 0.2
"""How soon a node looks for another sink after it took one."""

SETTLED_WITHIN_S = 1.5
"""How long Scrapyd's end waits for what it was telling."""

_log = Logger()


class Alerting:
    """Takes the sinks that nobody tells, one a turn so that several nodes share them, and tells them to its end."""

    def __init__(self, member: Membership) -> None:
        self._member = member
        self._is_over = threading.Event()
        self._told: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()
        self._ends_with_scrapyd = False

    def wait_s(self, *, live_nodes: int, chance: float) -> float:
        """Return the wait for the next turn."""
        return deliver.interval_s(live_nodes=live_nodes, chance=chance)

    def take(self, store: Store) -> float | None:
        """Look for a sink that nobody tells; called in a thread, never twice at a time."""
        settings = self._member.settings
        with self._lock:
            told = set(self._told)
        alerts = shared_of(store).alerts
        lease = deliver.take_sink(alerts, programs=settings.alert_commands, holder=settings.name, but=told)
        if lease is None or self._is_over.is_set():
            return None
        teller = Teller(
            alerts,
            lease,
            cluster=settings.cluster,
            programs=settings.alert_commands,
            is_over=self._is_over,
        )
        self._begin(teller, lease)
        return AGAIN_S

    def stop(self) -> Deferred[None]:
        """Let no further attempt begin, and wait a moment until each sink is given back; an attempt may take longer."""
        self._is_over.set()
        return deferToThread(self._settle)

    def _settle(self) -> None:
        ends_at = time.monotonic() + SETTLED_WITHIN_S
        with self._lock:
            threads = list(self._told.values())
        for thread in threads:
            thread.join(max(0.0, ends_at - time.monotonic()))

    def _begin(self, teller: Teller, lease: SinkLease) -> None:
        if not self._ends_with_scrapyd:
            self._ends_with_scrapyd = True
            reactor().callFromThread(reactor().addSystemEventTrigger, "before", "shutdown", self.stop)
        # No thread of a pool: it would be busy for as long as the lease lasts.
        work = partial(self._work, teller, lease.sink)
        thread = threading.Thread(target=work, name=f"crawlctl-sink-{lease.sink}", daemon=True)
        with self._lock:
            self._told[lease.sink] = thread
        thread.start()

    def _work(self, teller: Teller, sink: str) -> None:
        try:
            teller.work()
        except CrawlctlError:
            pass  # The heartbeat says that Redis is away; the lease is over soon, and any node takes it.
        except Exception:  # noqa: BLE001 - whatever it is, another node may tell the sink
            _log.failure("Telling the sink {sink} failed", sink=sink)
        finally:
            with self._lock:
                self._told.pop(sink, None)
