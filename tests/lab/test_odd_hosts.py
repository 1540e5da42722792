"""Forty hosts, three of them bad; hosts and operators that die in the middle; a disk that fills."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
import uv
from support.lab.lab import BringUp, Lab
from support.lab.operating import LabOperator
from support.lab.wishes import HostWish, several
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

NODE = 6800
GOOD = 37
SOME = 10
TINY_MB, NARROW_MB = 90, 800
FILL, FILLER, UV = "/usr/local/bin/fill", "/var/tmp/filler", "/usr/local/bin/uv"  # noqa: S108 - a host's own
"""A program that fills a host's disk, the file that it writes, and uv, where the one of the node is another program."""
BAD = {"no-python": "there is no Python 3", "no-key": "takes none of what deploy was shown", "full": "MB are needed"}
"""The bad hosts, and what is said about each."""


@pytest.fixture(scope="module")
def lab(bring_up: BringUp, redis_host: HostWish) -> Lab:
    bad = (HostWish("no-python", python=False), HostWish("no-key"), HostWish("full", disk_mb=TINY_MB))
    lab = bring_up(*several(GOOD - 1), HostWish("narrow", disk_mb=NARROW_MB), *bad, redis_host)
    (lab.host("no-key").root / "home" / lab.user / ".ssh/authorized_keys").unlink()
    return lab


@pytest.fixture(scope="module")
def operator(lab: Lab, wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> LabOperator:
    operator = LabOperator(lab, tmp_path_factory.mktemp("operator"))
    operator.has_inventory(everywhere={"provision.wheelhouse": str(wheelhouse)})
    return operator


def test_forty_hosts_are_planned_and_three_bad_ones_stop_nobody(operator: LabOperator) -> None:
    told = operator.expects("nodes", "provision", "--dry-run", "--output", "json", exit_code=4).json()
    by_name = {row["name"]: row for row in told}
    assert len(by_name) == GOOD + len(BAD)
    assert {name for name, row in by_name.items() if not row["ok"]} == set(BAD)
    for name, words in BAD.items():
        assert words in by_name[name]["error"]
        assert by_name[name]["error"].startswith(f"{name}: ")
    assert all(row["steps"] for row in told if row["ok"])


def test_bad_hosts_fail_beside_good_ones_and_are_remembered(operator: LabOperator, lab: Lab) -> None:
    pattern = "h1:" + ":".join(BAD)
    told = operator.expects("nodes", "provision", "--on", pattern, "--yes", "--output", "json", exit_code=4).json()
    assert {row["name"]: row["ok"] for row in told} == {"h1": True} | dict.fromkeys(BAD, False)
    assert lab.is_open("h1", NODE)
    again = operator.expects("nodes", "provision", "--on", "@failed", "--dry-run", "--output", "json", exit_code=4)
    assert {row["name"] for row in again.json()} == set(BAD)


def test_a_host_that_crashes_in_the_middle_is_completed_by_the_next_run(operator: LabOperator, lab: Lab) -> None:
    with operator.begins("nodes", "provision", "--on", "h2", "--yes") as command:
        wait_until(lambda: "installing packages" in command.err, deadline_s=90, what="packages to be installed")
        wait_until(lambda: has_some_packages(lab, "h2"), deadline_s=60, what="some packages to be there")
        lab.crash("h2")
        lab.boot("h2")
        ended = command.wait(timeout_s=120)
    assert ended.exit_code != 0
    assert "h2" in ended.err
    assert "Traceback" not in ended.err
    completed(operator, "h2")


def test_an_operator_that_is_killed_in_the_middle_leaves_what_the_next_run_completes(
    operator: LabOperator, lab: Lab
) -> None:
    with operator.begins("nodes", "provision", "--on", "h3", "--yes") as command:
        wait_until(lambda: "installing packages" in command.err, deadline_s=90, what="packages to be installed")
        # Leaving kills it with SIGKILL.
    completed(operator, "h3")
    node = int(lab.execute("h3", "systemctl", "show", "-P", "MainPID", "crawlctl-node"))
    lab.execute("h3", "kill", f"-{signal.SIGKILL}", str(node))
    wait_until(lambda: lab.is_open("h3", NODE), deadline_s=30, what="systemd to have the node back")


def test_a_disk_that_fills_in_the_middle_is_said_and_can_be_mended(operator: LabOperator, lab: Lab) -> None:
    has_program(lab, FILL, f"[ -e {FILLER} ] || cat /dev/zero >{FILLER}; true")
    shutil.copy(uv.find_uv_bin(), lab.host("narrow").root / "usr/local/bin")
    drop_in = "/etc/systemd/system/crawlctl-node.service.d/fill.conf"
    fills_before_uv, fills_after_uv, fills_before_node = (
        (f'[ "$2" != install ] || {FILL}; {UV} "$@"', "true"),
        (f'{UV} "$@" && {{ [ "$2" != install ] || {FILL}; }}', "true"),
        (f'{UV} "$@"', FILL),
    )
    for of_uv, of_node in (fills_before_uv, fills_after_uv, fills_before_node):
        lab.execute("narrow", "rm", "-f", FILLER)
        has_program(lab, "/opt/crawlctl/bin/uv", of_uv)
        lab.execute("narrow", "install", "-D", "/dev/stdin", drop_in, stdin=f"[Service]\nExecStartPre=-+{of_node}\n")
        told = operator.expects("nodes", "provision", "--on", "narrow", "--yes", exit_code=4).err
        assert "narrow: " in told
        assert "no space left" in told.lower()
        assert "hint: free some space there, then provision it again" in told
        assert ("waiting for the node" in told) == (of_node == FILL)
    lab.execute("narrow", "rm", FILL, FILLER)
    completed(operator, "narrow")
    # What a program wrote into its environment while the disk fills would be damaged for good.
    assert not lab.execute("narrow", "sh", "-c", "cd /opt/crawlctl/envs && find */ -newer */complete.json")


def has_some_packages(lab: Lab, host: str) -> bool:
    """Tell whether a host's environment is being filled."""
    environments = lab.host(host).root / "opt/crawlctl/envs"
    return any(len(list(folder.iterdir())) > SOME for folder in environments.glob("*/lib/python3*/site-packages"))


def has_program(lab: Lab, path: str, script: str) -> None:
    """Give the narrow host a program."""
    lab.execute("narrow", "install", "-D", "-m", "755", "/dev/stdin", path, stdin=f"#!/bin/sh\n{script}\n")


def completed(operator: LabOperator, host: str) -> None:
    """See one run complete the host, and another find nothing to do."""
    run = ("nodes", "provision", "--on", host, "--yes", "--output", "json")
    assert [row["ok"] for row in operator.expects(*run).json()] == [True]
    assert [row["changed"] for row in operator.expects(*run).json()] == [False]
    nodes = operator.expects("nodes", "--on", host, "--output", "json").json()
    assert [node["state"] for node in nodes] == ["live"]
