"""All pages of the cluster, for the app to include."""

from __future__ import annotations

from fastapi import APIRouter

from toolkit.web import (
    pages_crawls,
    pages_crons,
    pages_events,
    pages_job,
    pages_jobs,
    pages_nodes,
    pages_overview,
    pages_releases,
)
from toolkit.web.live import router as live_router

router = APIRouter(include_in_schema=False)
for room in (
    *(pages_overview, pages_nodes, pages_jobs, pages_job, pages_crawls, pages_releases),
    *(pages_crons, pages_events),
):
    router.include_router(room.router)
router.include_router(live_router)
