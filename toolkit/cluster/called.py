"""A node that is asked through the store: for those that no connection leads to. It gives what `ScrapydNode` gives."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.cluster.scrapyd import MAX_EXCERPT_BYTES, Excerpt
from toolkit.model.errors import NodeAnswerError, StoreUnreadableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.store.interfaces import JobStore
from toolkit.store.interfaces_calls import NodeCalls
from toolkit.store.wire_calls import ITEMS, LOG, read_head

PATIENCE_S = 10.0
"""A node that did not hear the call finds it with its next heartbeat."""

SILENCE_S = 10.0


class CalledNode:
    """One node's files, asked for through the store.

    Every method raises `NodeTimeoutError` when the node does not answer, `NodeRefusedError` when it says no, and
    `NodeAnswerError` when its answer is none.
    """

    def __init__(self, record: NodeRecord, calls: NodeCalls, jobs: JobStore, *, patience_s: float = PATIENCE_S) -> None:
        self._calls = calls
        self._jobs = jobs
        self._name = record.name
        self._timeout_s = patience_s

    @property
    def name(self) -> NodeName:
        """The node's name."""
        return self._name

    def state_of(self, job_id: JobId) -> JobState | None:
        """Return the job's state as the store knows it; `None` when it knows no such job."""
        job = self._jobs.get(job_id)
        return None if job is None else job.state

    def log(self, job: Job, *, begin: int = 0, most: int = MAX_EXCERPT_BYTES) -> Excerpt | None:
        """Return at most `most` bytes of the job's log from `begin` on; `None` when there is no log (yet)."""
        return self._part(LOG, job, {"begin": str(begin), "most": str(most)})

    def log_end(self, job: Job, *, most: int) -> Excerpt | None:
        """Return the last bytes of the job's log."""
        return self._part(LOG, job, {"end": "yes", "most": str(most)})

    def items(self, job: Job, *, begin: int = 0) -> Excerpt | None:
        """Return at most 1 MiB of the job's items file; `None` when the node keeps none."""
        return self._part(ITEMS, job, {"begin": str(begin), "most": str(MAX_EXCERPT_BYTES)})

    def _part(self, what: str, job: Job, span: Mapping[str, str]) -> Excerpt | None:
        args = {"project": job.project, "spider": job.spider, "job": job.id, **span}
        pieces = list(self._calls.ask(self._name, what, args, timeout_s=self._timeout_s, silence_s=SILENCE_S))
        if not pieces:
            raise NodeAnswerError(self._name, what, "an answer without its head")
        try:
            head = read_head(pieces[0])
        except StoreUnreadableError as error:
            raise NodeAnswerError(self._name, what, error.message) from error
        if head.size is None:
            return None
        return Excerpt(b"".join(pieces[1:]), head.begins_at, head.size, head.written_at)
