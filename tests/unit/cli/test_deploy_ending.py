"""How a deploy's end is told: the nodes that failed are counted, those that were only undone are not."""

from __future__ import annotations

import pytest
import typer

from toolkit.cli.concluding import conclude
from toolkit.cli.session import GlobalOptions, Session
from toolkit.model.errors import NodeUnreachableError
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.releases import DeployResult, NodeResult


def ended(*steps: str) -> DeployResult:
    results = tuple(
        NodeResult(NodeName(f"node-{at}"), ok=step in {"done", "held"}, step=step, seconds=0.1)
        for at, step in enumerate(steps, start=1)
    )
    errors = tuple(NodeUnreachableError(each.node, "look", "refused") for each in results if each.step == "look")
    is_active = "undone" not in steps
    return DeployResult(ProjectName("shop"), VersionName("v2"), "a0b0", is_active, is_active, results, errors)


def told(result: DeployResult, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(typer.Exit) as exit_:
        conclude(Session(GlobalOptions()), result, "deploy")
    assert exit_.value.exit_code == 4
    return capsys.readouterr().err


def test_nodes_that_were_undone_did_not_fail(capsys: pytest.CaptureFixture[str]) -> None:
    words = told(ended("undone", "undone", "look"), capsys)
    assert "deploy of shop v2 failed on 1 of 3 nodes and was undone, so the active release is as it was" in words


def test_with_keep_going_it_is_active_on_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    words = told(ended("done", "held", "look"), capsys)
    assert "deploy of shop v2 failed on 1 of 3 nodes, and it is active on the others" in words
