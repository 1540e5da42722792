"""The simulated fleet is held to a real Scrapyd: every test here runs on both."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from support import http_calls
from support.eggs import small_egg
from support.fleet import Fleet
from support.http_calls import Answer
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode
from support.scrapyd_words import REFUSALS
from support.waiting import wait_until

EGG = small_egg(("alpha", "beta"))
SOON_S = 60.0


@dataclass(frozen=True)
class Target:
    """A node of either kind."""

    name: str
    url: str

    def get(self, endpoint: str, **fields: str) -> Answer:
        return http_calls.get(f"{self.url}/{endpoint}.json", fields, credentials=TEST_CREDENTIALS)

    def post(self, endpoint: str, egg: bytes | None = None, /, **fields: str) -> Answer:
        files = None if egg is None else {"egg": egg}
        return http_calls.post(f"{self.url}/{endpoint}.json", fields, files=files, credentials=TEST_CREDENTIALS)


@pytest.fixture(scope="module", params=["real", "simulated"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    username, password = TEST_CREDENTIALS
    if request.param == "simulated":
        with Fleet(nodes=2, username=username, password=password, job_s=30, slots=1) as fleet:
            yield Target("sim-002", fleet.urls[1])
    else:
        folder = tmp_path_factory.mktemp("real")
        options = {"max_proc": "1", "poll_interval": "0.1", "items_dir": ""}
        with ScrapydNode(folder, name="real-1", username=username, password=password, options=options) as node:
            yield Target(node.name, node.url)


@pytest.fixture
def small(target: Target) -> Iterator[Target]:
    """Hold project `small` in version `v1`, with nothing else on the node before or after."""
    answer = target.post("addversion", EGG, project="small", version="v1")
    assert answer.json()["status"] == "ok", answer.body
    yield target
    for job in _jobs(target, "pending") + _jobs(target, "running"):
        target.post("cancel", project="small", job=job["id"], signal="KILL")
    wait_until(lambda: not _jobs(target, "running"), deadline_s=SOON_S, what="the jobs to end")
    target.post("delproject", project="small")


def test_an_answer_is_one_line_of_json_with_scrapyds_headers(target: Target) -> None:
    answer = target.get("daemonstatus")
    assert answer.status == 200
    assert answer.body.startswith(b'{"pending": ')
    assert answer.body.endswith(b', "status": "ok", "node_name": "%s"}\n' % target.name.encode())
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["content-length"] == str(len(answer.body))


def test_an_empty_node_has_nothing(target: Target) -> None:
    assert target.get("listprojects").json() == _ok(target, projects=[])
    assert target.get("listversions", project="none").json() == _ok(target, versions=[])
    assert _jobs(target, "pending") == []


@pytest.mark.parametrize("credentials", [None, ("crawler", "wrong"), ("someone", "let-me-in")])
def test_wrong_credentials_are_refused_before_anything_else(target: Target, credentials: tuple[str, str]) -> None:
    for endpoint in ("daemonstatus.json", "no-such-page"):
        answer = http_calls.get(f"{target.url}/{endpoint}", credentials=credentials)
        assert (answer.status, answer.body) == (401, b"Unauthorized")
        assert answer.headers["www-authenticate"] == 'basic realm="Scrapyd"'


def test_an_unknown_page_is_html_with_404(target: Target) -> None:
    answer = target.get("nothing")
    assert answer.status == 404
    assert answer.headers["content-type"].startswith("text/html")


def test_every_refusal_is_a_200_with_scrapyds_own_words(small: Target) -> None:
    for method, endpoint, fields, message in REFUSALS:
        answer = small.get(endpoint, **fields) if method == "GET" else small.post(endpoint, **fields)
        assert answer.status == 200
        assert answer.json() == {"status": "error", "message": message, "node_name": small.name}, (endpoint, fields)


def test_an_upload_is_listed_with_its_spiders(small: Target) -> None:
    assert small.post("addversion", EGG, project="small", version="v1").json() == _ok(
        small, project="small", version="v1", spiders=2
    )
    assert small.get("listprojects").json() == _ok(small, projects=["small"])
    assert small.get("listversions", project="small").json() == _ok(small, versions=["v1"])
    assert small.get("listspiders", project="small", _version="v1").json() == _ok(small, spiders=["alpha", "beta"])
    assert small.get("listspiders", project="small").json() == _ok(small, spiders=["alpha", "beta"])


def test_version_names_are_mangled_and_sorted_as_scrapyd_does(small: Target) -> None:
    for version in ("r10", "r9", "1.10", "1.9"):
        assert small.post("addversion", EGG, project="small", version=version).json()["version"] == version
    versions = small.get("listversions", project="small").json()["versions"]
    assert versions == ["1_10", "1_9", "r10", "r9", "v1"]


def test_a_version_is_deleted_and_the_project_with_its_last_one(small: Target) -> None:
    small.post("addversion", EGG, project="small", version="v2")
    assert small.post("delversion", project="small", version="v1").json() == _ok(small)
    assert small.get("listversions", project="small").json()["versions"] == ["v2"]
    assert small.post("delversion", project="small", version="v2").json() == _ok(small)
    assert small.get("listprojects").json()["projects"] == []


def test_what_is_no_zip_is_refused_and_not_kept(target: Target) -> None:
    answer = target.post("addversion", b"not a zip", project="small", version="v1").json()
    assert answer["message"] == "egg is not a ZIP file (if using curl, use egg=@path not egg=path)"
    assert target.get("listprojects").json()["projects"] == []


def test_an_egg_that_cannot_be_run_is_refused_and_kept(target: Target) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as egg:
        egg.writestr("readme", "nothing to run")
    answer = target.post("addversion", buffer.getvalue(), project="hollow", version="v1").json()
    assert answer["status"] == "error"
    assert answer["message"].startswith("RunnerError: ")
    assert "BadEggError" in answer["message"]
    assert target.get("listversions", project="hollow").json()["versions"] == ["v1"]
    assert target.post("schedule", project="hollow", spider="alpha").json()["status"] == "error"
    assert target.post("delproject", project="hollow").json() == _ok(target)


def test_a_scheduled_job_gets_an_id_or_keeps_its_own(small: Target) -> None:
    made = small.post("schedule", project="small", spider="alpha", sleep_s="30").json()
    assert re.fullmatch(r"[0-9a-f]{32}", made.pop("jobid"))
    assert made == _ok(small)
    given = small.post("schedule", project="small", spider="alpha", jobid="mine", sleep_s="30", _version="v1")
    assert given.json() == _ok(small, jobid="mine")


def test_jobs_are_listed_in_their_states_with_the_same_fields(small: Target) -> None:
    small.post("schedule", project="small", spider="alpha", jobid="first", sleep_s="30")
    wait_until(lambda: _jobs(small, "running"), deadline_s=SOON_S, what="the first job to run")
    extra = {"setting": "DOWNLOAD_DELAY=2", "note": "später", "priority": "5"}
    small.post("schedule", project="small", spider="beta", jobid="second", _version="v1", **extra)
    (waiting,) = _jobs(small, "pending")
    assert waiting == {
        "id": "second",
        "project": "small",
        "spider": "beta",
        "version": "v1",
        "settings": {"DOWNLOAD_DELAY": "2"},
        "args": {"note": "später"},
    }
    (running,) = _jobs(small, "running")
    assert list(running) == ["id", "project", "spider", "pid", "start_time", "log_url", "items_url"]
    assert (running["id"], running["items_url"]) == ("first", None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", running["start_time"])
    counts = small.get("daemonstatus").json()
    assert (counts["pending"], counts["running"]) == (1, 1)
    states = {job: small.get("status", job=job).json()["currstate"] for job in ("first", "second", "third")}
    assert states == {"first": "running", "second": "pending", "third": None}


def test_of_two_waiting_jobs_the_more_urgent_one_is_listed_first(small: Target) -> None:
    small.post("schedule", project="small", spider="alpha", jobid="busy", sleep_s="30")
    wait_until(lambda: _jobs(small, "running"), deadline_s=SOON_S, what="the node to be busy")
    for job, priority in (("low", "0"), ("high", "2"), ("middle", "1")):
        small.post("schedule", project="small", spider="alpha", jobid=job, priority=priority)
    assert [job["id"] for job in _jobs(small, "pending")] == ["high", "middle", "low"]


def test_a_cancelled_pending_job_is_gone_without_a_trace(small: Target) -> None:
    small.post("schedule", project="small", spider="alpha", jobid="busy", sleep_s="30")
    wait_until(lambda: _jobs(small, "running"), deadline_s=SOON_S, what="the node to be busy")
    small.post("schedule", project="small", spider="alpha", jobid="waiting")
    assert small.post("cancel", project="small", job="waiting").json() == _ok(small, prevstate="pending")
    assert small.get("status", job="waiting").json() == _ok(small, currstate=None)


def test_a_cancelled_running_job_ends_as_finished(small: Target) -> None:
    small.post("schedule", project="small", spider="alpha", jobid="cut short", sleep_s="30")
    wait_until(lambda: _jobs(small, "running"), deadline_s=SOON_S, what="the job to run")
    assert small.post("cancel", project="small", job="cut short", signal="KILL").json() == _ok(
        small, prevstate="running"
    )
    ended = wait_until(
        lambda: [job for job in _jobs(small, "finished") if job["id"] == "cut short"], deadline_s=SOON_S, what="its end"
    )
    assert list(ended[0]) == ["id", "project", "spider", "start_time", "end_time", "log_url", "items_url"]
    assert small.get("status", job="cut short", project="small").json() == _ok(small, currstate="finished")


def test_cancelling_an_unknown_job_is_no_error(small: Target) -> None:
    assert small.post("cancel", project="small", job="never was").json() == _ok(small, prevstate=None)


def test_an_unknown_signal_is_refused(small: Target) -> None:
    small.post("schedule", project="small", spider="alpha", jobid="stays", sleep_s="30")
    wait_until(lambda: _jobs(small, "running"), deadline_s=SOON_S, what="the job to run")
    answer = small.post("cancel", project="small", job="stays", signal="LOUD").json()
    assert answer["message"] == "TypeError: 'str' object cannot be interpreted as an integer"
    assert small.get("status", job="stays").json()["currstate"] == "running"


def _ok(target: Target, **fields: Any) -> dict[str, Any]:
    return {**fields, "status": "ok", "node_name": target.name}


def _jobs(target: Target, state: str) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = target.get("listjobs").json()[state]
    return jobs
