"""The one way out: each kind of sink by its own means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolkit.alerts.sink_command import run_program
from toolkit.alerts.sink_http import post_message
from toolkit.alerts.sink_mail import send_mail
from toolkit.model.alerts import Message, Sink, SinkKind

Programs = Mapping[str, Sequence[str]]


def send(sink: Sink, message: Message, *, programs: Programs) -> None:
    """Make one attempt, which takes no longer than the sink's `timeout_s`; nothing is sent after that.

    Raises:
        SinkError: the message was not taken, or whether it was is unknown.

    """
    if sink.kind is SinkKind.COMMAND:
        run_program(sink, message, programs=programs)
    elif sink.kind is SinkKind.EMAIL:
        send_mail(sink, message)
    else:
        post_message(sink, message)


def can_tell(sink: Sink, programs: Programs) -> bool:
    """Tell whether this node can reach the sink at all: it must permit the program that a command names."""
    return sink.kind is not SinkKind.COMMAND or sink.program in programs
