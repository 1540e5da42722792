"""The HTTP API on a real Redis: it keeps to its own OpenAPI whatever it is asked, and acts as the command line does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from jsonschema import Draft202012Validator
from support.crawl_desk import crawl_desk
from support.plugged_node import PluggedNode
from support.processes import quiet_environment
from support.queue_desk import QueueDesk, a_pending_job, queue_desk
from support.redis_server import RedisServer
from support.stores import SHOP, V1, V2, a_lock, a_release, a_rollout
from support.waiting import wait_until
from support.web_server import WebServer, form_token, web_server

from toolkit.cluster.crons import define
from toolkit.model.crons import Cron
from toolkit.model.jobs import JobState
from toolkit.model.names import NodeName, SpiderName

SOON_S = 60.0
CHECKS = ",".join(
    [
        *("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance"),
        *("response_schema_conformance", "negative_data_rejection", "missing_required_header", "unsupported_method"),
        *("allow_header_conformance", "ensure_resource_availability", "ignored_auth"),
    ]
)
"""All but what a schema cannot know (whether a valid text is a domain, or a cron's expression) and what needs links."""


@pytest.fixture
def desk(redis_server: RedisServer, redis_url: str, tmp_path: Path) -> Iterator[QueueDesk]:
    """Give a cluster with two releases, a crawl, a cron, and a node that runs jobs until they are cancelled."""
    assert redis_server.is_running
    with queue_desk(redis_url, tmp_path / "state") as desk, crawl_desk(redis_url, tmp_path / "crawl") as crawl:
        lock = a_lock(desk.store)
        for number, version in enumerate((V2, V1)):
            desk.store.releases.record(a_release(version, digest=f"{number}a"), lock)
            desk.store.releases.activate(a_rollout(version, minutes=number), lock, held_by=[NodeName("node-1")])
        desk.store.releases.unlock(lock)
        worker = crawl.worker()
        worker.push("https://example.com/1")
        worker.leave()
        define(desk.shared, [Cron("nightly", SpiderName("books"), at="30 3 * * *")], by="ann", now=desk.store.now())
        with PluggedNode(desk.store, "node-1", claims=True, versions={SHOP: (V1, V2)}):
            yield desk


@pytest.fixture
def web(desk: QueueDesk, tmp_path: Path) -> Iterator[WebServer]:
    """Serve the pages of that cluster."""
    with web_server(tmp_path / "web", lambda: desk.store) as web:
        yield web


@pytest.mark.timeout(450)
def test_the_api_keeps_to_its_own_description_whatever_it_is_asked(
    web: WebServer, desk: QueueDesk, tmp_path: Path
) -> None:
    desk.queue.add([a_pending_job("f8f534d7f591a4cb", on=["node-9"])])
    known = {"job": "f8f534d7f591a4cb", "node": "node-1", "project": "shop", "crawl": "books", "cron": "nightly"}
    lines = ["[parameters]", *(f'{name} = "{value}"' for name, value in known.items())]
    (tmp_path / "schemathesis.toml").write_text("\n".join(lines))
    token = web.program("ada").headers["Authorization"]
    words = ["run", f"{web.url}/api/openapi.json", "-H", f"Authorization: {token}", "--checks", CHECKS, "--seed", "1"]
    more = ["--mode", "all", "--max-examples", "2", "--phases", "coverage,fuzzing", "--no-color", "--warnings", "off"]
    ran = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *words, *more, "--generation-deterministic"],
        cwd=tmp_path,
        env=quiet_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    assert "No issues found" in ran.stdout or " passed" in ran.stdout, ran.stdout[-2000:]


