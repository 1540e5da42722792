"""The HTTP API as one router, its OpenAPI, and the numbers for others."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse

from toolkit.web import api_acting, api_reading, api_watching
from toolkit.web.problems import PROBLEM_TYPE, TITLES
from toolkit.web.shapes import Problem
from toolkit.web.visitor import FORM_HEADER, anyone

PATH = "/api/openapi.json"
PROBLEM = "#/components/schemas/Problem"
SESSION = "The cookie of a session; its name ends with the port, and begins with `__Host-` over TLS."
FORM = "Beside the cookie, with what changes something: the proof that it comes from a page of the session."
ABOUT = """The cluster over HTTP: the rights are those of the pages, the names those of `crawlctl --output json`.

Make a token (`crawlctl web tokens make USER NAME --role look`) and send it as `Authorization: Bearer …`. A script of a
page that is signed in sends the header `X-Form-Token` with each request that changes something instead. A failure is
problem JSON (RFC 9457) whose `error` is that of the command line: `kind`, `message`, `hint`.
"""

router = APIRouter()
router.include_router(api_reading.router)
router.include_router(api_watching.router)
router.include_router(api_acting.router)


@router.get(PATH, include_in_schema=False, dependencies=[Depends(anyone)])
def openapi(request: Request) -> Response:
    """Describe the API."""
    return JSONResponse(described(request.app))


def described(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI of an app, with every route's right and failures; made once."""
    if app.openapi_schema is None:
        app.openapi_schema = _made(app)
    return app.openapi_schema


def _made(app: FastAPI) -> dict[str, Any]:
    schema = get_openapi(
        title="crawlctl", version=version("crawlctl"), description=ABOUT, routes=app.routes, summary=app.summary
    )
    parts = schema["components"]["schemas"]
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    parts |= problem.pop("$defs", {}) | {"Problem": problem}
    for name in ("HTTPValidationError", "ValidationError"):
        parts.pop(name, None)
    schema["components"]["securitySchemes"] |= {
        "session": {"type": "apiKey", "in": "cookie", "name": "crawlctl_8800", "description": SESSION},
        "form": {"type": "apiKey", "in": "header", "name": FORM_HEADER, "description": FORM},
    }
    schema["components"]["responses"] = {
        f"Problem{status}": {"description": title, "content": {PROBLEM_TYPE: {"schema": {"$ref": PROBLEM}}}}
        for status, title in TITLES.items()
    }
    failures = {str(status): {"$ref": f"#/components/responses/Problem{status}"} for status in TITLES}
    for path in schema["paths"].values():
        for operation in path.values():
            operation["responses"] |= failures
            operation["security"] = [{"token": []}, {"session": [], "form": []}]
    return schema
