"""Recurring jobs from an operator's desk, on real nodes: defined, fired, chained, paused, run, kept in a file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from support.desk import FOREVER_S, Desk
from support.market import Market
from support.plugin_node import running_plugin_nodes, shared_of, shared_store
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS
from support.waiting import wait_until

from toolkit.model.crons import Due
from toolkit.store.interfaces import Store

pytestmark = pytest.mark.xdist_group("stories-crons")
SOON_S = 60.0
_NUMBERS = itertools.count()


class Stage(NamedTuple):
    desk: Desk
    store: Store

    def make_due(self, name: str, *, ago_s: float = 0.0) -> None:
        """Let a cron be due now, as no expression could for a test."""
        crons = shared_of(self.store).crons
        view = crons.get(name)
        assert view is not None
        at = self.store.now().replace(microsecond=0) - timedelta(seconds=ago_s)
        # Whoever leaves the times as they are leaves the next due time too.
        due_since = replace(view.cron, starts_at=at - timedelta(days=next(_NUMBERS)))
        crons.put([due_since], by="test", due={name: Due(at, at)})

    def history(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.desk.json("cron", "history", name)
        return found

    def wait_for(self, name: str, *states: str) -> list[dict[str, Any]]:
        """Wait until these are the states of a cron's firings, newest first."""

        def has_come() -> list[dict[str, Any]] | None:
            found = self.history(name)
            return found if [firing["state"] for firing in found] == list(states) else None

        return wait_until(has_come, deadline_s=SOON_S, what=f"{name} to have {states}")

    def wait_for_job(self, job_id: str, state: str) -> dict[str, Any]:
        def has_come() -> dict[str, Any] | None:
            job = self.desk.job(job_id)
            return job if job["state"] == state else None

        return wait_until(has_come, deadline_s=SOON_S, what=f"{job_id} to be {state}")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, story_redis: RedisServer) -> Iterator[Stage]:
    """Two plug-in nodes with a release."""
    folder = tmp_path_factory.mktemp("crons")
    secrets = (TEST_CREDENTIALS[1], str(story_redis.password))
    with (
        running_plugin_nodes(2, redis_url=story_redis.url, folder=folder) as nodes,
        shared_store(story_redis.url, folder) as store,
    ):
        desk = Desk.of(nodes, story_redis.url, folder / "desk", secrets=secrets)
        desk.json("deploy", str(Market(folder / "market")))
        yield Stage(desk, store)


@pytest.fixture(autouse=True)
def clean(stage: Stage) -> Iterator[None]:
    """Leave every sentence with idle nodes and no crons."""
    yield
    shared_of(stage.store).crons.remove([view.cron.name for view in shared_of(stage.store).crons.all()])
    stage.desk.cancel_all()


def test_a_cron_fires_at_its_time_and_its_history_names_the_job(stage: Stage) -> None:
    words = ("--at", "30 3 * * *", "--timezone", "Europe/Berlin", "-a", "note={date} {last_success:never}")
    added = stage.desk.json("cron", "add", "nightly", "quick", *words)
    assert (added["at"], added["timezone"], added["overlap"]) == ("30 3 * * *", "Europe/Berlin", "skip")
    assert stage.desk.json("cron", "next", "nightly", "-n", "1") == [{"at": added["next_at"]}]
    listed = stage.desk.run("cron").out
    assert "30 3 * * * Europe/Berlin" in listed
    assert "this machine's time: " in listed

    stage.make_due("nightly")
    (fired,) = stage.wait_for("nightly", "fired")
    assert fired["by"] in {"node-1", "node-2"}
    job = stage.wait_for_job(fired["jobs"][0], "finished")
    # Its day is that of the cron's own time zone, which may be tomorrow's here.
    day = datetime.fromisoformat(fired["due_at"]).astimezone(ZoneInfo("Europe/Berlin")).date()
    assert (job["args"], job["scheduled_by"]) == ({"note": f"{day} never"}, "cron nightly")
    shown = stage.desk.json("cron", "show", "nightly")
    assert (shown["last"], shown["last_success_at"]) == (fired, fired["due_at"])
    assert shown["next_at"] == added["next_at"]
    (told,) = stage.desk.json("events", "--kind", "cron.fired", "-n", "1")
    assert (told["subject"], told["about"]["jobs"]) == ("nightly", job["id"])


