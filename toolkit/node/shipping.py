"""Ships the logs of this node's jobs, while they run and until all of each is shipped, in threads beside Scrapyd.

Whatever hangs there (a share, a bucket, Redis) costs those threads their time, neither the reactor nor a spider any.
What is to be shipped is noted in `logs` within `state_dir`; how far it is, Redis alone knows: a restart goes on right.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from twisted.application.service import Service
from twisted.logger import Logger

from toolkit.model.errors import CrawlctlError
from toolkit.model.names import JobId
from toolkit.model.shipped import LogName
from toolkit.node.claims import Claim
from toolkit.node.log_places import LogPlace, place_of
from toolkit.node.membership import Membership, shared_of
from toolkit.node.shipping_settings import ShippingSettings
from toolkit.node.tailing import Carrier, Tail, note, noted

LOOK_S = 1.0
"""How often it is looked what has ended, and what is due."""

FLUSH_S = {True: 5.0, False: 15.0}
"""How often the log of a running job is shipped: to Redis, and to another place, where each part is a file."""

PARTS_A_TURN = 4
"""So many parts of one log, at most 1 MiB, then it is the next one's turn."""

BYTES_A_S = 4 * 1024 * 1024
REST_S = 10.0
"""How long a place is left alone that did not answer."""

MAX_TAILS = 1_000
MAX_KEPT_BYTES = 1_000_000_000
"""Of logs that Scrapyd has thrown away, at most so much is kept for a place that is away; the oldest go first."""

SWEEP_S = 3600.0
_log = Logger()


class Shipping(Service):
    """The logs on their way. `running` says which jobs this node runs now; a job that it does not name has ended."""

    name = "shipping"

    def __init__(
        self, member: Membership, settings: ShippingSettings, *, running: Callable[[], frozenset[JobId]]
    ) -> None:
        self._member = member
        self._settings = settings
        self._running = running
        self._tails: dict[JobId, Tail] = {}
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._place: LogPlace | None = None
        self._carrier: Carrier | None = None
        self._was_away = False
        self._swept_at = 0.0

    @property
    def folder(self) -> Path:
        """Where notes and links lie."""
        return self._member.settings.state_dir / "logs"

    def startService(self) -> None:  # noqa: N802 - Twisted's name
        """Go on with what an earlier Scrapyd of this node has left; the launcher must have adopted its runs before."""
        super().startService()  # type: ignore[no-untyped-call]
        for work in (self._work, self._keep_holding):
            threading.Thread(target=work, name="crawlctl-shipping", daemon=True).start()

    def stopService(self) -> None:  # noqa: N802 - Twisted's name
        """Ship nothing more; what is left is the next one's."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._is_over.set()

    def begin(self, claim: Claim) -> None:
        """Take over the log of a job that begins here, or goes on. On the reactor's thread; writes one small file."""
        name = LogName(claim.project, claim.spider, claim.job_id, self._member.settings.name)
        try:
            note(self.folder, name)
        except OSError as error:
            _log.warn("The log of job {job} is not shipped after a restart: {why}", job=claim.job_id, why=error)
        self._take(name)

    def _take(self, name: LogName) -> None:
        logs_dir = self._member.settings.logs_dir or Path()
        source = logs_dir / name.project / name.spider / f"{name.job_id}.log"
        with self._lock:
            known = self._tails.get(name.job_id)
            if known is not None:
                known.begin_again()
            else:
                self._tails[name.job_id] = Tail(name, source, self.folder)

    def _work(self) -> None:
        for name in noted(self.folder):
            if name.job_id not in self._tails:
                self._take(name)
        while not self._is_over.wait(LOOK_S):
            try:
                self._turn()
            except (CrawlctlError, OSError) as error:
                self._tell_away(error)
                self._is_over.wait(REST_S)
            except Exception:  # noqa: BLE001 - a log that cannot be shipped must not end the shipping of all others
                _log.failure("Logs could not be shipped")
                self._is_over.wait(REST_S)

    def _keep_holding(self) -> None:
        """Give each log its second name as soon as it is there, whatever the other thread waits for."""
        while not self._is_over.wait(LOOK_S):
            for tail in self._all():
                with self._lock:
                    # Shipped and let go meanwhile: a second name that it got now would stay on the disk for good.
                    if self._tails.get(tail.name.job_id) is tail:
                        tail.hold()

    def _tell_away(self, error: Exception) -> None:
        if not self._was_away:
            _log.warn("Logs are not shipped now, and will be later: {why}", why=error)
        self._was_away = True

    def _turn(self) -> None:
        """Look at every log once."""
        # What runs is asked first: a job that ends after that has ended for the next look, with all that it said.
        running = self._running()
        tails = self._all()
        due = [tail for tail in tails if tail.due_at <= time.monotonic() or tail.name.job_id not in running]
        if not due:
            return
        carrier = self._carrier or self._made_carrier()
        for tail in due:
            if self._is_over.is_set():
                return
            self._ship(carrier, tail, has_ended=tail.name.job_id not in running)
        if self._was_away and not any(tail.was_full for tail in due):
            _log.info("Logs are shipped again")
            self._was_away = False
        self._bound(running)
        self._sweep()

    def _made_carrier(self) -> Carrier:
        address = self._settings.address
        self._place = None if address is None else place_of(address)
        self._carrier = Carrier(self._settings, self._place)
        return self._carrier

    def _all(self) -> list[Tail]:
        with self._lock:
            return list(self._tails.values())

    def _ship(self, carrier: Carrier, tail: Tail, *, has_ended: bool) -> None:
        logs = shared_of(self._member.store()).logs
        for _ in range(PARTS_A_TURN):
            shipped = carrier.step(tail, logs, has_ended=has_ended)
            if shipped is None:
                tail.due_at = time.monotonic() + FLUSH_S[self._settings.address is None]
                break
            if self._is_over.wait(shipped / BYTES_A_S):
                return
        if tail.was_full:
            self._tell_away(OSError("there is no room for more (ship_logs_total_mb)"))
        is_done = tail.known is not None and tail.known.is_complete
        if has_ended and (is_done or tail.problem or tail.stand() is None):
            if tail.problem:
                _log.warn("The log of job {job} is not shipped: {why}", job=tail.name.job_id, why=tail.problem)
            self._finish(tail)

    def _finish(self, tail: Tail) -> None:
        with self._lock:
            # Begun again meanwhile: it is no longer the log that has ended.
            if tail.name.job_id in self._running():
                return
            self._tails.pop(tail.name.job_id, None)
            tail.let_go()

    def _bound(self, running: frozenset[JobId]) -> None:
        """Give up the oldest of the ended logs that nobody took, when they are too many or take too much room."""
        ended = [tail for tail in self._all() if tail.name.job_id not in running]
        kept_bytes = 0
        for number, tail in enumerate(reversed(ended)):
            status = tail.stand()
            kept_bytes += status.st_size if status is not None and status.st_nlink == 1 else 0
            if number >= MAX_TAILS or kept_bytes > MAX_KEPT_BYTES:
                _log.warn("The log of job {job} is given up: nobody took it", job=tail.name.job_id)
                self._finish(tail)

    def _sweep(self) -> None:
        """Take old logs away now and then, where the place does not do that itself; those in Redis are a duty."""
        if self._place is not None and time.monotonic() - self._swept_at > SWEEP_S:
            self._swept_at = time.monotonic()
            self._place.drop_old(keep_s=self._settings.terms.keep_s)
