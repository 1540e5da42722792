"""HTTP to one node: the client that python-scrapyd-api is fed with.

It owns timeouts, retries, credentials and the check of what came back; it knows nothing of Scrapyd's endpoints.
"""

from __future__ import annotations

import base64
import functools
import json
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    DecodeError,
    HTTPError,
    IncompleteRead,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)
from urllib3.filepost import encode_multipart_formdata

from toolkit.cluster.timed import TimedPool, TimedSecurePool, ending_within, left_s
from toolkit.model.errors import (
    ConfigurationError,
    NodeAnswerError,
    NodeBrokenError,
    NodeError,
    NodeRefusedError,
    NodeTimeoutError,
    NodeUnauthorizedError,
    NodeUnreachableError,
)
from toolkit.model.hosts import Host

MAX_CONNECT_S = 5.0
UPLOAD_PATIENCE = 6  # an upload makes the node list its spiders, so it gets so many times `timeout_s`
MAX_ANSWER_BYTES = 64 * 1024 * 1024
CONNECT_RETRY_PAUSES_S = (0.1, 0.3)
MAX_SHOWN_BYTES = 1000
_CHUNK_BYTES = 64 * 1024
_TLS_HINT = "https needs a certificate that this machine trusts: SSL_CERT_FILE=FILE names another authority's"
_CA_HINT = "crawlctl nodes provision makes the one of provision.tls; another is named by ca_file in the inventory"
_OK = 200
_UNAUTHORIZED = frozenset({401, 403})