def test_a_firing_is_skipped_while_the_last_one_runs_and_may_be_had_anyway(stage: Stage) -> None:
    stage.desk.run("cron", "add", "long", "quick", "--at", "@yearly", "-a", f"sleep_s={FOREVER_S}")
    (first,) = stage.desk.json("cron", "run", "long")
    stage.wait_for_job(first["jobs"][0], "running")
    stage.make_due("long")
    skipped, _ = stage.wait_for("long", "skipped", "fired")
    assert skipped["reason"] == f"job {first['jobs'][0]} of the firing before has not ended"
    told = stage.desk.run("cron", "run", "long", exit_code=6)
    assert "--anyway runs it all the same" in told.err
    (second,) = stage.desk.json("cron", "run", "long", "--anyway")
    assert second["state"] == "fired"


def test_the_last_firing_is_replaced_when_its_process_is_gone(stage: Stage) -> None:
    words = ("--at", "@yearly", "-a", f"sleep_s={FOREVER_S}", "--overlap", "replace")
    stage.desk.run("cron", "add", "latest", "quick", *words)
    (first,) = stage.desk.json("cron", "run", "latest")
    stage.wait_for_job(first["jobs"][0], "running")
    stage.make_due("latest")
    second, _ = stage.wait_for("latest", "fired", "fired")
    stage.wait_for_job(second["jobs"][0], "running")
    assert stage.desk.job(first["jobs"][0])["state"] == "cancelled"


def test_a_cron_follows_the_jobs_of_another_spider(stage: Stage) -> None:
    stage.desk.run("cron", "add", "then", "raising", "--after", "quick success", "-a", "source={after}")
    (bad,) = stage.desk.json("schedule", "quick", "-a", f"sleep_s={FOREVER_S}", "--delay", "1h")["jobs"]
    stage.desk.run("cancel", bad["id"])
    (good,) = stage.desk.json("schedule", "quick", "--wait")
    (fired,) = stage.wait_for("then", "fired")
    assert stage.desk.job(fired["jobs"][0])["args"] == {"source": good["id"]}
    told = stage.desk.error("cron", "add", "back", "quick", "--after", "raising any", exit_code=2)
    assert "without an end: then → back → then" in told or "without an end: back → then → back" in told


def test_a_paused_cron_does_not_fire_until_it_is_resumed(stage: Stage) -> None:
    stage.desk.run("cron", "add", "one", "quick", "--at", "@yearly")
    (paused,) = stage.desk.json("cron", "pause", "one")
    assert (paused["paused"], paused["next_at"]) == (True, None)
    assert "it is paused" in stage.desk.run("cron", "next", "one").err
    (ran,) = stage.desk.json("cron", "run", "one")
    assert ran["state"] == "fired"
    (resumed,) = stage.desk.json("cron", "resume", "one")
    assert (resumed["paused"], resumed["next_at"] is not None) == (False, True)


def test_a_cron_that_can_find_no_spider_says_so_and_goes_on(stage: Stage) -> None:
    stage.desk.run("cron", "add", "lost", "nowhere", "--at", "@yearly", "-p", "market")
    stage.make_due("lost")
    (failed,) = stage.wait_for("lost", "failed")
    assert failed["reason"] == "there is no spider 'nowhere' in the active release of market"
    assert stage.desk.json("cron", "show", "lost")["next_at"] is not None
    assert "no spider 'nowhere'" in stage.desk.error("cron", "run", "lost", exit_code=2)


