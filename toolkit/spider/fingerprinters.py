"""scrapy-redis' fingerprints, for a crawl that goes on with a seen set that scrapy-redis made."""

from __future__ import annotations

import hashlib
import json
from weakref import WeakKeyDictionary

from scrapy import Request
from w3lib.url import canonicalize_url


class ScrapyRedisFingerprinter:
    """The fingerprints of `scrapy_redis.dupefilter.RFPDupeFilter` 0.9, as `REQUEST_FINGERPRINTER_CLASS`.

    They are made of method, canonical URL and body; each is counted once for a request, however often it is asked.
    """

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Request, bytes] = WeakKeyDictionary()

    def fingerprint(self, request: Request) -> bytes:
        """Return the request's fingerprint, 20 bytes."""
        known = self._known.get(request)
        if known is None:
            fields = {"method": request.method, "url": canonicalize_url(request.url), "body": request.body.hex()}
            known = hashlib.sha1(json.dumps(fields, sort_keys=True).encode(), usedforsecurity=False).digest()
            self._known[request] = known
        return known
