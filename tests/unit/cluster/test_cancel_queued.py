"""What is said of a job that was to be cancelled through the queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from support.queue_desk import a_pending_job
from support.registry import a_record

from toolkit.cluster.cancel_queued import judge_cancel
from toolkit.model.jobs import JobState
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeRecord

RUNNING = replace(a_pending_job("j1"), state=JobState.RUNNING, node=NodeName("a"))


def why(record: NodeRecord | None, *, state: JobState = JobState.RUNNING) -> str:
    nodes: Mapping[NodeName, NodeRecord] = {} if record is None else {record.name: record}
    told = judge_cancel(replace(RUNNING, state=state, reason="its node was lost"), JobState.RUNNING, nodes)
    assert told.error is not None
    return told.error.message


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.FINISHED, JobState.FAILED])
def test_a_job_that_ended_is_gone_however_it_ended(state: JobState) -> None:
    told = judge_cancel(replace(RUNNING, state=state), JobState.RUNNING, {})
    assert (told.before, told.after, told.error) == (JobState.RUNNING, state, None)


def test_a_job_on_a_node_that_went_silent_is_not_proven_to_be_gone() -> None:
    assert why(a_record("a", age_s=100)).endswith("its node a is lost, its last sign of life 100 s old")
    assert "its node a is stale" in why(a_record("a", age_s=12))


def test_a_job_that_survives_every_deadline_on_a_living_node_is_told() -> None:
    assert "it is running on a after every deadline" in why(a_record("a"))


def test_a_job_of_a_forgotten_node_is_told() -> None:
    assert "a is not registered any more" in why(None)


def test_a_lost_job_is_not_proven_to_be_gone() -> None:
    assert why(None, state=JobState.LOST) == "j1 cannot be proven to be gone: its node was lost"
