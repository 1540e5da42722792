"""Nodes that are asked for another address, through the store; each node keeps to its share by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolkit.cluster.fanout import fan_out
from toolkit.cluster.membership import TAKERS
from toolkit.model.calls import Redialled
from toolkit.model.errors import NodeAnswerError, NodesFailedError
from toolkit.model.names import NodeName
from toolkit.model.nodes import NodeRecord
from toolkit.model.outcomes import Outcome
from toolkit.model.snapshot import NodeState
from toolkit.store.interfaces import Shared
from toolkit.store.wire_calls import REDIAL, read_redialled

PATIENCE_S = 20.0
"""How long a node may take to say that it begins."""

SLACK_S = 5.0


@dataclass(frozen=True, slots=True)
class RedialRow:
    """One node's redial: its address before and now as Redis saw it, and how long it took; `why` there is no other."""

    node: NodeName
    old: str | None
    new: str | None
    seconds: float | None
    why: str | None = None


def redial(
    shared: Shared,
    records: Sequence[NodeRecord],
    *,
    share: float | None,
    timeout_s: float,
    waits: bool,
    on_row: Callable[[RedialRow], None] = lambda _row: None,
) -> list[RedialRow]:
    """Ask each node for another address and return what became of it, in their order; `on_row` hears of each at once.

    `share` (0 to 1) overrules that of each node. A node that may not now, because others are at it or its last redial
    is fresh, is asked again until `timeout_s` is over if `waits`. A node that does not give signs of life is not asked.
    """
    deadline = time.monotonic() + timeout_s

    def heard(outcome: Outcome[Redialled]) -> None:
        on_row(_row(outcome, by_name[outcome.node]))

    by_name = {record.name: record for record in records}
    outcomes = fan_out(
        tuple(records),
        lambda record: _redial(shared, record, share, deadline=deadline, waits=waits),
        deadline_s=lambda _: timeout_s + PATIENCE_S + SLACK_S,
        on_done=heard,
    )
    return [_row(outcome, by_name[outcome.node]) for outcome in outcomes.each]


def unchanged(rows: Sequence[RedialRow]) -> NodesFailedError | None:
    """Return the error to end with when some have no other address. Pure."""
    failed = [row for row in rows if row.why is not None]
    if not failed:
        return None
    first = failed[0]
    return NodesFailedError(
        f"{len(failed)} of {len(rows)} node(s) have no other address: {first.node}: {first.why}",
        hint="crawlctl docs nat tells of redial_command and its limits",
    )


def _redial(shared: Shared, record: NodeRecord, share: float | None, *, deadline: float, waits: bool) -> Redialled:
    if record.state not in TAKERS | {NodeState.DRAINING}:
        return Redialled(old=record.report.outside, why=f"it is {record.state.value}")
    while True:
        told = _ask(shared, record.name, share, within_s=max(1.0, deadline - time.monotonic()))
        if told.again_s is None or not waits or time.monotonic() + told.again_s > deadline:
            return told
        time.sleep(told.again_s)


def _ask(shared: Shared, name: NodeName, share: float | None, *, within_s: float) -> Redialled:
    args = {} if share is None else {"share": repr(share)}
    patience_s = min(PATIENCE_S, within_s)
    pieces = list(shared.calls.ask(name, REDIAL, args, timeout_s=patience_s, silence_s=within_s))
    if not pieces:
        raise NodeAnswerError(name, REDIAL, "an answer that says nothing")
    return read_redialled(pieces[0])


def _row(outcome: Outcome[Redialled], record: NodeRecord) -> RedialRow:
    told = outcome.value
    if told is None:
        return RedialRow(outcome.node, record.report.outside, None, None, str(outcome.error))
    seconds = None if told.new is None else told.seconds
    return RedialRow(outcome.node, told.old or record.report.outside, told.new, seconds, told.why)
