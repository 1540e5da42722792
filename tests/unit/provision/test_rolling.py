"""How many hosts a roll takes at a time, and when a node counts as well again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support.registry import a_record

from toolkit.cluster.nodes import Nodes
from toolkit.model.errors import NodeError, NodeTimeoutError, NodeUnauthorizedError, NodeUnreachableError, UsageError
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName, Session
from toolkit.model.rolls import Rolled
from toolkit.provision.rolling import Care, Changed, ailment, batch_size, roll
from toolkit.store.open import open_store


@dataclass
class StockNode:
    """A stock node that fails its calls, as the roll sees it."""

    name: NodeName
    error: NodeError

    def load(self) -> None:
        raise self.error


def rolled(tmp_path: Path, error: NodeError, care: Care, changed: list[str]) -> Rolled:
    def change(host: Host) -> Changed:
        changed.append(host.name)
        return Changed("changed", is_restarted=False)

    host = Host(NodeName("a"), "10.0.0.1")
    node: Any = StockNode(host.name, error)
    store = open_store(None, tmp_path)
    try:
        (found,) = roll(
            [host],
            change,
            batch=1,
            care=care,
            store=store,
            nodes=Nodes([node]),
            who="ann",
            on_step=lambda *_: None,
            on_done=lambda _: None,
        )
    finally:
        store.close()
    return found


@pytest.mark.parametrize(
    "error", [NodeTimeoutError("a", "look", "no answer"), NodeUnauthorizedError("a", "look", "HTTP 401")]
)
def test_a_stock_node_that_cannot_tell_what_it_runs_is_not_ended(tmp_path: Path, error: NodeError) -> None:
    changed: list[str] = []
    care = Care(survive=True, drain_s=0.1, ends_up=False)

    found = rolled(tmp_path, error, care, changed)
    assert (found.ok, changed) == (False, [])
    assert error.why in str(found.error)
    assert rolled(tmp_path, error, replace(care, is_forced=True), changed).ok
    assert rolled(tmp_path, error, replace(care, resumes=True), changed).ok, "a start ends nothing"


def test_a_stock_node_that_does_not_run_has_no_jobs_to_wait_for(tmp_path: Path) -> None:
    away = NodeUnreachableError("a", "look", "nothing listens there")
    changed: list[str] = []
    assert rolled(tmp_path, away, Care(drain_s=60, ends_up=False), changed).ok
    assert changed == ["a"]


@pytest.mark.parametrize(
    ("text", "of", "size"), [("1", 40, 1), ("7", 3, 7), ("25%", 40, 10), ("10%", 3, 1), ("100%", 5, 5)]
)
def test_a_batch_is_a_number_of_hosts_or_a_share_of_them(text: str, of: int, size: int) -> None:
    assert batch_size(text, of=of) == size


@pytest.mark.parametrize("text", ["0", "", "-1", "half", "101%", "0%", "1.5"])
def test_what_is_no_batch_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no batch"):
        batch_size(text, of=40)


def test_a_node_is_well_when_it_lives_anew_and_takes_jobs() -> None:
    record = a_record("a")
    assert ailment(record, former=None) is None
    assert ailment(record, former=Session("an earlier life")) is None
    assert ailment(record, former=record.report.session) == "it was not started anew"


def test_what_ails_a_node_is_said() -> None:
    record = a_record("a")
    assert ailment(a_record("a", age_s=99), former=None) == "no sign of life for 99 s"
    assert ailment(a_record("a", unfit="the disk is full"), former=None) == "it takes no job: the disk is full"
    assert ailment(a_record("a", behind={"shop v2": "no room"}), former=None) == "it lacks shop v2: no room"
    clash = replace(record, clash="one at 10.0.0.9")
    assert ailment(clash, former=None) == "another node claims its name: one at 10.0.0.9"
