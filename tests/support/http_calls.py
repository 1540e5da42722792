"""Plain HTTP calls for tests, one connection each, with nothing of the product in between."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said: HTTP status, headers in lower case, and the body as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


def get(
    url: str,
    fields: Fields | None = None,
    *,
    credentials: tuple[str, str] | None = None,
    timeout_s: float = 30,
    ca_file: Path | None = None,
) -> Answer:
    """Ask for the URL, the fields in its query; with https, trust that authority alone."""
    query = f"?{urlencode(fields)}" if fields else ""
    return _ask("GET", url + query, credentials=credentials, timeout_s=timeout_s, ca_file=ca_file)


def post(
    url: str,
    fields: Fields | None = None,
    *,
    files: Mapping[str, bytes] | None = None,
    credentials: tuple[str, str] | None = None,
    timeout_s: float = 60,
    ca_file: Path | None = None,
) -> Answer:
    """Post the fields as a form; with files, as a multipart one."""
    if files is None:
        body, kind = urlencode(fields or {}).encode(), "application/x-www-form-urlencoded"
    else:
        body, kind = _multipart(fields or {}, files)
    headers = {"Content-Type": kind}
    return _ask("POST", url, body=body, headers=headers, credentials=credentials, timeout_s=timeout_s, ca_file=ca_file)


def post_json(url: str, value: Any, *, timeout_s: float = 30) -> Answer:
    """Post the value as JSON."""
    headers = {"Content-Type": "application/json"}
    return _ask("POST", url, body=json.dumps(value).encode(), headers=headers, credentials=None, timeout_s=timeout_s)


def _multipart(fields: Fields, files: Mapping[str, bytes]) -> tuple[bytes, str]:
    boundary = uuid.uuid4().hex
    parts = [f'Content-Disposition: form-data; name="{k}"\r\n\r\n'.encode() + v.encode() for k, v in fields.items()]
    for name, content in files.items():
        head = f'Content-Disposition: form-data; name="{name}"; filename="{name}"\r\n'
        parts.append(head.encode() + b"Content-Type: application/octet-stream\r\n\r\n" + content)
    fence = f"--{boundary}\r\n".encode()
    body = b"".join(fence + part + b"\r\n" for part in parts) + f"--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"


def _ask(
    method: str,
    url: str,
    *,
    body: bytes = b"",
    headers: Fields | None = None,
    credentials: tuple[str, str] | None,
    timeout_s: float,
    ca_file: Path | None = None,
) -> Answer:
    parts = urlsplit(url)
    assert parts.hostname is not None
    sent = dict(headers or {})
    if credentials is not None:
        sent["Authorization"] = "Basic " + base64.b64encode(":".join(credentials).encode()).decode()
    if parts.scheme == "https":
        trust = ssl.create_default_context(cafile=ca_file)
        secure = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=trust)
        connection: http.client.HTTPConnection = secure
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout_s)
    try:
        connection.request(method, f"{parts.path}?{parts.query}" if parts.query else parts.path, body or None, sent)
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()
