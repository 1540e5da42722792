"""How the files of a job's node are asked for."""

from __future__ import annotations

import contextlib

import pytest
from support.waiting import wait_until

from toolkit.cluster import job_log
from toolkit.cluster.nodes import Nodes
from toolkit.cluster.scrapyd import Excerpt
from toolkit.model.errors import NodeUnreachableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, LineName, NodeName, ProjectName, SpiderName

NODE = NodeName("node-1")
AWAY = NodeUnreachableError(NODE, "items", "connection refused")


def a_job(state: JobState = JobState.FINISHED, *, items: int | None = None, is_queued: bool = True) -> Job:
    return Job(
        id=JobId("job"),
        project=ProjectName("shop"),
        spider=SpiderName("finds"),
        state=state,
        node=NODE,
        items=items,
        line=LineName("line") if is_queued else None,
    )


class Restarting:
    """The way to a node that does not answer the first time."""

    def __init__(self) -> None:
        self.asked = 0

    def items(self, job: Job, *, begin: int = 0) -> Excerpt:  # noqa: ARG002 - NodeFiles'
        self.asked += 1
        if self.asked == 1:
            raise AWAY
        return Excerpt(b"", 0, 0)


def test_a_node_that_is_left_alone_for_a_while_is_asked_again_however_often_one_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = Restarting()
    monkeypatch.setattr(job_log, "AWAY_S", 0.3)
    monkeypatch.setattr(job_log, "reach", lambda *_, **__: node)
    there = job_log.JobLogs(Nodes([]), lambda: pytest.fail("the store is not needed")).files(a_job())
    looks = 0

    def answers() -> bool:
        nonlocal looks
        looks += 1
        with contextlib.suppress(NodeUnreachableError):
            return there.items(a_job()) is not None
        return False

    wait_until(answers, deadline_s=20, what="the node to be asked again", pause_s=0.02)
    assert node.asked == 2
    assert looks > 2