Fields = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whole: HTTP code, headers with lower-case names, body."""

    code: int
    headers: Mapping[str, str]
    body: bytes


class NodeTransport:
    """One node's connections. Its calls may come from several threads at once.

    Timeouts: the whole call gets `host.timeout_s`, or what it says itself; connecting at most 5 s of it.
    Retries: a connection that could not be made is tried three times in all, since nothing was sent; a connection
    that broke under a read is tried once more; a write is never sent twice, nor is a timeout paid twice.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self._headers = {"User-Agent": "crawlctl", "Accept-Encoding": "identity"}
        if host.username is not None and host.password is not None:
            self._headers["Authorization"] = _basic(host.username, host.password.reveal())

    @functools.cached_property
    def _pool(self) -> urllib3.HTTPConnectionPool:
        host = self.host
        if host.scheme != "https":
            return TimedPool(host.address, host.port, maxsize=4, retries=False)
        # Only when it is needed: the file of a host that is just being provisioned is not there yet.
        return TimedSecurePool(host.address, host.port, maxsize=4, retries=False, ssl_context=_trust(host.ca_file))

    def get(self, url: str, params: Fields | None = None, timeout: float | None = None) -> dict[str, Any]:
        """Read a JSON answer of Scrapyd's; `status` is checked and taken off. The name is python-scrapyd-api's."""
        target = _path_of(url) + ("?" + urlencode(params, doseq=True) if params else "")
        return self._scrapyd_json(_endpoint(url), self.send("GET", target, doing=_endpoint(url), timeout_s=timeout))

    def post(
        self,
        url: str,
        data: Fields | None = None,
        files: Mapping[str, bytes] | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Send a form (with `files` as multipart) and read the JSON answer. The name is python-scrapyd-api's."""
        doing = _endpoint(url)
        if files is None:
            body, kind = urlencode(data or {}, doseq=True).encode(), "application/x-www-form-urlencoded"
        else:
            parts: dict[str, str | tuple[str, bytes]] = {name: str(value) for name, value in (data or {}).items()}
            parts |= {name: (f"{name}.egg", content) for name, content in files.items()}
            body, kind = encode_multipart_formdata(parts)
        timeout_s = timeout or self.host.timeout_s * (UPLOAD_PATIENCE if files else 1)
        answer = self.send(
            "POST", _path_of(url), doing=doing, timeout_s=timeout_s, body=body, headers={"Content-Type": kind}
        )
        return self._scrapyd_json(doing, answer)

    def send(
        self,
        method: str,
        target: str,
        *,
        doing: str,
        timeout_s: float | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request and read its answer whole, within the time given.

        Raises:
            NodeUnreachableError, NodeTimeoutError, NodeUnauthorizedError, NodeAnswerError: see their classes.

        """
        tried = 0
        while True:
            try:
                with ending_within(timeout_s or self.host.timeout_s):
                    return self._send_once(method, target, body, headers)
            except ConfigurationError as error:
                told = NodeUnreachableError(self.host.name, doing, error.message)
                told.hint = error.hint
                raise told from error
            except (HTTPError, OSError) as error:
                if tried >= _repeats(error, method):
                    raise self._translated(error, doing) from error
                time.sleep(CONNECT_RETRY_PAUSES_S[tried])
                tried += 1

    def refusal(self, answer: Answer, doing: str) -> NodeError:
        """Say what an answer means that is not what Scrapyd gives to a good call."""
        if answer.code in _UNAUTHORIZED:
            why = "it wants a username and password" if self.host.password is None else "wrong username or password"
            return NodeUnauthorizedError(self.host.name, doing, why)
        return NodeAnswerError(self.host.name, doing, f"not Scrapyd's answer: {_shown(answer)}")

    def close(self) -> None:
        """Let go of the connections."""
        if "_pool" in self.__dict__:
            self._pool.close()

    def _send_once(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str] | None) -> Answer:
        response = self._pool.urlopen(
            method,
            target,
            body=body,
            headers={**self._headers, **(headers or {})},
            timeout=urllib3.Timeout(connect=min(MAX_CONNECT_S, left_s()), read=left_s()),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        try:
            body_read = _whole(response)
        except BaseException:
            response.close()
            raise
        response.release_conn()
        return Answer(response.status, {k.lower(): v for k, v in response.headers.items()}, body_read)

    def _scrapyd_json(self, doing: str, answer: Answer) -> dict[str, Any]:
        if answer.code in _UNAUTHORIZED:
            raise self.refusal(answer, doing)
        try:
            content = json.loads(answer.body)
        except (ValueError, RecursionError):
            content = None
        # Scrapyd says "error" with HTTP 200, so the JSON decides and not the code.
        status = content.pop("status", None) if isinstance(content, dict) else None
        if status == "error":
            raise NodeRefusedError(self.host.name, doing, str(content.get("message", "no reason given")).strip())
        if status != "ok" or answer.code != _OK:
            raise self.refusal(answer, doing)
        return dict(content)

    def _translated(self, error: Exception, doing: str) -> NodeError:
        where = self.host.place
        kind: type[NodeError] = NodeUnreachableError
        hint = None
        match error:
            case NameResolutionError():
                why = f"no address is known for {self.host.address}"
            case NewConnectionError() | ConnectionRefusedError():
                why = f"no connection to {where}: {_cause(error)}"
            case ConnectTimeoutError():
                why = f"{where} does not take connections (timed out)"
            case ReadTimeoutError() if "handshake" in str(error.__cause__):
                why, hint = f"TLS with {where} failed: it does not answer the handshake", _TLS_HINT
            case ReadTimeoutError() | TimeoutError():
                kind, why = NodeTimeoutError, f"{where} took the call but did not answer in time"
            case _ if _is_stuck(error):
                kind, why = NodeTimeoutError, f"{where} took the connection but not the whole call in time"
            case SSLError():
                why, hint = f"TLS with {where} failed: {_cause(error)}", _TLS_HINT
            case _TooLongError() | DecodeError():
                kind, why = NodeAnswerError, f"{where}: {error}"
            case _ if _is_incomplete(error):
                kind, why = NodeAnswerError, f"the answer of {where} broke off half way"
            case _:
                kind, why = NodeBrokenError, f"the connection to {where} broke: {_cause(error)}"
        told = kind(self.host.name, doing, why)
        told.hint = hint
        return told


class _TooLongError(HTTPError):
    """The answer is longer than any of Scrapyd's."""


def _whole(response: urllib3.BaseHTTPResponse) -> bytes:
    chunks, size = [], 0
    while chunk := response.read1(_CHUNK_BYTES):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise _TooLongError(f"its answer is longer than {MAX_ANSWER_BYTES // 1024**2} MB")
    return b"".join(chunks)


@functools.cache
def _trust(ca_file: str | None) -> ssl.SSLContext:
    """Trust this machine's authorities, or those of a file alone; read once, else a thousand nodes take half a minute.

    Raises:
        ConfigurationError: the file is not there, or holds no certificate.

    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        why = "it holds no certificate in PEM form" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigurationError(f"ca_file {ca_file} cannot be read: {why}", hint=_CA_HINT) from error


def _basic(username: str, password: str) -> str:
    # Scrapyd compares with the UTF-8 of its configuration (`basicauth.py`).
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def _repeats(error: Exception, method: str) -> int:
    """Say how often a call that failed so may be sent again."""
    if isinstance(error, NewConnectionError) and not isinstance(error, NameResolutionError):
        return len(CONNECT_RETRY_PAUSES_S)
    is_broken = isinstance(error, ProtocolError) and not _is_incomplete(error) and not _is_stuck(error)
    return 1 if method == "GET" and is_broken else 0


def _is_stuck(error: Exception) -> bool:
    """Tell whether the time was over while the call was still being sent."""
    return isinstance(error, ProtocolError) and any(isinstance(arg, TimeoutError) for arg in error.args)


def _is_incomplete(error: Exception) -> bool:
    return isinstance(error, IncompleteRead) or any(isinstance(arg, IncompleteRead) for arg in error.args)


def _cause(error: BaseException) -> str:
    while deeper := error.__cause__ or next((arg for arg in error.args[::-1] if isinstance(arg, BaseException)), None):
        error = deeper
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    text = str(error.args[-1]) if error.args else type(error).__name__
    return text.rsplit(": ", 1)[-1]


def _shown(answer: Answer) -> str:
    text = answer.body[:MAX_SHOWN_BYTES].decode("utf-8", "replace")
    if "html" in answer.headers.get("content-type", ""):
        # Of a web page, what a person would read of it: it often names the server that answers there.
        text = re.sub(r"<(script|style)\b.*?(</\1>|$)|<[^>]*>?", " ", text, flags=re.DOTALL | re.IGNORECASE)
    text = " ".join(text.split())
    return f"HTTP {answer.code}, {text[:80]!r}"


def _path_of(url: str) -> str:
    return urlsplit(url).path


def _endpoint(url: str) -> str:
    return _path_of(url).rsplit("/", 1)[-1]
