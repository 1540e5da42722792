"""Runs the claimed jobs in the node's slots: Scrapyd's launcher, with leases instead of hope.

It adopts what an earlier Scrapyd has started, begins what the poller claims, and sees each process to its proven end.
No exception costs a slot, and none a job. On the reactor's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapyd import __version__
from scrapyd.interfaces import IEnvironment, IJobStorage, IPoller
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from toolkit.model.errors import CrawlctlError, UntrustedError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, Token
from toolkit.model.queue import Claimed, Ending, Wish
from toolkit.node import adoption, spawning
from toolkit.node.claims import Claim
from toolkit.node.delivery import Delivery, Parcel
from toolkit.node.departures import Departures
from toolkit.node.endings import Cause, judge
from toolkit.node.membership import membership
from toolkit.node.run import Run
from toolkit.node.stopping import OnStop, closing
from toolkit.store.interfaces import Shared

if TYPE_CHECKING:
    from scrapyd.config import Config
    from twisted.python.failure import Failure

REST_S = 10.0
"""How long no job is taken after one could not be started through no fault of its own."""

TOLD_WITHIN_S = 3.0
"""How long a stop waits for Redis to hear of the last outcomes. Those it does not hear are told at the next start."""

_PAUSE_S = 0.05

_log = Logger()


class LeasedLauncher(Service):
    """Scrapyd's launcher service. `processes` maps each slot to its run; `finished` is Scrapyd's job storage.

    `began` is called with each claim whose process runs, or ran while no Scrapyd was there.
    """

    name = "launcher"

    def __init__(self, config: Config, app: Any) -> None:
        self.app = app
        self.membership = membership(config)
        self._machine = self.membership.machine
        self.processes: dict[int, Run] = {}
        self.finished: Any = self.app.getComponent(IJobStorage)
        self.max_proc = self.membership.settings.slots
        self.runner = self.membership.settings.runner
        self.delivery = Delivery(self.membership)
        self.departures = Departures(self.membership)
        self.began: Callable[[Claim], object] = lambda _: None
        self._offered: dict[int, Deferred[Claimed]] = {}
        self._is_stopping = False
        self.membership.tokens, self.membership.jobs = self._tokens, self.jobs

    def startService(self) -> None:  # noqa: N802 - Twisted's name
        """Adopt what runs, tell of what has ended, and offer the slots that are left."""
        super().startService()  # type: ignore[no-untyped-call]
        _log.info(
            "Scrapyd {version} started: max_proc={max_proc!r}, runner={runner!r}",
            version=__version__,
            max_proc=self.max_proc,
            runner=self.runner,
            log_system="Launcher",
        )
        try:
            self._take_over()
        finally:
            self._offer_slots()

    def leave(self) -> Deferred[None]:
        """Take nothing more and end the spiders as `on_stop` says; fires when all are gone and the queue was told.

        It waits at most 3 s for the queue once they are gone. It never fires when the service is stopped meanwhile.
        """
        settings = self.membership.settings
        _log.info("Asked to stop: {how} {count} spiders", how=_HOW[settings.on_stop], count=len(self.processes))
        self._take_no_more()
        self.membership.is_stopping = True
        self.membership.beat()
        asked = closing(settings.on_stop, settings.stop_grace_s)
        if asked is not None:
            self._machine.later(asked[0], self._close_all, asked[1])
        left: Deferred[None] = Deferred()
        self._see_off(left)
        return left

    def stopService(self) -> None:  # noqa: N802 - Twisted's name
        """Take nothing more. The spiders go on, and the next Scrapyd adopts them if it comes within the lease."""
        super().stopService()  # type: ignore[no-untyped-call]
        self._take_no_more()
        if self.processes:
            _log.info("{count} spiders go on without Scrapyd", count=len(self.processes))

    def run_of(self, job_id: JobId) -> Run | None:
        """Return the run of a job that this node has now."""
        return next((run for run in self.processes.values() if run.claim.job_id == job_id), None)

    def jobs(self) -> frozenset[JobId]:
        """Return the jobs that this node runs now; from any thread."""
        return frozenset(run.claim.job_id for run in list(self.processes.values()))

    def heed(self, wishes: Mapping[Token, Wish], asked: Collection[Token]) -> None:
        """Make the wishes come true for those runs that were asked about."""
        for run in list(self.processes.values()):
            if run.claim.token in asked:
                run.heed(wishes.get(run.claim.token, Wish()))

    def drop(self, stale: Collection[Token]) -> None:
        """Stop the runs whose jobs are no longer ours; nothing is told of them."""
        for run in list(self.processes.values()):
            if run.claim.token in stale and run.stopped_for is not Cause.STALE:
                _log.warn("Job {job} is no longer this node's: stopping its process", job=run.job)
                run.stop(Cause.STALE)

    def readmit(self, unknown: Collection[Token]) -> None:
        """Bring the jobs of these runs to a queue that has forgotten them."""
        for run in list(self.processes.values()):
            claim, job = run.claim, run.claim.job
            if claim.token in unknown and job is not None:
                _log.warn("Redis has forgotten job {job}, which goes on: bringing it back", job=job.id)
                bring = partial(_readmit, job=job, token=claim.token, lease_s=claim.lease_s)
                self.membership.ask(bring).addErrback(_note)
                run.is_start_known = False

    def tell_starts(self, *, again: Collection[Token] = ()) -> None:
        """Tell of those starts that the queue has not heard of, and of these again."""
        for run in list(self.processes.values()):
            run.is_start_known = run.is_start_known and run.claim.token not in again
            if not run.is_start_known:
                self._tell_start(run)

    def touch(self) -> None:
        """Let every spider know that its node lives."""
        for run in list(self.processes.values()):
            run.touch()

    def _take_no_more(self) -> None:
        self._is_stopping = True
        for offer in list(self._offered.values()):
            offer.cancel()

    def _close_all(self, within_s: float) -> None:
        if self.running:
            for run in list(self.processes.values()):
                run.stop(Cause.NODE, grace_s=within_s)

    def _see_off(self, left: Deferred[None], ends_at: float | None = None) -> None:
        """Look, again and again, whether nothing is left to wait for."""
        if not self.running:
            return
        if not self.processes:
            now = self._machine.monotonic()
            ends_at = now + TOLD_WITHIN_S if ends_at is None else ends_at
            is_all_told = not self.delivery.held() and not self.departures.is_telling
            if is_all_told or now >= ends_at:
                left.callback(None)
                return
        self._machine.later(_PAUSE_S, self._see_off, left, ends_at)

    def _take_over(self) -> None:
        for each in adoption.survey(self.membership.home.runs, self._machine):
            if isinstance(each, Parcel):
                if each.folder is not None:
                    adoption.end_rest(each.folder, self._machine)
                has_died = each.folder is not None and adoption.stop_cause(each.folder) is None
                self.departures.tell(each.claim.worker, has_died=has_died)
                self.began(each.claim)
                self.delivery.send(each)
            else:
                self._adopt(each)

    def _tokens(self) -> list[Token]:
        running = [run.claim.token for run in self.processes.values()]
        told = [token for _, token in self.delivery.taken()]
        return [*running, *(each.token for each in self.delivery.held()), *told]

    def _offer_slots(self) -> None:
        """Offer the poller as many slots as are free; adopted runs may take more than there are."""
        self.membership.running = len(self.processes)
        while not self._is_stopping and len(self.processes) + len(self._offered) < self.max_proc:
            slot = next(n for n in range(self.max_proc) if n not in self.processes and n not in self._offered)
            poller = self.app.getComponent(IPoller)
            offer: Deferred[Claimed] = poller.next()
            self._offered[slot] = offer
            offer.addCallbacks(self._take, self._withdrawn, callbackArgs=(slot,), errbackArgs=(slot,))
            offer.addErrback(lambda failure: _log.failure("A slot could not be filled", failure=failure))

    def _withdrawn(self, _: Failure, slot: int) -> None:
        self._offered.pop(slot, None)

    def _take(self, claimed: Claimed, slot: int) -> None:
        self._offered.pop(slot, None)
        member = self.membership
        redis_file = str(member.redis_file)
        claim = Claim.of(
            claimed,
            begun_at=self._machine.time(),
            lease_s=member.settings.lease_s,
            redis_file=redis_file,
            environment=member.catalogue.environment(claimed.job.project, claimed.job.version),
        )
        run: Run | None = None
        try:
            run = self._prepare(claimed, claim, slot)
            spawning.spawn(run)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not cost the slot, nor the job
            self._could_not_begin(claim, run, error)
        else:
            _log.info("Job {job} began: {spider}, process {pid}", job=run.job, spider=run.spider, pid=run.pid)
            self.processes[slot] = run
            self.began(claim)
            self._tell_start(run)
        finally:
            self._offer_slots()

    def _prepare(self, claimed: Claimed, claim: Claim, slot: int) -> Run:
        """Make all that the process needs; nothing is begun yet."""
        self._require_proof(claimed.job)
        message = spawning.message_of(claimed.job)
        environment = self.app.getComponent(IEnvironment)
        message["settings"].update(environment.get_settings(message))
        python = self.membership.environments.python(claim.environment)
        args = spawning.command_of(message, runner=self.runner, python=python)
        env = environment.get_environment(message, slot)
        # Last, so that nothing which fails leaves a folder behind.
        folder = spawning.folder_for(self.membership.home.runs, claim)
        run = Run(claim, folder, self._machine, on_gone=lambda run: self._gone(run, slot))
        run.args, run.env = args, spawning.environment_of(env, folder)
        return run

    def _require_proof(self, job: Job) -> None:
        """Make sure, where only certain keys are trusted, that the release was found to be signed by one.

        Whoever writes to the Redis could else have eggs run that lie here and do not count.

        Raises:
            UntrustedError: it was not, or the job names none.

        """
        member = self.membership
        if member.settings.trusted_keys is None:
            return
        if job.version is None or member.catalogue.proof(job.project, job.version) is None:
            raise UntrustedError(f"{job.project} {job.version or 'without a version'} is not proven here")

    def _could_not_begin(self, claim: Claim, run: Run | None, error: Exception) -> None:
        why = f"could not be started: {spawning.words_of(error)}"
        _log.error("Job {job} {why}", job=claim.job_id, why=why)
        ending: Ending | None = Ending(JobState.FAILED, f"it {why}")
        if spawning.is_of_the_node(error):
            ending = None
            self.app.getComponent(IPoller).rest(REST_S)
        folder = run.folder if run else None
        self.delivery.send(
            Parcel(claim, ended_at=self._machine.time(), ending=ending, folder=folder, why_back=f"it {why}")
        )

    def _adopt(self, living: adoption.Living) -> None:
        slot = next(n for n in range(len(self.processes) + 1) if n not in self.processes)
        run = Run(living.claim, living.folder, self._machine, on_gone=lambda run: self._gone(run, slot))
        run.touch()
        self.processes[slot] = run
        self.began(living.claim)
        _log.info("Job {job} goes on: process {pid} is adopted", job=run.job, pid=living.process.pid)
        run.adopt(living.process.pid, living.process.start, stopped_for=living.stopped_for)

    def _tell_start(self, run: Run) -> None:
        pid, claim = run.pid, run.claim
        if pid is None:
            return
        tell = partial(_tell_started, claim=claim, pid=pid)
        told = self.membership.ask(tell)
        run.was_told = Deferred()
        told.addCallback(self._start_heard, run)
        told.addErrback(_note)
        was_told = run.was_told
        told.addBoth(lambda _: was_told.callback(None))

    def _start_heard(self, is_ours: bool, run: Run) -> None:  # noqa: FBT001 - a Deferred's value
        run.is_start_known = True
        if not is_ours:
            run.stop(Cause.STALE)

    def _gone(self, run: Run, slot: int) -> None:
        """Free the slot, and tell what became of the job."""
        try:
            self.processes.pop(slot, None)
            self.membership.running = len(self.processes)
            self.departures.tell(run.claim.worker, has_died=run.stopped_for is None)
            self._send(run)
            if run.stopped_for is not Cause.STALE:
                self.finished.add(run)
        finally:
            self._offer_slots()

    def _send(self, run: Run) -> None:
        if run.stopped_for is Cause.STALE:
            run.folder.remove()
            return
        now = self._machine.time()
        if adoption.was_never_begun(run.folder, run.pid, run.exit):
            self.delivery.send(Parcel(run.claim, ended_at=now, folder=run.folder), after=run.was_told)
            self.app.getComponent(IPoller).rest(REST_S)
            return
        evidence = adoption.gather(run.folder, run.claim, seen=run.exit, is_node_going=self._is_stopping)
        if not evidence.has_begun and run.stopped_for is None:
            self.app.getComponent(IPoller).rest(REST_S)
        self.delivery.send(
            Parcel(run.claim, ended_at=now, ending=judge(evidence), folder=run.folder), after=run.was_told
        )


_HOW = {OnStop.CLOSE: "closing", OnStop.DRAIN: "waiting for"}


def _tell_started(shared: Shared, *, claim: Claim, pid: int) -> bool:
    return shared.queue.started(claim.job_id, claim.token, pid=pid, lease_s=claim.lease_s)


def _readmit(shared: Shared, *, job: Job, token: Token, lease_s: float) -> None:
    shared.queue.readmit(job, token, lease_s=lease_s)


def _note(failure: Failure) -> None:
    """Leave an unreachable Redis to the heartbeat: it is told again after the next one."""
    if not isinstance(failure.value, CrawlctlError):
        _log.failure("A start could not be told", failure=failure)
