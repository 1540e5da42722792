"""How a webhook proves that a message comes from this cluster: HMAC-SHA256 over its time and its body. Pure."""

from __future__ import annotations

import hashlib
import hmac

from toolkit.model.hosts import Secret

EVENT_HEADER = "X-Crawlctl-Event"
TIME_HEADER = "X-Crawlctl-Timestamp"
SIGNATURE_HEADER = "X-Crawlctl-Signature"
SCHEME = "v1="


def signature(secret: Secret, body: bytes, *, at_s: int) -> str:
    """Return the value of the signature's header: HMAC-SHA256 of `<at_s>.<body>` under the secret, in hex."""
    signed = b"%d." % at_s + body
    return SCHEME + hmac.new(secret.reveal().encode(), signed, hashlib.sha256).hexdigest()
