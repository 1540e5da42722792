"""The duty of telling the sinks of the alerts what happens: one node at a time for each, any survivor. It waits.

Who holds a sink's lease reads the stream of events behind the sink's cursor, makes the attempts, and notes each step
under its token. An attempt begins only while the lease is longer than the attempt may take, so a message is never
under way twice; one that arrived without that being noted comes again, under the same key.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from toolkit.alerts.planning import Step, next_step
from toolkit.alerts.retrying import LONGEST_PAUSE_S, after_failure, give_up, is_too_old
from toolkit.alerts.sinks import Programs, can_tell, send
from toolkit.model.alerts import Alerts, Message, Progressed, Sink, SinkLease
from toolkit.model.errors import SinkError, StoreUnreachableError, StoreUnreadableError
from toolkit.store.interfaces_alerts import AlertStore

TERM_S = 6.0
"""How long a sink is untold after its teller has died, beside an attempt that was under way."""

MARGIN_S = 5.0
"""How much longer than an attempt its lease is."""

WAIT_S = 1.0
"""How long news are waited for before the lease is renewed."""

AGAIN_S = 0.5
S_A_NODE = 0.1
MIN_INTERVAL_S = 1.0
MAX_INTERVAL_S = 30.0

Send = Callable[[Sink, Message], None]


def interval_s(*, live_nodes: int, chance: float) -> float:
    """Return how long a node waits before it looks for a sink that nobody tells; `chance` is from 0 to 1. Pure."""
    return min(max(live_nodes * S_A_NODE, MIN_INTERVAL_S), MAX_INTERVAL_S) * (0.75 + chance / 2)


def take_sink(store: AlertStore, *, programs: Programs, holder: str, but: set[str]) -> SinkLease | None:
    """Take the lease of a sink that nobody tells and this node can; `but` are those that it tells already.

    Raises:
        StoreUnreachableError: Redis does not answer.

    """
    if store.revision() == 0:
        return None
    sinks = store.read().sinks.values()
    names = [sink.name for sink in sinks if can_tell(sink, programs) and sink.name not in but]
    # So that two nodes do not go for the same one.
    random.shuffle(names)
    return store.take(names, holder=holder, term_s=TERM_S)


@dataclass(slots=True)
class Teller:
    """Tells one sink for as long as its lease is ours; `turn` is called again and again by one thread.

    `is_over` ends waits, and lets no further attempt begin.
    """

    store: AlertStore
    lease: SinkLease
    cluster: str
    programs: Programs
    send: Send | None = None
    chance: Callable[[], float] = random.random
    is_over: threading.Event = field(default_factory=threading.Event)
    _alerts: Alerts = field(default_factory=Alerts)
    _renewed_at: float = 0.0
    _term_s: float = TERM_S

    def work(self) -> None:
        """Tell the sink until the lease is another's, the sink is gone, or it is over; then give it back.

        While Redis is away it waits: nobody else can take the lease then. Alerts that a newer crawlctl wrote are left
        to a node that can read them.

        Raises:
            StoreUnreachableError: Redis is away when it is to be given back.

        """
        while not self.is_over.is_set():
            try:
                if not self.turn():
                    break
            except StoreUnreadableError:
                break
            except StoreUnreachableError:
                self.is_over.wait(AGAIN_S)
        self.store.give_back(self.lease)

    def turn(self) -> bool:
        """Tell one message at most, or wait for one; `False`: the lease is not ours any more, or there is no sink."""
        looked, events = self.store.news(self.lease.cursor, wait_s=self._wait_s())
        sink = self._alerts.sinks.get(self.lease.sink)
        is_likely = bool(events) or bool(self.lease.held)
        if not self._renew(TERM_S if sink is None or not is_likely else sink.timeout_s + MARGIN_S):
            return False
        if self._alerts.revision != self.lease.revision:
            self._alerts = self.store.read()
            return self.lease.sink in self._alerts.sinks
        if sink is None or not can_tell(sink, self.programs):
            return False
        step = next_step(self.lease, self._alerts, cluster=self.cluster, events=events, looked=looked)
        if step.before is not None and not self._note(step.before, term_s=self._term_s):
            return False
        return step.message is None or self._tell(sink, step, step.message)

    def _tell(self, sink: Sink, step: Step, message: Message) -> bool:
        lease = self.lease
        if lease.tries and is_too_old(step, sink, now=lease.now):
            return self._note(give_up(step, sink, "the sink was away for too long"), term_s=TERM_S)
        pause_s = 0.0 if lease.not_before is None else (lease.not_before - lease.now).total_seconds()
        # A longer pause than any is what a clock that was set back has made of one.
        if 0 < pause_s <= LONGEST_PAUSE_S:
            self.is_over.wait(min(pause_s, WAIT_S))
            return True
        # A process that slept since may have lost the lease: it asks again before it sends anything.
        is_late = time.monotonic() - self._renewed_at > MARGIN_S / 2
        if self.is_over.is_set() or is_late or self._term_s < sink.timeout_s + MARGIN_S:
            return self._renew(sink.timeout_s + MARGIN_S)
        try:
            self._attempt(sink, message)
        except SinkError as error:
            tries = lease.tries + 1
            failed = after_failure(step, sink, error, tries=tries, now=lease.now, chance=self.chance())
            return self._note(failed, term_s=TERM_S)
        return self._note(step.after, term_s=TERM_S)

    def _attempt(self, sink: Sink, message: Message) -> None:
        """Make one attempt.

        Raises:
            SinkError: whatever went wrong; what nobody foresaw counts as about this message, lest it block the others.

        """
        try:
            if self.send is None:
                send(sink, message, programs=self.programs)
            else:
                self.send(sink, message)
        except SinkError:
            raise
        except Exception as error:
            raise SinkError(f"it cannot be sent: {type(error).__name__}, a bug in crawlctl", is_refusal=True) from error

    def _wait_s(self) -> float:
        """Return how long to wait for news: not beyond the moment at which something held is due."""
        if not self._alerts.revision:
            return 0.0
        if not self.lease.held:
            return WAIT_S
        due_s = (self.lease.held[0].due - self.lease.now).total_seconds()
        return min(max(0.0, due_s), WAIT_S)

    def _renew(self, term_s: float) -> bool:
        began = time.monotonic()
        lease = self.store.renew(self.lease, term_s=term_s)
        if lease is None:
            return False
        self.lease, self._renewed_at, self._term_s = lease, began, term_s
        return True

    def _note(self, progressed: Progressed, *, term_s: float) -> bool:
        """Note a step, however long Redis is away: what was told once should not be told again."""
        while True:
            began = time.monotonic()
            try:
                lease = self.store.advance(self.lease, progressed, term_s=term_s)
            except StoreUnreachableError:
                if self.is_over.wait(AGAIN_S):
                    raise
                continue
            if lease is None:
                return False
            self.lease, self._renewed_at, self._term_s = lease, began, term_s
            return True
