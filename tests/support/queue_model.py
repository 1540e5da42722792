"""A plain model of the life of queued jobs, to which the shared queue is compared after any history of calls."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.jobs import Job, JobState
from toolkit.model.names import Token

PENDING, ACTIVE = JobState.PENDING, (JobState.STARTING, JobState.RUNNING)


@dataclass
class Expected:
    """What the model knows of one job; `age` counts the moments before it came, or was retried."""

    name: str
    spider: str
    priority: float
    age: int
    attempts: int
    retries_failed: bool
    is_held: bool
    on: str | None
    is_delayed: bool = False
    state: JobState = PENDING
    attempt: int = 0
    node: str | None = None
    token: Token | None = None
    session: str | None = None
    taken_from: tuple[Token, str, str] | None = None
    """The claim that a pending job was taken from (token, node, session), as long as that one may have it back."""
    is_cancel_wished: bool = False

    @property
    def is_active(self) -> bool:
        """A node has it."""
        return self.state in ACTIVE

    @property
    def order(self) -> tuple[float, int]:
        """Its place: what is smaller goes first."""
        return -self.priority, self.age

    def goes_back(self, *, is_counted: bool = True) -> JobState:
        """Lose the owner and become pending."""
        self.attempt -= 0 if is_counted else 1
        self.taken_from = None
        self.state, self.node, self.token, self.session = PENDING, None, None, None
        self.is_delayed = False
        return self.state

    def ends(self, state: JobState) -> JobState:
        """Become final."""
        self.state = state
        return state

    def loses_its_process(self, *, is_gone: bool) -> JobState:
        """Become what a job becomes that has no outcome of its own."""
        if self.is_cancel_wished:
            return self.ends(JobState.CANCELLED if is_gone else JobState.LOST)
        if self.attempt >= self.attempts:
            return self.ends(JobState.LOST)
        claim = None if is_gone else (self.token, self.node, self.session)
        self.goes_back()
        self.taken_from = claim  # type: ignore[assignment]  # an active job has all three
        return self.state

    def is_taken_up(self, token: Token) -> bool:
        """Let the claim that it was taken from have it back, if nobody else has it; tell whether that is so."""
        if self.state is not PENDING or self.taken_from is None or self.taken_from[0] != token:
            return False
        self.token, self.node, self.session = self.taken_from
        self.state, self.taken_from = JobState.STARTING, None
        return True


def told(job: Job) -> tuple[object, ...]:
    """Return what the queue says of a job, as far as the model knows of it."""
    on = None if job.on is None else job.on[0]
    owner = (job.node, job.token) if job.state in ACTIVE else (None, None)
    is_cancelled, is_delayed = job.cancel_requested_at is not None, job.due_at is not None
    return job.state, job.priority, job.attempt, job.is_held, is_delayed, on, *owner, is_cancelled


def wanted(job: Expected) -> tuple[object, ...]:
    """Return what the model says of a job, to be compared with `told`."""
    owner = (job.node, job.token) if job.is_active else (None, None)
    is_cancelled = job.is_cancel_wished or job.state == JobState.CANCELLED
    return job.state, job.priority, job.attempt, job.is_held, job.is_delayed, job.on, *owner, is_cancelled
