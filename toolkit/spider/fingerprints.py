"""The fingerprints of requests, remembered by URL: most links of a page were met before."""

from __future__ import annotations

import hashlib
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.utils.request import RequestFingerprinter

_FINGERPRINT_BYTES = 20
_HALF = 20_000


class Fingerprints:
    """What the crawl's fingerprinter says, always in 20 bytes."""

    def __init__(self, crawler: Crawler) -> None:
        fingerprinter: Any = crawler.request_fingerprinter
        self._ask = fingerprinter.fingerprint
        # Scrapy's own looks at nothing but the URL of a plain GET; one of the project's may look at anything.
        self._is_by_url = type(fingerprinter) is RequestFingerprinter
        self._newer: dict[str, bytes] = {}
        self._older: dict[str, bytes] = {}

    def of(self, request: Request) -> bytes:
        """Return the fingerprint of a request; whatever a fingerprinter of the project's raises goes through."""
        is_plain = request.method == "GET" and not request.body and "verbatim_url" not in request.meta
        if not (self._is_by_url and is_plain):
            return self._made(request)
        url = request.url
        known = self._newer.get(url)
        if known is None:
            known = self._older.get(url) or self._made(request)
            self._newer[url] = known
            if len(self._newer) >= _HALF:
                self._older, self._newer = self._newer, {}
        return known

    def _made(self, request: Request) -> bytes:
        fingerprint: bytes = self._ask(request)
        if len(fingerprint) != _FINGERPRINT_BYTES:
            return hashlib.sha1(fingerprint, usedforsecurity=False).digest()
        return fingerprint
