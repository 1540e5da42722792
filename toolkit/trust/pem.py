"""Reads certificates and their keys out of PEM files, for whoever serves TLS with them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import Certificate, load_pem_x509_certificates

from toolkit.model.errors import ConfigurationError

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """What a server shows (its certificate, then those between it and its authority) and proves itself with."""

    certificates: tuple[Certificate, ...]
    key: PrivateKey


def read_server_identity(certificate: bytes, key: bytes) -> ServerIdentity:
    """Return what two files hold; nothing of the key is ever part of a message.

    Raises:
        ConfigurationError: one of them holds none, the key has a passphrase, or is not that of the first certificate.

    """
    try:
        certificates = tuple(load_pem_x509_certificates(certificate))
    except ValueError as error:
        raise ConfigurationError("tls_cert holds no certificate in PEM form") from error
    try:
        private: PrivateKeyTypes = load_pem_private_key(key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # What the library says might repeat some of it.
        raise ConfigurationError("tls_key holds no private key in PEM form without a passphrase") from None
    if not isinstance(private, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ConfigurationError("tls_key is of a kind that servers do not use: RSA, or on an elliptic curve")
    if private.public_key() != certificates[0].public_key():
        raise ConfigurationError("tls_key is not the key of tls_cert")
    return ServerIdentity(certificates, private)
