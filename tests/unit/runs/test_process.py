"""A process is known by its id and its start, and is ended with its whole group, or not touched at all."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.debian import require_installed
from support.processes import kill_group
from support.waiting import wait_until

from toolkit.runs import process
from toolkit.runs.process import group_members_left, is_alive, signal_group, start_of, wait_gone, watch

LEADER = """
import subprocess, sys
child = subprocess.Popen(["sleep", "300"])
print(child.pid, flush=True)
sys.stdin.read()
"""
NOBODY = 2**22 + 1
HAS_PROC = Path("/proc/self/stat").exists()


@pytest.fixture(params=["proc", "ps"], autouse=True)
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """See processes as Linux shows them, and as `ps` does."""
    name = str(request.param)
    monkeypatch.setattr(process, "_has_proc", lambda: name == "proc")
    if name == "proc" and not HAS_PROC:
        pytest.skip("this system has no /proc")
    if name == "ps":
        require_installed({"ps": "procps"})


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "300"])
    yield child
    child.kill()
    child.wait()


@pytest.fixture
def family() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a process that leads a group, and its child in the group; kill what is left of them."""
    command = [sys.executable, "-c", LEADER]
    leader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert leader.stdout is not None
    child = int(leader.stdout.readline())
    yield leader, child
    kill_group(leader.pid)
    leader.communicate()


def test_a_start_stays_the_same_and_is_not_that_of_a_process_of_another_time() -> None:
    own = start_of(os.getpid())
    assert own
    assert start_of(os.getpid()) == own
    assert start_of(1) != own


def test_there_is_no_start_without_a_process() -> None:
    assert start_of(NOBODY) is None
    assert start_of(0) is None
    assert start_of(-1) is None


def test_a_start_does_not_depend_on_the_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = start_of(os.getpid())
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert start_of(os.getpid()) == before


def test_a_program_with_a_strange_name_is_read_like_any_other(tmp_path: Path) -> None:
    odd = tmp_path / "a) R 1 ("
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(odd), "300"])
    try:
        start = started(child.pid)
        assert is_alive(child.pid, start)
    finally:
        child.kill()
        child.wait()


def test_only_that_very_process_is_alive(sleeper: subprocess.Popen[bytes]) -> None:
    assert is_alive(sleeper.pid, started(sleeper.pid))
    assert not is_alive(sleeper.pid, "another start")
    assert not is_alive(NOBODY, started(sleeper.pid))


def test_a_zombie_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    start = started(sleeper.pid)
    sleeper.kill()
    wait_until(lambda: not is_alive(sleeper.pid, start), deadline_s=20, what="the zombie")
    assert sleeper.returncode is None, "nobody has reaped it yet"


def test_a_descriptor_tells_of_the_end(sleeper: subprocess.Popen[bytes]) -> None:
    if not hasattr(os, "pidfd_open"):
        pytest.skip("this system has no such descriptors")
    descriptor = watch(sleeper.pid, started(sleeper.pid))
    assert descriptor is not None
    try:
        assert select.select([descriptor], [], [], 0)[0] == []
        sleeper.kill()
        assert select.select([descriptor], [], [], 20)[0] == [descriptor]
    finally:
        os.close(descriptor)


def test_there_is_no_descriptor_for_a_process_that_has_ended_or_is_another(sleeper: subprocess.Popen[bytes]) -> None:
    start = started(sleeper.pid)
    assert watch(sleeper.pid, "another start") is None
    sleeper.kill()
    sleeper.wait()
    assert watch(sleeper.pid, start) is None


def test_waiting_ends_with_the_process_or_with_the_deadline(sleeper: subprocess.Popen[bytes]) -> None:
    start = started(sleeper.pid)
    assert not wait_gone(sleeper.pid, start, deadline_s=0.1)
    sleeper.kill()
    assert wait_gone(sleeper.pid, start, deadline_s=20)


