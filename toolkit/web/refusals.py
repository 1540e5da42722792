"""Why somebody may not ask something: nobody is signed in, a right is lacking, it comes from elsewhere, too often."""

from __future__ import annotations

from toolkit.model.errors import CrawlctlError


class VisitorError(CrawlctlError):
    """Who asks may not ask this, or not so; `status` is HTTP's, `kind` what JSON says."""

    status = 403
    kind = "forbidden"


class UnknownVisitorError(VisitorError):
    """Nobody is signed in, or not any more."""

    status = 401
    kind = "unknown_visitor"


class ForbiddenError(VisitorError):
    """The visitor has not this right."""


class CrossSiteError(VisitorError):
    """It would change something and comes from elsewhere, or from a page of an older session."""

    kind = "cross_site"


class TooOftenError(VisitorError):
    """Too many tries; `wait_s` is when to try again."""

    status = 429
    kind = "too_often"

    def __init__(self, message: str, *, wait_s: float) -> None:
        super().__init__(message, hint=f"try again in {max(1, round(wait_s))} s")
        self.wait_s = wait_s
