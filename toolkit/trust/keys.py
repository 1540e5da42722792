"""Ed25519 keys: the one with which an operator signs releases, and the list of those that nodes trust. Pure.

A public key is one line, `crawlctl-ed25519 BASE64 NAME`; a list of them is a text with a line each, where `#` begins a
remark and `revoked` before a key takes it out for good. A private key is what OpenSSL and ssh-keygen write: PEM
(PKCS 8) or OpenSSH's own form, without a passphrase.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret

KIND = "crawlctl-ed25519"
REVOKED = "revoked"
MAX_NAME_CHARS = 100
_RAW_BYTES = 32
_ID_CHARS = 16
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
_NAME_WORDS = "letters, digits and . _ @ + -, at most 100 of them, a letter or digit first"


@dataclass(frozen=True, slots=True)
class PublicKey:
    """One public key and whose it is; `id` is the beginning of its SHA-256 in hex, which its owner cannot choose."""

    raw: bytes
    name: str

    @property
    def id(self) -> str:
        """The key's short name in signatures and tables."""
        return hashlib.sha256(self.raw).hexdigest()[:_ID_CHARS]

    def __str__(self) -> str:
        """Write the key as a list of keys has it."""
        return f"{KIND} {base64.b64encode(self.raw).decode()} {self.name}"

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Tell whether the owner of this key signed just these bytes."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key with its public half; printing it does not show the private one."""

    public: PublicKey
    _private: Ed25519PrivateKey = field(repr=False)

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes."""
        return self._private.sign(message)

    def written(self) -> Secret:
        """Return the private key as PEM (PKCS 8, not encrypted)."""
        pem = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return Secret(pem.decode("ascii"))


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """The keys whose signatures count, and those that were taken out; a key that is in both lists does not count."""

    trusted: tuple[PublicKey, ...] = ()
    revoked: tuple[PublicKey, ...] = ()

    def find(self, key_id: str) -> PublicKey | None:
        """Return the trusted key of this id."""
        return next((key for key in self.trusted if key.id == key_id), None)

    def was_revoked(self, key_id: str) -> PublicKey | None:
        """Return the revoked key of this id."""
        return next((key for key in self.revoked if key.id == key_id), None)


def new_key(name: str) -> SigningKey:
    """Make a new key pair.

    Raises:
        ConfigurationError: the name does not fit into a list of keys.

    """
    return _pair(Ed25519PrivateKey.generate(), check_name(name))


def read_signing_key(text: Secret, *, name: str) -> SigningKey:
    """Return the key that a text in PEM or OpenSSH's form holds; the form keeps no name.

    Raises:
        ConfigurationError: it is none, of another kind, or has a passphrase; nothing of it is repeated.

    """
    content = text.reveal().strip().encode() + b"\n"
    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in content else load_pem_private_key
    try:
        key = load(content, None)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        why = (
            "it has a passphrase" if _has_passphrase(error, content) else "it is no private key in PEM or OpenSSH form"
        )
        raise ConfigurationError(
            f"the signing key cannot be used: {why}", hint="crawlctl keys new makes one"
        ) from None  # What the library says might repeat some of it.
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigurationError("the signing key is of another kind than Ed25519", hint="crawlctl keys new makes one")
    return _pair(key, check_name(name))


def read_public_key(line: str) -> PublicKey:
    """Return the key that one line describes.

    Raises:
        ConfigurationError: it is no public key of ours.

    """
    words = line.split()
    if len(words) != 3 or words[0] != KIND:  # noqa: PLR2004 - kind, key and name
        raise ConfigurationError(
            f"this is no public key: {line.strip()[:60]!r}", hint=f"it looks like: {KIND} BASE64 NAME"
        )
    try:
        raw = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != _RAW_BYTES:
        raise ConfigurationError(f"the public key of {words[2][:60]!r} is not whole", hint="copy the whole line")
    return PublicKey(raw, check_name(words[2]))


def read_trusted_keys(text: str, *, source: str) -> TrustedKeys:
    """Return the keys of a list; a key that is revoked anywhere in it counts as revoked.

    Raises:
        ConfigurationError: a line is neither a key nor a remark; it names the line.

    """
    trusted: dict[bytes, PublicKey] = {}
    revoked: dict[bytes, PublicKey] = {}
    for number, is_revoked, line in _lines(text):
        try:
            key = read_public_key(line)
        except ConfigurationError as error:
            raise ConfigurationError(f"{source}:{number}: {error.message}", hint=error.hint) from error
        (revoked if is_revoked else trusted).setdefault(key.raw, key)
    still = tuple(key for raw, key in trusted.items() if raw not in revoked)
    return TrustedKeys(still, tuple(revoked.values()))


def with_trusted(text: str, key: PublicKey) -> str:
    """Return the list with one key more; a list that has it is returned as it is."""
    if key.raw in {each.raw for each in read_trusted_keys(text, source="the list of keys").trusted}:
        return text
    return f"{_ended(text)}{key}\n"


def with_revoked(text: str, key: PublicKey) -> str:
    """Return the list with a key marked as revoked wherever it stands, remarks kept; added so if it stands nowhere."""
    lines, is_there = [], False
    for line in text.splitlines():
        words = line.split()
        is_it = len(words) > 1 and KIND in words[:2] and _is_key(words, key)
        is_there |= is_it
        lines.append(f"{REVOKED} {line.strip()}" if is_it and words[0] != REVOKED else line)
    return "\n".join([*lines, *([] if is_there else [f"{REVOKED} {key}"])]) + "\n"


def check_name(name: str) -> str:
    """Return the name of a key's owner.

    Raises:
        ConfigurationError: it could not stand in a list of keys.

    """
    if len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name):
        raise ConfigurationError(f"{name[:60]!r} cannot be a key's name: {_NAME_WORDS}")
    return name


def _pair(private: Ed25519PrivateKey, name: str) -> SigningKey:
    raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return SigningKey(PublicKey(raw, name), private)


def _lines(text: str) -> Iterator[tuple[int, bool, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.strip()
        if said and not said.startswith("#"):
            first, _, rest = said.partition(" ")
            yield number, first == REVOKED, rest if first == REVOKED else said


def _is_key(words: list[str], key: PublicKey) -> bool:
    try:
        return read_public_key(" ".join(words[1:] if words[0] == REVOKED else words)).raw == key.raw
    except ConfigurationError:
        return False


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _has_passphrase(error: Exception, content: bytes) -> bool:
    return "password" in str(error).lower() or "passphrase" in str(error).lower() or b"ENCRYPTED" in content
