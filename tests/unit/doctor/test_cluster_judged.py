"""What a doctor says of registry, eggs, rollouts, jobs and packages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.registry import a_record
from support.stores import BEGIN, SHOP, V1, V2, a_job, a_release

from toolkit.cluster.snapshot import Remembered, plug_in_status
from toolkit.doctor.cluster import ClusterEvidence, judge_cluster
from toolkit.doctor.eggs import judge_eggs
from toolkit.doctor.jobs import judge_jobs
from toolkit.doctor.judged import BringEgg, Judged, RemoveStrays, WithdrawOffer
from toolkit.doctor.software import Software, ask_software, judge_software
from toolkit.model.crawls import EntryId, EntryView, Leased, Shelf
from toolkit.model.errors import NodeAnswerError
from toolkit.model.jobs import JobState
from toolkit.model.names import CrawlId, NodeName, WorkerName
from toolkit.model.nodes import NodeRecord
from toolkit.model.releases import RolloutLock
from toolkit.model.rollouts import GateRules, RolloutState, WaveRollout
from toolkit.model.snapshot import Attention, NodeState, NodeStatus, Snapshot
from toolkit.store.interfaces import Shared
from toolkit.store.wire_requests import write_request

NOW = BEGIN + timedelta(hours=3)


def evidence_of(
    *records: NodeRecord,
    stock: Sequence[NodeStatus] = (),
    attention: Sequence[Attention] = (),
    listed: frozenset[NodeName] | None = None,
    **more: Any,
) -> ClusterEvidence:
    statuses = (*stock, *map(plug_in_status, records))
    known = Remembered(NOW, {SHOP: a_release(V1)}, {SHOP: frozenset({V1})}, registered=records)
    snapshot = Snapshot(NOW, statuses, {SHOP: V1}, tuple(attention))
    names = frozenset(status.name for status in statuses) if listed is None else listed
    return ClusterEvidence(snapshot, known, names, **more)


def checks(judged: Sequence[Judged]) -> list[str]:
    return [each.finding.check for each in judged]


def test_a_healthy_cluster_gives_nothing_to_say() -> None:
    evidence = evidence_of(a_record("node-1"), a_record("node-2"))
    assert judge_cluster(evidence, looked_at=()) == []
    assert judge_eggs(evidence, has_eggs=True) == []


@pytest.mark.parametrize(
    ("record", "check", "severity"),
    [
        (a_record("node-1", age_s=100), "node-lost", "error"),
        (a_record("node-1", age_s=12), "node-stale", "warning"),
        (a_record("node-1", clash="10.0.0.9:6800"), "node-clash", "error"),
        (a_record("node-1", unfit="20 MB of disk are left"), "node-unfit", "warning"),
        (a_record("node-1", is_draining=True), "node-draining", "note"),
    ],
)
def test_a_node_in_trouble_is_a_finding_of_its_own(record: NodeRecord, check: str, severity: str) -> None:
    (told,) = judge_cluster(evidence_of(record, a_record("node-2")), looked_at=())
    assert (told.finding.check, told.finding.severity.value, told.finding.node) == (check, severity, "node-1")
    assert told.finding.text.startswith("node-1 ")
    assert str(told.finding.command).startswith("crawlctl ")


def test_room_is_judged_by_the_node_unless_its_host_was_looked_at() -> None:
    record = a_record("node-1")
    small = replace(record, report=replace(record.report, disk_free_mb=700, memory_free_mb=100))
    evidence = evidence_of(small)
    assert checks(judge_cluster(evidence, looked_at=())) == ["node-disk", "node-memory"]
    assert judge_cluster(evidence, looked_at={NodeName("node-1")}) == []


def test_what_concerns_no_single_node_is_told_once() -> None:
    attention = [Attention("waiting", "jobs are pending", command="x"), Attention("jobs_lost", "3 jobs were lost")]
    evidence = evidence_of(attention=[*attention, Attention("lost", "node-9 is silent")], dead={CrawlId("shop"): 2})
    assert checks(judge_cluster(evidence, looked_at=())) == ["jobs-waiting", "jobs-lost", "crawl-dead"]


def test_a_page_that_does_not_end_is_told_with_its_job() -> None:
    request = write_request({"url": "https://example.com/"})
    entry = EntryView(Leased(EntryId(bytes(8)), request), Shelf.IN_FLIGHT, NOW, worker=WorkerName("job-1~7:node-1:x"))
    held = {CrawlId("shop"): replace(entry, taken_at=NOW - timedelta(hours=3))}
    (told,) = judge_cluster(evidence_of(held=held), looked_at=())
    assert told.finding.check == "crawl-held"
    assert "job job-1 has had https://example.com/ of crawl shop in hand for 3.0 h" in told.finding.text


def test_a_node_that_the_inventory_does_not_list_is_noted() -> None:
    (told,) = judge_cluster(evidence_of(a_record("node-1"), listed=frozenset()), looked_at=())
    assert told.finding.check == "node-unlisted"


def test_a_missing_egg_can_be_brought_where_the_store_keeps_it() -> None:
    lacking = evidence_of(a_record("node-1", versions=(), behind={f"{SHOP} {V1}": "Traceback\nNo module named 'x'"}))
    (told,) = judge_eggs(lacking, has_eggs=True)
    assert told.remedy == BringEgg(NodeName("node-1"), SHOP, V1)
    assert told.finding.is_fixable
    assert "No module named 'x'" in told.finding.text
    assert "Traceback" not in told.finding.text
    (told,) = judge_eggs(lacking, has_eggs=False)
    assert told.remedy is None


def test_an_egg_that_is_missing_for_want_of_a_signature_is_to_be_signed() -> None:
    why = f"{SHOP} {V1} is not signed: only eggs signed by a trusted key are taken here"
    lacking = evidence_of(a_record("node-1", versions=(), behind={f"{SHOP} {V1}": why}))
    (told,) = judge_eggs(lacking, has_eggs=True)
    assert told.remedy is None
    assert told.finding.command == f"crawlctl keys sign {V1} -p {SHOP}"


def test_what_a_silent_node_holds_is_not_known() -> None:
    stock = NodeStatus(NodeName("stock-1"), "10.0.0.1:6800", NodeState.UNREACHABLE)
    lost = a_record("node-1", versions=(), age_s=100)
    assert judge_eggs(evidence_of(lost, stock=[stock]), has_eggs=True) == []


def test_strays_can_be_removed_unless_a_rollout_of_the_project_is_open() -> None:
    stray = a_record("node-1", versions=(V1, V2))
    (told,) = judge_eggs(evidence_of(stray), has_eggs=True)
    assert (told.finding.check, told.remedy) == ("egg-stray", RemoveStrays(SHOP))
    held = a_rollout_in_waves(RolloutState.HELD)
    assert checks(judge_eggs(evidence_of(stray, rollouts=[held]), has_eggs=True)) == ["rollout-unfinished"]


def test_what_a_killed_deploy_left_can_be_taken_back() -> None:
    (told,) = judge_eggs(evidence_of(offered=[a_release(V2)]), has_eggs=True)
    assert (told.finding.check, told.remedy) == ("release-offered", WithdrawOffer(SHOP))


def a_rollout_in_waves(state: RolloutState) -> WaveRollout:
    return WaveRollout("r1", a_release(V2), V1, state, GateRules(), (), "ann@desk:1", BEGIN, BEGIN, token=7)


def a_lock(*, token: int, hours: float = 0.0) -> RolloutLock:
    since = NOW - timedelta(hours=hours)
    return RolloutLock(SHOP, token, "ann@desk:1", "deploy", since, NOW + timedelta(minutes=1))


def test_a_rollout_that_nobody_is_at_is_an_error_and_one_at_work_is_none() -> None:
    running = a_rollout_in_waves(RolloutState.RUNNING)
    (left,) = judge_eggs(evidence_of(rollouts=[running]), has_eggs=True)
    assert (left.finding.check, left.finding.severity.value) == ("rollout-unfinished", "error")
    assert judge_eggs(evidence_of(rollouts=[running], locks=[a_lock(token=7)]), has_eggs=True) == []


def test_a_lock_is_told_when_it_is_held_for_long() -> None:
    assert judge_eggs(evidence_of(locks=[a_lock(token=1, hours=0.5)]), has_eggs=True) == []
    (told,) = judge_eggs(evidence_of(locks=[a_lock(token=1, hours=2)]), has_eggs=True)
    assert told.finding.check == "lock-held"
    assert "ann@desk:1 for 2.0 h: deploy" in told.finding.text


def test_a_job_is_stuck_when_it_does_not_get_on() -> None:
    idle = replace(a_job("a", state=JobState.RUNNING), started_at=BEGIN, pages=7, pages_per_minute=0.0)
    busy = replace(idle, pages_per_minute=3.0)
    mute = replace(idle, pages=None, pages_per_minute=None)
    young = replace(idle, started_at=NOW - timedelta(minutes=5))
    starting = replace(idle, state=JobState.STARTING)
    cancelled = replace(busy, cancel_requested_at=BEGIN)
    assert [len(judge_jobs([each], now=NOW)) for each in (idle, starting, cancelled)] == [1, 1, 1]
    assert judge_jobs([busy, mute, young, a_job("b"), replace(idle, state=JobState.PAUSED)], now=NOW) == []
    assert len(judge_jobs([idle] * 1000, now=NOW)) < 60


def software(name: str, **versions: str) -> Software:
    return Software(NodeName(name), versions)


def test_releases_that_break_are_told_by_node() -> None:
    judged = judge_software([software("node-1", scrapyd="1.4.3", python="3.9.2", setuptools="82.0.1", scrapy="2.19")])
    assert checks(judged) == ["software-old"] * 3
    assert {each.finding.node for each in judged} == {"node-1"}
    assert judge_software([software("node-1", scrapyd="1.6.0", python="3.11.7", setuptools="80.10.2")]) == []


def test_differences_are_told_by_package_and_a_python_s_last_number_is_none() -> None:
    several = [software(f"node-{i}", scrapy="2.19.0", python="3.11.2") for i in range(1, 7)]
    (told,) = judge_software([*several, software("node-9", scrapy="2.13.0", python="3.11.9")])
    assert told.finding.check == "software-differs"
    assert "2.13.0 on node-9; 2.19.0 on node-1, node-2, node-3 and 3 more" in told.finding.text


class Answering:
    """The rooms of a store in which a node answers every question with these bytes."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.calls = self

    def ask(self, _node: NodeName, _what: str, _args: Mapping[str, str], **_patience: float) -> Iterator[bytes]:
        return iter(self._pieces)


def test_what_a_node_says_of_its_packages_is_read_with_care() -> None:
    def told(*pieces: bytes) -> Mapping[str, str]:
        shared: Shared = Answering(*pieces)  # type: ignore[assignment]
        return ask_software(shared, a_record("node-1")).versions

    whole = json.dumps({"Scrapy": "2.19.0", "setuptools": "80"}).encode()
    assert told(whole[:5], whole[5:]) == {"scrapy": "2.19.0", "setuptools": "80"}
    for odd in (b"", b"[]", b"{", b"\xff", b"x" * 2_000_000):
        with pytest.raises(NodeAnswerError):
            told(odd)
