"""What an operator should look at of plug-in nodes and their queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from support.registry import a_record
from support.stores import SHOP, V1, V2

from toolkit.cluster.attention import find_plug_in_attention
from toolkit.model.names import NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.nodes import NodeRecord
from toolkit.model.queue import Line
from toolkit.model.snapshot import Attention

BOOKS = Line(SHOP, V1, SpiderName("books"))


def found(
    *records: NodeRecord,
    active: Mapping[ProjectName, VersionName] | None = None,
    counts: Mapping[str, int] | None = None,
    lines: Sequence[Line] = (),
) -> list[Attention]:
    return find_plug_in_attention(records, {SHOP: V1} if active is None else active, counts=counts or {}, lines=lines)


def kinds(attention: Sequence[Attention]) -> list[str]:
    return [each.kind for each in attention]


def test_a_healthy_cluster_needs_none() -> None:
    assert found(a_record("a", running=4), a_record("b"), lines=[BOOKS]) == []


def test_the_worst_comes_first() -> None:
    attention = found(
        a_record("a", clash="10.0.0.9:6800"),
        a_record("b", age_s=100),
        a_record("c", age_s=12),
        a_record("d", unfit="20 MB of disk are left"),
        a_record("e", versions=()),
        a_record("f", is_draining=True),
        counts={"lost_day": 3},
    )
    assert kinds(attention) == ["clash", "lost", "stale", "unfit", "behind", "draining", "jobs_lost"]
    assert [each.nodes for each in attention][:3] == [("a",), ("b",), ("c",)]


def test_one_node_takes_and_several_take() -> None:
    (one,) = found(a_record("a", is_draining=True))
    assert (one.message, one.command) == ("a takes no new job", "crawlctl nodes resume a")
    (two,) = found(a_record("a", is_draining=True), a_record("b", is_draining=True))
    assert (two.message, two.command) == ("a, b take no new job", "crawlctl nodes resume a b")
    lost, stale, unfit, behind = found(
        *(a_record(name, age_s=100) for name in "ab"),
        *(a_record(name, age_s=12) for name in "cd"),
        *(a_record(name, unfit="no disk") for name in "ef"),
        *(a_record(name, versions=()) for name in "gh"),
    )
    assert lost.message == "a, b give no sign of life any more"
    assert stale.message == "c, d have missed heartbeats"
    assert unfit.message == "e, f take no job: no disk"
    assert behind.message == f"g, h do not hold {SHOP} {V1}"


def test_many_drained_nodes_are_not_all_written_into_the_command() -> None:
    (many,) = found(*(a_record(f"n{i}", is_draining=True) for i in range(9)))
    assert many.command == "crawlctl nodes resume NAME..."


def test_lost_jobs_are_counted_in_words_that_agree() -> None:
    assert found(counts={"lost_day": 1})[0].message == "1 job was lost in the last day: its node went away"
    assert found(counts={"lost_day": 2})[0].message == "2 jobs were lost in the last day: their nodes went away"


def test_a_node_that_lacks_the_active_release_is_behind_and_says_why() -> None:
    why = "no module named scrapy_splash"
    attention = found(a_record("a", versions=(), behind={f"{SHOP} {V1}": why}), a_record("b", versions=()))
    assert kinds(attention) == ["behind", "behind"]
    assert [each.nodes for each in attention] == [("b",), ("a",)]
    assert why in attention[1].message


def test_a_node_that_lacks_what_it_should_hold_is_behind_before_that_is_active() -> None:
    attention = found(a_record("a", behind={f"{SHOP} {V2}": "too large"}))
    assert kinds(attention) == ["behind"]
    assert f"{SHOP} {V2}" in attention[0].message


def test_a_lost_node_is_not_also_blamed_for_its_releases_or_its_disk() -> None:
    assert kinds(found(a_record("a", age_s=100, versions=(), unfit="no disk"))) == ["lost"]


def test_jobs_that_no_node_may_take_are_told() -> None:
    other = Line(SHOP, V2, SpiderName("books"))
    attention = found(a_record("a"), lines=[BOOKS, other])
    assert kinds(attention) == ["waiting"]
    assert f"books of {SHOP} {V2}" in attention[0].message
    assert V1 not in attention[0].message


def test_jobs_for_one_node_that_is_not_there_wait_for_nobody() -> None:
    line = Line(SHOP, V1, SpiderName("books"), "eu", frozenset({NodeName("b")}))
    assert kinds(found(a_record("a"), a_record("b", age_s=100), lines=[line])) == ["lost", "waiting"]


def test_a_queue_without_any_node_says_so() -> None:
    attention = found(lines=[BOOKS])
    assert kinds(attention) == ["waiting"]
    assert "no node is there" in attention[0].message


def test_a_busy_node_is_no_reason_to_worry() -> None:
    assert found(a_record("a", running=4), lines=[BOOKS]) == []
