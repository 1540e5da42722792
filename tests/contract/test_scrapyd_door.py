"""The door to Scrapyd's API: each method against a real Scrapyd and against a simulated one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.doors import host_of
from support.eggs import broken_egg, small_egg
from support.fleet import Fleet
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode
from support.waiting import wait_until

from toolkit.cluster.scrapyd import ScrapydNode as Door
from toolkit.model.errors import NodeRefusedError, NodeUnauthorizedError
from toolkit.model.hosts import Secret
from toolkit.model.jobs import Job, JobState
from toolkit.model.names import JobId, ProjectName, SpiderName, VersionName

SMALL, V1, V2 = ProjectName("small"), VersionName("v1"), VersionName("v2")
ALPHA = SpiderName("alpha")
EGG = small_egg(("beta", "alpha"))
SOON_S = 60.0


@pytest.fixture(scope="module", params=["real", "simulated"])
def door(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    username, password = TEST_CREDENTIALS
    if request.param == "simulated":
        with Fleet(nodes=1, username=username, password=password, job_s=60, slots=1) as fleet:
            yield Door(host_of(fleet.hosts[0], credentials=TEST_CREDENTIALS))
    else:
        folder = tmp_path_factory.mktemp("real")
        with ScrapydNode(folder, username=username, password=password, options={"max_proc": "1"}) as node:
            yield Door(host_of(node, credentials=TEST_CREDENTIALS))


@pytest.fixture
def holding(door: Door) -> Iterator[Door]:
    """Hold project `small` in version `v1`, with no job left behind."""
    door.upload(SMALL, V1, EGG)
    yield door
    for row in door.jobs():
        if not row.job.state.is_final:
            door.signal(row.job, "KILL")
    wait_until(lambda: door.load().running == 0, deadline_s=SOON_S, what="the jobs to end")
    for version in door.versions(SMALL):
        door.remove(SMALL, version)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScrapydNode]:
    with ScrapydNode(tmp_path_factory.mktemp("node"), username="crawler", password="let-me-in") as node:
        node.post("addversion.json", project="small", version="v1", files={"egg": EGG})
        yield node


@pytest.fixture
def real_door(real: ScrapydNode) -> Door:
    return Door(host_of(real, credentials=real.credentials))


def a_job(job_id: str, *, spider: SpiderName = ALPHA, **more: str) -> Job:
    return Job(JobId(job_id), SMALL, spider, JobState.PENDING, version=V1, args=more)


def test_an_empty_node_holds_and_runs_nothing(door: Door) -> None:
    load = door.load()
    assert (load.pending, load.running) == (0, 0)
    assert door.projects() == ()
    assert door.versions(SMALL) == ()
    assert door.state_of(JobId("none")) is None


def test_an_upload_is_seen_by_every_question_about_it(holding: Door) -> None:
    assert holding.upload(SMALL, V2, EGG) == 2
    assert holding.projects() == ("small",)
    assert holding.versions(SMALL) == ("v1", "v2")
    assert holding.spiders(SMALL, V1) == ("alpha", "beta")


def test_a_broken_egg_is_refused_and_stays(holding: Door) -> None:
    # The simulated node cannot import, so its egg is one that names no settings.
    with pytest.raises(NodeRefusedError):
        holding.upload(SMALL, V2, broken_egg() if holding.name == "node-1" else _zip_without_settings())
    assert "v2" in holding.versions(SMALL)


def test_what_is_no_egg_is_refused_in_scrapyds_words(holding: Door) -> None:
    with pytest.raises(NodeRefusedError, match="egg is not a ZIP file") as caught:
        holding.upload(SMALL, V2, b"no zip")
    assert (caught.value.node, caught.value.doing) == (holding.name, "addversion.json")


def test_a_removed_version_is_gone_and_removing_it_again_is_no_error(holding: Door) -> None:
    assert holding.remove(SMALL, V1)
    assert holding.versions(SMALL) == ()
    assert not holding.remove(SMALL, V1)


@pytest.mark.parametrize(("project", "version"), [("none", "v1"), ("small", "v9")])
def test_the_spiders_of_what_is_not_there_are_refused(holding: Door, project: str, version: str) -> None:
    with pytest.raises(NodeRefusedError, match="not found"):
        holding.spiders(ProjectName(project), VersionName(version))


def test_a_job_keeps_its_id_version_arguments_and_settings(holding: Door) -> None:
    holding.start(a_job("first", sleep_s="60", duration_s="60"))
    wait_until(lambda: holding.load().running, deadline_s=SOON_S, what="the first job to take the one slot")
    waiting = replace(a_job("second", note="Zürich & co=1", note2=""), settings={"LOG_LEVEL": "INFO", "A": "b=c"})
    holding.start(waiting)
    (row,) = (row.job for row in holding.jobs() if row.job.id == "second")
    assert (row.state, row.version, row.spider, row.node) == (JobState.PENDING, V1, ALPHA, holding.name)
    assert row.args is not None
    assert row.args["note"] == "Zürich & co=1"
    assert row.settings == {"LOG_LEVEL": "INFO", "A": "b=c"}


def test_a_job_is_pending_then_running_then_finished(holding: Door) -> None:
    holding.start(a_job("one", sleep_s="60", duration_s="60"))
    wait_until(lambda: holding.state_of(JobId("one")) is JobState.RUNNING, deadline_s=SOON_S, what="the job to run")
    holding.start(a_job("two"))
    assert holding.state_of(JobId("two")) is JobState.PENDING
    assert holding.signal(a_job("two"), "INT") is JobState.PENDING
    assert holding.state_of(JobId("two")) is None
    assert holding.signal(a_job("one"), "KILL") is JobState.RUNNING
    wait_until(lambda: holding.state_of(JobId("one")) is JobState.FINISHED, deadline_s=SOON_S, what="the job to end")
    (row,) = (row for row in holding.jobs() if row.job.id == "one")
    assert row.local_start is not None
    assert row.local_end is not None
    assert row.local_start <= row.local_end


def test_signalling_an_unknown_job_says_that_it_is_unknown(holding: Door) -> None:
    assert holding.signal(a_job("nobody"), "INT") is None


def test_a_spider_that_is_not_there_is_refused(holding: Door) -> None:
    with pytest.raises(NodeRefusedError, match="spider 'gamma' not found"):
        holding.start(a_job("one", spider=SpiderName("gamma")))


@pytest.mark.parametrize("credentials", [None, ("crawler", "wrong"), ("somebody", "let-me-in")])
def test_wrong_credentials_are_told_as_such(real: ScrapydNode, credentials: tuple[str, str] | None) -> None:
    door = Door(host_of(real, credentials=credentials))
    word = "it wants a username and password" if credentials is None else "wrong username or password"
    with pytest.raises(NodeUnauthorizedError, match=word):
        door.load()
    with pytest.raises(NodeUnauthorizedError, match=word):
        door.upload(SMALL, V2, EGG)
    with pytest.raises(NodeUnauthorizedError, match=word):
        door.log(a_job("any"))


@pytest.mark.parametrize("password", ["müde", "пароль", "a:b c%d", "日本"])
def test_a_password_may_hold_any_letters(tmp_path: Path, password: str) -> None:
    with ScrapydNode(tmp_path / "node", username="crawler", password=password) as node:
        door = Door(host_of(node, credentials=("crawler", password)))
        assert door.load().running == 0
        for text in (repr(door), repr(door.host), repr(door.transport), str(door.host), repr(vars(door))):
            assert password not in text


def test_no_error_and_no_repr_shows_the_password(real: ScrapydNode) -> None:
    door = Door(replace(host_of(real, credentials=("crawler", "hidden-word")), password=Secret("hidden-word")))
    with pytest.raises(NodeUnauthorizedError) as caught:
        door.load()
    assert "hidden-word" not in f"{caught.value!r} {caught.value} {door!r} {door.host!r} {door.transport!r}"


# Files of a job. The texts are laid into the node's own folders, as Scrapyd and its spiders write them.


@pytest.fixture
def log(real: ScrapydNode) -> Iterator[Path]:
    path = real.folder / "logs" / "small" / "alpha" / "files.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    yield path
    path.unlink(missing_ok=True)


def test_a_log_that_is_not_there_is_none(real_door: Door) -> None:
    assert real_door.log(a_job("files")) is None
    assert real_door.log_end(a_job("files"), most=10) is None
    assert real_door.items(a_job("files")) is None


def test_an_empty_log_is_empty(real_door: Door, log: Path) -> None:
    log.write_bytes(b"")
    for excerpt in (real_door.log(a_job("files")), real_door.log_end(a_job("files"), most=10)):
        assert excerpt is not None
        assert (excerpt.content, excerpt.size) == (b"", 0)


@pytest.mark.parametrize("most", [1, 9, 10, 11, 1000])
def test_the_end_of_a_log_is_as_long_as_asked_or_as_there_is(real_door: Door, log: Path, most: int) -> None:
    log.write_bytes(b"0123456789")
    excerpt = real_door.log_end(a_job("files"), most=most)
    assert excerpt is not None
    assert excerpt.content == b"0123456789"[-most:]
    assert (excerpt.begins_at, excerpt.size) == (max(0, 10 - most), 10)
    assert excerpt.written_at is not None


@pytest.mark.parametrize(("begin", "content"), [(0, b"0123"), (8, b"89"), (10, b""), (99, b"")])
def test_a_part_of_a_log_ends_where_the_log_ends(real_door: Door, log: Path, begin: int, content: bytes) -> None:
    log.write_bytes(b"0123456789")
    excerpt = real_door.log(a_job("files"), begin=begin, most=4)
    assert excerpt is not None
    assert excerpt.content == content
    assert excerpt.begins_at == begin


@pytest.mark.parametrize("name", ["a b", "100%", "a?b#c", "prüfung", "x;y=1", "a&b"])
def test_odd_names_reach_the_right_file(real: ScrapydNode, real_door: Door, name: str) -> None:
    path = real.folder / "logs" / "small" / name / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"the log of {name}")
    excerpt = real_door.log(a_job(name, spider=SpiderName(name)))
    assert excerpt is not None
    assert excerpt.content.decode() == f"the log of {name}"


@pytest.mark.parametrize("name", ["../../scrapyd", "..", "a/b"])
def test_a_name_leads_out_of_no_folder(real: ScrapydNode, real_door: Door, name: str) -> None:
    (real.folder / "scrapyd.log").touch()
    assert real_door.log(a_job(name, spider=SpiderName(".."))) is None


def _zip_without_settings() -> bytes:
    import io  # noqa: PLC0415 - used by one test
    import zipfile  # noqa: PLC0415 - used by one test

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as egg:
        egg.writestr("a.txt", "nothing")
    return buffer.getvalue()