def test_what_is_read_is_of_the_shape_that_is_described(web: WebServer, desk: QueueDesk) -> None:
    described = web.client().get("/api/openapi.json").json()
    program = web.program("olga")
    job = program.post("/api/v1/jobs", json={"spider": "books", "args": {"city": "Z\u00fcrich"}}).json()["jobs"][0][
        "id"
    ]
    program.post("/api/v1/crons/nightly/run")
    wait_until(lambda: desk.job(job).state is JobState.RUNNING, deadline_s=SOON_S, what="the job to run")
    values = {"job": job, "node": "node-1", "project": "shop", "crawl": "books", "cron": "nightly"}
    empty = {"/api/v1/jobs/{job}/log"}
    for path, operations in described["paths"].items():
        if "get" in operations and path not in empty:
            answer = program.get(path.format(**values))
            assert answer.status_code == httpx.codes.OK, (path, answer.text)
            schema = operations["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            Draft202012Validator({**schema, "components": described["components"]}).validate(answer.json())
            assert answer.json() not in ([], {}), f"{path} has nothing to show its shape by"


def test_an_act_is_done_and_is_in_the_audit_under_who_asked(web: WebServer, desk: QueueDesk) -> None:
    olga, ada = web.program("olga"), web.program("ada")
    wish = {"spider": "books", "workers": 2, "priority": 3, "args": {"city": "Basel"}, "timeout_s": 60}
    scheduled = olga.post("/api/v1/jobs", json=wish)
    assert scheduled.status_code == httpx.codes.CREATED
    first, second = (row["id"] for row in scheduled.json()["jobs"])
    wait_until(lambda: desk.states(first, second) == ["running"] * 2, deadline_s=SOON_S, what="both to run")
    assert olga.get(f"/api/v1/jobs/{first[:9]}").json()["scheduled_by"] == "olga@web"
    cancelled = olga.post("/api/v1/cancel", json={"jobs": [first], "grace_s": 5}).json()["jobs"]
    assert cancelled == [{"id": first, "before": "running", "after": "cancelled", "error": None}]
    assert olga.post("/api/v1/retry", json={"jobs": [first]}).json()[0]["state"] in {"pending", "starting", "running"}
    assert olga.post("/api/v1/nodes/node-1/drain").json()["nodes"][0]["name"] == "node-1"
    assert olga.get("/api/v1/nodes/node-1").json()["draining"] is True
    assert olga.post("/api/v1/nodes/node-1/resume").json() == {"nodes": [{"name": "node-1", "action": "resumed"}]}
    assert olga.post("/api/v1/crawls/books/limit", json={"domain": "example.com", "per_second": 2}).json() == [
        {"domain": "example.com", "per_second": 2.0, "concurrency": None}
    ]
    assert olga.post("/api/v1/crons/nightly/pause").json()["paused"] is True
    assert olga.put("/api/v1/crons/weekly", json={"spider": "books", "at": "@weekly"}).status_code == 403
    assert ada.put("/api/v1/crons/weekly", json={"spider": "books", "at": "@weekly"}).json()["by"] == "ada@web"
    back = ada.post("/api/v1/releases/shop/rollback").json()
    assert (back["version"], back["active"], back["changed"]) == (str(V2), True, True)
    assert ada.get("/api/v1/releases/shop/history").json()[0]["by"] == "ada@web"
    audit = [(row["who"], row["action"], row["result"]) for row in ada.get("/api/v1/audit").json()]
    assert audit == [
        ("ada@web", "rollback", "done"),
        ("ada@web", "cron edit", "done"),
        ("olga@web", "cron pause", "done"),
        ("olga@web", "crawls limit", "done"),
        ("olga@web", "nodes resume", "done"),
        ("olga@web", "nodes drain", "done"),
        ("olga@web", "jobs retry", "done"),
        ("olga@web", "cancel", "done"),
        ("olga@web", "schedule", "done"),
    ]


def test_a_page_s_script_uses_the_api_with_its_session_and_the_proof_of_its_forms(web: WebServer) -> None:
    browser = web.signed_in("olga")
    assert browser.get("/api/v1/whoami").json()["user"] == "olga"
    assert browser.post("/api/v1/nodes/node-1/drain").json()["error"]["kind"] == "cross_site"
    answer = browser.post("/api/v1/nodes/node-1/drain", headers={"X-Form-Token": form_token(browser)})
    assert answer.status_code == httpx.codes.OK


def test_a_list_is_read_part_by_part_by_its_links(web: WebServer, desk: QueueDesk) -> None:
    desk.add(*(f"job-{i}" for i in range(5)), spider="nobody-has-it")
    program, found, path = web.program("alice"), [], "/api/v1/jobs?spider=nobody-has-it&limit=2"
    while True:
        answer = program.get(path)
        found += [row["id"] for row in answer.json()]
        if "next" not in answer.links:
            break
        path = answer.links["next"]["url"]
    assert sorted(found) == [f"job-{i}" for i in range(5)]


def test_a_redis_that_is_away_is_told_in_every_shape(tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path / "redis") as server,
        queue_desk(server.url, tmp_path / "state") as desk,
        web_server(tmp_path / "web", lambda: desk.store) as web,
    ):
        browser, program = web.signed_in("ada"), web.program("ada")
        server.kill()
        told = program.get("/api/v1/audit")
        assert told.status_code == told.json()["status"] == httpx.codes.SERVICE_UNAVAILABLE
        assert told.json()["error"]["kind"] == "store_unreachable"
        assert browser.get("/audit").status_code == httpx.codes.SERVICE_UNAVAILABLE
        assert program.get("/metrics").status_code == httpx.codes.OK
        assert web.signed_in("ada"), "signing in needs no Redis"
