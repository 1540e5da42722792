"""When the queue grows, waits for nobody, or is clear again; decided without a Redis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from support.queue_desk import a_report
from support.stores import SHOP, V1

from toolkit.duties.queue_changes import WEDGED_AFTER_S, WINDOW_S, QueueLook, look_at, queue_changes
from toolkit.model.names import SpiderName, VersionName
from toolkit.model.nodes import NodeRecord
from toolkit.model.queue import Line

BOOKS = Line(SHOP, V1, SpiderName("books"))
FULL = QueueLook(pending=10, slots=4, idle=0, takers=1)


class Queue:
    """What Redis remembers of a queue, from look to look; `told` are the kinds of events."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.told: list[str] = []
        self.about: Mapping[str, str] = {}
        self.now_ms = 1_700_000_000_000

    def look(self, look: QueueLook, *, after_s: float = 0.0) -> str:
        """Look at it so many seconds later; return the state that is told."""
        self.now_ms += int(after_s * 1000)
        for change in queue_changes(look, self.states, now_ms=self.now_ms):
            assert self.states.get(change.watched, "") == change.was
            self.states[change.watched] = change.state
            if change.event is not None:
                self.told.append(change.event.kind.value)
                self.about = change.event.about
        return self.states["queue"]


def growing(queue: Queue, *pending: int, idle: int = 0) -> str:
    state = ""
    for number in pending:
        state = queue.look(replace(FULL, pending=number, idle=idle), after_s=WINDOW_S)
    return state


def test_a_quiet_queue_is_no_news() -> None:
    queue = Queue()
    assert queue.look(QueueLook(pending=0)) == "clear"
    assert queue.look(QueueLook(pending=0), after_s=999) == "clear"
    assert queue.told == []


def test_a_queue_grows_when_it_rose_twice_with_all_slots_taken() -> None:
    queue = Queue()
    assert growing(queue, 10, 20) == "clear"
    assert growing(queue, 30) == "growing"
    assert queue.about == {"pending": "30", "before": "20", "window_s": "60", "slots": "4"}
    assert growing(queue, 31) == "growing"
    assert growing(queue, 31) == "clear"
    assert queue.about == {"pending": "31", "was": "growing"}
    assert queue.told == ["queue.growing", "queue.clear"]


def test_many_jobs_at_once_that_are_worked_off_are_no_growth() -> None:
    queue = Queue()
    assert growing(queue, 10, 500, 400, 300) == "clear"
    assert queue.told == []


def test_a_queue_with_free_slots_does_not_grow() -> None:
    queue = Queue()
    assert growing(queue, 10, 20, 30, 40, idle=1) == "clear"


def test_looks_within_a_window_change_nothing() -> None:
    queue = Queue()
    queue.look(FULL)
    for number in range(20):
        queue.look(replace(FULL, pending=11 + number), after_s=1)
    assert queue.told == []


def test_jobs_that_no_node_may_take_wedge_the_queue_after_a_while() -> None:
    queue = Queue()
    stuck = replace(FULL, stuck=(BOOKS,) * 5)
    assert queue.look(stuck) == "clear"
    assert queue.look(stuck, after_s=WEDGED_AFTER_S - 1) == "clear"
    assert queue.look(stuck, after_s=1) == "wedged"
    assert queue.about["lines"] == ", ".join([f"books of shop {V1}"] * 3 + ["2 more"])
    assert queue.about["reason"] == "no node may take them"
    assert queue.look(FULL, after_s=1) == "clear"
    assert queue.told == ["queue.wedged", "queue.clear"]


def test_a_moment_without_a_taker_is_no_news() -> None:
    queue = Queue()
    for _ in range(10):
        queue.look(replace(FULL, stuck=(BOOKS,)), after_s=WEDGED_AFTER_S / 2)
        queue.look(FULL, after_s=1)
    assert queue.told == []


def test_what_others_wrote_there_is_begun_anew() -> None:
    queue = Queue()
    queue.states["queue:look"] = "; drop"
    assert queue.look(FULL) == "clear"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.booleans(), st.floats(0, 100))))
def test_the_state_is_told_whenever_it_changes_and_only_then(
    looks: list[tuple[int, int, bool, float]],
) -> None:
    queue, states = Queue(), ["clear"]
    for pending, idle, is_stuck, after_s in looks:
        look = QueueLook(pending, slots=4, idle=idle, takers=1, stuck=(BOOKS,) if is_stuck and pending else ())
        state = queue.look(look, after_s=after_s)
        if state != states[-1]:
            states.append(state)
    assert queue.told == [f"queue.{state}" for state in states[1:]]


def test_only_nodes_that_take_jobs_count_and_only_jobs_that_may_be_taken() -> None:
    now = datetime.now(UTC)
    other = {SHOP: (VersionName("other"),)}
    records = [
        NodeRecord(a_report("a", running=1, versions=other), beat_at=now, age_s=0),
        NodeRecord(a_report("full", unfit="has no disk space left"), beat_at=now, age_s=0),
        NodeRecord(a_report("drains"), beat_at=now, age_s=0, is_draining=True),
        NodeRecord(a_report("lost"), beat_at=now, age_s=999),
    ]
    look = look_at(records, {"pending": 9, "held": 2, "delayed": 3, "active": 1}, [BOOKS])
    assert look == QueueLook(pending=4, slots=4, idle=3, takers=1, stuck=(BOOKS,))
