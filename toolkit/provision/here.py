"""This machine as a host: the same scripts, run by processes instead of over SSH. For `connection: local`."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from typing import IO

from toolkit.model.errors import HostRefusedError, HostTimeoutError
from toolkit.model.hosts import Host
from toolkit.provision.by_shell import CHUNK_BYTES, ByShell, Call, Ended, Feed
from toolkit.provision.scripts import IN_ENGLISH

TERM_GRACE_S = 2.0


class Here(ByShell):
    """Keeps the protocol `Remote` for this very machine; there is no connection that could break."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._running: set[subprocess.Popen[bytes]] = set()

    def close(self) -> None:
        """End what still runs."""
        for process in list(self._running):
            _end_group(process)

    def _ended(self, call: Call) -> Ended:
        try:
            process = subprocess.Popen(
                [*IN_ENGLISH, *call.words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise HostRefusedError(self.host.name, call.doing, str(error)) from error
        self._running.add(process)
        feeder = threading.Thread(target=_feed, args=(process, call), daemon=True)
        feeder.start()
        try:
            kept = self._outputs(process, call)
            exit_code = process.wait()
        finally:
            _end(process)
            self._running.discard(process)
        # As `sh` has it: a signal's number above 128.
        return Ended(exit_code if exit_code >= 0 else 128 - exit_code, bytes(kept[0]), bytes(kept[1]))

    def _outputs(self, process: subprocess.Popen[bytes], call: Call) -> tuple[bytearray, bytearray]:
        """Read until both outputs end, or the process has and only what it left behind holds them."""
        kept = (bytearray(), bytearray())
        takes = (call.on_out or kept[0].extend, call.on_err or kept[1].extend)
        ends_at = None if call.timeout_s is None else time.monotonic() + call.timeout_s
        with selectors.DefaultSelector() as selector:
            for stream, take in zip((process.stdout, process.stderr), takes, strict=True):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ, take)
            while selector.get_map():
                ready = selector.select(0.1)
                for key, _ in ready:
                    if part := os.read(key.fd, CHUNK_BYTES):
                        key.data(part)
                    else:
                        selector.unregister(key.fileobj)
                if not ready and process.poll() is not None:
                    break
                if ends_at is not None and time.monotonic() > ends_at:
                    raise HostTimeoutError(self.host.name, call.doing, f"no end after {call.timeout_s:g} s")
        return kept


def _feed(process: subprocess.Popen[bytes], call: Call) -> None:
    """Write what goes in; without a feed the pipe stays open until the process ends."""
    pipe = process.stdin
    if pipe is None:
        return
    # A command that does not read to the end is none of our business.
    with contextlib.suppress(BrokenPipeError, ValueError):
        pipe.write(call.first)
        pipe.flush()
        if call.feed is not None:
            _write_all(pipe, call.feed)
            pipe.close()


def _write_all(pipe: IO[bytes], feed: Feed) -> None:
    there = 0
    for part in feed.parts():
        pipe.write(part)
        pipe.flush()
        there += len(part)
        if feed.on_bytes is not None:
            feed.on_bytes(there)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process' group if it is still there, and let go of its pipes."""
    if process.poll() is None:
        _end_group(process)
    for stream in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            if stream is not None:
                stream.close()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError, ValueError):
        if process.stdin is not None:
            process.stdin.close()  # what runs through sudo is watched over this, and not ours to signal
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TERM_GRACE_S)
            return
