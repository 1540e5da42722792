"""Which changes of nodes are told, and how often; decided without a Redis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from support.queue_desk import a_report
from support.stores import SHOP, V1, V2

from toolkit.duties.node_changes import BEHIND_AFTER_S, behind_changes, node_changes, unwatched
from toolkit.model.events import Change
from toolkit.model.nodes import NodeRecord

LEASE_S = 15.0
LIVE_S, STALE_S, LOST_S = 1.0, 11.0, 15.0
BEGIN_MS = 1_700_000_000_000


def a_record(name: str = "node-1", *, age_s: float = LIVE_S, **report: object) -> NodeRecord:
    said = replace(a_report(name, lease_s=LEASE_S), **report)  # type: ignore[arg-type]
    return NodeRecord(said, beat_at=datetime.now(UTC), age_s=age_s)


def told(changes: Sequence[Change]) -> list[str]:
    return [change.event.kind.value for change in changes if change.event is not None]


@pytest.mark.parametrize(
    ("before", "age_s", "state", "kinds"),
    [
        ("", LIVE_S, "live", ["node.back"]),
        ("", STALE_S, "stale", []),
        ("", LOST_S, "lost", []),
        ("live", STALE_S, "stale", ["node.stale"]),
        ("live", LOST_S, "lost", ["node.lost"]),
        ("stale", LOST_S, "lost", ["node.lost"]),
        ("stale", LIVE_S, "live", ["node.back"]),
        ("lost", LIVE_S, "live", ["node.back"]),
    ],
)
def test_a_node_s_change_is_told_and_a_node_that_was_never_there_is_no_news(
    before: str, age_s: float, state: str, kinds: list[str]
) -> None:
    states = {"node:node-1": before} if before else {}
    (change,) = node_changes([a_record(age_s=age_s)], states, is_in_grace=False)
    assert (change.watched, change.state, change.was, told([change])) == ("node:node-1", state, before, kinds)


@pytest.mark.parametrize(("before", "age_s"), [("live", LIVE_S), ("lost", LOST_S), ("lost", STALE_S)])
def test_what_is_as_it_was_told_is_not_told_again(before: str, age_s: float) -> None:
    assert node_changes([a_record(age_s=age_s)], {"node:node-1": before}, is_in_grace=False) == []


def test_after_an_outage_of_redis_no_node_s_silence_counts_but_signs_of_life_do() -> None:
    records = [a_record("silent", age_s=LOST_S), a_record("back")]
    states = {"node:silent": "live", "node:back": "lost"}
    assert told(node_changes(records, states, is_in_grace=True)) == ["node.back"]


def test_an_event_of_a_node_says_what_a_reader_wants_to_know() -> None:
    (lost,) = node_changes([a_record(age_s=LOST_S, running=3)], {"node:node-1": "live"}, is_in_grace=False)
    assert lost.event is not None
    assert lost.event.subject == "node-1"
    assert lost.event.about == {
        "node": "node-1",
        "address": "node-1.example:6800",
        "silent_s": "15.0",
        "lease_s": "15",
        "running": "3",
    }


def behind(record: NodeRecord, states: Mapping[str, str], *, after_s: float = 0.0) -> list[Change]:
    return behind_changes([record], {SHOP: V2}, states, now_ms=BEGIN_MS + int(after_s * 1000))


def test_a_release_that_is_on_its_way_is_no_news_for_a_while() -> None:
    (first,) = behind(a_record(), {})
    states = {first.watched: first.state}
    assert told([first, *behind(a_record(), states, after_s=BEHIND_AFTER_S - 1)]) == []

    (late,) = behind(a_record(behind={f"{SHOP} {V2}": "no space left"}), states, after_s=BEHIND_AFTER_S)

    assert late.event is not None
    assert late.event.about == {"node": "node-1", "releases": f"{SHOP} {V2}", "reason": "no space left"}
    assert behind(a_record(), {late.watched: late.state}, after_s=99) == []


def test_only_what_a_node_lacks_newly_is_told_of() -> None:
    states = {"behind:node-1": f"told {SHOP} {V2}"}
    (change,) = behind(a_record(behind={"news 7": "no room"}), states)
    assert change.event is not None
    assert change.event.about["releases"] == "news 7"
    (fewer,) = behind(a_record(), {"behind:node-1": change.state})
    assert told([fewer]) == []


def test_a_lost_node_lacks_nothing_that_anybody_could_mend() -> None:
    assert behind(a_record(age_s=LOST_S), {}) == []


def test_what_is_forgotten_or_made_good_is_watched_no_more() -> None:
    watched = ("node:node-1", "node:gone", "behind:node-1", "behind:gone", "queue")
    states = dict.fromkeys(watched, "live")
    assert unwatched([a_record()], {SHOP: V1}, states) == ["node:gone", "behind:node-1", "behind:gone"]
