"""What an endpoint decides by itself: who may post, how long it waits, and which of Scrapyd's words fits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.web.error import Error

from toolkit.model.errors import StoreUnreachableError
from toolkit.model.jobs import JobState
from toolkit.node import webservice_endpoint as module
from toolkit.node.webservice_endpoint import Endpoint, refuse_foreign
from toolkit.node.webservice_jobs import grace_of, time_text, word

HOSTS = ["node-1:6800", "crawl.example.com", None, ""]


@pytest.mark.parametrize(
    ("origin", "fetch_site"),
    [
        (None, None),
        ("http://node-1:6800", None),
        ("http://NODE-1:6800", None),
        ("https://crawl.example.com", None),
        ("https://elsewhere.example", "same-origin"),
        (None, "none"),
        (None, "same-origin"),
    ],
)
def test_programs_and_the_nodes_own_pages_may_post(origin: str | None, fetch_site: str | None) -> None:
    refuse_foreign(origin, fetch_site, HOSTS)


@pytest.mark.parametrize(
    ("origin", "fetch_site"),
    [
        ("http://evil.example", None),
        ("http://node-1:6801", None),
        ("http://node-1:6800.evil.example", None),
        ("null", None),
        ("", None),
        ("file://", None),
        (None, "cross-site"),
        ("http://node-1:6800", "cross-site"),
        ("http://localhost:6800", "same-site"),
        (None, "what is this"),
    ],
)
def test_pages_from_elsewhere_may_not(origin: str | None, fetch_site: str | None) -> None:
    with pytest.raises(Error) as caught:
        refuse_foreign(origin, fetch_site, HOSTS)
    assert int(caught.value.status) == 403


def test_scrapyd_knows_three_states() -> None:
    assert {state: word(state) for state in JobState} == {
        JobState.PENDING: "pending",
        JobState.STARTING: "running",
        JobState.RUNNING: "running",
        JobState.PAUSED: "running",
        JobState.FINISHED: "finished",
        JobState.FAILED: "finished",
        JobState.CANCELLED: "finished",
        JobState.LOST: "finished",
    }


@pytest.mark.parametrize("signal", ["KILL", "kill", "SIGKILL", "9"])
def test_kill_leaves_no_time(signal: str) -> None:
    assert grace_of(signal) == 0


@pytest.mark.parametrize("signal", ["INT", "TERM", "sigterm", "2", "15"])
def test_other_signals_let_a_spider_close(signal: str) -> None:
    assert grace_of(signal) == 30


@pytest.mark.parametrize("signal", ["", "HUP", "STOP", "LOUD", "0", "-9", "²"])
def test_what_ends_no_job_is_refused(signal: str) -> None:
    with pytest.raises(Error):
        grace_of(signal)


def test_times_are_printed_as_scrapyd_prints_them() -> None:
    at = datetime(2026, 11, 20, 10, 15, 0, 123456, tzinfo=UTC)
    assert time_text(at) == str(datetime.fromtimestamp(at.timestamp()))  # noqa: DTZ006 - Scrapyd's own
    assert time_text(None) == ""


def test_what_its_client_was_told_to_be_too_late_is_not_done_later(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, waiting = Clock(), []
    monkeypatch.setattr(module, "reactor", lambda: clock)

    def call(work: Callable[[object], object]) -> Deferred[object]:
        waiting.append(work)
        return Deferred()

    root = SimpleNamespace(poller=SimpleNamespace(membership=SimpleNamespace(call=call)))
    done: list[object] = []
    told: list[object] = []

    def hear(failure: Failure) -> None:
        told.append(failure.value)

    Endpoint(root).ask(done.append, patience_s=10).addErrback(hear)
    clock.advance(11)
    assert [type(error) for error in told] == [StoreUnreachableError]

    # A thread gets to it after all: a job put in now would be there twice when its client tries again.
    with pytest.raises(StoreUnreachableError):
        waiting[0]("the store")
    assert done == []
