"""What somebody hostile, or an operator on a bad day, does to the pages; each of it broke something once."""

from __future__ import annotations

import httpx
import pytest
from support.web_server import WebServer, form_token

from toolkit.model.errors import UsageError
from toolkit.web.fields import whole


@pytest.mark.parametrize("days", ["99999999", "9" * 18, "9" * 400])
def test_a_token_that_outlasts_the_calendar_is_refused_and_the_page_of_users_stays(web: WebServer, days: str) -> None:
    ada = web.signed_in("ada")
    form = {"form_token": form_token(ada), "label": "too long", "days": days}
    assert ada.post("/users/ada/tokens", data=form).headers["location"] == "/users"
    assert "too long" not in ada.get("/users").text
    assert ada.get("/users").status_code == httpx.codes.OK


@pytest.mark.parametrize("text", ["000000001" + "9" * 5000, "00000000199999999999", "0", "-1", "1000000", "\u0661"])
def test_a_number_that_is_too_great_is_no_number(text: str) -> None:
    with pytest.raises(UsageError, match="whole number"):
        whole(text, "concurrency")
    assert whole(" 0012 ", "concurrency") == 12
