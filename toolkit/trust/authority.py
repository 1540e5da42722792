"""A small certificate authority of one inventory, and the certificates that its nodes show. Pure: texts in, texts out.

Keys are on the curve P-256; the authority may sign nodes' certificates and nothing below them. A node's certificate is
for 397 days, which is what clients take at most, and is made anew 60 days before it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret

NODE_DAYS = 397
RENEWED_BEFORE_DAYS = 60
AUTHORITY_DAYS = 3650
_SKEW = timedelta(hours=1)  # A host whose clock is behind takes a new certificate all the same.
_MAX_COMMON_NAME = 64


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its private key, each as PEM."""

    certificate: str
    key: Secret


def new_authority(name: str, *, now: datetime) -> Identity:
    """Make an authority of this name, for ten years."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(f"crawlctl {name}")
    certificate = (
        _builder(subject, subject, key.public_key(), now=now, days=AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(is_authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _identity(certificate, key)


def new_certificate(authority: Identity, names: Sequence[str], *, now: datetime) -> Identity:
    """Make a node's certificate for its names and addresses, the first of which is its common name.

    Raises:
        ConfigurationError: the authority's files are not what they were written as.

    """
    ca, ca_key = _load(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_named(names[0]), ca.subject, key.public_key(), now=now, days=NODE_DAYS)
        .add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return _identity(certificate, key)


def why_new(identity: Identity | None, authority: Identity, names: Sequence[str], *, now: datetime) -> str | None:
    """Say why a node needs another certificate than this one; `None` when it does not."""
    if identity is None:
        return "it has none"
    try:
        certificate = x509.load_pem_x509_certificate(identity.certificate.encode())
        key = load_pem_private_key(identity.key.reveal().encode(), None)
        ca, _ = _load(authority)
        certificate.verify_directly_issued_by(ca)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound, ConfigurationError):
        return "the one that it has is not by this authority"
    if key.public_key() != certificate.public_key():
        return "its key is another one's"
    if set(found) != set(_alternatives(names)):
        return "its names or addresses have changed"
    if certificate.not_valid_after_utc - now < timedelta(days=RENEWED_BEFORE_DAYS):
        return f"it ends on {certificate.not_valid_after_utc:%Y-%m-%d}"
    return None


def ends_at(certificate: str) -> datetime:
    """Return until when a certificate (PEM, the first one in it) counts, in UTC.

    Raises:
        ConfigurationError: it is none.

    """
    try:
        return x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc
    except ValueError as error:
        raise ConfigurationError("this is no certificate in PEM form") from error


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, now: datetime, days: int
) -> x509.CertificateBuilder:
    begin = now.astimezone(UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(begin - _SKEW)
        .not_valid_after(begin + timedelta(days=days) - _SKEW)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(names: Sequence[str]) -> list[x509.GeneralName]:
    return [_alternative(name) for name in dict.fromkeys(names)]


def _alternative(name: str) -> x509.GeneralName:
    address = _address(name)
    return x509.DNSName(name) if address is None else x509.IPAddress(address)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_MAX_COMMON_NAME])])


def _identity(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Identity:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
    return Identity(certificate.public_bytes(Encoding.PEM).decode("ascii"), Secret(pem))


def _load(authority: Identity) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(authority.certificate.encode())
        key = load_pem_private_key(authority.key.reveal().encode(), None)
    except (ValueError, TypeError) as error:
        raise ConfigurationError("the authority's certificate or key cannot be read") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise ConfigurationError("the authority's certificate and key do not belong together")
    return certificate, key
