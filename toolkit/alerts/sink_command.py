"""The sink that is a program of the node: the message as JSON on its input. One attempt; no shell reads anything."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from toolkit.alerts.messages import json_body
from toolkit.model.alerts import Message, Sink
from toolkit.model.errors import SinkError

IS_REFUSED = 65
"""The exit code (EX_DATAERR) by which a program says that it will never take this message."""

_PASSED_ON = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")


def run_program(sink: Sink, message: Message, *, programs: Mapping[str, Sequence[str]]) -> None:
    """Run the program that the node permits under the sink's name for it; taken is what it ends with exit code 0 for.

    It gets the message's key and severity in its environment too, and nothing else of the node's; what it prints is
    dropped. It is killed with all that it started when its time is up.

    Raises:
        SinkError: it was not taken, or whether it was is unknown.

    """
    words = programs.get(sink.program)
    if not words:
        raise SinkError(f"this node permits no program {sink.program!r}: alert_commands of its [crawlctl] names none")
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {"ALERT_KEY": message.key, "ALERT_SEVERITY": message.severity.value}
    try:
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no program's name"
        raise SinkError(f"the program {sink.program} cannot be started: {why}") from error
    with process:
        try:
            process.communicate(json_body(message), timeout=sink.timeout_s)
        except subprocess.TimeoutExpired as error:
            raise SinkError(f"the program {sink.program} did not end within {sink.timeout_s:g} s") from error
        finally:
            _end(process)
    if process.returncode:
        is_refusal = process.returncode == IS_REFUSED
        raise SinkError(f"the program {sink.program} ended with {_ended(process.returncode)}", is_refusal=is_refusal)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _ended(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