def test_a_signal_reaches_the_whole_group(family: tuple[subprocess.Popen[str], int]) -> None:
    leader, child = family
    start, start_of_child = started(leader.pid), started(child)
    assert group_members_left(leader.pid, start) == tuple(sorted((leader.pid, child)))
    assert signal_group(leader.pid, start, signal.SIGKILL)
    assert wait_gone(leader.pid, start, deadline_s=20)
    assert wait_gone(child, start_of_child, deadline_s=20)
    assert group_members_left(leader.pid, start) == ()


def test_what_a_dead_leader_left_behind_is_known_and_still_gets_the_signal(
    family: tuple[subprocess.Popen[str], int],
) -> None:
    leader, child = family
    start, start_of_child = started(leader.pid), started(child)
    leader.kill()
    leader.wait()
    assert not is_alive(leader.pid, start)
    assert group_members_left(leader.pid, start) == (child,)
    assert signal_group(leader.pid, start, signal.SIGKILL)
    assert wait_gone(child, start_of_child, deadline_s=20)
    assert group_members_left(leader.pid, start) == ()
    assert not signal_group(leader.pid, start, signal.SIGKILL)


def test_a_zombie_that_led_a_group_does_not_hide_the_group(family: tuple[subprocess.Popen[str], int]) -> None:
    leader, child = family
    start = started(leader.pid)
    leader.kill()
    wait_until(lambda: not is_alive(leader.pid, start), deadline_s=20, what="the zombie")
    assert group_members_left(leader.pid, start) == (child,)
    assert signal_group(leader.pid, start, signal.SIGKILL)


def test_a_process_that_was_given_the_same_id_gets_no_signal(family: tuple[subprocess.Popen[str], int]) -> None:
    leader, child = family
    earlier = started(os.getpid()) if started(os.getpid()) != started(leader.pid) else "earlier"
    assert not signal_group(leader.pid, earlier, signal.SIGKILL)
    assert group_members_left(leader.pid, earlier) == ()
    assert is_alive(leader.pid, started(leader.pid))
    assert is_alive(child, started(child))


def test_children_of_an_earlier_boot_are_nobodys(
    family: tuple[subprocess.Popen[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not HAS_PROC:
        pytest.skip("this system has no /proc")
    monkeypatch.setattr(process, "_has_proc", lambda: True)
    leader, child = family
    leader.kill()
    leader.wait()
    ticks = started(child).rpartition(":")[2]
    assert group_members_left(leader.pid, f"another-boot:{ticks}") == ()
    assert not signal_group(leader.pid, f"another-boot:{ticks}", signal.SIGKILL)
    assert is_alive(child, started(child))


def test_a_process_that_leads_no_group_gets_the_signal_alone(sleeper: subprocess.Popen[bytes]) -> None:
    assert os.getpgid(sleeper.pid) != sleeper.pid, "it is in our own group"
    assert signal_group(sleeper.pid, started(sleeper.pid), signal.SIGTERM)
    assert sleeper.wait(20) == -signal.SIGTERM


def test_a_process_that_signals_itself_does_not_signal_its_group() -> None:
    code = "import os, signal, subprocess\nfrom toolkit.runs.process import signal_group, start_of\nos.setsid()\n"
    code += "child = subprocess.Popen(['sleep', '300'])\nsignal.signal(signal.SIGTERM, lambda *_: None)\n"
    code += "try:\n    print(signal_group(os.getpid(), start_of(os.getpid()), signal.SIGTERM), end=' ')\n"
    code += "    child.wait(0.2)\nexcept subprocess.TimeoutExpired:\n    print('alone')\nfinally:\n    child.kill()\n"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.split() == ["True", "alone"], ended.stderr


def started(pid: int) -> str:
    start = start_of(pid)
    assert start is not None
    return start


def test_the_age_of_a_process_goes_by_no_clock_that_can_be_set() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        start, age_s = started(child.pid), process.age_of(started(child.pid))
        assert (age_s is None) == (not process._has_proc()), start
        assert age_s is None or 0 <= age_s < 60
        child.communicate(b"\n")
    assert process.age_of("Tue Nov 17 10:00:00 2026") is None
    assert process.age_of("another-boot:100") is None
