"""A host that is not fit is told in one clear line, before anything is changed there."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
from support.paper_host import REDIS, bare_facts, wanted

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret, SshAddress
from toolkit.provision.facts import FileFact, LockFact, PythonFact, ServiceFact
from toolkit.provision.node_security import NodeSecurity
from toolkit.provision.places import Places
from toolkit.provision.plan import plan
from toolkit.provision.provisioning import is_gone
from toolkit.provision.steps import machine_mark

OLD = PythonFact("/usr/bin/python3", (3, 9, 2))
SYSTEM = {"service": "system"}
NO_ROOT: dict[str, Any] = {"is_root": False, "service_user": "deploy", "has_service_user": True, "user": "deploy"}


def unit_of(folder: str) -> FileFact:
    return FileFact("digest", 0o644, "root", Secret(f"[Service]\nWorkingDirectory={folder}\n"))


UNFIT: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("old Python", {"python": OLD}, {}, "python3 is Python 3.9.2; a node needs 3.11"),
    (
        "new Python",
        {"python": PythonFact("/usr/bin/python3", (3, 14, 0))},
        {},
        "python3 is Python 3.14.0; a node",
    ),
    (
        "other Python",
        {"lacks_python": "python3.12"},
        {"python": "python3.12"},
        "there is no python3.12; there is /usr",
    ),
    (
        "half a Python",
        {"python_error": "No module named 'venv'"},
        {},
        "its Python is not whole: No module named 'venv'",
    ),
    ("full disk", {"disk_free_mb": 120}, {}, "120 MB are free for /opt/crawlctl, 400 MB are needed"),
    ("read-only", {"is_writable": False}, {}, "it, or the folder above it, is read-only"),
    ("no sudo", {**NO_ROOT, "sudo_error": "deploy may not use sudo"}, SYSTEM, "deploy may not use sudo"),
    ("no systemd", {"has_systemd": False}, SYSTEM, "it does not run there"),
    ("no user manager", NO_ROOT, {"service": "user"}, "systemd's user manager of deploy does not answer"),
    ("root as user", {}, {"service": "user"}, "we log in as root there"),
    ("taken port", {"port_holder": "nginx (pid 7)"}, {}, "port 6800 is taken by nginx (pid 7)"),
    ("foreign address", {"bind_error": "not ours"}, {}, "10.0.0.1 is no address of this host"),
    ("Redis away", {"redis": {"10.0.0.9:6379": "Connection refused"}}, {}, "10.0.0.9:6379: Connection refused"),
    ("another node", {"record": {"node": "node-7"}}, {}, "/opt/crawlctl holds the node node-7"),
    (
        "unit of another folder",
        {"files": {"/etc/systemd/system/crawlctl-node.service": unit_of("/srv/crawl/node")}},
        {},
        "its service crawlctl-node runs the node in /srv/crawl",
    ),
    ("other system", {"system": "darwin"}, {}, "it runs darwin; nodes are provisioned on Linux only"),
    ("shared folder", {"places": Places("/usr/local/", "/root")}, {}, "/usr/local is not a folder of the node alone"),
    ("whole disk", {"places": Places("/opt/..", "/root")}, {}, "/ is not a folder of the node alone"),
    ("home", {"places": Places("/home/deploy", "/home/deploy")}, {}, "/home/deploy is not a folder of the node alone"),
    ("locked", {"lock": LockFact("ann@pc", "t0ken", 12.0)}, {}, "ann@pc provisions it now, last heard of 12 s ago"),
    (
        "root lost",
        {**NO_ROOT, "sudo_error": "wrong", "services": (ServiceFact("system", is_active=True, is_enabled=True),)},
        {},
        "the node there is a service of the system, and we are not root: wrong",
    ),
]


@pytest.mark.parametrize(("changes", "provision", "why"), [each[1:] for each in UNFIT], ids=[each[0] for each in UNFIT])
def test_what_makes_a_host_unfit_is_said(changes: dict[str, Any], provision: dict[str, Any], why: str) -> None:
    problems = plan(bare_facts(**changes), wanted(provision=provision)).problems

    assert len(problems) == 1
    assert why in problems[0].why
    assert problems[0].hint or "Linux" in problems[0].why


def test_wrong_password_of_sudo_is_no_wish_for_a_node_without_root() -> None:
    facts = bare_facts(**NO_ROOT, sudo_error="sudo does not take the password of deploy")

    refused = plan(facts, wanted({"ssh": SshAddress(sudo_password=Secret("no"))})).problems
    assert [each.why for each in refused] == ["sudo does not take the password of deploy"]
    assert not plan(facts, wanted()).problems


def test_newer_python_that_the_host_has_is_named() -> None:
    problems = plan(bare_facts(python=OLD, pythons=(PythonFact("/usr/bin/python3.12", (3, 12, 1)),)), wanted()).problems

    assert problems[0].hint == "it also has /usr/bin/python3.12: provision.python: /usr/bin/python3.12"


@pytest.mark.parametrize(
    "lock",
    [
        LockFact("ann@pc", "t", 901.0),
        LockFact("ann@pc", "t", 5.0, is_of_this_boot=False),
        LockFact("ann@pc", "t", 5.0, is_abandoned=True),
    ],
)
def test_lock_of_one_who_was_cut_short_is_taken_over_and_said(lock: LockFact) -> None:
    found = plan(bare_facts(lock=lock), wanted())

    assert not found.problems
    assert "ann@pc was cut short; its lock is taken over" in found.notes


def test_one_of_several_sentinels_is_enough() -> None:
    found = plan(bare_facts(redis={"10.0.0.9:26379": "no answer", "10.0.0.8:26379": None}), wanted())

    assert not found.problems


def test_firewall_and_clock_are_notes_and_nothing_is_changed_there() -> None:
    found = plan(bare_facts(firewalls=("ufw",), clock_skew_s=-42.0), wanted())

    assert any("ufw allow from OPERATOR to any port 6800 proto tcp" in note for note in found.notes)
    assert "its clock is -42.0 s off" in found.notes
    assert not any("ufw" in str(step.operations) for step in found.steps)


@pytest.mark.parametrize(
    ("host", "provision", "redis", "why"),
    [
        ({"scheme": "https"}, {}, REDIS, "but a provisioned node is reached directly"),
        ({"path": "/node-a"}, {}, REDIS, "but a provisioned node is reached directly"),
        ({"password": None}, {}, REDIS, "has no user name and password"),
        ({"username": "a:b"}, {}, REDIS, "the user name holds a colon"),
        ({}, {}, Secret("redis://127.0.0.1:6379"), "is this machine's own"),
        ({"scheme": "https"}, {"tls": "generated"}, None, "a stock node speaks no TLS"),
    ],
)
def test_inventory_that_asks_for_what_cannot_be_is_refused(
    host: dict[str, Any], provision: dict[str, Any], redis: Secret | None, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        wanted(host, provision, redis=redis, security=NodeSecurity())


def test_only_an_ended_process_of_our_own_machine_is_known_to_be_gone() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()

    def lock(who: str, token: str = f"{machine_mark()}0") -> LockFact:
        return LockFact(who, token, 1.0)

    assert is_gone(lock(f"ann@pc:{ended.pid}"), "ann@pc:1")
    assert not is_gone(lock(f"ann@pc:{os.getpid()}"), "ann@pc:1")
    assert not is_gone(lock(f"ann@laptop:{ended.pid}"), "ann@pc:1")
    assert not is_gone(lock("somebody"), "ann@pc:1")
    assert not is_gone(lock(f"ann@pc:{ended.pid}", "0123456789abcdef0"), "ann@pc:1"), "another machine of that name"


def test_a_folder_is_the_same_however_it_is_written() -> None:
    files = {"/etc/systemd/system/crawlctl-node.service": unit_of("/srv/crawl/node")}
    assert not plan(bare_facts(files=files, places=Places("/srv/crawl/", "/root")), wanted()).problems
