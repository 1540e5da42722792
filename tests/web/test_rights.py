"""No page, act or answer without its right: every route is asked by everybody who may not, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from support.web_server import USERS, WebServer, form_token, web_server

from toolkit.model.accounts import Role
from toolkit.store.interfaces import Store
from toolkit.web.app import create_app
from toolkit.web.rights import ANYONE, declared

OPEN = {"/sign-in", "/setup", "/healthz", "/api/openapi.json"}
NOBODY = {httpx.codes.UNAUTHORIZED, httpx.codes.SEE_OTHER}


def calls(web: WebServer, *, but: str = "") -> Iterator[tuple[str, str, str]]:
    """Return each route that is not for everybody: its method, a path that fits it, and its right."""
    for route, right in declared(create_app(web.served)):
        for method in sorted(route.methods or ()):
            if right not in {ANYONE, but}:
                yield method, re.sub(r"{[^}]*}", "x", route.path), right


def test_only_the_sign_in_and_what_it_needs_are_for_everybody(web: WebServer) -> None:
    assert {route.path for route, right in declared(create_app(web.served)) if right == ANYONE} == OPEN


def test_an_app_with_a_route_without_a_right_is_not_made() -> None:
    router, app = APIRouter(prefix="/more"), FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    router.add_api_route("/open", lambda: "all of it")
    app.include_router(router)
    with pytest.raises(TypeError, match="/more/open"):
        declared(app)


def test_nobody_gets_anything_without_signing_in(web: WebServer) -> None:
    client = web.client()
    for method, path, _ in calls(web):
        answer = client.request(method, path)
        assert answer.status_code in NOBODY, (method, path, answer.status_code)
        assert answer.headers.get("location", "/sign-in").startswith("/sign-in")
        assert not answer.cookies


@pytest.mark.parametrize("name", ["alice", "olga"])
def test_a_lesser_role_is_refused_everything_that_needs_more(web: WebServer, name: str) -> None:
    client, asked = web.signed_in(name), 0
    client.headers.update({"X-Form-Token": form_token(client), "Accept": "application/json"})
    for method, path, right in calls(web):
        if not USERS[name].allows(Role(right)):
            answer = client.request(method, path)
            assert answer.status_code == httpx.codes.FORBIDDEN, (method, path, answer.status_code)
            assert answer.json()["error"]["kind"] == "forbidden"
            asked += 1
    assert asked


def test_a_session_alone_changes_nothing_without_the_proof_of_its_form(web: WebServer) -> None:
    client, stolen = web.signed_in("ada"), form_token(web.signed_in("ada"))
    client.headers["Accept"] = "application/json"
    for method, path, _ in calls(web):
        if method != "GET":
            answer = client.request(method, path, data={"form_token": stolen})
            assert answer.status_code == httpx.codes.FORBIDDEN, (method, path, answer.status_code)
            assert answer.json()["error"]["kind"] == "cross_site"
    for proof in ("", stolen, form_token(client)[:-1], "\u00e4"):
        answer = client.post("/users", headers=[(b"x-form-token", proof.encode("latin-1"))])
        assert answer.json()["error"]["kind"] == "cross_site"


def test_a_token_is_for_programs_and_opens_no_page(web: WebServer) -> None:
    program = web.program("ada")
    for path in ("/users", "/account"):
        assert program.get(path).status_code in NOBODY
    assert program.get("/api/v1/whoami").json()["role"] == "administer"
    lesser = web.program("ada", Role.LOOK)
    assert lesser.get("/api/v1/whoami").json()["role"] == "look"
    assert lesser.post("/api/v1/releases/shop/rollback").status_code == httpx.codes.FORBIDDEN


def test_the_numbers_are_for_who_may_look_or_for_everybody_where_that_is_asked_for(
    web: WebServer, tmp_path: Path, local_store: Store
) -> None:
    assert web.client().get("/metrics").status_code == httpx.codes.UNAUTHORIZED
    for allowed in (web.program("alice"), web.signed_in("alice")):
        answer = allowed.get("/metrics")
        assert answer.status_code == httpx.codes.OK
        assert "# TYPE crawlctl_" in answer.text
    with web_server(tmp_path, lambda: local_store, is_metrics_open=True) as opened:
        assert opened.client().get("/metrics").status_code == httpx.codes.OK
        assert opened.client().get("/api/v1/status").status_code == httpx.codes.UNAUTHORIZED
