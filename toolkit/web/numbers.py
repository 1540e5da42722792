"""The numbers for others: what Prometheus scrapes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from toolkit.cluster.reading import take_reading
from toolkit.model.accounts import Role
from toolkit.views.metrics import CONTENT_TYPE, exposition
from toolkit.web.lookout import lookout_of
from toolkit.web.visitor import Needs, served_by

router = APIRouter(include_in_schema=False)
_bearer = HTTPBearer(auto_error=False)


class NeedsUnlessOpen(Needs):
    """Lets look who may, or anybody where the operator has opened the numbers."""

    def __call__(  # type: ignore[override]
        self, request: Request, bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
    ) -> None:
        """Return when the request may pass; raise what `Needs` raises."""
        if not served_by(request).is_metrics_open:
            super().__call__(request, None, bearer)


@router.get("/metrics", dependencies=[Depends(NeedsUnlessOpen(Role.LOOK))])
def metrics(request: Request) -> Response:
    """Show the numbers in Prometheus' text format; while the Redis is away they say so.

    Many who ask share a reading, as everybody may where they are open; while a node is slow to answer they get one
    that is half a minute old at most.
    """
    desk = served_by(request).desk
    text = lookout_of(request, desk).glances.get("numbers", lambda: exposition(take_reading(desk)))
    return Response(text, media_type=CONTENT_TYPE)
