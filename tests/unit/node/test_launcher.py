"""A job that cannot be begun costs neither the slot nor, where it is the node's fault, the job; nor does a stop."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapyd.config import Config
from scrapyd.interfaces import IEnvironment, IPoller
from support.hand_machine import HandMachine
from twisted.internet.defer import Deferred, fail, succeed

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, ProjectName, SpiderName, Token, VersionName
from toolkit.model.queue import Claimed, Ending
from toolkit.node import spawning
from toolkit.node.catalogue import Proof, Surroundings
from toolkit.node.endings import Cause
from toolkit.node.launcher import TOLD_WITHIN_S, LeasedLauncher
from toolkit.node.machine import Machine
from toolkit.node.membership import membership
from toolkit.node.run import Run
from toolkit.runs.folder import CLAIM, ENDING, PROCESS
from toolkit.runs.report import Exit

GIVEN = Claimed(
    Job(JobId("job-1"), ProjectName("shop"), SpiderName("books"), JobState.STARTING, VersionName("v1")),
    Token("7:node-1:life"),
)


NOW = datetime.now(UTC)


class Desk:
    """A launcher whose poller gives what it is told, and whose environment fails as told."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        settings: object,
        environment: object,
        machine: Machine | None = None,
        **own: str,
    ) -> None:
        monkeypatch.chdir(folder)  # Scrapyd reads a scrapyd.conf that lies where it is started.
        config = Config(values={"dbs_dir": str(folder / "dbs"), "max_proc": "1"})
        config.cp.add_section("crawlctl")
        config.cp.set("crawlctl", "redis", "redis://nowhere:1/0")
        for name, value in own.items():
            config.cp.set("crawlctl", name, value)
        self.member = membership(config)
        self.member.machine = machine or self.member.machine
        monkeypatch.setattr(self.member, "ask", self._ask)
        self.is_away = False
        self._fails = {"settings": settings, "environment": environment}
        self.offers: list[Deferred[Claimed]] = []
        self.outcomes: list[str] = []
        self.begun: list[int] = []
        self.gone: list[str] = []
        self.launcher = LeasedLauncher(config, self)
        self.launcher.startService()

    def _ask(self, work: Callable[[Any], object]) -> Deferred[Any]:
        rooms = SimpleNamespace(queue=self, crawls=self)
        return fail(StoreUnreachableError("away")) if self.is_away else succeed(work(rooms))

    # --- what Scrapyd's application gives

    def getComponent(self, kind: object) -> Any:  # noqa: N802 - Scrapyd's name
        return self if kind in {IPoller, IEnvironment} else set()

    def next(self) -> Deferred[Claimed]:
        self.offers.append(Deferred())
        return self.offers[-1]

    def rest(self, seconds: float) -> None:
        self.outcomes.append(f"rest {seconds:g}")

    def get_settings(self, _: Mapping[str, Any]) -> dict[str, str]:
        return self._fail("settings")

    def get_environment(self, _: Mapping[str, Any], __: int) -> dict[str, str]:
        return self._fail("environment")

    def _fail(self, what: str) -> dict[str, str]:
        problem = self._fails[what]
        if isinstance(problem, Exception):
            raise problem
        return {}

    # --- what the queue hears

    def started(self, _: JobId, __: Token, *, pid: int, lease_s: float) -> bool:
        self.begun.append(pid)
        return pid > 0 and lease_s > 0

    def finish(self, _: JobId, __: Token, ending: Ending, *, lease_s: float) -> JobState:
        assert lease_s > 0
        self.outcomes.append(ending.state if ending.is_counted else f"{ending.state}, uncounted")
        return ending.state

    def release(self, worker: str, *, has_died: bool) -> bool:
        self.gone.append(worker if has_died else f"{worker}, not dead")
        return False

    def give_back(self, _: JobId, __: Token, *, reason: str, lease_s: float) -> bool:
        assert lease_s > 0
        self.outcomes.append(reason)
        return True


