"""What an operator should look at."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from toolkit.cluster.attention import MAX_NAMED, find_alerts, find_attention, find_redis_attention, find_strays
from toolkit.model.names import NodeName, ProjectName, VersionName
from toolkit.model.redis_health import RedisHealth
from toolkit.model.snapshot import Attention, NodeState, NodeStatus

SHOP, V1, V2 = ProjectName("shop"), VersionName("v1"), VersionName("v2")


def live(name: str, *, pending: int = 0, running: int = 0, versions: Sequence[VersionName] = (V1,)) -> NodeStatus:
    holds = {SHOP: tuple(versions)} if versions else {}
    return NodeStatus(NodeName(name), "a:1", NodeState.LIVE, pending=pending, running=running, projects=holds)


def away(name: str, state: NodeState = NodeState.UNREACHABLE) -> NodeStatus:
    return NodeStatus(NodeName(name), "a:1", state, error="why")


def found(
    *statuses: NodeStatus,
    active: Mapping[ProjectName, VersionName] | None = None,
    without_password: Sequence[str] = (),
    just_scheduled: Collection[str] = (),
) -> list[Attention]:
    return find_attention(
        statuses,
        {SHOP: V1} if active is None else active,
        without_password=[NodeName(name) for name in without_password],
        just_scheduled={NodeName(name) for name in just_scheduled},
    )


def test_a_healthy_cluster_needs_none() -> None:
    assert found(live("a", pending=3, running=1), live("b", running=2)) == []


def test_an_empty_inventory_needs_none() -> None:
    assert found() == []


def test_the_worst_comes_first() -> None:
    kinds = found(
        live("a", pending=1, versions=()),
        away("b"),
        away("c", NodeState.UNAUTHORIZED),
        live("d"),
        without_password=["d"],
    )
    assert [each.kind for each in kinds] == ["unreachable", "unauthorized", "open", "behind", "waiting"]


def test_a_node_that_does_not_answer_is_not_also_blamed_for_its_releases() -> None:
    assert [each.kind for each in found(away("a"))] == ["unreachable"]


def test_a_node_without_the_active_version_is_behind() -> None:
    (each,) = found(live("a", versions=[V2]), live("b", versions=[]), live("c", versions=[V1, V2]))
    assert (each.kind, each.nodes, each.command) == ("behind", ("a", "b"), "crawlctl deploy")
    assert "shop v1" in each.message


def test_several_nodes_are_spoken_of_in_the_plural() -> None:
    refusing = [away(name, NodeState.UNAUTHORIZED) for name in "ab"]
    waiting = [live(name, pending=1, versions=()) for name in "cd"]
    messages = [each.message for each in found(*refusing, *waiting, without_password="cd")]
    assert messages == [
        "a, b refuse our credentials",
        "c, d run anybody's code: they ask for no password",
        f"c, d do not hold {SHOP} {V1}",
        "c, d have jobs pending and run none",
    ]
    assert find_strays(waiting, {}) == []
    (strays,) = find_strays([live(name, versions=[V2]) for name in "ab"], {SHOP: frozenset({V1})})
    assert strays.message == "a, b hold versions of shop that no release knows"


def test_what_no_release_names_is_no_matter() -> None:
    assert found(live("a", versions=[V2]), active={}) == []


def test_every_project_is_looked_at() -> None:
    news = ProjectName("news")
    assert [each.message for each in found(live("a"), active={SHOP: V1, news: V2})] == ["a does not hold news v2"]


def test_waiting_jobs_beside_idle_slots_are_told_but_not_at_once() -> None:
    node = live("a", pending=2)
    assert [each.kind for each in found(node)] == ["waiting"]
    assert found(node, just_scheduled=["a"]) == []
    assert found(live("a", pending=2, running=1)) == []


def test_many_nodes_are_counted_and_all_of_them_listed_for_programs() -> None:
    (each,) = found(*(away(f"n{i}") for i in range(300)))
    assert each.message == f"n0, n1, n2 and {300 - MAX_NAMED} more cannot be reached"
    assert len(each.nodes) == 300


def test_a_version_that_no_release_knows_is_a_stray() -> None:
    strays = find_strays([live("a", versions=(V1, V2)), live("b")], {SHOP: frozenset({V1})})
    assert [(each.kind, each.nodes) for each in strays] == [("stray", (NodeName("a"),))]


def test_versions_of_a_project_without_releases_are_somebody_elses() -> None:
    assert find_strays([live("a", versions=(V1, V2))], {}) == []


def test_an_alert_that_fires_is_named_with_what_it_fires_for() -> None:
    subjects = [f"job-{number}" for number in range(MAX_NAMED + 1)]
    quiet, many = find_alerts({"errors": ["job-1"], "stuck": subjects})
    assert (quiet.kind, quiet.message, quiet.command) == (
        "alert",
        "errors fires for job-1",
        "crawlctl alerts show errors",
    )
    assert many.message.startswith("stuck fires for job-0, job-1, ")
    assert many.message.endswith(f"job-{MAX_NAMED - 1}, …")
    assert find_alerts({}) == []


def test_a_redis_that_will_refuse_changes_is_told_of() -> None:
    well = RedisHealth("10.0.0.1:6379", 0.0, 0.0, 0.0, max_bytes=1000, used_bytes=700, is_last_append_ok=True)
    assert find_redis_attention(well) == []
    assert find_redis_attention(RedisHealth("10.0.0.1:6379", 0.0, 0.0, 0.0)) == []
    (full,) = find_redis_attention(replace(well, used_bytes=1010))
    assert (full.kind, full.command) == ("redis", "crawlctl doctor")
    assert full.message == "the Redis at 10.0.0.1:6379 uses 101 % of maxmemory: when it is full it refuses every change"
    (nearly,) = find_redis_attention(replace(well, max_bytes=None, machine_bytes=800))
    assert "88 % of its machine's memory" in nearly.message
    (disk,) = find_redis_attention(replace(well, is_last_append_ok=False, is_last_snapshot_ok=False))
    assert "could not write to its disk" in disk.message
