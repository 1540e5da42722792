"""A change that rolls through hosts, on a real Redis; the nodes are reduced to their words in the registry."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from support.plugged_node import PluggedNode
from support.queue_desk import QueueDesk, a_pending_job, queue_desk
from support.waiting import wait_until

from toolkit.cluster.membership import registered
from toolkit.cluster.nodes import Nodes
from toolkit.model.errors import HostUnreachableError
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName
from toolkit.model.rolls import DONE, NOT_BEGUN, Rolled
from toolkit.provision.remote import CONNECT
from toolkit.provision.rolling import CHANGE, DRAIN, HEALTH, Care, Changed, InterruptedRollError, drainer, roll

QUICK = Care(drain_s=0.3, health_s=60)


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[QueueDesk]:
    with queue_desk(redis_url, tmp_path) as desk:
        yield desk


class Hosts:
    """Some plug-in nodes and the roll through their hosts; `change` is what is done to each."""

    def __init__(self, desk: QueueDesk, *names: str) -> None:
        self.desk = desk
        self.names = [NodeName(name) for name in names]
        self.changed: list[str] = []
        self.nodes: dict[str, PluggedNode] = {}

    def change(self, host: Host) -> Changed:
        self.changed.append(host.name)
        self.nodes[host.name].start_anew()
        return Changed("restarted")

    def roll(
        self, change: Callable[[Host], Changed] | None = None, *, care: Care = QUICK, batch: int = 1
    ) -> list[Rolled]:
        return roll(
            [Host(name) for name in self.names],
            change or self.change,
            batch=batch,
            care=care,
            store=self.desk.store,
            nodes=Nodes([]),
            who="ann@desk:1",
            on_step=lambda _name, _step: None,
            on_done=lambda _rolled: None,
        )

    def draining(self) -> list[str]:
        return [record.name for record in registered(self.desk.store) if record.is_draining]


@pytest.fixture
def hosts(desk: QueueDesk) -> Iterator[Hosts]:
    with ExitStack() as ending:
        hosts = Hosts(desk, "a", "b", "c")
        for name in hosts.names:
            hosts.nodes[name] = ending.enter_context(PluggedNode(desk.store, name, claims=name == "b"))
        yield hosts


def test_a_roll_takes_one_host_after_the_other_and_leaves_none_drained(hosts: Hosts) -> None:
    drained: list[list[str]] = []

    def change(host: Host) -> Changed:
        drained.append(hosts.draining())
        return hosts.change(host)

    assert [(each.host, each.step, each.note) for each in hosts.roll(change)] == [
        (name, DONE, "restarted") for name in "abc"
    ]
    assert drained == [["a"], ["b"], ["c"]]
    assert hosts.draining() == []


def test_a_node_that_somebody_had_drained_stays_drained(hosts: Hosts) -> None:
    assert hosts.desk.store.shared is not None
    hosts.desk.store.shared.nodes.drain([NodeName("b")], who="ben@desk")
    hosts.roll(batch=3)
    assert hosts.draining() == ["b"]


def test_a_node_that_a_killed_operator_left_drained_takes_jobs_again(hosts: Hosts) -> None:
    assert hosts.desk.store.shared is not None
    hosts.desk.store.shared.nodes.drain([NodeName("b")], who=drainer("ann@desk:7", "upgrade"))
    hosts.roll(batch=3)
    assert hosts.draining() == []


def test_a_host_that_does_not_get_well_stops_the_roll_and_stays_drained(hosts: Hosts) -> None:
    def change(host: Host) -> Changed:
        hosts.nodes[host.name].start_anew(unfit="the disk is full" if host.name == "b" else None)
        return Changed("restarted")

    rolled = hosts.roll(change, care=replace(QUICK, health_s=4))
    assert [each.step for each in rolled] == [DONE, HEALTH, NOT_BEGUN]
    assert str(rolled[1].error) == "b is not well after 4 s: it takes no job: the disk is full"
    assert rolled[1].note == "b stays drained"
    assert hosts.draining() == ["b"]


def test_a_host_that_lets_nobody_in_takes_jobs_again(hosts: Hosts) -> None:
    def change(host: Host) -> Changed:
        raise HostUnreachableError(host.name, CONNECT, "no route to host")

    rolled = hosts.roll(change)
    assert [each.step for each in rolled] == [CHANGE, NOT_BEGUN, NOT_BEGUN]
    assert rolled[0].note is None
    assert hosts.draining() == []


def test_a_host_with_jobs_is_left_as_it_is_unless_forced(hosts: Hosts) -> None:
    job = replace(a_pending_job("long"), on=(NodeName("b"),))
    hosts.desk.queue.add([job])
    hosts.nodes["b"].wait_for_jobs("long")

    rolled = hosts.roll()
    assert [each.step for each in rolled] == [DONE, DRAIN, NOT_BEGUN]
    assert "b still runs 1 job(s), so it was left as it is" in str(rolled[1].error)
    assert hosts.changed == ["a"]
    assert hosts.draining() == [], "what was not changed takes jobs again"

    assert [each.step for each in hosts.roll(care=replace(QUICK, is_forced=True))] == [DONE] * 3


def test_an_interruption_ends_the_wait_for_jobs_and_begins_no_further_host(hosts: Hosts) -> None:
    hosts.desk.queue.add([replace(a_pending_job("long"), on=(NodeName("b"),))])
    hosts.nodes["b"].wait_for_jobs("long")

    def interrupt() -> None:
        wait_until(lambda: hosts.draining() == ["b"], deadline_s=60, what="b to drain")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(InterruptedRollError) as interrupted:
        hosts.roll(care=replace(QUICK, drain_s=60))
    assert [each.step for each in interrupted.value.rolled] == [DONE, DRAIN, NOT_BEGUN]
    assert str(interrupted.value.rolled[1].error) == "b: interrupted before anything was changed"
    assert hosts.draining() == []
