"""A job that cannot be begun costs neither the slot nor, where it is the node's fault, the job."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapyd.config import Config
from scrapyd.interfaces import IEnvironment, IPoller
from twisted.internet.defer import Deferred, succeed

from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, ProjectName, SpiderName, Token, VersionName
from toolkit.model.queue import Claimed, Ending
from toolkit.node import spawning
from toolkit.node.catalogue import Proof, Surroundings
from toolkit.node.launcher import LeasedLauncher
from toolkit.node.membership import membership
from toolkit.node.run import Run
from toolkit.runs.folder import CLAIM, PROCESS
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
        trusted_keys: str = "",
    ) -> None:
        monkeypatch.chdir(folder)  # Scrapyd reads a scrapyd.conf that lies where it is started.
        config = Config(values={"dbs_dir": str(folder / "dbs"), "max_proc": "1"})
        config.cp.add_section("crawlctl")
        config.cp.set("crawlctl", "redis", "redis://nowhere:1/0")
        config.cp.set("crawlctl", "trusted_keys", trusted_keys)
        self.member = membership(config)
        monkeypatch.setattr(self.member, "ask", lambda work: succeed(work(SimpleNamespace(queue=self, crawls=self))))
        self._fails = {"settings": settings, "environment": environment}
        self.offers: list[Deferred[Claimed]] = []
        self.outcomes: list[str] = []
        self.gone: list[str] = []
        self.launcher = LeasedLauncher(config, self)
        self.launcher.startService()

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
        return pid > 0 and lease_s > 0

    def finish(self, _: JobId, __: Token, ending: Ending, *, lease_s: float) -> JobState:
        assert lease_s > 0
        self.outcomes.append(ending.state)
        return ending.state

    def release(self, worker: str, *, has_died: bool) -> bool:
        assert has_died
        self.gone.append(worker)
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
