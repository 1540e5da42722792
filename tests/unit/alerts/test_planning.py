"""What a sink is told next, what is held back, and what follows an attempt that failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import pytest

from toolkit.alerts.matching import admits, quiet_until
from toolkit.alerts.planning import Step, next_step
from toolkit.alerts.retrying import LONGEST_PAUSE_S, TRIES_OF_REFUSED, after_failure, give_up, is_too_old, pause_s
from toolkit.model.alerts import Alerts, HeldEvent, InQuiet, Quiet, Rule, RuleKind, Severity, Sink, SinkKind, SinkLease
from toolkit.model.errors import SinkError
from toolkit.model.events import Event, EventKind

NOW = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)
SINK = Sink("hook", SinkKind.WEBHOOK, give_up_s=3600)
RULE = Rule("failures", ("hook",), events=("job.failed",), severity=Severity.CRITICAL)
NIGHT = Quiet(time(22), time(7))
LEASE = SinkLease("hook", 7, NOW, 1, "100-0")


def alerts(*rules: Rule) -> Alerts:
    return Alerts({"hook": SINK}, {rule.name: rule for rule in rules})


def event(number: int, kind: EventKind = EventKind.JOB_FAILED, **about: str) -> Event:
    at = NOW - timedelta(seconds=1)
    return Event(kind, f"j{number}", {"project": "shop", "spider": "books"} | about, at=at, id=f"{number}-0")


def step(*events: Event, lease: SinkLease = LEASE, rules: tuple[Rule, ...] = (RULE,)) -> Step:
    looked = events[-1].id if events else lease.cursor
    return next_step(lease, alerts(*rules), cluster="main", events=events, looked=looked)


def held(number: int, *, rule: str = "failures", due: datetime = NOW) -> HeldEvent:
    return HeldEvent(event(number), rule, due, raw=f"raw {number}")


def test_what_no_rule_wants_is_passed_over_in_one_step() -> None:
    planned = step(event(101, EventKind.JOB_STARTED), event(102, EventKind.NODE_LOST))
    assert planned.message is None
    assert planned.before is not None
    assert (planned.before.cursor, planned.before.tries) == ("102-0", None)
    assert step() == Step()


def test_the_first_event_that_a_rule_wants_is_told_and_the_cursor_follows_it() -> None:
    planned = step(event(101, EventKind.JOB_STARTED), event(102), event(103))
    assert planned.before is not None
    assert planned.before.cursor == "101-0"
    assert planned.message is not None
    assert (planned.message.key, planned.message.rules) == ("main/102-0", ("failures",))
    assert planned.message.severity is Severity.CRITICAL
    assert (planned.after.cursor, planned.after.tries, planned.after.is_delivered) == ("102-0", 0, True)


def test_several_rules_tell_an_event_once_with_the_greatest_severity() -> None:
    mild = replace(RULE, name="all", events=("job.*",), severity=Severity.INFO)
    planned = step(event(101), rules=(mild, RULE))
    assert planned.message is not None
    assert (planned.message.rules, planned.message.severity) == (("all", "failures"), Severity.CRITICAL)


def test_a_quiet_time_holds_or_drops_and_another_rule_speaks_all_the_same() -> None:
    quiet, deaf = replace(RULE, quiet=NIGHT), replace(RULE, name="deaf", quiet=NIGHT, in_quiet=InQuiet.DROP)
    planned = step(event(101), event(102), rules=(quiet, deaf))
    assert planned.message is None
    assert planned.before is not None
    until = datetime(2026, 11, 22, 7, tzinfo=UTC)
    assert [(each.event.subject, each.rule, each.due) for each in planned.before.hold] == [
        ("j101", "failures", until),
        ("j102", "failures", until),
    ]
    loud = step(event(101), rules=(quiet, replace(RULE, name="loud")))
    assert loud.message is not None
    assert loud.message.rules == ("loud",)
    # What is held of the very event that is told is noted with its arrival, so that it is not held twice.
    assert loud.before is None
    assert [each.rule for each in loud.after.hold] == ["failures"]


def test_a_rule_rests_after_it_spoke_and_then_tells_what_came_as_one() -> None:
    rule = replace(RULE, every_s=600)
    assert step(event(101), rules=(rule,)).after.told == ("failures",)
    spoke = replace(LEASE, told={"failures": NOW - timedelta(seconds=60)})
    resting = step(event(101), event(102), lease=spoke, rules=(rule,))
    assert resting.message is None
    assert resting.before is not None
    assert {each.due for each in resting.before.hold} == {NOW + timedelta(seconds=540)}
    waiting = replace(spoke, held=(held(101), held(102), held(103, due=NOW + timedelta(seconds=1))))
    planned = step(event(104), lease=waiting, rules=(rule,))
    assert planned.message is not None
    assert planned.message.key == "main/102-0/failures"
    assert [each.subject for each in planned.message.events] == ["j101", "j102"]
    assert [each.raw for each in planned.after.drop] == ["raw 101", "raw 102"]
    assert (planned.after.cursor, planned.after.told) == (None, ("failures",))


def test_what_is_held_is_held_on_while_it_is_quiet_and_dropped_when_nobody_wants_it() -> None:
    waiting = replace(LEASE, held=(held(101), held(102)))
    on = step(lease=waiting, rules=(replace(RULE, quiet=NIGHT),))
    assert on.message is None
    assert on.before is not None
    assert [each.due.hour for each in on.before.hold] == [7, 7]
    silent = replace(waiting, silences={"failures": NOW + timedelta(seconds=1)})
    for dropped in (step(lease=waiting, rules=()), step(lease=silent)):
        assert dropped.message is None
        assert dropped.before is not None
        assert [each.raw for each in dropped.before.drop] == ["raw 101", "raw 102"]


def test_a_silence_passes_events_over_until_it_ends() -> None:
    silent = replace(LEASE, silences={"failures": NOW + timedelta(seconds=1)})
    assert step(event(101), lease=silent).message is None
    over = replace(LEASE, silences={"failures": NOW - timedelta(seconds=1)})
    assert step(event(101), lease=over).message is not None


def test_a_test_reaches_its_sink_alone_whatever_the_rules() -> None:
    tested = event(101, EventKind.ALERT_FIRING, sink="hook")
    everything = replace(RULE, events=("*",))
    planned = step(tested, rules=())
    assert planned.message is not None
    assert planned.message.rules == ()
    other = next_step(replace(LEASE, sink="mail"), alerts(everything), cluster="main", events=[tested], looked="101-0")
    assert other.message is None


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ({"project": "sh*"}, True),
        ({"project": "news"}, False),
        ({"spider": "books", "node": "node-?"}, True),
        ({"node": "edge-*"}, False),
        ({"subject": "j1*"}, True),
        ({"subject": "j2*"}, False),
        ({"events": ("node.*", "job.f*")}, True),
        ({"kind": RuleKind.PROGRESS}, False),
    ],
)
def test_a_rule_speaks_of_what_its_patterns_admit(rule: dict[str, object], wanted: bool) -> None:  # noqa: FBT001
    assert admits(replace(RULE, **rule), event(101, node="node-1")) is wanted  # type: ignore[arg-type]


def test_a_threshold_speaks_of_itself_and_of_its_end_if_it_should() -> None:
    slow = Rule("slow", ("hook",), RuleKind.PROGRESS)
    firing, over = event(1, EventKind.ALERT_FIRING, rule="slow"), event(1, EventKind.ALERT_OVER, rule="slow")
    assert admits(slow, firing)
    assert admits(slow, over)
    assert not admits(replace(slow, tells_over=False), over)
    assert not admits(slow, event(1, EventKind.ALERT_FIRING, rule="other"))
    assert admits(replace(RULE, events=("node.*",), node="node-1"), Event(EventKind.NODE_LOST, "node-1"))


@pytest.mark.parametrize(
    ("clock", "ends"),
    [
        ("2026-11-21T20:59:59", None),
        ("2026-11-21T21:00:00", "2026-11-22T06:00:00"),
        ("2026-11-22T05:59:59", "2026-11-22T06:00:00"),
        ("2026-11-22T06:00:00", None),
        # Summer time begins in the night of the 29th of March: seven o'clock is an hour earlier.
        ("2026-03-28T21:30:00", "2026-03-29T05:00:00"),
        ("2026-10-24T20:30:00", "2026-10-25T06:00:00"),
    ],
)
def test_a_quiet_time_over_midnight_ends_when_its_zone_says_so(clock: str, ends: str | None) -> None:
    quiet = Quiet(time(22), time(7), "Europe/Berlin")
    wanted = None if ends is None else datetime.fromisoformat(ends).replace(tzinfo=UTC)
    assert quiet_until(quiet, datetime.fromisoformat(clock).replace(tzinfo=UTC)) == wanted


def test_a_quiet_time_within_a_day_ends_on_that_day() -> None:
    noon = Quiet(time(12), time(13, 30))
    assert quiet_until(noon, NOW.replace(hour=12, minute=30)) == NOW.replace(hour=13, minute=30)
    assert quiet_until(noon, NOW.replace(hour=13, minute=30)) is None
    assert quiet_until(None, NOW) is None


def test_pauses_double_up_to_a_limit_and_never_fall_together() -> None:
    assert [pause_s(tries, chance=1.0) for tries in (1, 2, 3, 4)] == [1, 2, 4, 8]
    assert pause_s(3, chance=0.0) == 2.0
    assert pause_s(10_000, chance=1.0) == LONGEST_PAUSE_S
    assert pause_s(1, chance=1.0, again_s=17) == 17
    assert pause_s(1, chance=1.0, again_s=86_400) == LONGEST_PAUSE_S


def test_a_failed_attempt_is_repeated_until_its_message_is_too_old() -> None:
    planned = step(event(101))
    again = after_failure(planned, SINK, SinkError("HTTP 500"), tries=2, now=NOW, chance=1.0)
    assert (again.cursor, again.tries, again.pause_s, again.error, again.failed) == (None, 2, 2.0, "HTTP 500", ())
    late = NOW + timedelta(hours=2)
    assert is_too_old(planned, SINK, now=late)
    gone = after_failure(planned, SINK, SinkError("HTTP 500"), tries=9, now=late, chance=1.0)
    assert (gone.cursor, gone.tries) == ("101-0", 9)
    assert [(each.key, each.subject, each.why) for each in gone.failed] == [("main/101-0", "j101", "HTTP 500")]
    # While the sink is away, what is too old goes without an attempt, and the next pause stays as it was.
    assert give_up(planned, SINK, "away").tries is None


def test_a_message_that_is_refused_for_what_it_is_does_not_keep_the_others_waiting_for_long() -> None:
    planned, error = step(event(101)), SinkError("HTTP 422", is_refusal=True)
    assert after_failure(planned, SINK, error, tries=TRIES_OF_REFUSED - 1, now=NOW, chance=1.0).failed == ()
    gone = after_failure(planned, SINK, error, tries=TRIES_OF_REFUSED, now=NOW, chance=1.0)
    assert (gone.cursor, gone.tries, gone.pause_s, len(gone.failed)) == ("101-0", 0, 0.0, 1)
