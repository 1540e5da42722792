"""The node's sign of life: renews the leases of what it runs, hears what the cluster wants, and makes it so.

A service of the Scrapyd process, on the reactor's thread. It goes on for ever, whatever happens: while Redis is away
the spiders run on, and it says once what it waits for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from toolkit.model.errors import ConflictError, CrawlctlError, StoreUnreachableError
from toolkit.model.names import Token
from toolkit.model.nodes import BEATS_A_LEASE, IS_STOPPING, WAITS_FOR_REDIS, NodeReport
from toolkit.model.queue import BeatAnswer, Held
from toolkit.node.housekeeping import Housekeeping
from toolkit.node.listening import Listener
from toolkit.runs.folder import REPORT, RunFolder
from toolkit.runs.report import read_report
from toolkit.store.interfaces import Shared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from twisted.python.failure import Failure

    from toolkit.node.launcher import LeasedLauncher
    from toolkit.node.membership import Membership
    from toolkit.node.poller import ClaimingPoller
    from toolkit.node.turns import Turn

CLASH_REMINDER_S = 60.0
LEAVE_WITHIN_S = 3.0
AGAIN_S = 1.0
"""How soon the next sign of life follows one that did not arrive."""

RELEASES_SPREAD_S = 0.5
"""How far apart the nodes ask for a new release, so that a thousand do not ask at once."""

_log = Logger()


class Heartbeat(MultiService):
    """Beats as long as the service runs.

    `look_for_eggs` is called when what the node should hold has changed, `look_for_questions` when it is asked. Turns
    are taken at all duties, unless some are named.
    """

    def __init__(
        self,
        member: Membership,
        *,
        launcher: LeasedLauncher,
        poller: ClaimingPoller,
        look_for_eggs: Callable[[], object],
        look_for_questions: Callable[[], object] = lambda: None,
        duties: Sequence[Turn] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._member = member
        self._launcher = launcher
        self._poller = poller
        self._look_for_eggs = look_for_eggs
        self._look_for_questions = look_for_questions
        self._every_s = member.settings.lease_s / BEATS_A_LEASE
        self._housekeeping = Housekeeping(member, duties=duties)
        self._housekeeping.setServiceParent(self)  # type: ignore[no-untyped-call]
        self._listener = Listener(member, self._woken)
        self._machine = member.machine
        self._touching = LoopingCall(launcher.touch)
        self._touching.clock = self._machine.reactor
        self._next: Any = None
        self._is_beating = False
        self._is_wanted = False
        self._is_stopping = False
        self._is_unheard = False
        self._away_since: float | None = None
        self._clash_told_at: float | None = None
        self._releases: int | None = None
        self._was_draining = False
        member.when_woken(self.beat)
        member.beat = self.beat

    def startService(self) -> None:  # noqa: N802 - Twisted's name
        """Begin at once; Redis need not be there."""
        super().startService()  # type: ignore[no-untyped-call]
        self._touching.start(self._every_s)
        self._listener.start()
        self._look_for_eggs()
        self.beat()

    def stopService(self) -> Deferred[None]:  # noqa: N802 - Twisted's name
        """Claim nothing more and say goodbye, within 3 s; the leases stay, for whoever adopts the spiders."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._is_stopping = True
        self._member.unready = IS_STOPPING
        self._listener.stop()
        if self._touching.running:
            self._touching.stop()
        if self._next is not None and self._next.active():
            self._next.cancel()
        done: Deferred[None] = self._poller.settle()
        done.addCallback(lambda _: self._leave())
        done.addTimeout(LEAVE_WITHIN_S, self._machine.reactor)
        return done.addErrback(lambda _: None)

    def beat(self) -> None:
        """Give a sign of life now; asked for while one is under way, another follows it."""
        if self._is_stopping:
            return
        if self._is_beating:
            self._is_wanted = True
            return
        self._is_beating, self._is_wanted = True, False
        answered: Deferred[Any] = Deferred.fromCoroutine(self._ask())
        answered.addErrback(self._unheard)
        answered.addErrback(lambda failure: _log.failure("The heartbeat's answer could not be heeded", failure=failure))
        answered.addBoth(lambda _: self._beaten())

    async def _ask(self) -> None:
        asked, work = self._question()
        self._heard(await self._member.ask(work), asked)

    def _question(self) -> tuple[frozenset[Token], Callable[[Shared], BeatAnswer]]:
        """Return which runs are asked about, and what asks; what spiders report is read in the thread."""
        runs = [(run.held, run.folder) for run in self._launcher.processes.values()]
        report, ended = self._member.report(), self._launcher.delivery.taken()
        waiting = self._launcher.delivery.held()
        asked = frozenset(held.token for held, _ in runs)
        was_registered, returned_ms = self._member.is_registered, self._member.returned_ms

        def beat(shared: Shared) -> BeatAnswer:
            present = self._member.present

            def once() -> BeatAnswer:
                held = [*_held(runs), *waiting]
                return shared.nodes.beat(
                    present.of(report), held, ended=ended, was_registered=was_registered, returned_ms=returned_ms
                )

            present.learn(shared)
            first = once()
            if not present.learn(shared):
                return first
            # The connection was made anew for this: what was told may be the address that the machine had before.
            second = once()
            # All else is said until it is heeded.
            return replace(second, taken_up=(*first.taken_up, *second.taken_up))

        return asked, beat

    def _heard(self, answer: BeatAnswer, asked: frozenset[Token]) -> None:
        if self._is_stopping:
            return
        if self._away_since is not None:
            _log.warn("Redis answers again, after {s:.0f} s", s=self._machine.monotonic() - self._away_since)
            self._listener.renew()
        if self._clash_told_at is not None:
            _log.warn("The name {name} is this node's now", name=self._member.settings.name)
        self._away_since = self._clash_told_at = None
        was_unready, self._member.unready = self._member.unready, None
        self._member.is_registered, self._member.waits_for = True, None
        self._housekeeping.live_nodes = answer.live_nodes
        has_returned = self._member.returned_ms not in {None, answer.returned_ms}
        self._member.returned_ms = answer.returned_ms
        launcher = self._launcher
        launcher.drop(answer.stale)
        launcher.heed(answer.wishes, asked.difference(answer.stale))
        launcher.readmit(answer.unknown)
        # An answer that was lost may have told of claims taken up, whose starts are not known any more.
        launcher.tell_starts(again=asked if has_returned or self._is_unheard else answer.taken_up)
        self._is_unheard = False
        launcher.delivery.retry()
        launcher.departures.retry()
        launcher.delivery.tell_again([*answer.unheard, *answer.unknown])
        if has_returned:
            _log.warn("Redis has come back, and may have forgotten what it was told last: telling it again")
            self._poller.doubt()
            self._releases = None
        if was_unready is not None or self._was_draining != answer.is_draining:
            # The report that others see said why no job was taken, and the queue let us claim none.
            self._is_wanted = self._is_wanted or was_unready is not None
            self._poller.look()
        else:
            self._poller.poll()
        self._was_draining = answer.is_draining
        if self._releases != answer.releases:
            if self._releases is not None or has_returned:
                self._look_for_eggs()
            self._releases = answer.releases
        if answer.questions:
            self._look_for_questions()

    def _unheard(self, failure: Failure) -> None:
        self._is_unheard = True
        self._housekeeping.live_nodes = 0
        error = failure.value
        if isinstance(error, ConflictError):
            self._say_clash(error)
            return
        if isinstance(error, StoreUnreachableError):
            self._say_away(error)
            return
        if isinstance(error, CrawlctlError):
            _log.error("The heartbeat was refused: {why}", why=error.message)
            return
        _log.failure("The heartbeat failed", failure=failure)

    def _say_clash(self, error: ConflictError) -> None:
        self._member.unready = self._member.waits_for = error.message
        now = self._machine.monotonic()
        if self._clash_told_at is None or now - self._clash_told_at >= CLASH_REMINDER_S:
            self._clash_told_at = now
            _log.error("No job is taken: {why}; {hint}", why=error.message, hint=error.hint)

    def _say_away(self, error: StoreUnreachableError) -> None:
        if not self._is_stopping:
            self._member.unready = WAITS_FOR_REDIS
        self._member.waits_for = f"Redis: {error.message}"
        if self._away_since is None:
            self._away_since = self._machine.monotonic()
            count = len(self._launcher.processes)
            _log.error("Waiting for Redis, {count} spiders go on: {why}", count=count, why=error.message)

    def _beaten(self) -> None:
        self._is_beating = False
        if self._is_stopping:
            return
        if self._next is not None and self._next.active():
            self._next.cancel()
        # A little chance keeps nodes that were started together from beating together.
        wait_s = 0.0 if self._is_wanted else self._every_s * (0.85 + 0.15 * self._machine.chance())
        if self._away_since is not None:
            # The wait for an answer that never came has eaten up much of the lease.
            wait_s = min(wait_s, AGAIN_S)
        self._next = self._machine.later(wait_s, self.beat)

    def _woken(self, word: str) -> None:
        if self._is_stopping:
            return
        if word == "releases":
            self._machine.later(RELEASES_SPREAD_S * self._machine.chance(), self.beat)
            return
        if word in {"", "crons"}:
            self._housekeeping.look_for_crons()
        if word == f"?{self._member.settings.name}":
            self._look_for_questions()
        if word in {"", self._member.settings.name}:
            self.beat()
        if word in {"", "queue", self._member.settings.name}:
            self._poller.look()

    def _leave(self) -> Deferred[None]:
        if self._away_since is not None:
            return succeed(None)
        report: NodeReport = self._member.report()
        return self._member.ask(lambda shared: shared.nodes.leave(report))


def _held(runs: Sequence[tuple[Held, RunFolder]]) -> list[Held]:
    return [replace(held, progress=read_report(folder.read(REPORT))) for held, folder in runs]
