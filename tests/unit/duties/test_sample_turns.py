"""How often nodes ask for a turn at sampling."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolkit.duties.sample import EVERY_S, interval_s


def test_a_node_that_is_alone_samples_every_ten_seconds() -> None:
    assert {interval_s(live_nodes=nodes, chance=1.0) for nodes in (0, 1)} == {EVERY_S}


@given(st.integers(2, 5000), st.floats(0, 1))
def test_of_many_nodes_each_asks_more_rarely_but_any_survivor_within_a_minute(nodes: int, chance: float) -> None:
    assert EVERY_S <= interval_s(live_nodes=nodes, chance=chance) <= 60
