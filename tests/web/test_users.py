"""Users and tokens changed in the pages by who may administer."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from support.web_server import PASSWORD, form_token, web_server

from toolkit.store.interfaces import Store


def test_an_administrator_s_hour_with_users_and_tokens(tmp_path: Path, local_store: Store) -> None:
    with web_server(tmp_path, lambda: local_store) as web:
        ada = web.signed_in("ada")
        ada.headers["X-Form-Token"] = form_token(ada)

        def told(path: str, **fields: str) -> str:
            answer = ada.post(path, data=fields)
            assert answer.headers["location"] == "/users"
            found = re.search(r'<p class="said[^>]*>(.*?)</p>', ada.get("/users").text)
            assert found is not None
            return found[1].replace("&#39;", "'")

        assert told("/users", name="bob", role="operate", password=PASSWORD) == "bob may sign in, and operate."
        assert "there is a user bob already" in told("/users", name="bob", password=PASSWORD)
        assert "too short" in told("/users", name="eve", password="short")
        assert "no role" in told("/users", name="eve", role="rule", password=PASSWORD)
        assert "only one who may administer" in told("/users/ada/role", role="look")
        assert "nobody removes himself" in told("/users/ada/remove")
        assert "no user zoe" in told("/users/zoe/password", password=PASSWORD)
        made = ada.post("/users/bob/tokens", data={"label": "nightly", "role": "operate", "days": "30"}).text
        secret = re.search(r"crawlctl_[A-Za-z0-9_-]{43}", made)
        assert secret is not None
        program = web.client(headers={"Authorization": f"Bearer {secret[0]}"})
        assert program.get("/api/v1/whoami").json()["user"] == "bob"
        assert secret[0] not in ada.get("/users").text, "it is shown once"
        assert "no number of days" in told("/users/bob/tokens", label="x", days="many")
        (token,) = web.served.sessions.tokens("bob")
        assert told(f"/tokens/{token.id}/revoke") == "The token nightly of bob is revoked."
        assert program.get("/api/v1/whoami").status_code == httpx.codes.UNAUTHORIZED
        assert (
            told("/users/bob/password", password="another good one") == "bob has another password, and is signed out."
        )
        web.signed_in("bob", "another good one")
        assert told("/users/bob/remove") == "bob is removed."
        noted = {(each.action, each.subject, each.result) for each in local_store.audit.entries(limit=100)}
        assert {("web users add", "bob", "done"), ("web users add", "eve", "failed")} <= noted
        assert {("web tokens make", "bob", "done"), ("web users remove", "ada", "failed")} <= noted
        assert not [each for each in local_store.audit.entries(limit=100) if secret[0] in str(each)]


@pytest.mark.parametrize("path", ["/users/%2e%2e/remove", "/users/" + "x" * 101 + "/remove", "/tokens/%00/revoke"])
def test_an_odd_name_in_a_path_is_no_user_s(tmp_path: Path, local_store: Store, path: str) -> None:
    with web_server(tmp_path, lambda: local_store, has_pages=False) as web:
        ada = web.signed_in("ada")
        answer = ada.post(path, headers={"X-Form-Token": form_token(ada)})
        assert answer.status_code in {303, 404, 405, 422}
        assert len(web.served.accounts.users()) == 3
