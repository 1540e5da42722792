"""Keeps a node's Scrapyd running on a host without systemd: `python -m toolkit.node.keeper VERB FOLDER`.

    start FOLDER     run it in the background, unless it runs; forget an earlier `stop`
    watch FOLDER     do as `start`, unless it was stopped on purpose; for cron, each minute and at each boot
    restart FOLDER   end Scrapyd and start it anew; spiders of a node with the plug-in go on
    stop FOLDER      end Scrapyd and the keeper, and let `watch` start nothing
    status FOLDER    print what runs, as JSON

FOLDER is where the node's scrapyd.conf lies. One keeper at a time lives there (`keeper.lock`). A keeper that is killed
leaves Scrapyd running, and the next one takes it over. Nothing but Python is needed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from toolkit.runs.process import is_alive, signal_group, start_of, wait_gone

LOCK, STATE, STOPPED, LOG = "keeper.lock", "keeper.json", "keeper.stopped", "scrapyd.log"
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
STEADY_S = 30.0
"""A Scrapyd that has run for so long is started again at once when it dies; one that dies sooner ever later."""

END_WITHIN_S = 15.0
MAX_LOG_BYTES = 20_000_000
_LOOK_EVERY_S = 0.2
_LOOK_AFTER_S = 10.0
_USAGE = 2
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR")


class Keeper:
    """The loop in the background: one Scrapyd after the other, until it is told to end."""

    def __init__(self, folder: Path, lock: int) -> None:
        self._folder = folder
        self._lock = lock
        self._starts = 0
        self._wait_s = FIRST_WAIT_S
        self._is_ending = False
        self._is_renewing = False
        self._unnoted: dict[str, Any] | None = None
        self._looked_at = 0.0

    def run(self) -> None:
        """Keep Scrapyd running until SIGTERM; SIGHUP starts it anew."""
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGHUP, self._renew)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while not self._is_ending:
            try:
                pid, start = self._left_behind() or self._begin()
            except OSError:  # No process or no log can be had now.
                self._rest()
                continue
            begun = time.monotonic()
            self._live_through(pid, start)
            if self._is_renewing or time.monotonic() - begun >= STEADY_S:
                self._wait_s = FIRST_WAIT_S
            if self._is_renewing:
                self._is_renewing = False
                continue
            self._rest()
        (self._folder / STATE).unlink(missing_ok=True)

    def _left_behind(self) -> tuple[int, str] | None:
        """Return the Scrapyd that an earlier keeper has left running."""
        known = state(self._folder)
        pid, start = known.get("pid"), known.get("start")
        if isinstance(pid, int) and isinstance(start, str) and is_alive(pid, start):
            self._note(pid, start)
            return pid, start
        return None

    def _begin(self) -> tuple[int, str]:
        log = self._folder / LOG
        self._starts += 1
        with log.open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", "scrapyd", "--pidfile="],
                cwd=self._folder,
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # A group of its own: a stock node's spiders are in it, and end with it.
                start_new_session=True,
            )
        start = start_of(child.pid) or ""
        self._note(child.pid, start)
        return child.pid, start

    def _live_through(self, pid: int, start: str) -> None:
        while is_alive(pid, start):
            if self._is_ending or self._is_renewing:
                end_process(pid, start)
                break
            if time.monotonic() - self._looked_at >= _LOOK_AFTER_S:
                self._look_after()
            time.sleep(_LOOK_EVERY_S)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)

    def _rest(self) -> None:
        ends_at = time.monotonic() + self._wait_s
        self._wait_s = min(self._wait_s * 2, LONGEST_WAIT_S)
        while time.monotonic() < ends_at and not (self._is_ending or self._is_renewing):
            time.sleep(_LOOK_EVERY_S)

    def _note(self, pid: int, start: str) -> None:
        keeper = {"keeper_pid": os.getpid(), "keeper_start": start_of(os.getpid())}
        self._unnoted = {**keeper, "pid": pid, "start": start, "since": time.time(), "starts": self._starts}
        self._look_after()

    def _look_after(self) -> None:
        """Note what runs, if that could not be done before, and keep the log short; a full disk ends nothing."""
        self._looked_at = time.monotonic()
        with contextlib.suppress(OSError):
            if self._unnoted is not None:
                draft = self._folder / f".{STATE}"
                draft.write_text(json.dumps(self._unnoted), encoding="ascii")
                draft.replace(self._folder / STATE)
                self._unnoted = None
        log = self._folder / LOG
        with contextlib.suppress(OSError):
            if log.stat().st_size > MAX_LOG_BYTES:
                with contextlib.suppress(OSError):
                    shutil.copyfile(log, log.with_suffix(".log.1"))
                # Scrapyd appends to this very file, and goes on at its new end.
                os.truncate(log, 0)

    def _end(self, *_: object) -> None:
        self._is_ending = True

    def _renew(self, *_: object) -> None:
        self._is_renewing = True


def end_process(pid: int, start: str) -> None:
    """End a Scrapyd: asked first, killed after 15 s. A node with the plug-in leaves its spiders running."""
    signal_group(pid, start, signal.SIGTERM)
    if not wait_gone(pid, start, deadline_s=END_WITHIN_S):
        signal_group(pid, start, signal.SIGKILL)
        wait_gone(pid, start, deadline_s=END_WITHIN_S)


def state(folder: Path) -> dict[str, Any]:
    """Return what the last keeper of the folder has noted; empty when there is nothing."""
    try:
        noted = json.loads((folder / STATE).read_bytes())
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}


def is_kept(folder: Path) -> bool:
    """Tell whether a keeper lives in the folder."""
    lock = _enter(folder)
    if lock is None:
        return True
    os.close(lock)
    return False


def start(folder: Path) -> None:
    """Let a keeper run in the background, unless one does, and forget an earlier stop. Returns when it is there."""
    (folder / STOPPED).unlink(missing_ok=True)
    watch(folder)


def watch(folder: Path) -> None:
    """Let a keeper run in the background, a session of its own, unless one does, or it was stopped on purpose."""
    lock = _enter(folder)
    if lock is None:
        return
    # Looked at under the lock: a stop that came first is seen here, one that comes later sees the keeper.
    if (folder / STOPPED).exists():
        os.close(lock)
        return
    if first := os.fork():
        os.close(lock)
        os.waitpid(first, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    try:
        Keeper(folder, lock).run()
    finally:
        os._exit(0)


def stop(folder: Path) -> bool:
    """End Scrapyd and the keeper, and note that this was meant; tell whether both are gone."""
    (folder / STOPPED).touch()
    noted = state(folder)
    keeper, its_start = noted.get("keeper_pid"), noted.get("keeper_start")
    if is_kept(folder) and isinstance(keeper, int) and isinstance(its_start, str):
        signal_one(keeper, its_start, signal.SIGTERM)
        wait_gone(keeper, its_start, deadline_s=3 * END_WITHIN_S)
    pid, begun = noted.get("pid"), noted.get("start")
    if isinstance(pid, int) and isinstance(begun, str) and is_alive(pid, begun):
        end_process(pid, begun)
        return not is_alive(pid, begun) and not is_kept(folder)
    return not is_kept(folder)


def restart(folder: Path) -> bool:
    """Have Scrapyd started anew, by the keeper that is there or by a new one; tell whether another one runs."""
    noted = state(folder)
    pid, begun = noted.get("pid"), noted.get("start")
    keeper, its_start = noted.get("keeper_pid"), noted.get("keeper_start")
    if is_kept(folder) and isinstance(keeper, int) and isinstance(its_start, str):
        signal_one(keeper, its_start, signal.SIGHUP)
        return _has_another(folder, than=noted)
    if isinstance(pid, int) and isinstance(begun, str):
        end_process(pid, begun)
    start(folder)
    return _has_another(folder, than=noted)


def _has_another(folder: Path, *, than: dict[str, Any]) -> bool:
    """Wait until a Scrapyd is noted and runs that is none of before."""
    deadline = time.monotonic() + 3 * END_WITHIN_S
    while time.monotonic() < deadline:
        noted = state(folder)
        pid, begun = noted.get("pid"), noted.get("start")
        is_other = (pid, begun) != (than.get("pid"), than.get("start"))
        if is_other and isinstance(pid, int) and isinstance(begun, str) and is_alive(pid, begun):
            return True
        time.sleep(_LOOK_EVERY_S)
    return False


def signal_one(pid: int, start: str, number: int) -> None:
    """Send a signal to the very process that is meant, and to none that was given its id later."""
    if is_alive(pid, start):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def status(folder: Path) -> dict[str, Any]:
    """Return what runs: whether a keeper does, Scrapyd's process id if it does, since when, how often it was begun."""
    noted = state(folder)
    pid, begun = noted.get("pid"), noted.get("start")
    runs = isinstance(pid, int) and isinstance(begun, str) and is_alive(pid, begun)
    return {
        "is_kept": is_kept(folder),
        "is_stopped": (folder / STOPPED).exists(),
        "pid": pid if runs else None,
        "since": noted.get("since") if runs else None,
        "starts": noted.get("starts", 0),
    }


def main(words: list[str]) -> int:
    """Do what the command line says; return its exit code."""
    if len(words) != 2 or words[0] not in {"start", "watch", "restart", "stop", "status"}:  # noqa: PLR2004
        sys.stderr.write(f"{__doc__}\n")
        return _USAGE
    verb, folder = words[0], Path(words[1]).absolute()
    if not (folder / "scrapyd.conf").is_file():
        sys.stderr.write(f"{folder} holds no scrapyd.conf\n")
        return _USAGE
    if verb == "status":
        sys.stdout.write(json.dumps(status(folder)) + "\n")
    elif verb == "stop":
        return 0 if stop(folder) else 1
    elif verb == "restart":
        (folder / STOPPED).unlink(missing_ok=True)
        return 0 if restart(folder) else 1
    elif verb == "start":
        start(folder)
    else:
        watch(folder)
    return 0


def _enter(folder: Path) -> int | None:
    """Take the folder's lock; `None` when a keeper has it. Scrapyd does not inherit it."""
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
