"""Which settings of a Redis are to be changed, decided by what one server says."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.store.redis_settings import ServerState, notes_on, plan_settings

FRESH = {
    "appendonly": "no",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
    "min-replicas-to-write": "0",
    "min-replicas-max-lag": "10",
}
GOOD = {**FRESH, "appendonly": "yes", "min-replicas-to-write": "1", "min-replicas-max-lag": "2"}
TO_WRITE, MAX_LAG = "min-replicas-to-write", "min-replicas-max-lag"


def state(values: dict[str, str], **changed: Any) -> ServerState:
    return ServerState(**{"is_primary": True, "replicas": 2, "in_step": 2, "values": values, **changed})


def changes(values: dict[str, str], **changed: Any) -> dict[str, str | None]:
    return {each.name: each.wanted for each in plan_settings(state(values, **changed)) if each.differs}


def test_a_server_as_redis_ships_it_needs_three_changes() -> None:
    assert changes(FRESH) == {"appendonly": "yes", TO_WRITE: "1", MAX_LAG: "2"}


def test_a_good_server_needs_none() -> None:
    assert changes(GOOD) == {}
    assert notes_on(state(GOOD)) == ()


def test_a_replica_gets_what_the_primary_gets() -> None:
    assert changes(FRESH, is_primary=False, in_step=0) == changes(FRESH)
    assert notes_on(state(FRESH, is_primary=False, in_step=0, replicas=1)) == ()


@pytest.mark.parametrize(
    "stricter",
    [{"appendfsync": "always"}, {TO_WRITE: "2"}, {MAX_LAG: "1"}],
)
def test_what_protects_more_is_left_as_it_is(stricter: dict[str, str]) -> None:
    assert changes({**GOOD, **stricter}) == {}


@pytest.mark.parametrize(
    ("weaker", "wanted"),
    [
        ({"appendfsync": "no"}, {"appendfsync": "everysec"}),
        ({"maxmemory-policy": "allkeys-lru"}, {"maxmemory-policy": "noeviction"}),
        ({MAX_LAG: "0"}, {MAX_LAG: "2"}),
        ({MAX_LAG: "10"}, {MAX_LAG: "2"}),
        ({TO_WRITE: "3"}, {TO_WRITE: "1"}),
    ],
)
def test_what_protects_less_or_cannot_be_met_is_changed(weaker: dict[str, str], wanted: dict[str, str]) -> None:
    assert changes({**GOOD, **weaker}) == wanted


def test_a_single_server_must_not_wait_for_replicas() -> None:
    single = {"replicas": 0, "in_step": 0}
    assert changes(GOOD, **single) == {TO_WRITE: "0"}
    assert notes_on(state(GOOD, **single)) == (
        "it has no replica, so min-replicas-to-write must be 0: it refuses every write now",
    )
    assert changes({**FRESH, "appendonly": "yes"}, **single) == {}
    assert notes_on(state(FRESH, **single)) == (
        "it has no replica, so min-replicas-to-write must be 0: otherwise it would refuse every write",
    )


@pytest.mark.parametrize("values", [FRESH, GOOD])
def test_a_primary_whose_replicas_are_away_keeps_what_it_has(values: dict[str, str]) -> None:
    away = {"replicas": 2, "in_step": 0}
    assert not {TO_WRITE, MAX_LAG} & changes(values, **away).keys()
    (note,) = notes_on(state(values, **away))
    assert f"no replica keeps up with it (2 known), so min-replicas-to-write is left at {values[TO_WRITE]}" in note
    assert ("it refuses every write now" in note) == (values is GOOD)


def test_a_lag_of_0_switches_it_off_and_refuses_nothing() -> None:
    (note,) = notes_on(state({**GOOD, MAX_LAG: "0"}, replicas=0, in_step=0))
    assert "it refuses every write now" not in note


def test_what_a_single_replica_means_is_said() -> None:
    (note,) = notes_on(state(GOOD, replicas=1, in_step=1))
    assert "writes are refused while either server is down" in note
