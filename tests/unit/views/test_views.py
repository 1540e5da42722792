"""How results are shown: the JSON contract by name, and tables that fit."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from toolkit.cluster.cancel import Cancelled
from toolkit.cluster.node_life import Drained, NodeRow
from toolkit.cluster.schedule import Placed
from toolkit.cluster.why import Explanation, NodeVerdict
from toolkit.model.errors import NodesFailedError, NodeTimeoutError
from toolkit.model.hosts import Host, Secret
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName, VersionName
from toolkit.model.outcomes import Outcome, Outcomes
from toolkit.model.queue import Cap
from toolkit.model.releases import DeployResult, NodeResult, Pruned
from toolkit.model.snapshot import Attention, NodeState, NodeStatus, Snapshot
from toolkit.views.contract import host_row, job_row, time_text
from toolkit.views.jobs import (
    MIN_ID_CHARS,
    age_text,
    cancelled_view,
    caps_view,
    duration_text,
    job_view,
    jobs_view,
    reason_text,
    scheduled_view,
    span_text,
    unique_length,
)
from toolkit.views.local import hosts_view
from toolkit.views.nodes import STYLES, drained_view, names_view, node_view, nodes_view
from toolkit.views.rollouts import deploy_view, plan_view, prune_view, steps_table
from toolkit.views.status import MAX_ROWS, status_view, worth_showing
from toolkit.views.view import Styled, View, cell, plain_table
from toolkit.views.why import why_view

NOW = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
NASTY = "\x1b[2J[red]bold[/red]\x9b"
JOB_FIELDS = [
    *("id", "project", "spider", "version", "state", "node", "args", "settings", "priority"),
    *("scheduled_at", "started_at", "ended_at", "finish_reason", "pages", "items", "errors"),
    *("attempt", "exit_code", "signal", "token", "reason"),
]


def a_job(**more: Any) -> Job:
    plain = Job(JobId("0123456789abcdef"), ProjectName("shop"), SpiderName("books"), JobState.PENDING)
    return replace(plain, **more)


def a_status(name: str, **more: Any) -> NodeStatus:
    projects = {ProjectName("shop"): (VersionName("v1"),)}
    plain = NodeStatus(NodeName(name), "a:1", NodeState.LIVE, pending=0, running=0, finished=0, projects=projects)
    return replace(plain, **more)


def a_result(node: str, *, ok: bool = True) -> NodeResult:
    return NodeResult(NodeName(node), ok, "done" if ok else "upload", 0.5, 2 if ok else None, None if ok else "why")


def drawn(view: View, *, width: int = 200) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(view.table())
    json.dumps(view.data, allow_nan=False)
    return out.getvalue()


# The contract. These names are promised; a test that has to be changed here breaks somebody's script.


def test_a_job_has_just_these_fields_and_unknown_ones_are_null() -> None:
    row = job_row(a_job())
    assert list(row) == JOB_FIELDS
    known = {"id": "0123456789abcdef", "project": "shop", "spider": "books", "state": "pending"}
    assert row == dict.fromkeys(JOB_FIELDS) | known


def test_a_jobs_times_are_iso_8601_in_utc() -> None:
    east = NOW.astimezone(timezone(timedelta(hours=5, minutes=45)))
    row = job_row(a_job(scheduled_at=east, started_at=NOW + timedelta(microseconds=999_999)))
    assert (row["scheduled_at"], row["started_at"]) == ("2026-11-21T07:00:00Z", "2026-11-21T07:00:00Z")
    assert time_text(None) is None


def test_a_list_of_jobs_is_a_list() -> None:
    assert jobs_view([], now=NOW).data == []
    assert [list(row) for row in jobs_view([a_job()], now=NOW).data] == [JOB_FIELDS]


def test_status_has_just_these_fields() -> None:
    snapshot = Snapshot(NOW, (a_status("a", running=2), a_status("b", pending=3, finished=4)), {}, ())
    data = status_view(snapshot).data
    assert {"nodes", "jobs", "attention"} <= set(data)
    promised = ["name", "address", "state", "kind", "slots", "pending", "running", "finished", "projects"]
    assert list(data["nodes"][0])[:9] == promised
    assert data["nodes"][0]["projects"] == {"shop": ["v1"]}
    assert data["nodes"][0]["kind"] == "stock"
    assert data["jobs"] == {"pending": 3, "running": 2, "finished": 4}
    # What has ended may have failed: people are not told that it finished.
    assert "3 pending, 2 running, 4 ended" in drawn(status_view(snapshot))


def test_a_nodes_states_are_these() -> None:
    states = ["live", "draining", "stale", "lost", "unreachable", "unauthorized"]
    assert [state.value for state in NodeState] == states
    assert set(STYLES) == set(NodeState)


def test_one_job_has_the_fields_of_a_row_and_all_else_that_is_known_of_it() -> None:
    data = job_view(a_job(), log=["the end"]).data
    assert list(data)[: len(JOB_FIELDS)] == JOB_FIELDS
    assert data["log"] == ["the end"]
    assert job_view(a_job()).data["log"] is None


def test_a_listed_node_has_just_these_fields() -> None:
    row = NodeRow(NodeName("a"), "a:1", NodeState.LIVE, "node", heartbeat_age_s=1.26, is_draining=True)
    (data,) = nodes_view([row]).data
    fields = [
        *("name", "address", "outside", "state", "kind", "slots", "running", "load", "memory_free_mb", "disk_free_mb")
    ]
    assert list(data) == [*fields, "versions", "heartbeat_age_s", "draining"]
    assert (data["heartbeat_age_s"], data["draining"]) == (1.3, True)
    assert list(node_view(row).data)[: len(data)] == list(data)


def test_what_was_scheduled_has_just_these_fields() -> None:
    data = scheduled_view([Placed(a_job(node=NodeName("a"), version=VersionName("v1")))]).data
    assert data == {
        "jobs": [
            {
                "id": "0123456789abcdef",
                "project": "shop",
                "spider": "books",
                "version": "v1",
                "node": "a",
                "state": "pending",
                "crawl": None,
            }
        ]
    }


def test_a_deploy_has_just_these_fields() -> None:
    results = (a_result("a"), a_result("b", ok=False))
    result = DeployResult(
        ProjectName("shop"), VersionName("v1"), "aa", is_active=False, is_changed=False, results=results
    )
    assert deploy_view(result).data == {
        "project": "shop",
        "version": "v1",
        "digest": "aa",
        "active": False,
        "changed": False,
        "nodes": [
            {"name": "a", "ok": True, "step": "done", "seconds": 0.5, "spiders": 2, "error": None},
            {"name": "b", "ok": False, "step": "upload", "seconds": 0.5, "spiders": None, "error": "why"},
        ],
        "rollout": None,
    }


def test_a_cancellation_has_these_fields() -> None:
    error = NodeTimeoutError("a", "cancel.json", "no answer")
    data = cancelled_view([Cancelled(a_job(), JobState.RUNNING, JobState.RUNNING, error)]).data
    (row,) = data["jobs"]
    assert list(row)[:3] == ["id", "before", "after"]
    assert (row["before"], row["after"], row["error"]) == ("running", "running", str(error))


def test_no_secret_is_shown_with_a_host() -> None:
    host = Host(NodeName("a"), username="crawler", password=Secret("let-me-in"))
    assert host_row(host)["password"] == "***"
    assert host_row(Host(NodeName("a")))["password"] is None
    assert "let-me-in" not in json.dumps(host_row(host)) + drawn(hosts_view([host])) + repr(host)


# Tables.


def test_what_a_node_says_is_shown_and_not_obeyed() -> None:
    job = a_job(spider=SpiderName(NASTY), node=NodeName(NASTY), finish_reason=NASTY, args={"a": NASTY})
    error = NodeTimeoutError("a", NASTY, NASTY)
    attention = (Attention("x", NASTY, command=NASTY),)
    projects = {ProjectName(NASTY): (VersionName("v1"),)}
    active = {ProjectName(NASTY): VersionName(NASTY)}
    nodes = (a_status(NASTY, projects=projects), a_status("b", state=NodeState.UNREACHABLE, error=NASTY))
    result = DeployResult(
        ProjectName("shop"),
        VersionName("v1"),
        "aa",
        is_active=True,
        is_changed=True,
        results=(a_result(NASTY, ok=False),),
    )
    outcomes: Outcomes[str] = Outcomes((Outcome(NodeName(NASTY), None, error),))
    for view in (
        jobs_view([job], now=NOW),
        job_view(job),
        scheduled_view([Placed(job, error)]),
        cancelled_view([Cancelled(job, JobState.RUNNING, JobState.RUNNING, error)]),
        status_view(Snapshot(NOW, nodes, active, attention)),
        deploy_view(result),
        plan_view(ProjectName("shop"), VersionName("v1"), "aa", outcomes),
    ):
        text = drawn(view)
        assert "\x1b[2J" not in text
        assert "\x9b" not in text
        assert "\\x1b" in text
        assert "[red]" in text


@given(st.text().filter(str.isprintable))
def test_a_cell_shows_any_text_as_it_is(text: str) -> None:
    assert cell(text).plain == cell(Styled(text, "red")).plain == text


@pytest.mark.parametrize("text", ["[bold]", "a\\", "[/]", "[red", "\\[x]", ":smile:"])
def test_markup_in_a_name_stays_a_name(text: str) -> None:
    out = io.StringIO()
    Console(file=out, width=80, emoji=False).print(plain_table("A", "B", rows=[(text, Styled(text, "red"))]))
    assert out.getvalue().count(text) == 2


def test_an_unknown_value_is_a_dash() -> None:
    assert cell(None).plain == "-"
    assert cell(0).plain == "0"


def test_a_screen_of_three_hundred_nodes_shows_those_in_trouble_and_the_busiest() -> None:
    nodes = [a_status(f"n{i:03}", running=i) for i in range(300)]
    nodes[7] = a_status("n007", state=NodeState.UNREACHABLE, error="gone")
    nodes[9] = a_status("n009", state=NodeState.UNAUTHORIZED, error="no")
    shown = worth_showing(nodes, most=MAX_ROWS)
    assert len(shown) == MAX_ROWS
    assert [node.name for node in shown] == ["n007", "n009", *(f"n{i}" for i in range(277, 300))]
    text = drawn(status_view(Snapshot(NOW, tuple(nodes), {}, ())))
    assert "275 more (275 live)" in text
    assert "n100" in drawn(status_view(Snapshot(NOW, tuple(nodes), {}, ()), shows_all=True))


def test_a_node_without_the_active_version_is_marked() -> None:
    active = {ProjectName("shop"): VersionName("v2")}
    assert "shop (1, behind)" in drawn(status_view(Snapshot(NOW, (a_status("a"),), active, ())))


def test_a_prune_that_failed_somewhere_says_of_no_version_that_it_is_removed() -> None:
    pruned = Pruned(ProjectName("shop"), (VersionName("v1"),), (VersionName("v2"),), ((NodeName("a"), "gone"),))
    assert "not removed everywhere" in drawn(prune_view(pruned, is_dry_run=False))
    assert "not removed everywhere" not in drawn(prune_view(replace(pruned, errors=()), is_dry_run=False))
    assert "would be removed" in drawn(prune_view(replace(pruned, errors=()), is_dry_run=True))


def test_a_rollout_under_way_fits_a_screen() -> None:
    order = [NodeName(f"n{i}") for i in range(500)]
    table = steps_table(order, dict.fromkeys(order, "upload"), {NodeName("n0"): a_result("n0", ok=False)})
    assert len(table.rows) <= 15
    assert table.caption == "1 of 500 done, 1 failed"
    assert "1 of 500 done, 1 failed" in drawn(View({}, lambda: table))


# Short ids and spans.


@given(st.sets(st.text("0123456789abcdef", min_size=1, max_size=20), max_size=30))
def test_shown_ids_differ_and_are_no_longer_than_needed(ids: set[str]) -> None:
    length = unique_length(ids)
    assert len({each[:length] for each in ids}) == len(ids)
    assert length >= MIN_ID_CHARS
    if length > MIN_ID_CHARS:
        assert len({each[: length - 1] for each in ids}) < len(ids)


def test_the_same_id_twice_does_not_make_it_longer() -> None:
    assert unique_length(["aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaa"]) == MIN_ID_CHARS
    assert unique_length([]) == MIN_ID_CHARS


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m00s"),
        (3599, "59m59s"),
        (3600, "1h00m"),
        (86_399, "23h59m"),
        (86_400, "1d"),
        (86_400 * 2 + 5, "2d"),
        (86_400 * 1000, "1000d"),
    ],
)
def test_a_span_is_shown_in_its_largest_unit_and_the_next(seconds: float, text: str) -> None:
    assert span_text(seconds) == text


@given(st.floats(0, 1e9))
def test_a_span_is_short(seconds: float) -> None:
    assert len(span_text(seconds)) <= 6


def test_a_running_job_has_run_until_now_and_an_ended_one_until_its_end() -> None:
    started = NOW - timedelta(minutes=5)
    assert duration_text(a_job(), now=NOW) is None
    assert duration_text(a_job(started_at=started, state=JobState.RUNNING), now=NOW) == "5m00s"
    assert duration_text(a_job(started_at=started, state=JobState.LOST), now=NOW) is None
    ended = a_job(started_at=started, ended_at=started + timedelta(seconds=9), state=JobState.FINISHED)
    assert duration_text(ended, now=NOW) == "9s"
    assert age_text(None, now=NOW) is None


def test_columns_without_any_value_are_left_out_and_others_stay() -> None:
    plain = drawn(jobs_view([a_job()], now=NOW))
    assert not {"TRY", "EXIT", "PRIORITY"} & set(plain.split())
    job = a_job(state=JobState.FAILED, attempt=2, attempts=3, exit_code=0, priority=2.5, reason="it broke")
    shown = drawn(jobs_view([job, a_job()], now=NOW))
    assert {"TRY", "2/3", "EXIT", "0", "PRIORITY", "2.5"} <= set(shown.split())
    assert "SIGKILL" in drawn(jobs_view([replace(job, signal="SIGKILL", exit_code=None)], now=NOW))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"is_held": True}, "held"),
        ({"due_at": NOW + timedelta(hours=2)}, "due in 2h00m"),
        ({"due_at": NOW - timedelta(hours=2)}, None),
        ({"on": tuple(NodeName(f"n{i}") for i in range(5))}, "only for n0, n1, n2 and 2 more"),
        ({"reason": "node-1 was lost"}, "node-1 was lost"),
        ({"state": JobState.FINISHED, "finish_reason": "finished", "reason": "x"}, "finished"),
        ({"state": JobState.FAILED, "finish_reason": "shutdown", "reason": "its time was over"}, "its time was over"),
        ({"state": JobState.LOST, "finish_reason": "its node forgot it"}, "its node forgot it"),
    ],
)
def test_a_jobs_reason_says_what_keeps_it_or_how_it_ended(more: dict[str, Any], told: str | None) -> None:
    assert reason_text(a_job(**more), now=NOW) == told


def test_many_scheduled_jobs_fit_a_screen_and_are_all_there_for_programs() -> None:
    placed = [Placed(a_job(id=JobId(f"{number:016x}"))) for number in range(500)]
    view = scheduled_view(placed)
    assert len(view.data["jobs"]) == 500
    assert "500 jobs; the first 50 are shown" in drawn(view)
    assert len(drawn(view).splitlines()) < 60


def test_an_explanation_is_shown_with_each_node_and_the_end_of_the_log() -> None:
    verdicts = (NodeVerdict(NodeName("a"), could=True), NodeVerdict(NodeName("b"), could=False, reason=NASTY))
    explained = Explanation(a_job(), NASTY, (NASTY,), nodes=verdicts, log=(NASTY,), log_error=NASTY)
    shown = drawn(why_view(explained))
    assert "\x1b[2J" not in shown
    assert "yes" in shown
    assert "the end of its log" in shown


def test_what_a_node_says_of_itself_is_shown_and_not_obeyed() -> None:
    row = NodeRow(NodeName("a"), NASTY, NodeState.LOST, "node", load=0.5, error=NASTY, behind={NASTY: NASTY})
    row = replace(row, memory_free_mb=512, disk_free_mb=512_000)
    late = Drained(NodeName("a"), 2, NodesFailedError(NASTY))
    for view in (nodes_view([row]), node_view(row), drained_view([late])):
        assert "\x1b[2J" not in drawn(view)
    assert {"512", "0.50"} <= set(drawn(nodes_view([row])).split())
    assert "takes no new job" in drawn(drained_view([Drained(NodeName("a"), 1)]))
    assert "runs none" in drawn(drained_view([Drained(NodeName("a"), 0)]))
    assert "forgotten" in drawn(names_view([NodeName("a")], "forgotten"))


def test_a_cap_for_a_whole_project_says_so() -> None:
    view = caps_view([Cap(ProjectName("shop"), None, 5, None)])
    assert view.data == [{"project": "shop", "spider": None, "cluster": 5, "per_node": None}]
    assert "all its spiders together" in drawn(view)


def test_a_narrow_terminal_loses_columns_and_no_id() -> None:
    columns = ("JOB", "PROJECT", "NODE", "WHY")
    table = plain_table(*columns, rows=[("ab609a7", "shop", "node-1", "x" * 90)], spare=("PROJECT",))
    assert [columns[at] for at in table.fitting(80)] == ["JOB", "PROJECT", "NODE", "WHY"]
    assert [columns[at] for at in table.fitting(45)] == ["JOB", "NODE", "WHY"]


def test_a_long_reason_is_cut_in_a_list_and_whole_where_one_job_is_shown() -> None:
    job = a_job(state=JobState.FAILED, reason="its process ended with exit code 1: " + "x" * 300)
    assert "x" * 100 not in drawn(jobs_view([job], now=NOW))
    assert "…" in drawn(jobs_view([job], now=NOW))
    assert jobs_view([job], now=NOW).data[0]["reason"] == job.reason
