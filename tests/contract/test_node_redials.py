"""Places for nodes that change their address: never more than a share at once, and none is lost for good."""

from __future__ import annotations

import pytest
from support.queue_desk import QueueDesk, a_report
from support.waiting import wait_until

from toolkit.model.names import NodeName
from toolkit.store.interfaces_calls import Redials

SOON_S = 10.0


@pytest.fixture
def redials(desk: QueueDesk) -> Redials:
    assert desk.store.shared is not None
    return desk.store.shared.redials


def begin(redials: Redials, name: str, *, share: float = 0.5, term_s: float = 60.0) -> bool:
    return redials.begin(NodeName(name), share=share, term_s=term_s).is_ours


def test_no_more_than_the_share_of_the_live_nodes_has_a_place(redials: Redials, desk: QueueDesk) -> None:
    for number in range(4):
        desk.register(a_report(f"node-{number}"))
    assert [begin(redials, f"node-{number}") for number in range(4)] == [True, True, False, False]
    refused = redials.begin(NodeName("node-3"), share=0.5, term_s=60)
    assert (refused.is_ours, refused.taken, refused.places) == (False, 2, 2)
    redials.end(NodeName("node-0"))
    assert begin(redials, "node-3")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.29])
def test_one_may_always_also_of_few_nodes(redials: Redials, desk: QueueDesk, share: float) -> None:
    for number in range(3):
        desk.register(a_report(f"node-{number}"))
    assert [begin(redials, f"node-{number}", share=share) for number in range(3)] == [True, False, False]


def test_whole_shares_are_whole(redials: Redials, desk: QueueDesk) -> None:
    for number in range(10):
        desk.register(a_report(f"node-{number}"))
    assert redials.begin(NodeName("node-0"), share=0.3, term_s=60).places == 3
    assert redials.begin(NodeName("node-0"), share=1.0, term_s=60).places == 10


def test_who_has_a_place_keeps_it(redials: Redials, desk: QueueDesk) -> None:
    desk.register(a_report("node-1"))
    assert begin(redials, "node-1")
    assert begin(redials, "node-1")
    assert not begin(redials, "node-2")


def test_a_node_that_dies_while_it_redials_frees_its_place(redials: Redials, desk: QueueDesk) -> None:
    desk.register(a_report("node-1"))
    assert begin(redials, "node-1")
    assert not begin(redials, "node-2")
    assert begin(redials, "node-1", term_s=0.2)
    wait_until(lambda: begin(redials, "node-2"), deadline_s=SOON_S, what="the place to be free")


def test_giving_back_what_one_has_not_changes_nothing(redials: Redials) -> None:
    redials.end(NodeName("node-9"))


def test_redis_tells_a_process_from_where_it_comes(desk: QueueDesk) -> None:
    seen = desk.nodes.whereabouts()
    assert (seen.local, seen.outside) == ("127.0.0.1", "127.0.0.1")
    asked = desk.redis.info("commandstats")["cmdstat_client|info"]["calls"]
    assert desk.nodes.whereabouts() == seen
    assert desk.redis.info("commandstats")["cmdstat_client|info"]["calls"] == asked
    assert desk.nodes.whereabouts(anew=True) == seen
    asked += 1
    desk.nodes.look_anew()
    assert desk.nodes.whereabouts() == seen
    assert desk.redis.info("commandstats")["cmdstat_client|info"]["calls"] == asked + 1
