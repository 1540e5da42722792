"""The app of `crawlctl web`: pages, HTTP API and sign-in, behind one guard. Making it asks nothing of the cluster."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from toolkit.web import api, numbers, pages, problems, sign_in, users
from toolkit.web.guarding import Guard
from toolkit.web.rights import declared
from toolkit.web.served import Served

STATIC = Path(__file__).parent / "static"
MIN_GZIP_BYTES = 800
FOR_GOOD, ASK_AGAIN = "public, max-age=31536000, immutable", "no-cache"


def create_app(served: Served, *, has_pages: bool = True) -> FastAPI:
    """Return the app for one cluster; without the pages it is sign-in, users and the HTTP API."""
    app = FastAPI(
        title="crawlctl",
        summary="One cluster of Scrapyd nodes: see it, and act on it.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.served = served
    problems.add_to(app)
    app.include_router(sign_in.open_router)
    app.include_router(sign_in.router)
    app.include_router(users.router)
    app.include_router(api.router)
    app.include_router(numbers.router)
    if has_pages:
        app.include_router(pages.router, include_in_schema=False)
    app.mount("/static", _Static(directory=STATIC), name="static")
    declared(app)
    app.add_middleware(GZipMiddleware, minimum_size=MIN_GZIP_BYTES)
    app.add_middleware(Guard, names=served.names, on_bug=problems.answer_of_bug)
    return app


class _Static(StaticFiles):
    """Files that hold nothing of the cluster; under an address with their digest they never change."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = FOR_GOOD if b"v=" in scope.get("query_string", b"") else ASK_AGAIN
        return response
