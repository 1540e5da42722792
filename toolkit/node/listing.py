"""List an egg's spiders as a job would find them: in a process of its own, with a deadline, and nothing left of it.

Runs in Scrapyd's threads, never on its reactor. The process is `python -m <runner> list`, Scrapyd's own way, so every
runner that Scrapyd takes is good for it. It gets neither the node's credentials nor the address of the store.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping

from toolkit.model.errors import EggError
from toolkit.model.names import SpiderName
from toolkit.node.environment import without_secrets

MAX_OUTPUT_BYTES = 4_000_000
SHOWN_CHARS = 4_000
_LOOK_EVERY_S = 0.05
_PIECE_BYTES = 65_536


class SpiderLister:
    """Runs `runner list` for one egg at a time for each caller; `close` ends what is under way. Any thread may call."""

    def __init__(self, *, runner: str, timeout_s: float) -> None:
        self._runner = runner
        self.timeout_s = timeout_s
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._is_closed = False

    def spiders(self, project: str, version: str) -> tuple[SpiderName, ...]:
        """Return the spiders of an egg that lies in Scrapyd's folder of eggs, in the order that Scrapy lists them.

        Raises:
            EggError: its process ended with an error (the end of what it said is in the message), or took longer than
                the deadline and was killed with everything that it had started.

        """
        code, output, errors = self._run(
            [sys.executable, "-m", self._runner, "list", "-s", "LOG_STDOUT=0"],
            {
                **without_secrets(os.environ),
                "PYTHONIOENCODING": "UTF-8",
                "SCRAPY_PROJECT": project,
                "SCRAPYD_EGG_VERSION": version,
            },
        )
        if code != 0:
            said = (errors or output).decode(errors="replace").strip()
            raise EggError(said[-SHOWN_CHARS:] or f"listing its spiders ended with {_in_words(code)} and said nothing")
        try:
            # Scrapy prints an empty line where there is no spider.
            return tuple(SpiderName(line) for line in output.decode().splitlines() if line)
        except UnicodeDecodeError as error:
            raise EggError("listing its spiders gave bytes that are no text") from error

    def close(self) -> None:
        """End every listing that is under way, so that no thread outlives Scrapyd; its caller gets an `EggError`."""
        with self._lock:
            self._is_closed = True
            running = set(self._running)
        for pid in running:
            _kill(pid)

    def _run(self, command: list[str], environment: Mapping[str, str]) -> tuple[int, bytes, bytes]:
        with self._lock:
            if self._is_closed:
                raise EggError("this node is stopping")
            process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running.add(process.pid)
        try:
            with process:
                try:
                    output, errors = self._follow(process)
                finally:
                    # Whatever it started goes with it: it had its time, and nobody will ever ask for it again.
                    _kill(process.pid)
                    for pipe in (process.stdout, process.stderr):
                        if pipe is not None:
                            pipe.close()
                return process.wait(), output, errors
        finally:
            with self._lock:
                self._running.discard(process.pid)

    def _follow(self, process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
        """Read what the process says until it is gone, too late or too loud; who else has its pipes is let be."""
        pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
        said = [bytearray() for _ in pipes]
        ends_at = time.monotonic() + self.timeout_s
        with selectors.DefaultSelector() as still_open:
            for pipe, text in zip(pipes, said, strict=True):
                still_open.register(pipe, selectors.EVENT_READ, text)
            while process.poll() is None or still_open.get_map():
                is_gone = process.poll() is not None
                ready = still_open.select(0 if is_gone else _LOOK_EVERY_S)
                if is_gone and not ready:
                    break
                if time.monotonic() >= ends_at:
                    raise EggError(f"listing its spiders took longer than {self.timeout_s:g} s, and was ended")
                for key, _ in ready:
                    piece = os.read(key.fd, _PIECE_BYTES)
                    key.data.extend(piece)
                    if not piece:
                        still_open.unregister(key.fileobj)
                if sum(map(len, said)) > MAX_OUTPUT_BYTES:
                    raise EggError(f"listing its spiders printed more than {MAX_OUTPUT_BYTES // 1_000_000} MB")
        return bytes(said[0]), bytes(said[1])


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _in_words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
