"""The servers that misbehave do so as named, and the rest of them is whole."""

from __future__ import annotations

import http.client
import json

import pytest
from support import http_calls
from support.eggs import small_egg
from support.faulty_server import Fault, FaultProxy, FaultyNode
from support.scrapyd_node import ScrapydNode
from support.waiting import wait_until


def test_a_refusing_node_refuses() -> None:
    with FaultyNode("refuse") as node, pytest.raises(ConnectionRefusedError):
        http_calls.get(f"{node.url}/daemonstatus.json")


def test_a_hanging_node_reads_the_call_and_never_answers() -> None:
    with FaultyNode("hang") as node:
        with pytest.raises(TimeoutError):
            http_calls.post(f"{node.url}/addversion.json", files={"egg": b"x" * 100_000}, timeout_s=0.3)
        wait_until(lambda: node.calls == {"addversion.json": 1}, deadline_s=20, what="the call to be read")


def test_a_dripping_node_never_stops_sending() -> None:
    with FaultyNode("drip") as node, pytest.raises(TimeoutError):
        http_calls.get(f"{node.url}/daemonstatus.json", timeout_s=0.3)


@pytest.mark.parametrize(("fault", "status"), [("500", 500), ("401", 401), ("404", 404), ("html", 200), ("error", 200)])
def test_a_node_answers_with_its_fault(fault: Fault, status: int) -> None:
    with FaultyNode(fault) as node:
        answer = http_calls.get(f"{node.url}/listprojects.json")
    assert answer.status == status
    assert (fault == "error") == (b'"status": "error"' in answer.body)


def test_half_an_answer_ends_before_its_promised_length() -> None:
    with FaultyNode("half") as node, pytest.raises(http.client.IncompleteRead):
        http_calls.get(f"{node.url}/listprojects.json")


def test_bad_json_comes_with_a_good_status() -> None:
    with FaultyNode("bad_json") as node:
        answer = http_calls.get(f"{node.url}/listprojects.json")
    assert answer.status == 200
    with pytest.raises(json.JSONDecodeError):
        answer.json()


def test_a_resetting_node_resets_after_the_upload() -> None:
    with FaultyNode("reset") as node:
        with pytest.raises(ConnectionResetError):
            http_calls.post(f"{node.url}/addversion.json", files={"egg": b"x" * 100_000})
        assert node.calls["addversion.json"] == 1


def test_a_proxy_loses_the_answer_of_an_upload_that_the_node_took(scrapyd_node: ScrapydNode) -> None:
    fields = {"project": "small", "version": "v1"}
    with FaultProxy(scrapyd_node.url) as proxy:
        proxy.break_endpoint("addversion.json", "500")
        upload = http_calls.post(
            f"{proxy.url}/addversion.json", fields, files={"egg": small_egg()}, credentials=scrapyd_node.credentials
        )
        versions = http_calls.get(
            f"{proxy.url}/listversions.json", {"project": "small"}, credentials=scrapyd_node.credentials
        )
    assert upload.status == 500
    assert versions.json()["versions"] == ["v1"]
    assert proxy.forwarded == ["addversion.json", "listversions.json"]


def test_a_proxy_can_keep_a_call_from_the_node_a_number_of_times(scrapyd_node: ScrapydNode) -> None:
    with FaultProxy(scrapyd_node.url) as proxy:
        proxy.break_endpoint("listprojects.json", "reset", forwards=False, times=1)
        url = f"{proxy.url}/listprojects.json"
        with pytest.raises(ConnectionResetError):
            http_calls.get(url, credentials=scrapyd_node.credentials)
        assert proxy.forwarded == []
        assert http_calls.get(url, credentials=scrapyd_node.credentials).json()["projects"] == []
        assert proxy.calls["listprojects.json"] == 2
