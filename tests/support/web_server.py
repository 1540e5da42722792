"""The pages and the HTTP API on a real port: an app in a thread, with one user of each role.

Its passwords are hashed with little care, since that is not what most tests are about.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
from argon2 import PasswordHasher
from fastapi import FastAPI
from support.waiting import wait_until

from toolkit.cluster.desk import Desk
from toolkit.cluster.nodes import Nodes
from toolkit.model.hosts import Host
from toolkit.store.interfaces import Store
from toolkit.web.accounts import Accounts, Role
from toolkit.web.accounts_file import accounts_file
from toolkit.web.app import create_app
from toolkit.web.passwords import Passwords
from toolkit.web.served import Served
from toolkit.web.serving import Place, listen, server_of
from toolkit.web.sessions import Sessions

USERS: Mapping[str, Role] = MappingProxyType(
    {"alice": Role.LOOK, "olga": Role.OPERATE, "ada": Role.ADMINISTER},
)
PASSWORD = "a horse in a battery"
ANSWERS_WITHIN_S = 60.0


class Clock:
    """A clock that a test sets forward."""

    def __init__(self, at: float | None = None) -> None:
        self.at = time.time() if at is None else at

    def __call__(self) -> float:
        return self.at


class WebServer:
    """One server of pages. Clients follow no redirect by themselves."""

    def __init__(self, served: Served, url: str) -> None:
        self.served = served
        self.url = url
        self._open = ExitStack()

    def client(self, **options: Any) -> httpx.Client:
        """Return a browser that is not signed in; it is closed with the server."""
        return self._open.enter_context(httpx.Client(base_url=self.url, timeout=ANSWERS_WITHIN_S, **options))

    def signed_in(self, name: str, password: str = PASSWORD) -> httpx.Client:
        """Return a browser in which a user has signed in."""
        client = self.client()
        answer = client.post("/sign-in", data={"name": name, "password": password})
        assert answer.status_code == httpx.codes.SEE_OTHER, f"{name} could not sign in: {answer.text}"
        return client

    def program(self, name: str, role: Role | None = None, **options: Any) -> httpx.Client:
        """Return a program with a token of a user."""
        _, token = self.served.sessions.make_token(name, role or USERS[name], label="a test", **options)
        return self.client(headers={"Authorization": f"Bearer {token}"})

    def close(self) -> None:
        """Let go of all clients."""
        self._open.close()


def form_token(client: httpx.Client, path: str = "/account") -> str:
    """Return the proof that the forms of a page carry."""
    found = re.search(r'name="form_token" value="([0-9a-f]+)"', client.get(path).text)
    assert found is not None, f"{path} has no form"
    return found[1]


@contextmanager
def web_server(
    folder: Path,
    open_store: Callable[[], Store],
    *,
    hosts: tuple[Host, ...] = (),
    clock: Callable[[], float] = time.time,
    has_pages: bool = True,
    place: Place = Place(port=0),  # noqa: B008 - it does not change
    **served_with: Any,
) -> Iterator[WebServer]:
    """Serve a cluster's pages in a thread, with the users alice (look), olga (operate) and ada (administer)."""
    file = accounts_file(folder)
    accounts = Accounts(file, passwords=Passwords(PasswordHasher(1, 8, 1)), clock=clock)
    for name, role in USERS.items():
        accounts.add(name, role, PASSWORD)
    listening = listen(place)
    port = int(listening.getsockname()[1])
    nodes = Nodes.of(hosts)
    served = Served(Desk(nodes, open_store), accounts, Sessions(file, clock=clock), port, **served_with)
    with ExitStack() as closing:
        closing.callback(nodes.close)
        closing.callback(file.close)
        closing.enter_context(_serving(create_app(served, has_pages=has_pages), served, listening))
        server = WebServer(served, f"http://127.0.0.1:{port}")
        closing.callback(server.close)
        yield server


@contextmanager
def _serving(app: FastAPI, served: Served, listening: socket.socket) -> Iterator[None]:
    server = server_of(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started, deadline_s=ANSWERS_WITHIN_S, what="the pages to be served")
        yield
    finally:
        served.stopping.set()
        server.should_exit = True
        thread.join()
