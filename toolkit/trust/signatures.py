"""What it means to sign a release, and to find it signed. Pure.

What is signed is project, version and the SHA-256 of the egg, so a signature proves nothing about the same bytes under
another name. A signature's text is one line, `crawlctl-signature-1 KEY_ID BASE64`; several lines are several signers',
of whom one trusted one is enough.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from toolkit.model.errors import UntrustedError
from toolkit.model.names import ProjectName, VersionName
from toolkit.trust.keys import SigningKey, TrustedKeys

MAX_CHARS = 4096
"""How long the text of a release's signatures may be: some thirty signers."""

_KIND = "crawlctl-signature-1"
_CONTEXT = "crawlctl release 1"


def sign(project: ProjectName, version: VersionName, digest: str, *, key: SigningKey) -> str:
    """Return the text that proves who released these bytes under this name."""
    signature = base64.b64encode(key.sign(_message(project, version, digest))).decode()
    return f"{_KIND} {key.public.id} {signature}"


def countersign(known: str | None, project: ProjectName, version: VersionName, digest: str, *, key: SigningKey) -> str:
    """Return the signatures with ours among them; ours is there once, whatever was there."""
    ours = sign(project, version, digest, key=key)
    lines = [line.strip() for line in (known or "").splitlines() if line.strip()]
    if known is not None and ours in lines:
        return known
    kept = [line for line in lines if line.split()[1:2] != [key.public.id]]
    while kept and len("\n".join([*kept, ours])) > MAX_CHARS:
        kept.pop(0)
    return "\n".join([*kept, ours])


def signers(signature: str | None) -> tuple[str, ...]:
    """Return the ids of the keys that a text says it was signed by; nothing is proven by that."""
    return tuple(key_id for key_id, _ in _parts(signature))


def check_signature(
    keys: TrustedKeys, project: ProjectName, version: VersionName, digest: str, signature: str | None
) -> str:
    """Return the id of a trusted key that signed these bytes under this name.

    Raises:
        UntrustedError: there is none; the message says whether it is unsigned, by a stranger, revoked or not genuine.

    """
    what = f"{project} {version}"
    parts = list(_parts(signature))
    if not parts:
        raise UntrustedError(f"{what} is not signed: only eggs signed by a trusted key are taken here")
    message = _message(project, version, digest)
    problems = []
    for key_id, raw in parts:
        key = keys.find(key_id)
        if key is not None and key.has_signed(message, raw):
            return key_id
        problems.append(_problem(keys, key_id, is_known=key is not None))
    raise UntrustedError(f"{what} is signed by no trusted key: {'; '.join(dict.fromkeys(problems))}")


def _problem(keys: TrustedKeys, key_id: str, *, is_known: bool) -> str:
    if is_known:
        return f"the signature of {key_id} was made for other bytes, or for another project or version"
    revoked = keys.was_revoked(key_id)
    return f"the key {key_id} of {revoked.name} was revoked" if revoked else f"the key {key_id} is not trusted here"


def _message(project: ProjectName, version: VersionName, digest: str) -> bytes:
    """Write each part with its length, so that no two different releases give the same bytes."""
    parts = [part.encode() for part in (_CONTEXT, project, version, digest.lower())]
    return b"".join(b"%d:%s," % (len(part), part) for part in parts)


def _parts(signature: str | None) -> Iterator[tuple[str, bytes]]:
    if signature is None or len(signature) > MAX_CHARS:
        return
    for line in signature.splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == _KIND and words[1].isalnum() and words[1].isascii():  # noqa: PLR2004
            try:
                yield words[1][:64], base64.b64decode(words[2], validate=True)
            except (binascii.Error, ValueError):
                continue
