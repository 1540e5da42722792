"""Processes that outlive their command: found again, never mistaken, and gone with all their children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.processes import quiet_environment
from support.waiting import wait_until

from toolkit.model.errors import ConfigurationError
from toolkit.provision import processes
from toolkit.provision.processes import Kept

SLEEPS = "import time; time.sleep(120)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(120)"
# A parent whose child is in a session of its own, as browsers are.
PARENT = (
    "import subprocess, sys, time\n"
    f"child = subprocess.Popen([sys.executable, '-c', {SLEEPS!r}], start_new_session=True)\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(120)\n"
)

# A parent of two, one of them with a variable that may spare it.
SPARING = f"""
import os, subprocess, sys, time
environs = [{{**os.environ}}, {{**os.environ, "SPARED": "1"}}]
children = [subprocess.Popen([sys.executable, "-S", "-c", {SLEEPS!r}], env=each) for each in environs]
print(*(child.pid for child in children), flush=True)
time.sleep(120)
"""

# A parent that ends its own child, which would complain if it were asked to end by somebody else.
POLITE = """
import signal, subprocess, sys, time

CHILD = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: print('told', flush=True)); time.sleep(120)"
child = subprocess.Popen([sys.executable, "-S", "-c", CHILD])


def end(*_):
    child.kill()
    child.wait()
    print("done", flush=True)
    sys.exit()


signal.signal(signal.SIGTERM, end)
print("up", flush=True)
while True:
    time.sleep(0.01)
"""


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "process.json"
    yield path
    processes.end_orphans(path, grace_s=0)


def started(record: Path, code: str) -> Kept:
    folder = record.parent
    return processes.start(
        [sys.executable, "-S", "-c", code],
        cwd=folder,
        log=folder / "log",
        env=quiet_environment(folder),
        record=record,
    )


def first_line(record: Path) -> str:
    log = record.parent / "log"
    return wait_until(lambda: log.read_text().partition("\n")[0], deadline_s=30, what="the first line")


def is_there(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_started_process_is_found_by_its_record_and_gone_after_stop(record: Path) -> None:
    kept = started(record, SLEEPS)
    assert processes.find(record) == kept
    result = processes.stop(kept, grace_s=5)
    assert result.gone == (kept.pid,)
    assert not result.alive
    assert not result.killed
    assert not psutil.pid_exists(kept.pid)
    assert processes.find(record) is None
    assert not record.exists()


def test_another_python_finds_the_process_too(record: Path) -> None:
    kept = started(record, SLEEPS)
    code = "import sys; from pathlib import Path; from toolkit.provision import processes as p\n"
    code += "kept = p.find(Path(sys.argv[1])); print(kept.pid); print(p.stop(kept, grace_s=5).alive)"
    command = [sys.executable, "-c", code, str(record)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    # It cannot reap our child, and is not fooled by its remains.
    assert printed == [str(kept.pid), "()"]


def test_a_record_whose_pid_now_belongs_to_another_process_is_ignored(record: Path) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", SLEEPS], start_new_session=True) as stranger:
        record.write_text(json.dumps({"pid": stranger.pid, "started_at": 1_000_000.0}))
        assert processes.find(record) is None
        result = processes.stop(Kept(stranger.pid, 1_000_000.0, record), grace_s=0)
        assert result == processes.StopResult()
        assert stranger.poll() is None
        stranger.kill()


def test_a_process_is_still_ours_after_the_clock_was_set_anew(record: Path) -> None:
    kept = started(record, SLEEPS)
    record.write_text(json.dumps({"pid": kept.pid, "started_at": kept.started_at - 3600}))
    assert processes.find(record) is not None


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"pid": "x"}', "null", '{"pid": 1}', "\ufeff"])
def test_a_damaged_record_is_no_process(record: Path, text: str) -> None:
    record.write_text(text)
    assert processes.find(record) is None


def test_a_process_that_ignores_sigterm_is_killed_after_its_grace(record: Path) -> None:
    kept = started(record, DEAF)
    assert first_line(record) == "deaf"
    result = processes.stop(kept, grace_s=0.2)
    assert result.killed == (kept.pid,)
    assert not result.alive
    assert not psutil.pid_exists(kept.pid)


def test_children_in_other_sessions_are_stopped_too(record: Path) -> None:
    kept = started(record, PARENT)
    child = int(first_line(record))
    result = processes.stop(kept, grace_s=5)
    assert set(result.gone) == {kept.pid, child}
    assert not is_there(child)


def test_who_has_the_spared_variable_is_left_alone_and_found_later(record: Path) -> None:
    kept = started(record, SPARING)
    plain, spared = map(int, first_line(record).split())
    result = processes.stop(kept, grace_s=5, spared="SPARED")
    assert set(result.gone) == {kept.pid, plain}
    assert is_there(spared)
    assert processes.end_orphans(record, grace_s=5, spared="SPARED") == processes.StopResult()
    assert processes.end_orphans(record, grace_s=5).gone == (spared,)
    assert not is_there(spared)


def test_orphans_of_a_killed_process_are_found_by_their_mark(record: Path) -> None:
    kept = started(record, PARENT)
    child = int(first_line(record))
    os.kill(kept.pid, signal.SIGKILL)
    wait_until(lambda: processes.find(record) is None, deadline_s=30, what="the process to be gone")
    assert is_there(child)
    assert processes.end_orphans(record, grace_s=5).gone == (child,)
    assert not is_there(child)


def test_a_parent_may_end_its_children_in_its_own_way_first(record: Path) -> None:
    kept = started(record, POLITE)
    assert first_line(record) == "up"
    assert not processes.stop(kept, grace_s=10).killed
    assert (record.parent / "log").read_text() == "up\ndone\n"


def test_a_process_that_died_is_not_found(record: Path) -> None:
    started(record, "pass")
    wait_until(lambda: processes.find(record) is None, deadline_s=30, what="the process to be gone")


def test_a_program_that_is_not_there_is_named(record: Path) -> None:
    folder = record.parent
    with pytest.raises(ConfigurationError, match="cannot run /no/such/program: No such file"):
        processes.start(["/no/such/program"], cwd=folder, log=folder / "log", env={}, record=record)
    assert not record.exists()


def test_the_log_and_the_record_are_their_owners_alone(record: Path) -> None:
    started(record, SLEEPS)
    assert record.stat().st_mode & 0o777 == 0o600
    assert (record.parent / "log").stat().st_mode & 0o777 == 0o600


def test_a_process_whose_record_cannot_be_written_does_not_stay(tmp_path: Path) -> None:
    record = tmp_path / "missing" / "process.json"
    with pytest.raises(ConfigurationError, match="cannot write"):
        processes.start(
            [sys.executable, "-c", SLEEPS], cwd=tmp_path, log=tmp_path / "log", env={"PATH": "/bin"}, record=record
        )
    assert processes.end_orphans(record, grace_s=0) == processes.StopResult()


def test_only_lines_since_the_start_are_quoted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    since = processes.log_size(log)
    with log.open("a") as file:
        file.write("\n".join(f"line {number}" for number in range(20)) + "\n\n")
    assert processes.last_lines(log, since=since, count=3) == "line 17\nline 18\nline 19"
    assert processes.last_lines(log, since=since, count=50).startswith("line 0")


def test_a_log_that_grew_too_large_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MAX_LOG_BYTES", 10)
    log = tmp_path / "log"
    log.write_text("more than ten bytes\n")
    assert processes.log_size(log) == 0
    assert (tmp_path / "log.1").read_text() == "more than ten bytes\n"
