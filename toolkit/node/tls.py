"""The node's own TLS: Scrapyd's site on an encrypted port, with the certificate and key that scrapyd.conf names.

TLS 1.2 is the least. A certificate that was renewed on disk serves the connections made from then on.
"""

# mypy: disable-error-code="no-untyped-call"
# Twisted says of itself that it is typed, and mostly is not.

from __future__ import annotations

import stat
import time
from pathlib import Path
from typing import Any

from OpenSSL import SSL
from twisted.application.internet import SSLServer, TCPServer
from twisted.application.service import IServiceCollection
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.logger import Logger
from zope.interface import implementer  # type: ignore[import-untyped]

from toolkit.model.errors import ConfigurationError
from toolkit.trust.pem import read_server_identity

LOOK_EVERY_S = 10.0
"""How often, at most, the files are looked at for a renewed certificate."""

_log = Logger()


@implementer(IOpenSSLServerConnectionCreator)
class NodeTls:
    """What makes each connection's TLS.

    Raises:
        ConfigurationError: a file cannot be read, is none of its kind, they do not belong together, or others than its
            owner may read the key.

    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._stamp = self._stamp_now()
        self._looked_at = time.monotonic()
        self._context = _context(certificate, key)

    def serverConnectionForTLS(self, _protocol: object) -> SSL.Connection:  # noqa: N802 - Twisted's name
        """Return a connection that has the certificate of now."""
        self._renew()
        return SSL.Connection(self._context, None)

    def _renew(self) -> None:
        """Read the files again if they have changed; those that cannot be used leave things as they are."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        try:
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self._context = _context(self._certificate, self._key)
                self._stamp = stamp
                _log.info("The node's certificate was read again")
        except (ConfigurationError, OSError) as error:
            _log.warn("The node's new certificate is not used: {error}", error=error)

    def _stamp_now(self) -> tuple[tuple[int, int, int], ...]:
        found = []
        for path, option in ((self._certificate, "tls_cert"), (self._key, "tls_key")):
            try:
                status = path.stat()
            except OSError as error:
                raise ConfigurationError(f"{option} {path} cannot be read: {error.strerror}") from error
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
        return tuple(found)


def serve_tls(app: Any, tls: NodeTls) -> None:
    """Let Scrapyd's site speak TLS where it would have spoken HTTP; a Unix socket stays as it is."""
    services: Any = IServiceCollection(app)
    for plain in [service for service in services if type(service) is TCPServer]:
        secure: Any = SSLServer(*plain.args, tls, **plain.kwargs)
        plain.disownServiceParent()
        secure.setServiceParent(app)
        _log.info("Scrapyd's port {port} speaks TLS alone", port=plain.args[0])


def _context(certificate: Path, key: Path) -> SSL.Context:
    if key.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ConfigurationError(f"tls_key {key} can be read by everybody on this machine: chmod 600 {key}")
    try:
        found = read_server_identity(certificate.read_bytes(), key.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{error.filename} cannot be read: {error.strerror}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{error.message} (tls_cert is {certificate}, tls_key is {key})") from error
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.use_certificate(found.certificates[0])
    for each in found.certificates[1:]:
        context.add_extra_chain_cert(each)
    context.use_privatekey(found.key)
    return context
