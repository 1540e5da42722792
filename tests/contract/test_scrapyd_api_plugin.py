"""What Scrapyd's API does on a plug-in node and not on a stock one: the truth about eggs, and the whole cluster."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import http_calls
from support.eggs import broken_egg, egg_of, small_egg
from support.plugin_node import PluginNode, away, shared_store
from support.redis_server import RedisServer
from support.scrapyd_node import TEST_CREDENTIALS
from support.stores import a_lock, a_release, a_rollout
from support.waiting import wait_until

from toolkit.model.names import ProjectName, SpiderName, VersionName, default_crawl
from toolkit.store.interfaces import Store

EGG, OTHER = small_egg(("alpha", "beta")), small_egg(("gamma",))
SOON_S = 60.0
MEGABYTE = 1_000_000
MAX_EGG_MB = 20
LISTING_TIMEOUT_S = 12
OWN = {"cluster": "plugin-api", "max_egg_mb": str(MAX_EGG_MB), "listing_timeout_s": str(LISTING_TIMEOUT_S)}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Iterator[list[PluginNode]]:
    """Two nodes of one cluster with one slot each."""
    folder = tmp_path_factory.mktemp("plugin")
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(PluginNode(folder / name, redis_url=redis_server.url, name=name, slots=1, own=OWN))
            for name in ("node-1", "node-2")
        ]


@pytest.fixture
def store(nodes: list[PluginNode], redis_server: RedisServer) -> Iterator[Store]:
    with shared_store(redis_server.url, nodes[0].folder, own=OWN) as opened:
        yield opened


@pytest.fixture
def node(nodes: list[PluginNode], request: pytest.FixtureRequest) -> Iterator[PluginNode]:
    """Give the first node; each test has a project of its own, named after it, which is gone afterwards."""
    yield nodes[0]
    for each in nodes:
        each.post("delproject.json", project=project_of(request))


@pytest.fixture
def project(request: pytest.FixtureRequest) -> str:
    return project_of(request)


def project_of(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).removeprefix("test_").partition("[")[0][:60]


def upload(node: PluginNode, project: str, version: str, egg: bytes, **fields: str) -> dict[str, Any]:
    answer: dict[str, Any] = node.post(
        "addversion.json", files={"egg": egg}, project=project, version=version, **fields
    )
    return answer


def eggs(node: PluginNode, project: str) -> list[str]:
    return sorted(path.name for path in (node.folder / "eggs" / project).glob("*"))


def make_active(store: Store, project: str, egg: bytes, spiders: tuple[str, ...], version: str = "v1") -> None:
    """Record and activate a release as a deploy does, without any node holding it."""
    name = ProjectName(project)
    release = replace(
        a_release(VersionName(version), project=name),
        digest=hashlib.sha256(egg).hexdigest(),
        spiders=tuple(map(SpiderName, spiders)),
    )
    lock = a_lock(store, name)
    store.releases.record(release, lock)
    store.releases.activate(a_rollout(release.version, project=name), lock, held_by=())
    store.releases.unlock(lock)


def incompressible_egg(size_bytes: int) -> bytes:
    """Return an egg of about that size, which is only its own data."""
    settings = 'BOT_NAME = "big"\nSPIDER_MODULES = ["big.spiders"]\n'
    data = "".join(chr(32 + byte % 90) for byte in os.urandom(1000))
    text = (os.urandom(size_bytes // 2).hex() + data)[: size_bytes * 2]
    return egg_of(
        {"__init__.py": "", "settings.py": settings, "spiders/__init__.py": "", "data.txt": text}, package="big"
    )


class Watch:
    """Watches, while work is done, how long the node takes to answer and how much memory of its own it has."""

    def __init__(self, node: PluginNode) -> None:
        self._node = node
        self._process = psutil.Process(node.pid)
        self._waits_s: list[float] = []
        self._took_s = 0.0
        self.memory_bytes = self.memory_before = self._own_bytes()

    def during(self, work: Callable[[], Any]) -> Any:
        began = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(work)
            while not done.done():
                begun = time.monotonic()
                assert self._node.get("daemonstatus.json")["status"] == "ok"
                self._waits_s.append(time.monotonic() - begun)
                self.memory_bytes = max(self.memory_bytes, self._own_bytes())
                time.sleep(0.01)
            self._took_s = time.monotonic() - began
            return done.result()

    @property
    def grown_bytes(self) -> int:
        return self.memory_bytes - self.memory_before

    @property
    def is_prompt(self) -> bool:
        """Answers took next to nothing, or little beside the work, at the median: a busy machine makes some wait."""
        return statistics.median(self._waits_s) < max(0.2, self._took_s / 20)

    @property
    def longest_wait_s(self) -> float:
        return max(self._waits_s)

    def _own_bytes(self) -> int:
        """Count what is nobody else's and no file's: an upload that is read where it lies is not in it."""
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("RssAnon"))


# --- eggs


@pytest.mark.parametrize("egg", [broken_egg(), b"no zip", egg_of({"__init__.py": ""}, package="small")])
def test_a_broken_egg_leaves_nothing_behind(node: PluginNode, project: str, egg: bytes) -> None:
    assert upload(node, project, "v1", egg)["status"] == "error"
    assert project not in node.get("listprojects.json")["projects"]
    assert not (node.folder / "eggs" / project).exists()
    upload(node, project, "v1", EGG)
    assert upload(node, project, "v1", egg)["status"] == "error"
    assert node.get("listspiders.json", project=project)["spiders"] == ["alpha", "beta"]
    assert eggs(node, project) == ["v1.egg"]


def test_a_hanging_egg_is_given_up_while_the_node_answers_others(node: PluginNode, project: str) -> None:
    hanging = egg_of(
        {
            "__init__.py": "",
            "settings.py": 'BOT_NAME = "small"\nSPIDER_MODULES = ["small.spiders"]\n',
            "spiders/__init__.py": "import time\ntime.sleep(600)\n",
        },
        package="small",
    )
    upload(node, project, "v1", EGG)
    watch = Watch(node)
    answer = watch.during(lambda: upload(node, project, "v2", hanging))
    assert (
        answer["message"] == f"RunnerError: listing its spiders took longer than {LISTING_TIMEOUT_S} s, and was ended"
    )
    assert watch.is_prompt
    assert watch.longest_wait_s < LISTING_TIMEOUT_S / 2
    assert eggs(node, project) == ["v1.egg"]


def test_the_digest_that_came_along_is_held_against_the_egg(node: PluginNode, project: str) -> None:
    digest = hashlib.sha256(EGG).hexdigest()
    wrong = upload(node, project, "v1", EGG, digest="0" * 64)
    assert wrong["message"].startswith(f"the egg that arrived has the digest {digest}")
    assert "64 hex digits" in upload(node, project, "v1", EGG, digest="none")["message"]
    assert eggs(node, project) == []
    assert upload(node, project, "v1", EGG, digest=digest)["status"] == "ok"
    body, kind = http_calls._multipart({"project": project, "version": "v2"}, {"egg": EGG})
    for said, status in (("0" * 64, "error"), (digest, "ok")):
        headers = {"Content-Type": kind, "X-Egg-Digest": said}
        url = f"{node.url}/addversion.json"
        answer = http_calls._ask(
            "POST", url, body=body, headers=headers, credentials=TEST_CREDENTIALS, timeout_s=SOON_S
        )
        assert answer.json()["status"] == status


def test_bytes_that_were_proven_before_are_not_listed_again(node: PluginNode, project: str, tmp_path: Path) -> None:
    listings = tmp_path / "listings"
    counting = egg_of(
        {
            "__init__.py": "",
            "settings.py": 'BOT_NAME = "small"\nSPIDER_MODULES = ["small.spiders"]\n',
            "spiders/__init__.py": f'with open({str(listings)!r}, "a") as file:\n    file.write("x")\n',
        },
        package="small",
    )
    for version in ("v1", "v1", "v2"):
        assert upload(node, project, version, counting)["spiders"] == 0
    assert listings.read_text() == "x"


def test_a_large_upload_takes_disk_and_not_memory(node: PluginNode, project: str) -> None:
    egg = incompressible_egg(15 * MEGABYTE)
    assert len(egg) > 10 * MEGABYTE
    watch = Watch(node)
    assert watch.during(lambda: upload(node, project, "v1", egg))["status"] == "ok"
    assert watch.grown_bytes < 10 * MEGABYTE
    assert watch.is_prompt
    assert (node.folder / "eggs" / project / "v1.egg").read_bytes() == egg


def test_an_upload_that_says_that_it_is_too_large_is_refused_before_it_is_sent(node: PluginNode) -> None:
    with socket.create_connection((node.address, node.port), timeout=SOON_S) as connection:
        connection.sendall(
            b"POST /addversion.json HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000000\r\n"
            b"Expect: 100-continue\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n"
        )
        head, _, body = connection.recv(65_536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"100 Continue" not in head
    assert json.loads(body) == {
        "status": "error",
        "message": f"the egg is too large: 3000.0 MB; this node takes {MAX_EGG_MB} MB (max_egg_mb)",
        "node_name": node.name,
    }


@pytest.mark.parametrize("credentials", [TEST_CREDENTIALS, None])
def test_an_upload_that_is_too_large_is_thrown_away_as_it_comes(
    node: PluginNode, project: str, credentials: tuple[str, str] | None
) -> None:
    watch = Watch(node)

    def send() -> http_calls.Answer:
        url, fields = f"{node.url}/addversion.json", {"project": project, "version": "v1"}
        return http_calls.post(url, fields, files={"egg": bytes(150 * MEGABYTE)}, credentials=credentials)

    answer = watch.during(send).json()
    assert answer["message"] == f"the egg is too large: 150.0 MB; this node takes {MAX_EGG_MB} MB (max_egg_mb)"
    assert watch.grown_bytes < 20 * MEGABYTE
    assert watch.is_prompt
    assert eggs(node, project) == []


def test_an_upload_that_hides_its_size_is_cut_off_at_the_limit(node: PluginNode) -> None:
    piece = b"%x\r\n" % MEGABYTE + bytes(MEGABYTE) + b"\r\n"
    with socket.create_connection((node.address, node.port), timeout=SOON_S) as connection:
        connection.sendall(
            b"POST /addversion.json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n\r\n"
        )
        for _ in range(MAX_EGG_MB + 5):
            connection.sendall(piece)
        assert b"the egg is too large" in connection.recv(65_536)


def test_an_egg_a_little_beyond_the_limit_is_refused_too(node: PluginNode, project: str) -> None:
    answer = upload(node, project, "v1", bytes(MAX_EGG_MB * MEGABYTE + 1000))
    assert "the egg is too large" in answer["message"]


def test_whoever_gives_no_credentials_gets_no_egg_in(node: PluginNode, project: str) -> None:
    url, fields = f"{node.url}/addversion.json", {"project": project, "version": "v1"}
    for egg in (EGG, incompressible_egg(2 * MEGABYTE)):
        assert http_calls.post(url, fields, files={"egg": egg}, credentials=None).status == 401
    assert eggs(node, project) == []


def test_a_form_that_breaks_off_is_refused(node: PluginNode) -> None:
    for size in (100, 200_000):
        answer = http_calls._ask(
            "POST",
            f"{node.url}/addversion.json",
            body=b"--x\r\n" + bytes(size),
            headers={"Content-Type": "multipart/form-data; boundary=x"},
            credentials=TEST_CREDENTIALS,
            timeout_s=SOON_S,
        )
        assert answer.json()["message"].startswith("the form cannot be read")


def test_the_bytes_of_a_release_are_not_replaced(node: PluginNode, project: str, store: Store) -> None:
    make_active(store, project, EGG, ("alpha", "beta"))
    refused = upload(node, project, "v1", OTHER)
    assert refused["message"] == (
        f"{project} v1 stays as it is: it is a release of the cluster, made of other bytes; "
        "give the new egg another version"
    )
    assert eggs(node, project) == []
    assert upload(node, project, "v1", EGG)["status"] == "ok"


def test_the_bytes_of_what_runs_are_not_replaced(node: PluginNode, project: str) -> None:
    upload(node, project, "v1", EGG)
    job = node.post("schedule.json", project=project, spider="alpha", sleep_s="60")["jobid"]
    wait_until(lambda: state(node, job) == "running", deadline_s=SOON_S, what="it to run")
    assert f"job {job} runs it" in upload(node, project, "v1", OTHER)["message"]
    end(node, project, job)
    wait_until(lambda: upload(node, project, "v1", OTHER)["status"] == "ok", deadline_s=SOON_S, what="it to be free")


def test_uploads_of_one_version_at_a_time_leave_one_that_is_whole(node: PluginNode, project: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda egg: upload(node, project, "v1", egg), [EGG, OTHER, EGG, OTHER]))
    assert any(answer["status"] == "ok" for answer in answers)
    spiders = node.get("listspiders.json", project=project)["spiders"]
    held = (node.folder / "eggs" / project / "v1.egg").read_bytes()
    assert (held, spiders) in [(EGG, ["alpha", "beta"]), (OTHER, ["gamma"])]
    assert eggs(node, project) == ["v1.egg"]


def test_a_version_that_an_uploader_gives_up_on_is_whole_or_not_there(node: PluginNode, project: str) -> None:
    with pytest.raises(TimeoutError):
        http_calls.post(
            f"{node.url}/addversion.json",
            {"project": project, "version": "v1"},
            files={"egg": EGG},
            credentials=TEST_CREDENTIALS,
            timeout_s=0.05,
        )
    wait_until(lambda: eggs(node, project) == ["v1.egg"], deadline_s=SOON_S, what="the upload to end")


def test_an_egg_brought_by_hand_is_proven_or_named_as_behind(nodes: list[PluginNode], project: str) -> None:
    node = nodes[1]
    folder = node.folder / "eggs" / project
    folder.mkdir(parents=True)
    (folder / "good.egg").write_bytes(EGG)
    (folder / "bad.egg").write_bytes(broken_egg())
    node.restart()

    def whole() -> Any:
        said = node.get("crawlctl.json")
        is_told = said["behind"].get(f"{project} bad", "").startswith("ModuleNotFoundError")
        return said if is_told and said["versions"].get(project) == ["good"] else None

    said = wait_until(whole, deadline_s=SOON_S, what="both to be looked at")
    assert said["behind"][f"{project} bad"].endswith("No module named 'a_module_that_is_not_there'")
    assert node.get("listspiders.json", project=project, _version="good")["spiders"] == ["alpha", "beta"]
    assert "a_module_that_is_not_there" in node.get("listspiders.json", project=project, _version="bad")["message"]
    assert node.post("delproject.json", project=project)["status"] == "ok"


def test_what_is_active_comes_to_every_node_by_itself(nodes: list[PluginNode], store: Store, project: str) -> None:
    assert store.shared is not None
    release = replace(
        a_release(VersionName("v1"), project=ProjectName(project)),
        digest=hashlib.sha256(EGG).hexdigest(),
    )
    store.shared.eggs.offer(release, EGG)
    for node in nodes:
        wait_until(
            lambda node=node: project in node.get("listprojects.json")["projects"],  # type: ignore[misc]
            deadline_s=SOON_S,
            what=f"{node.name} to fetch the egg",
        )
        assert node.get("listspiders.json", project=project)["spiders"] == ["alpha", "beta"]
    store.shared.eggs.withdraw(ProjectName(project), VersionName("v1"))


# --- jobs


def test_a_job_id_is_used_once(node: PluginNode, project: str) -> None:
    upload(node, project, "v1", EGG)
    for expected in ("ok", "error"):
        answer = node.post("schedule.json", project=project, spider="alpha", jobid=f"once-{project[:20]}")
        assert answer["status"] == expected
    assert "known" in answer["message"]
    # It is in nobody's way afterwards.
    wait_until(lambda: state(node, f"once-{project[:20]}") == "finished", deadline_s=SOON_S, what="it to end")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"jobid": "../../etc"}, "job id '../../etc' cannot be used"),
        ({"jobid": ""}, "job id '' cannot be used"),
        ({"note": "a\0b"}, "NUL byte"),
        ({"note": "x" * 200_000}, "longer than 100 kB"),
        ({"settings": "x"}, "would be read by Scrapyd itself"),
        ({"setting": "A=" + "x" * 200_000}, "longer than 100 kB"),
        ({"priority": "nan"}, "has no place in a queue"),
        ({"priority": "1e9"}, "out of range"),
    ],
)
def test_what_would_cost_a_slot_is_refused(node: PluginNode, project: str, fields: dict[str, str], words: str) -> None:
    upload(node, project, "v1", EGG)
    answer = node.post("schedule.json", files=None, project=project, spider="alpha", **fields)
    assert answer["status"] == "error"
    assert words in answer["message"]


def test_the_crawl_is_told_where_it_is_not_called_as_the_spider(node: PluginNode, project: str) -> None:
    upload(node, project, "v1", EGG)
    told = [
        node.post("schedule.json", project=project, spider="alpha", files=None, **fields).get("crawl")
        for fields in ({}, {"note": "x"}, {"note": "x", "setting": "FRONTIER_CRAWL=autumn"})
    ]
    assert told == [None, default_crawl("alpha", {"note": "x"}), "autumn"]


def test_a_job_without_a_version_runs_the_active_release_and_not_the_newest(
    node: PluginNode, project: str, store: Store
) -> None:
    upload(node, project, "v1", EGG)
    upload(node, project, "v2", OTHER)
    make_active(store, project, EGG, ("alpha", "beta"))
    assert node.post("schedule.json", project=project, spider="gamma")["message"] == "spider 'gamma' not found"
    job = node.post("schedule.json", project=project, spider="alpha")["jobid"]
    wait_until(lambda: state(node, job) == "finished", deadline_s=SOON_S, what="it to end")
    record = store.jobs.get(job)
    assert record is not None
    assert record.version == "v1"


def test_any_node_takes_a_job_for_a_project_that_only_another_holds(
    nodes: list[PluginNode], node: PluginNode, project: str, store: Store
) -> None:
    make_active(store, project, EGG, ("alpha", "beta"))
    assert project not in node.get("listprojects.json")["projects"]
    upload(nodes[1], project, "v1", EGG)
    job = node.post("schedule.json", project=project, spider="alpha", sleep_s="60")["jobid"]
    wait_until(lambda: state(node, job) == "running", deadline_s=SOON_S, what="it to run")
    (row,) = [row for row in node.get("listjobs.json", project=project)["running"] if row["id"] == job]
    assert (row["node"], row["log_url"]) == ("node-2", None)
    theirs = wait_until(
        lambda: nodes[1].get("listjobs.json", project=project)["running"][0]["log_url"],
        deadline_s=SOON_S,
        what="its log to be there",
    )
    assert theirs == f"/logs/{project}/alpha/{job}.log"
    first, second = (each.get("daemonstatus.json") for each in nodes[:2])
    assert (first["running"], second["running"]) == (1, 1)
    assert (first["running_here"], second["running_here"]) == (0, 1)
    assert first["cluster"] == second["cluster"]
    pid = wait_until(
        lambda: nodes[1].get("listjobs.json", project=project)["running"][0]["pid"],
        deadline_s=SOON_S,
        what="its process id to be known",
    )
    assert pid in nodes[1].spider_pids()
    assert node.post("cancel.json", project=project, job=job, signal="KILL")["prevstate"] == "running"
    wait_until(lambda: state(nodes[1], job) == "finished", deadline_s=SOON_S, what="it to end")
    # The node may have other processes, such as one that lists an egg.
    assert pid not in nodes[1].spider_pids()


# --- who may ask, and what is known when the store is away


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_a_page_of_another_site_changes_nothing(node: PluginNode, project: str, headers: dict[str, str]) -> None:
    upload(node, project, "v1", EGG)
    for endpoint in ("schedule", "delproject", "addversion", "cancel"):
        answer = http_calls._ask(
            "POST",
            f"{node.url}/{endpoint}.json",
            body=f"project={project}&spider=alpha&job=x".encode(),
            headers={"Content-Type": "application/x-www-form-urlencoded", **headers},
            credentials=TEST_CREDENTIALS,
            timeout_s=SOON_S,
        )
        assert answer.status == 403
        assert answer.json()["status"] == "error"
        assert "access-control-allow-origin" not in answer.headers
    assert eggs(node, project) == ["v1.egg"]


def test_a_node_says_who_it_is(node: PluginNode) -> None:
    said = node.get("crawlctl.json")
    assert (said["status"], said["node"], said["cluster"], said["slots"]) == ("ok", "node-1", "plugin-api", 1)
    assert said["plugin"]
    assert http_calls.get(f"{node.url}/crawlctl.json").status == 401


def test_while_redis_is_away_a_node_says_what_it_knows_and_claims_nothing_else(
    node: PluginNode, project: str, redis_server: RedisServer
) -> None:
    upload(node, project, "v1", EGG)
    job = node.post("schedule.json", project=project, spider="alpha", sleep_s="120", _version="v1")["jobid"]
    wait_until(lambda: state(node, job) == "running", deadline_s=SOON_S, what="it to run")
    # It alone holds the egg. A job that it has just taken has no process yet, which it would not know without Redis.
    wait_until(lambda: node.process_of(job), deadline_s=SOON_S, what="the job's process")
    with away(redis_server):
        status = node.get("daemonstatus.json")
        assert (status["status"], status["running"], status["running_here"]) == ("ok", 1, 1)
        assert "cluster" not in status
        assert "this is of this node alone" in status["note"]
        known = node.get("status.json", job=job)
        assert known["currstate"] == "running"
        assert "note" in known
        for answer in (
            node.get("listjobs.json"),
            node.get("status.json", job="another"),
            node.post("schedule.json", project=project, spider="alpha"),
            node.post("cancel.json", project=project, job=job),
        ):
            assert answer["status"] == "error"
            assert "Redis" in answer["message"] or "store" in answer["message"]
        assert node.get("listspiders.json", project=project)["spiders"] == ["alpha", "beta"]
        assert upload(node, project, "v2", EGG)["status"] == "ok"
        assert "who uses them cannot be told now" in upload(node, project, "v1", OTHER)["message"]
    wait_until(lambda: "note" not in node.get("daemonstatus.json"), deadline_s=SOON_S, what="Redis to be found again")
    end(node, project, job)


def test_a_redis_that_is_silent_keeps_nobody_waiting_for_long(node: PluginNode, redis_server: RedisServer) -> None:
    process = redis_server._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        begun = time.monotonic()
        assert "has not answered for 2 s" in node.get("daemonstatus.json")["note"]
        assert time.monotonic() - begun < 20
        assert node.get("listprojects.json")["status"] == "ok"
    finally:
        process.send_signal(signal.SIGCONT)
    wait_until(lambda: "note" not in node.get("daemonstatus.json"), deadline_s=SOON_S, what="Redis to be found again")


def state(node: PluginNode, job: str) -> str | None:
    found: str | None = node.get("status.json", job=job).get("currstate")
    return found


def end(node: PluginNode, project: str, job: str) -> None:
    wait_until(
        lambda: node.post("cancel.json", project=project, job=job, signal="KILL")["status"] == "ok",
        deadline_s=SOON_S,
        what="the cancel to be taken",
    )
    wait_until(lambda: state(node, job) == "finished", deadline_s=SOON_S, what=f"job {job} to end")
