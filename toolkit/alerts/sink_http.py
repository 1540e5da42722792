"""Sinks that take a POST: webhooks, signed, and what takes Slack's. One attempt; no redirect is followed.

What a server answers beside its status is neither shown nor kept, and an error names the host at most: paths of such
URLs are secrets.
"""

from __future__ import annotations

import base64
import http.client
import math
import ssl
import time
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

from toolkit.alerts.deadline import Deadline
from toolkit.alerts.messages import json_body, slack_body
from toolkit.alerts.signing import EVENT_HEADER, SIGNATURE_HEADER, TIME_HEADER, signature
from toolkit.model.alerts import Message, Sink, SinkKind
from toolkit.model.errors import SinkError

MAX_ANSWER_BYTES = 16_384
REFUSALS = frozenset({400, 413, 415, 422})
"""The statuses that speak of this message, not of the sink: another one may well be taken."""

_OK = range(200, 300)
_REDIRECTS = range(300, 400)


def post_message(sink: Sink, message: Message) -> None:
    """Send the message to a webhook or Slack; taken is what is answered with 2xx.

    Raises:
        SinkError: it was not taken, or whether it was is unknown.

    """
    url = urlsplit("" if sink.url is None else sink.url.reveal())
    headers = {"Content-Type": "application/json", "User-Agent": "crawlctl", EVENT_HEADER: message.key}
    if sink.kind is SinkKind.SLACK:
        body = slack_body(message)
    else:
        body, at_s = json_body(message), int(time.time())
        headers[TIME_HEADER] = str(at_s)
        if sink.secret is not None:
            headers[SIGNATURE_HEADER] = signature(sink.secret, body, at_s=at_s)
    status, again_s = _post(url, body, headers | _credentials(url), sink)
    if status in _REDIRECTS:
        raise SinkError(f"{url.hostname} answers {status}: it sends the message elsewhere, which is not followed")
    if status not in _OK:
        raise SinkError(f"{url.hostname} answers {status}", is_refusal=status in REFUSALS, again_s=again_s)


def _post(url: SplitResult, body: bytes, headers: Mapping[str, str], sink: Sink) -> tuple[int, float | None]:
    """Return the status, and the pause that the server asks for."""
    deadline = Deadline(sink.timeout_s)
    connection = _connection(url, sink, timeout_s=deadline.left_s())
    try:
        with deadline.cutting(lambda: connection.sock):
            connection.connect()
            # Looking the name up may have outlived the attempt, and with it the right to send.
            connection.sock.settimeout(deadline.left_s())
            connection.request("POST", _target(url), body=body, headers=dict(headers))
            answer = connection.getresponse()
            answer.read(MAX_ANSWER_BYTES)
            return answer.status, _seconds(answer.getheader("Retry-After"))
    except TimeoutError as error:
        raise SinkError(f"{url.hostname}: no answer within {sink.timeout_s:g} s") from error
    except ssl.SSLError as error:
        raise SinkError(f"{url.hostname}: no TLS connection: {_tls_words(error)}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        raise SinkError(f"{url.hostname} cannot be reached: {why}") from error
    finally:
        connection.close()


def _connection(url: SplitResult, sink: Sink, *, timeout_s: float) -> http.client.HTTPConnection:
    host = url.hostname or ""
    if url.scheme == "https":
        try:
            context = ssl.create_default_context(cadata=sink.ca)
        except (ssl.SSLError, ValueError) as error:
            raise SinkError("what stands in ca is no certificate (PEM)") from error
        return http.client.HTTPSConnection(host, url.port, timeout=timeout_s, context=context)
    return http.client.HTTPConnection(host, url.port, timeout=timeout_s)


def _target(url: SplitResult) -> str:
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


def _credentials(url: SplitResult) -> dict[str, str]:
    if url.username is None:
        return {}
    pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def _seconds(text: str | None) -> float | None:
    """Read Retry-After where it is a number of seconds."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


def _tls_words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message or "its certificate is not trusted"
    return (error.reason or "it failed").replace("_", " ").lower()
