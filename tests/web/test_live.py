"""The stream behind the pages: what it tells, from where it goes on, and when it ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.queue_desk import QueueDesk, queue_desk
from support.web_server import WebServer, web_server

from toolkit.model.errors import NodeUnreachableError
from toolkit.model.events import Event, EventKind
from toolkit.web import feed, live
from toolkit.web.log_view import LogView

LOST = Event(EventKind.NODE_LOST, "node-7", {"reason": "silent"})


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[QueueDesk]:
    with queue_desk(redis_url, tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def cluster(desk: QueueDesk, tmp_path: Path) -> Iterator[WebServer]:
    with web_server(tmp_path / "web", lambda: desk.store) as server:
        yield server


def told(lines: Iterator[str]) -> tuple[str, str, Any]:
    """Return the next event of a stream: its id, its name and what it says."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line and "data" in fields:
            return fields["id"], fields["event"], json.loads(fields["data"])
        name, _, value = line.partition(": ")
        fields[name] = value
    raise AssertionError("the stream ended")


def test_a_browser_that_comes_back_hears_of_what_it_missed(cluster: WebServer, desk: QueueDesk) -> None:
    assert desk.store.shared is not None
    client = cluster.signed_in("alice")
    with client.stream("GET", "/live") as stream:
        place, name, tick = told(stream.iter_lines())
    assert (name, tick["news"], tick["away"]) == ("tick", [], None)
    desk.store.shared.events.note(LOST)
    with client.stream("GET", "/live", headers={"Last-Event-ID": place}) as stream:
        again, _, tick = told(stream.iter_lines())
    assert [news["subject"] for news in tick["news"]] == ["node-7"]
    assert again != place


def test_bad_news_comes_to_every_browser_that_listens(cluster: WebServer, desk: QueueDesk) -> None:
    assert desk.store.shared is not None
    client = cluster.signed_in("alice")
    with client.stream("GET", "/live") as one, client.stream("GET", "/live") as other:
        listening = [one.iter_lines(), other.iter_lines()]
        for lines in listening:
            told(lines)
        # The reader's own first look says where it begins.
        told(listening[0])
        desk.store.shared.events.note(LOST)
        for lines in listening:
            while not (tick := told(lines)[2])["news"]:
                pass
            assert "node-7" in json.dumps(tick)


def test_a_stream_ends_with_its_session_and_with_the_server(
    cluster: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "WELCOME_EVERY_S", 0.05)
    client = cluster.signed_in("olga")
    with client.stream("GET", "/live") as stream:
        lines = stream.iter_lines()
        told(lines)
        cluster.served.accounts.remove("olga")
        while (event := told(lines))[1] != "bye":
            assert event[1] == "tick"
    with cluster.signed_in("alice").stream("GET", "/live") as stream:
        lines = stream.iter_lines()
        told(lines)
        cluster.served.stopping.set()
        for _ in lines:
            pass


def test_there_is_an_end_to_how_many_may_listen(cluster: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_STREAMS", 1)
    client = cluster.signed_in("alice")
    with client.stream("GET", "/live") as stream:
        lines = stream.iter_lines()
        told(lines)
        refused = client.get("/live")
        told(lines)
    assert refused.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert int(refused.headers["Retry-After"]) > 0


def test_no_id_leads_behind_lines_of_a_log_that_were_not_sent_yet(
    cluster: WebServer, desk: QueueDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, is_read, goes_on = live._Course, threading.Event(), threading.Event()
    read = course._log

    def held(self: live._Course) -> LogView:
        part = read(self)
        is_read.set()
        goes_on.wait(60)
        return part

    monkeypatch.setattr(feed, "POLL_S", 0.05)
    monkeypatch.setattr(feed, "TICK_S", 0.0)
    monkeypatch.setattr(course, "_read_log", lambda *_: LogView([("i", "a line")], "6@node-1"))
    monkeypatch.setattr(course, "_log", held)
    desk.add("a")
    with cluster.signed_in("alice").stream("GET", "/live", params={"job": "a"}) as stream:
        lines = stream.iter_lines()
        told(lines)
        assert is_read.wait(60)
        # Of these the last was surely told after the log was read.
        ids = [told(lines)[0] for _ in range(feed.MAX_WAITING + 2)]
        goes_on.set()
        while (event := told(lines))[1] != "log":
            ids.append(event[0])
    assert {each.partition(live.MARK)[2] for each in ids} == {""}
    assert event[0].endswith(f"{live.MARK}6@node-1")


def test_what_keeps_a_log_from_being_read_is_told_once_and_so_is_its_end(
    cluster: WebServer, desk: QueueDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_away = threading.Event()
    is_away.set()

    def read(*_: object) -> LogView:
        if is_away.is_set():
            raise NodeUnreachableError("node-1", "log", "no answer")
        return LogView(cursor="6@node-1")

    monkeypatch.setattr(feed, "POLL_S", 0.05)
    monkeypatch.setattr(feed, "TICK_S", 0.0)
    monkeypatch.setattr(live._Course, "_read_log", read)
    desk.add("a")
    with cluster.signed_in("alice").stream("GET", "/live", params={"job": "a"}) as stream:
        lines = stream.iter_lines()
        while (event := told(lines))[1] != "note":
            pass
        assert event[2] == "node-1: log: no answer"
        assert {told(lines)[1], told(lines)[1]} == {"tick"}
        is_away.clear()
        while (event := told(lines))[1] != "note":
            pass
        assert event[2] == ""