def test_what_fails_on_the_way_to_a_process_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path, monkeypatch, settings=None, environment=ValueError("of the project"))
    desk.offers[0].callback(GIVEN)

    assert desk.outcomes == [JobState.FAILED]
    assert len(desk.offers) == 2
    assert list(desk.member.home.runs.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOENT, errno.ENOTDIR, errno.ENOSPC, errno.ESTALE])
def test_a_job_goes_back_from_a_node_that_cannot_use_its_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    desk = Desk(tmp_path, monkeypatch, settings=OSError(number, "of the node", "/logs"), environment=None)
    desk.offers[0].callback(GIVEN)

    assert desk.outcomes[0] == "rest 10"
    assert "of the node" in desk.outcomes[1]
    assert len(desk.offers) == 2


@pytest.mark.parametrize("version", [VersionName("v1"), None])
def test_a_node_that_trusts_certain_keys_runs_nothing_that_it_has_not_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: VersionName | None
) -> None:
    begun: list[Run] = []
    monkeypatch.setattr(spawning, "spawn", begun.append)
    desk = Desk(tmp_path, monkeypatch, settings=None, environment=None, trusted_keys="trusted.keys")
    desk.offers[0].callback(replace(GIVEN, job=replace(GIVEN.job, version=version)))
    assert not begun
    assert desk.outcomes[0] == "rest 10"
    assert "is not proven here" in desk.outcomes[1]

    desk.member.catalogue.add("shop", "v1", Proof("0" * 64, (SpiderName("books"),), Surroundings("", ""), NOW))
    desk.offers[-1].callback(GIVEN)
    assert len(begun) == 1


@pytest.mark.parametrize("number", [errno.E2BIG, errno.ENAMETOOLONG])
def test_a_job_that_no_node_could_begin_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    desk = Desk(tmp_path, monkeypatch, settings=OSError(number, "of the job"), environment=None)
    desk.offers[0].callback(GIVEN)

    assert desk.outcomes == [JobState.FAILED]


@pytest.mark.parametrize(("is_registered", "state"), [(False, JobState.LOST), (True, JobState.FAILED)])
def test_a_process_that_never_came_to_its_job_is_the_nodes_affair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_registered: bool, state: JobState
) -> None:
    # As where the node's Python is just being upgraded: each of its jobs would fail within a second.
    begun: list[Run] = []
    monkeypatch.setattr(spawning, "spawn", begun.append)
    desk = Desk(tmp_path, monkeypatch, settings=None, environment=None)
    desk.offers[0].callback(GIVEN)
    (run,) = begun
    if is_registered:
        run.folder.create(PROCESS, {"pid": 7, "start": "boot:1"})
    run.exit = Exit(exit_code=1)
    desk.launcher._gone(run, 0)

    assert state in desk.outcomes
    assert ("rest 10" in desk.outcomes) is not is_registered


def test_a_spider_is_told_where_the_url_of_redis_is_and_by_no_other_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Run] = []
    monkeypatch.setattr(spawning, "spawn", begun.append)
    desk = Desk(tmp_path, monkeypatch, settings=None, environment=None)
    desk.offers[0].callback(GIVEN)
    (run,) = begun
    file = Path((run.folder.read(CLAIM) or {})["redis_file"])

    assert file.read_text() == "redis://nowhere:1/0\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert not [each for each in (*run.args, *run.env.values()) if "nowhere" in each]


def test_a_start_that_redis_has_forgotten_is_told_until_it_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawning, "spawn", lambda run: setattr(run, "pid", 7))
    desk = Desk(tmp_path, monkeypatch, settings=None, environment=None)
    desk.offers[0].callback(GIVEN)
    desk.launcher.tell_starts()
    assert desk.begun == [7]

    desk.is_away = True
    desk.launcher.tell_starts(again=[GIVEN.token])
    desk.is_away = False
    for _ in range(3):
        desk.launcher.tell_starts()
    assert desk.begun == [7, 7]


