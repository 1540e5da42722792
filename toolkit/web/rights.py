"""Which right each route asks for. An app with a route that declares none is not served at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Mount

from toolkit.web.visitor import Needs, anyone

ANYONE = "anyone"
OPEN_MOUNTS = frozenset({"/static"})


def declared(app: FastAPI) -> list[tuple[APIRoute, str]]:
    """Return each route of an app and its right: a role's name, or `anyone`.

    Raises:
        TypeError: a route declares none, or something is mounted that is not known to be for everybody.

    """
    found = []
    for route in _routes(app.routes):
        if isinstance(route, Mount) and route.path in OPEN_MOUNTS:
            continue
        right = _right_of(route.dependant) if isinstance(route, APIRoute) else None
        if right is None or not isinstance(route, APIRoute):
            raise TypeError(f"the route {getattr(route, 'path', route)} does not say who may ask it")
        found.append((route, right))
    return found


def _routes(routes: Sequence[BaseRoute]) -> Iterator[BaseRoute]:
    for route in routes:
        # FastAPI keeps a router that was included as one route.
        included = getattr(route, "original_router", None)
        if included is None:
            yield route
        else:
            yield from _routes(included.routes)


def _right_of(dependant: Any) -> str | None:
    for each in dependant.dependencies:
        if isinstance(each.call, Needs):
            return each.call.role.value
        if each.call is anyone:
            return ANYONE
    return None
