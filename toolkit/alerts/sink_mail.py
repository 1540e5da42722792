"""The sink that is a mail server: SMTP with STARTTLS, TLS or neither, and a login if one is given. One attempt."""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from toolkit.alerts.deadline import Deadline
from toolkit.alerts.messages import mail
from toolkit.model.alerts import MailTls, Message, Sink
from toolkit.model.errors import SinkError

PORTS = {MailTls.STARTTLS: 587, MailTls.IMPLICIT: 465, MailTls.NONE: 25}
_REFUSED = range(500, 600)


def send_mail(sink: Sink, message: Message) -> None:
    """Send the message to all recipients; taken is what the server takes for any of them.

    Raises:
        SinkError: it was not taken, or whether it was is unknown. No text of the server is in it.

    """
    deadline = Deadline(sink.timeout_s)
    server = _server(sink, timeout_s=deadline.left_s())
    try:
        with _translated(sink), deadline.cutting(lambda: server.sock):
            server.connect(sink.server, sink.port or PORTS[sink.tls])
            # Looking the name up may have outlived the attempt, and with it the right to send.
            deadline.left_s()
            if sink.tls is MailTls.STARTTLS:
                server.starttls(context=_context(sink))
            if sink.username is not None and sink.password is not None:
                server.login(sink.username, sink.password.reveal())
            server.send_message(mail(message, sink), from_addr=sink.sender, to_addrs=list(sink.recipients))
            with suppress(smtplib.SMTPException, OSError):
                server.quit()
    finally:
        server.close()


def _server(sink: Sink, *, timeout_s: float) -> smtplib.SMTP:
    """Return a server that is not connected yet; our name is told as it is, without asking for it anywhere."""
    ours = socket.gethostname() or "localhost"
    if sink.tls is MailTls.IMPLICIT:
        server: smtplib.SMTP = smtplib.SMTP_SSL(local_hostname=ours, timeout=timeout_s, context=_context(sink))
    else:
        server = smtplib.SMTP(local_hostname=ours, timeout=timeout_s)
    # Whose certificate it must be is told to the constructor alone, which would connect at once.
    server._host = sink.server  # type: ignore[attr-defined]  # noqa: SLF001
    return server


def _context(sink: Sink) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=sink.ca)
    except (ssl.SSLError, ValueError) as error:
        raise SinkError("what stands in ca is no certificate (PEM)") from error


@contextmanager
def _translated(sink: Sink) -> Iterator[None]:
    """Say what a failure means in our own words: what a server says may repeat what it was sent."""
    try:
        yield
    except smtplib.SMTPAuthenticationError as error:
        raise SinkError(f"{sink.server} refuses the login ({error.smtp_code})") from error
    except smtplib.SMTPRecipientsRefused as error:
        codes = sorted({code for code, _ in error.recipients.values()})
        is_refusal = all(code in _REFUSED for code in codes)
        raise SinkError(f"{sink.server} refuses every recipient ({_list(codes)})", is_refusal=is_refusal) from error
    except smtplib.SMTPResponseException as error:
        code = error.smtp_code
        is_refusal = isinstance(error, smtplib.SMTPDataError) and code in _REFUSED
        raise SinkError(f"{sink.server} does not take the mail ({code})", is_refusal=is_refusal) from error
    except smtplib.SMTPNotSupportedError as error:
        what = "STARTTLS" if sink.tls is MailTls.STARTTLS else "a login, or the characters of an address"
        raise SinkError(f"{sink.server} knows no {what}") from error
    except smtplib.SMTPException as error:
        raise SinkError(f"{sink.server} ends the conversation") from error
    except TimeoutError as error:
        raise SinkError(f"{sink.server}: no answer within {sink.timeout_s:g} s") from error
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or (error.reason or "it failed").replace("_", " ").lower()
        raise SinkError(f"{sink.server}: no TLS connection: {why}") from error
    except OSError as error:
        raise SinkError(f"{sink.server} cannot be reached: {error.strerror or type(error).__name__}") from error
    except ValueError as error:
        raise SinkError("the mail cannot be written: an address in it is none", is_refusal=True) from error


def _list(codes: list[int]) -> str:
    return ", ".join(map(str, codes))
