"""A stand-in for MongoDB: `nx-27017` speaks its wire protocol over SQLite, since no package carries a real server."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pymongo
from pymongo.errors import PyMongoError
from support.ports import free_port
from support.processes import end, quiet_environment, start
from support.waiting import wait_until

READY_WITHIN_S = 60.0


def stand_in_path() -> Path | None:
    """Return the program, or nothing where its package is not installed."""
    path = Path(sys.executable).with_name("nx-27017")
    return path if path.is_file() else None


class MongoStandIn:
    """One server with no password, answering while the context lasts."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """The URL of the database `shop`."""
        return f"mongodb://127.0.0.1:{self.port}/shop"

    def documents(self, collection: str = "items") -> list[dict[str, Any]]:
        """Return a collection's documents in the order of their ids."""
        with pymongo.MongoClient[dict[str, Any]](self.url) as client:
            return sorted(client["shop"][collection].find(), key=lambda document: str(document["_id"]))

    def start(self) -> None:
        """Start the process, and return when it answers."""
        path = stand_in_path()
        assert path, "no stand-in for MongoDB: install the nx-27017 package"
        files = ["--db", "items.db", "--log-file", "nx.log", "--pid-file", "nx.pid"]
        with (self._folder / "out").open("ab") as output:
            self._process = start(
                [sys.executable, str(path), "--host", "127.0.0.1", "-p", str(self.port), *files],
                cwd=self._folder,
                env=quiet_environment(self._folder),
                output=output,
            )
        wait_until(self._answers, deadline_s=READY_WITHIN_S, what=f"the stand-in to answer on port {self.port}")

    def kill(self) -> None:
        """End the server with SIGKILL."""
        if self._process is not None:
            end(self._process)

    def _answers(self) -> bool:
        with (
            contextlib.suppress(PyMongoError),
            pymongo.MongoClient[dict[str, Any]](self.url, serverSelectionTimeoutMS=500) as client,
        ):
            client.admin.command("ping")
            return True
        return False
