"""What the gate behind a wave makes of nodes that are not well, and of smoke jobs that ended."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from support.registry import a_record
from support.stores import SHOP, V1, a_job

from toolkit.model.jobs import JobState
from toolkit.model.names import NodeName, SpiderName
from toolkit.model.nodes import NodeRecord
from toolkit.model.releases import LATER, NodeResult
from toolkit.model.rollouts import SmokeCheck
from toolkit.rollout.gate import GATE, looked_at, problem_of, smoke_failure
from toolkit.rollout.smoke import choose_prover
from toolkit.rollout.targets import Target

CHECK = SmokeCheck(SpiderName("books"), 60.0, 2)
ENDED = replace(a_job("j1", state=JobState.FINISHED), finish_reason="finished", items=2)


def took(name: str) -> NodeResult:
    return NodeResult(NodeName(name), ok=True, step="done", seconds=0.1, spiders=2)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"items": 1}, "brought 1 items, fewer than 2"),
        ({"items": None}, "brought an unknown number of items"),
        ({"finish_reason": "shutdown"}, r"ended as finished \(shutdown\)"),
        (
            {"state": JobState.FAILED, "finish_reason": None, "reason": "exit code 1"},
            r"ended as failed \(exit code 1\)",
        ),
        ({"state": JobState.CANCELLED, "finish_reason": None}, "nobody knows why"),
    ],
)
def test_a_smoke_job_that_did_not_come_to_its_own_end_with_items_proves_nothing(
    change: dict[str, object], why: str
) -> None:
    assert re.search(why, str(smoke_failure(replace(ENDED, **change), CHECK)))  # type: ignore[arg-type]


def test_a_smoke_job_that_came_to_its_own_end_with_items_proves_the_wave() -> None:
    assert smoke_failure(ENDED, CHECK) is None
    assert smoke_failure(replace(ENDED, items=None), replace(CHECK, min_items=0)) is None


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (None, "it was forgotten"),
        (a_record("node-1", age_s=60), "it is lost, 60 s without a sign of life"),
        (a_record("node-1", age_s=12), "it is stale"),
        (a_record("node-1", clash="10.0.0.9:6800"), "another node claims its name"),
        (a_record("node-1", unfit="its disk is full"), "it takes no job: its disk is full"),
        (a_record("node-1", versions=()), "it no longer holds"),
    ],
)
def test_a_node_that_is_not_well_has_a_problem(record: NodeRecord | None, why: str) -> None:
    assert why in str(problem_of(record, SHOP, V1))


def test_a_node_that_lives_or_drains_and_holds_the_release_is_well() -> None:
    assert problem_of(a_record("node-1"), SHOP, V1) is None
    assert problem_of(a_record("node-1", is_draining=True), SHOP, V1) is None


def test_a_look_turns_results_to_failures_and_back() -> None:
    later = NodeResult(NodeName("node-2"), ok=True, step=LATER, seconds=0.0)
    sick, still_later = looked_at([took("node-1"), later], {NodeName("node-1"): "lost", NodeName("node-2"): "lost"})
    assert (sick.ok, sick.step, sick.error, still_later) == (False, GATE, "lost", later)
    (well,) = looked_at([sick], {})
    assert (well.ok, well.step, well.error) == (True, "held", None)


def test_the_smoke_job_runs_where_there_is_most_room_and_never_where_nothing_was_brought() -> None:
    records = {
        "drained": a_record("drained", is_draining=True),
        "busy": a_record("busy", running=3),
        "idle": a_record("idle"),
        "left-out": a_record("left-out"),
    }
    targets = [Target(NodeName("stock"), None, None), *(Target(each.name, None, each) for each in records.values())]
    results = [took(name) for name in ("stock", "drained", "busy", "idle")]

    def chosen(*left_out: str) -> str | None:
        found = choose_prover([each for each in results if each.node not in left_out], targets)
        return None if found is None else found.name

    assert chosen() == "idle"
    assert chosen("idle") == "busy"
    assert chosen("idle", "busy") == "stock"
    assert chosen("idle", "busy", "stock") == "drained"
    assert chosen("idle", "busy", "stock", "drained") is None
