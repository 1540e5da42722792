"""Takes jobs out of the shared queue for the slots that are free, as soon as there is one: Scrapyd's poller.

It looks when woken, never by the clock while all is well. All of its state belongs to the reactor's thread; the queue
is asked in the membership's threads. Whatever goes wrong, it goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapyd.interfaces import IPoller
from scrapyd.utils import get_spider_queues
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer  # type: ignore[import-untyped]

from toolkit.model.errors import CrawlctlError
from toolkit.model.names import JobId, LineName, NodeName, ProjectName, Token, VersionName
from toolkit.model.nodes import NodeReport
from toolkit.model.queue import Claimed, Line, NothingToClaim, unfit
from toolkit.node.membership import membership
from toolkit.store.interfaces import Shared

if TYPE_CHECKING:
    from scrapyd.config import Config

LOOK_AGAIN_S = 2.0
"""How soon a node that was short of memory or disk looks whether it still is."""

SAFETY_S = 30.0
"""How long no wake may come before the poller looks all the same."""

_log = Logger()


@implementer(IPoller)
class ClaimingPoller:
    """Scrapyd's poller for the shared queue; `next` gives a `Claimed` and not Scrapyd's own message."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.membership = membership(config)
        self._machine = self.membership.machine
        self.queues: dict[str, Any] = {}
        self._free: deque[Deferred[Claimed]] = deque()
        self._round: Deferred[None] | None = None
        self._is_wanted = False
        self._must_reconcile = True
        self._takes_none = False
        self._looked_at = 0.0
        self._rests_until = 0.0
        self._later: Any = None
        self.update_projects()
        self.membership.when_woken(self.look)

    def update_projects(self) -> None:
        """Learn the projects anew, as Scrapyd asks after each upload and removal."""
        self.queues = get_spider_queues(self.config)

    def next(self) -> Deferred[Claimed]:
        """Return what fires with the next job; one free slot waits for it. Cancelling it takes the slot back."""
        slot: Deferred[Claimed] = Deferred(self._free.remove)
        self._free.append(slot)
        self.look()
        return slot

    def poll(self) -> None:
        """Look if the last look failed, or was long ago: at Scrapyd's timer, and after every heartbeat."""
        if self._must_reconcile or self._machine.monotonic() - self._looked_at > SAFETY_S:
            self.look()

    def doubt(self) -> None:
        """Settle with the next look what the queue believes this node to have."""
        self._must_reconcile = True

    def look(self) -> None:
        """Settle what is in doubt, and take jobs for all free slots; called while that goes on, it is done again."""
        if self._round is not None:
            self._is_wanted = True
            return
        if not self._is_due():
            return
        self._round = Deferred.fromCoroutine(self._take_jobs())
        self._round.addErrback(self._failed)
        self._round.addBoth(self._ended)

    def rest(self, seconds: float) -> None:
        """Take nothing for a while: this node could not start what it has just taken."""
        self._rests_until = self._machine.monotonic() + seconds
        self._look_in(seconds)

    def settle(self) -> Deferred[None]:
        """Return what fires when no claim is under way any more; `membership.unready` must keep new ones from it."""
        settled: Deferred[None] = Deferred()
        if self._round is None:
            settled.callback(None)
        else:
            self._round.addBoth(lambda _: settled.callback(None))
        return settled

    def _has_room(self) -> bool:
        return bool(self._free) and self._machine.monotonic() >= self._rests_until

    def _is_due(self) -> bool:
        # What is in doubt has a lease that nobody renews: it must not wait for a free slot.
        return self.membership.unready is None and (self._must_reconcile or self._has_room())

    async def _take_jobs(self) -> None:
        while self._is_due():
            self._is_wanted = False
            self._looked_at = self._machine.monotonic()
            report = self.membership.report()
            takes = self._has_room()
            if takes and report.unfit is not None:
                self._say_why_none(report.unfit)
                self._look_in(LOOK_AGAIN_S)
                takes = False
            if not takes and not self._must_reconcile:
                return
            look = partial(
                claim,
                report=report,
                tokens=self.membership.tokens() if self._must_reconcile else None,
                takes=takes,
                has_process=self.membership.jobs(),
                returned_ms=self.membership.returned_ms or 0,
            )
            # What comes into doubt while the queue is asked is settled with the next look.
            self._must_reconcile = False
            try:
                answer = await self.membership.ask(look)
            except CrawlctlError as error:
                # The claim may have been made and its answer lost: nobody but us would ever give that job back.
                self._must_reconcile = True
                _log.warn("No job could be taken: {why}", why=error.message)
                return
            if answer is None:
                return
            self._say_why_none(answer.why if isinstance(answer, NothingToClaim) else None)
            if isinstance(answer, NothingToClaim) and answer.must_beat:
                # After the answer to that it looks again.
                self._must_reconcile = True
                self.membership.beat()
                return
            if isinstance(answer, Claimed):
                await self._hand_over(answer)
            elif not self._is_wanted:
                if answer.again_s is not None:
                    self._look_in(answer.again_s)
                return

    async def _hand_over(self, claimed: Claimed) -> None:
        if self._free and self.membership.unready is None:
            self._free.popleft().callback(claimed)
            return
        # The slot went, or Scrapyd is stopping, while the claim was under way.
        job_id, token = claimed.job.id, claimed.token
        try:
            await self.membership.ask(
                lambda shared: shared.queue.give_back(job_id, token, reason="its node was stopping")
            )
        except CrawlctlError:
            self._must_reconcile = True

    def _failed(self, failure: Any) -> None:
        self._must_reconcile = True
        _log.failure("Claiming failed", failure=failure)

    def _say_why_none(self, why: str | None) -> None:
        if why is not None and not self._takes_none:
            _log.warn("No job is taken: {why}", why=why)
        self._takes_none = why is not None

    def _ended(self, _: object) -> None:
        self._round = None
        if self._is_wanted:
            self._is_wanted = False
            self.look()

    def _look_in(self, seconds: float) -> None:
        if self._later is not None and self._later.active():
            self._later.cancel()
        # A look before its rest is over would find nothing to do, and none would come after it.
        wait_s = max(seconds, self._rests_until - self._machine.monotonic())
        self._later = self._machine.later(wait_s, self.look)


def claim(
    shared: Shared,
    *,
    report: NodeReport,
    tokens: Sequence[Token] | None,
    takes: bool = True,
    has_process: Collection[JobId] = (),
    returned_ms: int = 0,
) -> Claimed | NothingToClaim | None:
    """Take the best job that fits this node; with `tokens`, settle first what it was given and knows nothing of.

    Unless it `takes` any, that is all, and `None` is returned.

    Raises:
        StoreUnreachableError: Redis does not answer; a job may have been claimed all the same.

    """
    if tokens is not None:
        for job_id, state in shared.queue.reconcile(report, tokens).items():
            _log.info("Job {job}, which this node knows nothing of, is {state} now", job=job_id, state=state.value)
    if not takes:
        return None
    # Also without a line that fits: the claim lets delayed jobs that are due into their lines, and knows the next one.
    fitting = fitting_lines(shared.queue.lines(), node=report.name, versions=report.versions)
    return shared.queue.claim(report, fitting, running=report.running, has_process=has_process, returned_ms=returned_ms)


def fitting_lines(
    lines: Sequence[Line], *, node: NodeName, versions: Mapping[ProjectName, Sequence[VersionName]]
) -> list[LineName]:
    """Return the lines of which the node may take jobs. Pure."""
    return [line.name for line in lines if unfit(line, node=node, versions=versions) is None]
