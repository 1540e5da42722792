"""A mail server for tests: a handful of SMTP's words, STARTTLS and a login among them; it keeps what it is sent."""

from __future__ import annotations

import base64
import email
import email.policy
import socket
import socketserver
import ssl
import threading
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that give up in the middle are what the server is for."""


class _Conversation(socketserver.BaseRequestHandler):
    """One client's commands, a line each."""

    request: socket.socket

    def __init__(self, server: MailServer, *handed_over: Any) -> None:
        self._mail = server
        self._is_secure = server.is_implicit
        self._is_known = server.login is None
        super().__init__(*handed_over)

    def handle(self) -> None:
        if self._is_secure:
            self._wrap()
        self._lines = self.request.makefile("rb")
        self._say("220 mail.example ready")
        while (line := self._lines.readline()) and self._heed(line.decode().strip()):
            pass

    def _heed(self, line: str) -> bool:
        word = line.partition(" ")[0].upper()
        if word in self._mail.replies:
            return self._say(self._mail.replies[word])
        if word in {"MAIL", "RCPT", "DATA"} and not self._is_known:
            return self._say("530 who are you?")
        if word == "RCPT":
            self._mail.recipients.append(line.partition("<")[2].rstrip(">"))
        known = {"EHLO": self._greet, "STARTTLS": self._secure, "AUTH": self._log_in, "DATA": self._take}
        if word in known:
            return known[word](line)
        return self._say("221 bye" if word == "QUIT" else "250 well")

    def _greet(self, _: str) -> bool:
        offers = ["AUTH PLAIN", "8BITMIME"]
        offers += ["STARTTLS"] if self._mail.tls is not None and not self._is_secure else []
        return self._say("\r\n".join(["250-mail.example", *(f"250-{each}" for each in offers), "250 HELP"]))

    def _secure(self, _: str) -> bool:
        self._say("220 go on")
        self._wrap()
        self._lines = self.request.makefile("rb")
        self._is_secure = True
        return True

    def _log_in(self, line: str) -> bool:
        _, user, password = base64.b64decode(line.rpartition(" ")[2]).decode().split("\0")
        self._is_known = (user, password) == self._mail.login
        return self._say("235 welcome" if self._is_known else f"535 {user}:{password} is wrong")

    def _take(self, _: str) -> bool:
        self._say("354 go on")
        content = b""
        while (line := self._lines.readline()) not in {b".\r\n", b""}:
            content += line.removeprefix(b".") if line.startswith(b"..") else line
        found = email.message_from_bytes(content, policy=email.policy.default)
        self._mail.mails.append(found)
        self._mail.was_secure.append(self._is_secure)
        return self._say("250 taken")

    def _wrap(self) -> None:
        assert self._mail.tls is not None
        self.request = self._mail.tls.wrap_socket(self.request, server_side=True)

    def _say(self, text: str) -> bool:
        self.request.sendall(text.encode() + b"\r\n")
        return not text.startswith("221")


class MailServer:
    """Takes mails, from entering the context to leaving it; `login` is the pair that it wants, if any.

    `replies` are what it says to a word instead (`{"RCPT": "550 no such user"}`). With `certificate` it offers
    STARTTLS, or speaks TLS from the first byte if `is_implicit`.
    """

    def __init__(
        self,
        *,
        login: tuple[str, str] | None = None,
        certificate: tuple[Path, Path] | None = None,
        is_implicit: bool = False,
        replies: dict[str, str] | None = None,
    ) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.was_secure: list[bool] = []
        self.replies = replies or {}
        self.login = login
        self.tls: ssl.SSLContext | None = None
        if certificate is not None:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*certificate)
        self.is_implicit = is_implicit
        self._server = _Server(("127.0.0.1", 0), partial(_Conversation, self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def port(self) -> int:
        """Where it listens, on 127.0.0.1."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
