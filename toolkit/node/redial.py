"""Gives this machine another address by the command of its configuration, never more nodes at once than their share.

Runs in a thread, since it waits: for the command, for the way back to Redis, and for Redis to see another address.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

from twisted.logger import Logger

from toolkit.model.calls import Redialled
from toolkit.model.errors import StoreUnreachableError
from toolkit.node.environment import without_secrets
from toolkit.node.membership import Membership
from toolkit.store.interfaces import Shared

REDIALS = "changes its address"
"""Why a node takes no job for so long."""

SETTLE_S = 10.0
"""How long after its end the command may take to have its effect, while Redis is reached."""

KILLED_WITHIN_S = 5.0
LOOK_S = 0.5
BUSY_S = 1.0
LAST_WORDS = 200
_log = Logger()

Run = Callable[[Sequence[str], float], str | None]


def run_command(words: Sequence[str], timeout_s: float) -> str | None:
    """Run the command to its end, without a shell; return why it failed, with its last words. Its group is killed late.

    It gets neither the node's credentials nor anything to read.
    """
    try:
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=without_secrets(os.environ),
            start_new_session=True,
        )
    except OSError as error:
        return f"{words[0]} cannot be run: {error.strerror}"
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return f"{words[0]} took longer than {timeout_s:g} s{_ended(process)}"
    if process.returncode == 0:
        return None
    lines = output.decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return f"{words[0]} ended with {process.returncode}: {last[-LAST_WORDS:]}"


def _ended(process: subprocess.Popen[bytes]) -> str:
    """End a command with all of its group, and say so where that cannot be done: what sudo began is root's."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=KILLED_WITHIN_S)
    except (PermissionError, ProcessLookupError, subprocess.TimeoutExpired):
        if process.stdout is not None:
            process.stdout.close()
    return "" if process.poll() is not None else ", and cannot be ended by us"


class Redialler:
    """One node's redials, one at a time."""

    def __init__(self, member: Membership, *, run: Run = run_command) -> None:
        self._member = member
        self._run = run
        self._lock = threading.Lock()
        self._last_at: float | None = None

    def redial(self, shared: Shared, *, share: float | None = None) -> Redialled:
        """Get another address, and say what became of it; `share` (0 to 1) overrules the node's own.

        Raises:
            StoreUnreachableError: Redis does not answer, so that nothing was begun.

        """
        settings = self._member.settings
        if not settings.redial_command:
            return Redialled(why="it has no redial_command")
        if not self._lock.acquire(blocking=False):
            return Redialled(why="it changes its address already", again_s=BUSY_S)
        try:
            if (wait_s := self._too_soon_s()) > 0:
                return Redialled(why=f"it may do so again in {wait_s:.0f} s", again_s=wait_s)
            share = settings.redial_share / 100 if share is None else share
            old = shared.nodes.whereabouts().outside
            place = shared.redials.begin(
                settings.name, share=share, term_s=settings.redial_timeout_s + settings.lease_s
            )
            if not place.is_ours:
                return Redialled(why=f"{place.taken} of {place.places} that may are at it", again_s=BUSY_S)
            return self._redial(shared, old)
        finally:
            self._lock.release()

    def _too_soon_s(self) -> float:
        if self._last_at is None:
            return 0.0
        return self._last_at + self._member.settings.redial_min_interval_s - time.monotonic()

    def _redial(self, shared: Shared, old: str | None) -> Redialled:
        member, began = self._member, time.monotonic()
        deadline = began + member.settings.redial_timeout_s
        member.redials = REDIALS
        member.wake()
        _log.info("Getting another address than {old}", old=old)
        new: str | None = old
        try:
            why = self._run(member.settings.redial_command, member.settings.redial_timeout_s)
            new, why_same = _seen_anew(shared, old, deadline=deadline)
            why = why or why_same
        finally:
            self._last_at = time.monotonic()
            member.redials = None
            _give_back(shared, member)
            member.wake()
        seconds = round(time.monotonic() - began, 1)
        _log.info("From {old} to {new} within {s} s{why}", old=old, new=new, s=seconds, why=f": {why}" if why else "")
        return Redialled(old, new, seconds, None if new != old and new is not None else why)


def _seen_anew(shared: Shared, old: str | None, *, deadline: float) -> tuple[str | None, str | None]:
    """Return from where Redis sees this node, once that is another address or it is late; and why it is not, if so."""
    settled_at: float | None = None
    while True:
        now = time.monotonic()
        try:
            new = shared.nodes.whereabouts(anew=True).outside
        except StoreUnreachableError as error:
            if now > deadline:
                return None, f"Redis is not reached since: {error.message}"
        else:
            settled_at = settled_at or now
            if new is None:
                return None, "Redis does not tell from where it sees it"
            if new != old:
                # Of the old connections none is worth waiting for: under another address they are dead.
                shared.nodes.look_anew()
                return new, None
            if now > deadline or now > settled_at + SETTLE_S:
                return new, "its address is the same as before"
        time.sleep(LOOK_S)


def _give_back(shared: Shared, member: Membership) -> None:
    try:
        shared.redials.end(member.settings.name)
    except StoreUnreachableError:
        _log.warn("The place for redials could not be given back; it is free again by itself")
