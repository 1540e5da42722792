"""What the stream of events promises (`Events`, `Duties` in `toolkit/store/interfaces_watch.py`), on a real Redis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
import redis
from support.queue_desk import SHORT_S, SOON_S, QueueDesk, a_pending_job, a_report, an_ending
from support.stores import SHOP, V1, V2, a_lock, a_release, a_rollout
from support.waiting import wait_until

from toolkit.model.errors import UsageError
from toolkit.model.events import Change, Event, EventKind
from toolkit.model.hosts import Secret
from toolkit.model.jobs import CRAWL_SETTING, JobState
from toolkit.model.names import NodeName
from toolkit.store.connect import RedisDoor
from toolkit.store.interfaces_watch import Events
from toolkit.store.keys import Keys
from toolkit.store.redis_events import RedisEvents

LOST = Event(EventKind.NODE_LOST, "node-1", {"reason": "no sign of life", "für": "Köln →"})
BACK = Event(EventKind.NODE_BACK, "node-1")


@pytest.fixture
def events(desk: QueueDesk) -> Events:
    return desk.shared.events


def noted(events: Events, *subjects: str) -> list[str]:
    return [events.note(replace(LOST, subject=subject)) for subject in subjects]


def subjects(found: Sequence[Event]) -> str:
    return "".join(event.subject for event in found)


def kinds(found: Sequence[Event]) -> list[str]:
    return [event.kind.value for event in found]


def test_an_event_comes_back_with_the_store_s_own_time_and_id(desk: QueueDesk, events: Events) -> None:
    assert events.newest() == "0-0"
    before = desk.store.now()
    event_id = events.note(replace(LOST, id="mine"))

    (found,) = events.after("0-0")

    assert found == replace(LOST, id=event_id, at=found.at)
    assert found.at is not None
    assert abs(found.at - before) < timedelta(seconds=SOON_S)
    assert events.newest() == event_id
    assert events.entries(since=found.at) == (found,)
    assert events.entries(since=found.at + timedelta(milliseconds=1)) == ()


def test_a_reader_goes_on_where_it_was(events: Events) -> None:
    ids = noted(events, *"abcde")
    assert subjects(events.after("0-0", limit=2)) == "ab"
    assert subjects(events.after(ids[1])) == "cde"
    assert events.after(ids[4]) == ()
    assert subjects(events.entries()) == "edcba"
    assert subjects(events.entries(limit=2, before=ids[3])) == "cb"
    assert events.entries(limit=0) == events.after("0-0", limit=0) == ()
    with pytest.raises(UsageError, match="no id of an event"):
        events.after("; drop")
    with pytest.raises(UsageError, match="no id of an event"):
        events.entries(before="1")


def test_what_a_newer_crawlctl_told_keeps_nobody_from_what_is_behind_it(
    desk: QueueDesk, events: Events, redis_url: str
) -> None:
    with redis.Redis.from_url(redis_url) as client:
        for _ in range(3):
            client.xadd(desk.keys.events, {"kind": "moon.full", "subject": "x", "about": "{}"})
        noted(events, "a")
        client.xadd(desk.keys.events, {"kind": "node.lost", "subject": "b", "about": "no JSON"})
    assert subjects(events.after("0-0", limit=1)) == "a"
    assert subjects(events.entries(limit=2)) == "ba"


def test_only_about_the_newest_events_stay(redis_url: str) -> None:
    door = RedisDoor(Secret(redis_url))
    events = RedisEvents(door, Keys(), max_events=200)
    noted(events, *map(str, range(1000)))
    assert 200 <= len(events.entries(limit=1000)) <= 400
    door.close()


def test_however_many_tell_of_a_change_there_is_one_event(events: Events) -> None:
    assert events.turn("node:node-1", "live")
    assert [events.turn("node:node-1", "lost", LOST) for _ in range(3)] == [True, False, False]
    assert events.turn("node:node-1", "live", BACK)
    assert kinds(events.after("0-0")) == ["node.lost", "node.back"]
    assert events.states() == {"node:node-1": "live"}


def test_the_first_state_ever_is_an_event_only_where_one_is_given(events: Events) -> None:
    assert events.turn("a", "live")
    assert events.turn("b", "live", BACK)
    assert kinds(events.after("0-0")) == ["node.back"]


def test_who_looked_too_long_ago_tells_nothing(events: Events) -> None:
    events.turn("node:node-1", "live")
    late = Change("node:node-1", "stale", BACK, was="lost")
    new = Change("node:node-1", "stale", BACK, was="")
    timely = Change("node:node-1", "lost", LOST, was="live")
    assert events.turns((late, new, timely, Change("node:node-2", "live", BACK, was=""))) == (False, False, True, True)
    assert kinds(events.after("0-0")) == ["node.lost", "node.back"]


def test_what_is_watched_no_more_is_new_when_it_comes_again(events: Events) -> None:
    events.turns([Change(f"node:{number}", "live") for number in range(1200)])
    assert len(events.states()) == 1200
    events.unwatch(["node:7"])
    events.unwatch([])
    assert "node:7" not in events.states()
    assert events.turn("node:7", "live", BACK)


def test_a_turn_at_a_duty_is_one_node_s_until_it_is_over(desk: QueueDesk) -> None:
    duties = desk.shared.duties
    assert duties.take("watch", for_s=60)
    assert not duties.take("watch", for_s=60)
    assert duties.take("judge", for_s=SHORT_S)
    wait_until(lambda: duties.take("judge", for_s=60), deadline_s=SOON_S, what="the next turn")


def test_the_queue_tells_what_becomes_of_its_jobs(desk: QueueDesk, events: Events) -> None:
    report = desk.register(a_report())
    desk.queue.add([replace(a_pending_job("a", attempts=1), settings={CRAWL_SETTING: "all books"})])
    desk.finish(desk.run(report), an_ending(JobState.FAILED))

    found = events.after("0-0")

    assert kinds(found) == ["job.started", "job.failed"]
    assert (found[0].subject, found[0].about["node"], found[0].about["attempt"]) == ("a", "node-1", "1")
    assert {event.about["crawl"] for event in found} == {"all books"}


def test_a_release_is_told_of_in_the_step_that_makes_it_active_and_once(desk: QueueDesk, events: Events) -> None:
    releases, lock = desk.store.releases, a_lock(desk.store)
    releases.record(a_release(), lock)
    releases.record(a_release(V2, digest="bb"), lock)
    for _ in range(2):
        releases.activate(a_rollout(), lock, held_by=())
    releases.activate(a_rollout(V2, minutes=1), lock, held_by=())
    releases.activate(replace(a_rollout(minutes=2), kind="rollback"), lock, held_by=[NodeName("node-1")])

    found = events.after("0-0")

    assert kinds(found) == ["release.deployed", "release.deployed", "release.rolled_back"]
    assert found[0].subject == f"{SHOP} {V1}"
    assert found[0].about == {"project": SHOP, "version": V1, "by": "ann@desk", "nodes": "0"}
    assert found[2].about == {"project": SHOP, "version": V1, "by": "ann@desk", "nodes": "1", "was": V2}