def test_a_cron_is_changed_word_by_word_and_removed(stage: Stage) -> None:
    stage.desk.run("cron", "add", "one", "quick", "--at", "@hourly", "-a", "a=1", "-a", "b=2", "--jitter", "5m")
    assert "there is a cron one already" in stage.desk.error(
        "cron", "add", "one", "quick", "--at", "@daily", exit_code=6
    )
    changed = stage.desk.json(
        *("cron", "edit", "one", "--at", "0 9 * * 1-5", "-a", "a=3", "--without", "b", "--jitter", "", "--end"),
        "2030-12-31",
    )
    assert (changed["at"], changed["args"], changed["jitter_s"]) == ("0 9 * * 1-5", {"a": "3"}, 0.0)
    assert changed["ends_at"] == "2030-12-31T23:59:59Z"
    for words, why in (
        (("--at", "0 0 9 * * *"), "know no seconds"),
        (("--timezone", "Mars"), "no time zone 'Mars'"),
        (("-a", "x={dat}"), "there is no {dat} to fill in"),
        (("--without", "zz"), "'zz' to take out"),
        (("--jitter", "5"), "no span of time"),
        (("--start", "soon"), "no day and no time"),
        (("--at", "@daily", "--after", "deaf"), "give one of them"),
    ):
        assert why in stage.desk.run("cron", "edit", "one", *words, exit_code=2).err
    assert stage.desk.json("cron", "show", "one") == changed
    assert "did you mean" in stage.desk.error("cron", "show", "onee", exit_code=7)
    stage.desk.run("cron", "remove", "one", exit_code=2)
    stage.desk.run("cron", "remove", "one", "--yes")
    assert stage.desk.json("cron") == []


CRONS = """
nightly:
  spider: quick
  at: "30 3 * * *"
  timezone: Europe/Berlin
  args: {note: "{date}", max: 5}
  on: node-*
then:
  spider: raising
  after: quick any
  timeout: 1h30m
"""


def test_a_file_of_crons_is_shown_before_it_is_applied(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "crons.yaml"
    file.write_text(CRONS)
    apply = ("cron", "apply", "-f", str(file))
    stage.desk.run("cron", "add", "by-hand", "quick", "--at", "@daily")
    changes = stage.desk.json(*apply, "--dry-run")
    assert [(each["name"], each["change"]) for each in changes] == [("nightly", "added"), ("then", "added")]
    assert len(stage.desk.json("cron")) == 1
    stage.desk.run(*apply)
    shown = stage.desk.json("cron", "show", "nightly")
    assert (shown["args"], shown["on"]) == ({"note": "{date}", "max": "5"}, ["node-1", "node-2"])
    stage.desk.run("cron", "pause", "nightly")
    assert stage.desk.json(*apply) == []

    file.write_text(CRONS.replace("30 3", "0 4"))
    (change,) = stage.desk.json(*apply)
    assert change["fields"] == {"at": {"before": "30 3 * * *", "after": "0 4 * * *"}}
    assert stage.desk.json("cron", "show", "nightly")["paused"]
    assert "by-hand" in stage.desk.run(*apply, "--prune", exit_code=2).err
    removed = stage.desk.json(*apply, "--prune", "--yes")
    assert [(each["name"], each["change"]) for each in removed] == [("by-hand", "removed")]


def test_every_mistake_of_a_file_is_told_with_its_place(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "crons.yaml"
    file.write_text("crons:\n  a: {spider: quick, at: '0 0 * * * *'}\n  b: {spider: x, att: '@daily'}\n  c: {at: x}\n")
    told = stage.desk.error("cron", "apply", "-f", str(file), exit_code=3)
    assert f"{file}:3:18: unknown key 'att': did you mean 'at'?" in told
    assert f"{file}:4:3: cron c names no spider" in told
    file.write_text("a: {spider: quick, at: '0 0 * * * *'}\nb: {spider: x, at: '@daily', on: nobody}\n")
    told = stage.desk.error("cron", "apply", "-f", str(file), exit_code=3)
    assert f"{file}:1:1: a: the expression" in told
    assert f"{file}:2:1: " in told
    assert "names no crons" in stage.desk.error("cron", "apply", exit_code=3)
