"""Scrapyd's JSON API, held by a stock node and by a node with the plug-in: every test here runs on both.

Where the two differ on purpose, the test says how; what only a plug-in node does is in `test_scrapyd_api_plugin.py`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scrapyd_api import ScrapydAPI
from scrapyd_client import ScrapydClient
from scrapyd_client.exceptions import ErrorResponse
from support import http_calls
from support.eggs import broken_egg, small_egg
from support.http_calls import Answer
from support.plugin_node import PluginNode
from support.processes import quiet_environment
from support.redis_server import RedisServer
from support.scrapy_projects import write_project
from support.scrapyd_node import TEST_CREDENTIALS, ScrapydNode
from support.scrapyd_words import REFUSALS
from support.waiting import wait_until

EGG = small_egg(("alpha", "beta"))
OPTIONS = {"max_proc": "1", "poll_interval": "0.1"}
SOON_S = 60.0


@dataclass(frozen=True)
class Target:
    """A node of either kind, with one slot."""

    node: ScrapydNode
    is_plugin: bool

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def url(self) -> str:
        return self.node.url

    def get(self, endpoint: str, **fields: str) -> Answer:
        return http_calls.get(f"{self.url}/{endpoint}.json", fields, credentials=TEST_CREDENTIALS)

    def post(self, endpoint: str, egg: bytes | None = None, /, **fields: str) -> Answer:
        files = None if egg is None else {"egg": egg}
        return http_calls.post(f"{self.url}/{endpoint}.json", fields, files=files, credentials=TEST_CREDENTIALS)

    def page(self, path: str) -> Answer:
        return http_calls.get(f"{self.url}/{path}", credentials=TEST_CREDENTIALS)

    def jobs(self, state: str) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = self.get("listjobs").json()[state]
        return jobs

    def wait_for(self, state: str, job: str) -> dict[str, Any]:
        def there() -> list[dict[str, Any]]:
            return [each for each in self.jobs(state) if each["id"] == job]

        return wait_until(there, deadline_s=SOON_S, what=f"job {job} to be {state}")[0]

    def ok(self, **fields: Any) -> dict[str, Any]:
        return {**fields, "status": "ok", "node_name": self.name}


@pytest.fixture(scope="module", params=["stock", "plugin"])
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer
) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp(request.param)
    user, secret = TEST_CREDENTIALS
    if request.param == "stock":
        with ScrapydNode(folder, name="stock-1", username=user, password=secret, options=OPTIONS) as node:
            yield Target(node, is_plugin=False)
    else:
        own = {"cluster": "api"}
        with PluginNode(
            folder, redis_url=redis_server.url, name="plugin-1", slots=1, own=own, options=OPTIONS
        ) as plugin:
            yield Target(plugin, is_plugin=True)


@pytest.fixture
def small(target: Target) -> Iterator[Target]:
    """Hold project `small` in version `v1`, with nothing else on the node before or after."""
    answer = target.post("addversion", EGG, project="small", version="v1")
    assert answer.json()["status"] == "ok", answer.body
    yield target
    for job in target.jobs("pending") + target.jobs("running"):
        target.post("cancel", project="small", job=job["id"], signal="KILL")
    wait_until(lambda: not target.jobs("running"), deadline_s=SOON_S, what="the jobs to end")
    for project in target.get("listprojects").json()["projects"]:
        target.post("delproject", project=project)


# --- answers


def test_an_answer_is_one_line_of_json(target: Target) -> None:
    answer = target.get("daemonstatus")
    assert answer.status == 200
    assert answer.body.startswith(b'{"pending": ')
    assert answer.body.endswith(b', "status": "ok", "node_name": "%s"}\n' % target.name.encode())
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"] == str(len(answer.body))


def test_a_plugin_node_does_not_let_every_web_page_read_its_answers(target: Target) -> None:
    allowed = target.get("daemonstatus").headers.get("access-control-allow-origin")
    assert allowed == (None if target.is_plugin else "*")


def test_an_empty_node_has_nothing(target: Target) -> None:
    assert target.get("listprojects").json() == target.ok(projects=[])
    assert target.get("listversions", project="none").json() == target.ok(versions=[])
    assert target.jobs("pending") == target.jobs("running") == []


@pytest.mark.parametrize("credentials", [None, ("crawler", "wrong"), ("someone", "let-me-in")])
def test_wrong_credentials_are_refused_before_anything_else(
    target: Target, credentials: tuple[str, str] | None
) -> None:
    for endpoint in ("daemonstatus.json", "jobs", "no-such-page"):
        answer = http_calls.get(f"{target.url}/{endpoint}", credentials=credentials)
        assert (answer.status, answer.body) == (401, b"Unauthorized")
        assert answer.headers["www-authenticate"] == 'basic realm="Scrapyd"'


def test_an_unknown_page_is_html_with_404(target: Target) -> None:
    answer = target.get("nothing")
    assert answer.status == 404
    assert answer.headers["content-type"].startswith("text/html")


def test_methods_are_told_to_whoever_asks_for_them(target: Target) -> None:
    for endpoint, methods in (("schedule", "OPTIONS, HEAD, POST"), ("listjobs", "OPTIONS, HEAD, GET")):
        answer = http_calls._ask("OPTIONS", f"{target.url}/{endpoint}.json", credentials=TEST_CREDENTIALS, timeout_s=30)
        assert (answer.status, answer.body, answer.headers["allow"]) == (204, b"", methods)


def test_head_is_answered_without_a_body(target: Target) -> None:
    answer = http_calls._ask("HEAD", f"{target.url}/daemonstatus.json", credentials=TEST_CREDENTIALS, timeout_s=30)
    assert (answer.status, answer.body) == (200, b"")


FURTHER_REFUSALS: list[tuple[str, str, Mapping[str, str], str]] = [
    (
        "POST",
        "addversion",
        {"project": "small", "version": "v1", "egg": "text"},
        "egg is not a ZIP file (if using curl, use egg=@path not egg=path)",
    ),
    ("POST", "delproject", {"project": "../eggs"}, "DirectoryTraversalError: ../eggs"),
    ("GET", "listversions", {"project": "../eggs"}, "DirectoryTraversalError: ../eggs"),
    ("POST", "schedule", {"project": "none", "spider": "alpha", "_version": "v1"}, "project 'none' not found"),
]


def test_every_refusal_is_a_200_with_scrapyds_own_words(small: Target) -> None:
    for method, endpoint, fields, message in [*REFUSALS, *FURTHER_REFUSALS]:
        answer = small.get(endpoint, **fields) if method == "GET" else small.post(endpoint, **fields)
        assert answer.status == 200
        assert answer.json() == {"status": "error", "message": message, "node_name": small.name}, (endpoint, fields)
    assert small.jobs("pending") == small.jobs("running") == []


# --- eggs


def test_an_upload_is_listed_with_its_spiders(small: Target) -> None:
    again = small.post("addversion", EGG, project="small", version="v1").json()
    assert again == small.ok(project="small", version="v1", spiders=2)
    assert small.get("listprojects").json() == small.ok(projects=["small"])
    assert small.get("listversions", project="small").json() == small.ok(versions=["v1"])
    assert small.get("listspiders", project="small", _version="v1").json() == small.ok(spiders=["alpha", "beta"])
    assert small.get("listspiders", project="small").json() == small.ok(spiders=["alpha", "beta"])


def test_version_names_are_mangled_and_sorted_as_scrapyd_does(small: Target) -> None:
    for version in ("r10", "r9", "1.10", "1.9"):
        assert small.post("addversion", EGG, project="small", version=version).json()["version"] == version
    assert small.get("listversions", project="small").json()["versions"] == ["1_10", "1_9", "r10", "r9", "v1"]
    for name in ("1.10", "1_10"):
        assert small.get("listspiders", project="small", _version=name).json()["spiders"] == ["alpha", "beta"]


def test_the_newest_version_is_the_one_that_is_listed_and_run(small: Target) -> None:
    small.post("addversion", small_egg(("newer",)), project="small", version="v2")
    assert small.get("listspiders", project="small").json()["spiders"] == ["newer"]
    assert small.post("schedule", project="small", spider="newer", jobid="of-v2").json()["status"] == "ok"
    assert small.post("schedule", project="small", spider="alpha").json()["message"] == "spider 'alpha' not found"
    small.wait_for("finished", "of-v2")


def test_other_bytes_under_the_same_version_take_its_place(small: Target) -> None:
    answer = small.post("addversion", small_egg(("gamma",)), project="small", version="v1").json()
    assert answer == small.ok(project="small", version="v1", spiders=1)
    assert small.get("listspiders", project="small").json()["spiders"] == ["gamma"]


def test_a_version_is_deleted_and_the_project_with_its_last_one(small: Target) -> None:
    small.post("addversion", EGG, project="small", version="v2")
    assert small.post("delversion", project="small", version="v1").json() == small.ok()
    assert small.get("listversions", project="small").json()["versions"] == ["v2"]
    assert small.post("delversion", project="small", version="v2").json() == small.ok()
    assert small.get("listprojects").json()["projects"] == []


def test_an_egg_that_cannot_be_run_is_refused_with_its_traceback(small: Target) -> None:
    answer = small.post("addversion", broken_egg(), project="hollow", version="v1").json()
    assert answer["status"] == "error"
    assert answer["message"].startswith("RunnerError: ")
    assert "No module named 'a_module_that_is_not_there'" in answer["message"]
    assert small.post("schedule", project="hollow", spider="alpha").json()["status"] == "error"
    # A stock node keeps what it refused.
    versions = small.get("listversions", project="hollow").json()["versions"]
    assert versions == ([] if small.is_plugin else ["v1"])


# --- jobs


def test_a_scheduled_job_gets_an_id_or_keeps_its_own(small: Target) -> None:
    made = small.post("schedule", project="small", spider="alpha", sleep_s="30").json()
    assert re.fullmatch(r"[0-9a-f]{32}", made.pop("jobid"))
    # A plug-in node adds which crawl the job joins where it has arguments.
    assert re.fullmatch(r"alpha:[0-9a-f]{8}" if small.is_plugin else "none", made.pop("crawl", "none"))
    assert made == small.ok()
    given = small.post("schedule", project="small", spider="alpha", jobid="mine", _version="v1")
    assert given.json() == small.ok(jobid="mine")


def test_a_form_with_parts_is_read_like_any_other(small: Target) -> None:
    answer = http_calls.post(
        f"{small.url}/schedule.json",
        {"project": "small", "spider": "alpha", "jobid": "by-curl"},
        files={"note": b"x" * 99_000, "another": b"y" * 99_000},
        credentials=TEST_CREDENTIALS,
    )
    told = answer.json()
    told.pop("crawl", None)
    assert told == small.ok(jobid="by-curl")


def test_jobs_are_listed_in_their_states_with_the_same_fields(small: Target) -> None:
    small.post("schedule", project="small", spider="alpha", jobid="first", sleep_s="30")
    running = small.wait_for("running", "first")
    extra = {"setting": "DOWNLOAD_DELAY=2", "note": "später", "priority": "5"}
    small.post("schedule", project="small", spider="beta", jobid="second", _version="v1", **extra)
    (waiting,) = small.jobs("pending")
    assert waiting == {
        "id": "second",
        "project": "small",
        "spider": "beta",
        "version": "v1",
        "settings": {"DOWNLOAD_DELAY": "2"},
        "args": {"note": "später"},
    }
    added = ["node", "state"] if small.is_plugin else []
    assert list(running) == ["id", "project", "spider", "pid", "start_time", "log_url", "items_url", *added]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", running["start_time"])
    wait_until(lambda: small.jobs("running")[0]["pid"], deadline_s=SOON_S, what="its process id to be known")
    counts = small.get("daemonstatus").json()
    assert (counts["pending"], counts["running"]) == (1, 1)
    states = {job: small.get("status", job=job).json()["currstate"] for job in ("first", "second", "third")}
    assert states == {"first": "running", "second": "pending", "third": None}
    assert small.get("status", job="first", project="small").json() == small.ok(currstate="running")
    assert [job["id"] for job in small.get("listjobs", project="small").json()["running"]] == ["first"]


def test_an_ended_job_has_a_log_and_items_with_its_arguments_and_settings_heeded(small: Target) -> None:
    small.post("schedule", project="small", spider="beta", jobid="ends", note="größer = a,b", setting="BOT_NAME=mine")
    ended = small.wait_for("finished", "ends")
    added = ["node", "state"] if small.is_plugin else []
    assert list(ended) == ["id", "project", "spider", "start_time", "end_time", "log_url", "items_url", *added]
    assert ended["start_time"] < ended["end_time"]
    log = small.page(ended["log_url"].lstrip("/"))
    assert b"(bot: mine)" in log.body
    (item,) = small.page(ended["items_url"].lstrip("/")).body.splitlines()
    assert json.loads(item) == {"spider": "beta", "note": "größer = a,b"}
    assert small.get("status", job="ends").json() == small.ok(currstate="finished")


def test_of_two_waiting_jobs_the_more_urgent_one_is_listed_first(small: Target) -> None:
    small.post("schedule", project="small", spider="alpha", jobid="busy-now", sleep_s="30")
    small.wait_for("running", "busy-now")
    for job, priority in (("low", "0"), ("high", "2"), ("middle", "1.5")):
        small.post("schedule", project="small", spider="alpha", jobid=job, priority=priority)
    assert [job["id"] for job in small.jobs("pending")] == ["high", "middle", "low"]


def test_a_cancelled_pending_job_is_gone_without_a_trace(small: Target) -> None:
    small.post("schedule", project="small", spider="alpha", jobid="busy-then", sleep_s="30")
    small.wait_for("running", "busy-then")
    small.post("schedule", project="small", spider="alpha", jobid="waiting")
    assert small.post("cancel", project="small", job="waiting").json() == small.ok(prevstate="pending")
    assert small.get("status", job="waiting").json() == small.ok(currstate=None)
    assert small.post("cancel", project="small", job="waiting").json() == small.ok(prevstate=None)
    assert "waiting" not in {job["id"] for state in ("pending", "finished") for job in small.jobs(state)}


@pytest.mark.parametrize("signal", [{}, {"signal": "TERM"}, {"signal": "KILL"}, {"signal": "9"}])
def test_a_cancelled_running_job_ends_as_finished(small: Target, signal: dict[str, str]) -> None:
    job = "cut-" + "".join(signal.values())
    small.post("schedule", project="small", spider="alpha", jobid=job, sleep_s="60")
    log = wait_until(lambda: small.wait_for("running", job)["log_url"], deadline_s=SOON_S, what="its log")
    wait_until(lambda: b"Spider opened" in small.page(log.lstrip("/")).body, deadline_s=SOON_S, what="it to be at work")
    assert small.post("cancel", project="small", job=job, **signal).json() == small.ok(prevstate="running")
    small.wait_for("finished", job)
    assert small.get("status", job=job, project="small").json() == small.ok(currstate="finished")


def test_cancelling_an_unknown_job_is_no_error(small: Target) -> None:
    assert small.post("cancel", project="small", job="never-was").json() == small.ok(prevstate=None)


def test_an_unknown_signal_is_refused(small: Target) -> None:
    small.post("schedule", project="small", spider="alpha", jobid="stays", sleep_s="30")
    small.wait_for("running", "stays")
    assert small.post("cancel", project="small", job="stays", signal="LOUD").json()["status"] == "error"
    assert small.get("status", job="stays").json()["currstate"] == "running"


# --- clients


def test_python_scrapyd_api_works_unmodified(small: Target) -> None:
    api = ScrapydAPI(small.url, auth=TEST_CREDENTIALS)
    assert api.add_version("other", "v1", EGG) == 2
    assert sorted(api.list_projects()) == ["other", "small"]
    assert api.list_versions("other") == ["v1"]
    assert api.list_spiders("other") == ["alpha", "beta"]
    job = api.schedule("small", "alpha", settings={"LOG_LEVEL": "INFO"}, sleep_s="60", _version="v1")
    small.wait_for("running", job)
    assert api.job_status("small", job) == "running"
    assert [each["id"] for each in api.list_jobs("small")["running"]] == [job]
    assert api.cancel("small", job, signal="KILL") == "running"
    wait_until(lambda: api.job_status("small", job) == "finished", deadline_s=SOON_S, what="it to end")
    assert api.delete_version("other", "v1") is True
    assert api.delete_project("small") is True
    assert api.list_projects() == []


def test_scrapyd_client_works_unmodified(small: Target) -> None:
    user, secret = TEST_CREDENTIALS
    client = ScrapydClient(url=small.url, username=user, password=secret)
    assert client.projects("sm*") == ["small"]
    assert client.versions("small") == ["v1"]
    assert client.spiders("small", "a*") == ["alpha"]
    job = client.schedule("small", "alpha", args=[("sleep_s", "60"), ("setting", "LOG_LEVEL=INFO")])
    small.wait_for("running", job)
    assert client.status(job)["currstate"] == client.status(job, "small")["currstate"] == "running"
    assert client.jobs("small")["running"][0]["id"] == job
    assert client.daemonstatus()["running"] == 1
    assert client.cancel("small", job)["prevstate"] == "running"
    wait_until(lambda: client.status(job)["currstate"] == "finished", deadline_s=SOON_S, what="it to end")
    with pytest.raises(ErrorResponse, match="spider 'none' not found"):
        client.schedule("small", "none")
    assert client.delversion("small", "v1")["status"] == "ok"
    with pytest.raises(ErrorResponse, match="project 'small' not found"):
        client.delproject("small")


def test_scrapyd_deploy_works_unmodified(small: Target, tmp_path: Path) -> None:
    write_project(tmp_path)
    user, secret = TEST_CREDENTIALS
    (tmp_path / "scrapy.cfg").write_text(
        "[settings]\ndefault = shop.settings\n"
        f"[deploy:it]\nurl = {small.url}/\nproject = shop\nusername = {user}\npassword = {secret}\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "scrapyd_client.deploy", "it", "--version", "20261120"],
        cwd=tmp_path,
        env=quiet_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"status": "ok"' in done.stdout
    assert small.get("listspiders", project="shop", _version="20261120").json()["spiders"] == ["books"]


# --- pages


def test_the_pages_for_people_show_the_jobs(small: Target) -> None:
    small.post("schedule", project="small", spider="alpha", jobid="shown-running", sleep_s="30")
    small.wait_for("running", "shown-running")
    small.post("schedule", project="small", spider="beta", jobid="shown-waiting")
    assert b"small" in small.page("").body

    def page() -> bytes:
        return small.page("jobs").body

    wait_until(lambda: b"shown-waiting" in page(), deadline_s=SOON_S, what="the waiting job to be shown")
    assert b"shown-running" in page()
    assert b'action="/cancel.json"' in page()
    small.post("cancel", project="small", job="shown-running", signal="KILL")
    small.wait_for("finished", "shown-waiting")
    wait_until(lambda: page().count(b"shown-") >= 4, deadline_s=SOON_S, what="both to be shown as ended")
    assert b"alpha" in small.page("logs/small/").body


def test_the_pages_own_cancel_button_is_obeyed(small: Target) -> None:
    small.post("schedule", project="small", spider="alpha", jobid="pressed", sleep_s="60")
    small.wait_for("running", "pressed")
    answer = http_calls._ask(
        "POST",
        f"{small.url}/cancel.json",
        body=b"project=small&job=pressed",
        headers={"Content-Type": "application/x-www-form-urlencoded", "Origin": small.url},
        credentials=TEST_CREDENTIALS,
        timeout_s=30,
    )
    assert answer.json() == small.ok(prevstate="running")
    begun = time.monotonic()
    small.wait_for("finished", "pressed")
    assert time.monotonic() - begun < SOON_S