def test_what_a_process_held_of_a_crawl_is_given_back_when_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Run] = []
    monkeypatch.setattr(spawning, "spawn", begun.append)
    desk = Desk(tmp_path, monkeypatch, settings=None, environment=None)
    desk.offers[0].callback(GIVEN)
    assert desk.gone == []
    desk.launcher._gone(begun[0], 0)

    assert desk.gone == [f"{GIVEN.job.id}~{GIVEN.token}"]


def test_a_job_whose_releases_environment_is_gone_goes_back_and_never_runs_with_the_nodes_own_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path, monkeypatch, settings=None, environment=None)
    job, now = GIVEN.job, datetime.now(UTC)
    proof = Proof("0" * 64, (job.spider,), Surroundings.now(), now, environment="0123456789abcdef")
    desk.member.catalogue.add(job.project, str(job.version), proof)
    desk.member.catalogue.suspend(job.project, str(job.version), "its environment is gone")
    desk.offers[0].callback(GIVEN)

    assert desk.outcomes[0] == "rest 10"
    assert "the environment of its release is gone" in desk.outcomes[1]


class StoppedNode:
    """A node that runs one spider and is being stopped."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **own: str) -> None:
        begun: list[Run] = []
        monkeypatch.setattr(spawning, "spawn", begun.append)
        self.machine = HandMachine()
        self.desk = Desk(folder, monkeypatch, settings=None, environment=None, machine=self.machine, **own)
        self.desk.offers[0].callback(GIVEN)
        (self.run,) = begun
        self.run.folder.create(PROCESS, {"pid": 7, "start": "boot:1"})
        self.has_left = False
        self.desk.launcher.leave().addCallback(self._left)

    def _left(self, _: None) -> None:
        self.has_left = True

    def end_spider(self) -> None:
        self.run.exit = Exit(signal="SIGKILL")
        self.desk.launcher._gone(self.run, 0)

    def pass_s(self, seconds: float) -> None:
        # In steps: a timer that is set anew at each of its calls counts from there.
        for _ in range(round(seconds * 10)):
            self.machine.clock.advance(0.1)


def test_a_node_that_closes_leaves_once_its_spider_is_gone_and_the_queue_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = StoppedNode(tmp_path, monkeypatch, on_stop="close")
    node.pass_s(20)
    assert node.run.stopped_for is Cause.NODE
    assert not node.has_left

    node.end_spider()
    node.pass_s(0.1)
    assert node.has_left
    assert node.desk.outcomes == ["lost, uncounted"]
    assert node.desk.gone == [f"{GIVEN.job.id}~{GIVEN.token}, not dead"]
    assert len(node.desk.offers) == 1


def test_a_node_without_redis_leaves_soon_and_its_folder_keeps_what_became_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = StoppedNode(tmp_path, monkeypatch, on_stop="close")
    node.desk.is_away = True
    node.end_spider()
    node.pass_s(TOLD_WITHIN_S - 0.5)
    assert not node.has_left

    node.pass_s(1)
    assert node.has_left
    assert node.run.folder.read(ENDING)


@pytest.mark.parametrize(("own", "asked_after_s"), [({}, None), ({"stop_grace_s": "40"}, 10)])
def test_a_node_that_drains_waits_for_its_spider_and_closes_it_only_before_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str], asked_after_s: int | None
) -> None:
    node = StoppedNode(tmp_path, monkeypatch, on_stop="drain", **own)
    node.pass_s((asked_after_s or 10_000) - 1)
    assert node.run.stopped_for is None
    node.pass_s(2)
    assert node.run.stopped_for is (None if asked_after_s is None else Cause.NODE)
    assert not node.has_left


def test_a_node_whose_scrapyd_is_stopped_at_once_waits_no_more_and_closes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = StoppedNode(tmp_path, monkeypatch, on_stop="drain", stop_grace_s="40")
    node.desk.launcher.stopService()
    node.end_spider()
    node.pass_s(60)
    assert not node.has_left
    assert node.run.stopped_for is None
