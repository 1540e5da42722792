"""The lab does what the stories rely on: real hosts that are cut off, slowed, crashed, moved and hidden."""

from __future__ import annotations

import subprocess
import time

import pytest
from support.lab.lab import REDIS_PORT, BringUp, Lab
from support.lab.system import started_at
from support.lab.wishes import HostWish
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)  # The first lab of a machine builds the base.

SSH = 22


@pytest.fixture(scope="module")
def lab(bring_up: BringUp, redis_host: HostWish) -> Lab:
    return bring_up(
        HostWish("h1"),
        HostWish("h2", disk_mb=64),
        HostWish("plain", systemd=False, python=False, sudo="none"),
        HostWish("hidden", behind="nat1"),
        HostWish("dialling", dials_up=True),
        redis_host,
    )


def test_a_cut_host_is_silent_until_it_is_healed(lab: Lab) -> None:
    assert lab.is_open("h1", SSH)
    lab.cut("h1")
    assert not lab.is_open("h1", SSH)
    lab.heal("h1")
    wait_until(lambda: lab.is_open("h1", SSH), deadline_s=10, what="h1 to be heard again")
    lab.cut("h1", "redis")
    assert lab.is_open("h1", SSH)
    assert not lab.is_open("redis", REDIS_PORT, seen_from="h1")
    lab.heal("h1", "redis")
    wait_until(lambda: lab.is_open("redis", REDIS_PORT, seen_from="h1"), deadline_s=10, what="h1 to hear Redis again")


def test_frames_are_delayed_each_way(lab: Lab) -> None:
    lab.delay("h1", delay_ms=60)
    began = time.monotonic()
    assert lab.is_open("h1", SSH)
    assert time.monotonic() - began > 0.12
    lab.delay("h1")
    began = time.monotonic()
    assert lab.is_open("h1", SSH)
    assert time.monotonic() - began < 0.1


def test_a_crashed_host_keeps_its_disk_and_nothing_else(lab: Lab) -> None:
    lab.execute("h1", "sh", "-c", "echo kept >/root/kept; echo gone >/run/gone")
    leader = lab.host("h1").leader
    assert leader is not None
    lab.crash("h1")
    assert not started_at(leader)
    assert not lab.is_open("h1", SSH)
    lab.boot("h1")
    assert lab.execute("h1", "cat", "/root/kept") == "kept\n"
    assert "No such file" in lab.execute("h1", "cat", "/run/gone", check=False)


def test_a_hidden_host_reaches_others_and_is_reached_by_its_ssh_port_alone(lab: Lab) -> None:
    assert lab.is_open("redis", REDIS_PORT, seen_from="hidden")
    assert not lab.is_open("hidden", SSH)
    address, port = lab.ssh_place("hidden")
    with lab.inside():
        command = ["ssh-keyscan", "-t", "ed25519", "-p", str(port), address]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert lab.host("hidden").host_key in shown


def test_a_dial_up_host_changes_its_address(lab: Lab) -> None:
    first = lab.address("dialling")
    second = lab.redial("dialling")
    assert lab.address("dialling") == second != first
    assert lab.is_open("dialling", SSH)
    anyone = ("runuser", "-u", lab.user, "--", "sudo", "-n", "redial")
    third = lab.execute("dialling", *anyone).strip()
    assert lab.address("dialling") == third not in {first, second}


def test_a_host_is_as_bare_as_wished(lab: Lab) -> None:
    assert "No space left" in lab.execute("h2", "dd", "if=/dev/zero", "of=/root/big", "bs=1M", "count=80", check=False)
    assert "No such file" in lab.execute("plain", "python3", "-V", check=False)
    assert "systemd" not in lab.execute("plain", "ps", "-A", "-o", "comm=")
    assert "password is required" in lab.execute(
        "plain", "runuser", "-u", lab.user, "--", "sudo", "-n", "true", check=False
    )
    assert lab.execute("h1", "systemctl", "is-system-running", "--wait") == "running\n"
