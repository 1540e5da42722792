"""Real Scrapyd processes for tests: each with a folder, a port and credentials of its own, and gone after the test."""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support import http_calls
from support.ports import free_port
from support.processes import descendants, end, kill_group, quiet_environment, start
from support.waiting import wait_until

READY_WITHIN_S = 60.0
TEST_CREDENTIALS = ("crawler", "let-me-in")
# A stock node looks for work every 5 s; tests need not wait that long.
TEST_OPTIONS: Mapping[str, str] = {"poll_interval": "0.2", "max_proc": "2", "items_dir": "items", "jobs_to_keep": "100"}


class ScrapydNode:
    """One Scrapyd process, answering from entering the context to leaving it.

    Without `port` a free one is chosen; without `username` and `password` the node asks for none. `options` are lines
    of the `[scrapyd]` section; `sections` are further sections, such as `services`; `environ` are further variables.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "node-1",
        address: str = "127.0.0.1",
        port: int | None = None,
        username: str | None = None,
        password: str | None = None,
        options: Mapping[str, str] | None = None,
        sections: Mapping[str, Mapping[str, str]] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.name = name
        self.address = address
        self.port = port or free_port(address)
        self._port_was_used = port is not None
        self.username = username
        self.password = password
        self._options = dict(options or {})
        self._sections = dict(sections or {})
        self._environ = dict(environ or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.ca_file: Path | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end and without credentials; https once `ca_file` is set."""
        return f"{'https' if self.ca_file else 'http'}://{self.address}:{self.port}"

    @property
    def credentials(self) -> tuple[str, str] | None:
        """User name and password, if the node asks for them."""
        return (self.username, self.password) if self.username and self.password else None

    @property
    def is_running(self) -> bool:
        """The Scrapyd process itself is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of Scrapyd."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    def start(self) -> None:
        """Write the configuration, start the process, and return when it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except AssertionError:
            # Someone else took the port between its choice and its use.
            if self._port_was_used or "CannotListenError" not in self.log_text():
                raise
            self.port = free_port(self.address)
            self._start()
        self._port_was_used = True

    def _start(self) -> None:
        self._write_configuration()
        with (self.folder / "scrapyd.log").open("ab") as log:
            self._process = start(
                self._command(), cwd=self.folder, env=quiet_environment(self.folder, **self._environ), output=log
            )
        try:
            wait_until(self._answers, deadline_s=READY_WITHIN_S, what=f"{self.name} to answer on {self.url}")
        except BaseException:
            self.kill()
            raise

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "scrapyd", "--pidfile="]

    def stop(self) -> None:
        """End Scrapyd as an operator does (SIGTERM), and then every spider that outlived it."""
        if self._process is not None:
            end(self._process, politely_s=30)

    def kill(self, *, spiders: bool = True) -> None:
        """End Scrapyd with SIGKILL; its spiders die with it as when a machine goes, or live on as orphans."""
        if self._process is None:
            return
        if spiders:
            end(self._process)
        else:
            self._process.kill()
            self._process.wait(10)

    def restart(self) -> None:
        """Stop the node and start it again in the same folder, on the same port."""
        self.stop()
        self.start()

    def log_text(self) -> str:
        """Return what Scrapyd wrote so far."""
        path = self.folder / "scrapyd.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def spider_pids(self) -> list[int]:
        """Return the processes that the node started and that still run, orphans included."""
        return [child.pid for child in descendants(self.pid)] if self._process else []

    def kill_spiders(self) -> None:
        """End every spider with SIGKILL and leave Scrapyd alone."""
        for child in descendants(self.pid):
            with contextlib.suppress(ProcessLookupError):
                child.kill()

    def get(self, endpoint: str, **fields: str) -> Any:
        """Ask the node (`get("listjobs.json", project="shop")`) and return the JSON it answers."""
        url = f"{self.url}/{endpoint}"
        return http_calls.get(url, fields, credentials=self.credentials, ca_file=self.ca_file).json()

    def post(self, endpoint: str, *, files: Mapping[str, bytes] | None = None, **fields: str) -> Any:
        """Post a form to the node (`post("schedule.json", project="shop", spider="a")`); return the JSON it answers."""
        url = f"{self.url}/{endpoint}"
        return http_calls.post(url, fields, files=files, credentials=self.credentials, ca_file=self.ca_file).json()

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            kill_group(self._process.pid)
            raise AssertionError(f"{self.name} ended with {self._process.returncode}:\n{self.log_text()}")
        url = f"{self.url}/daemonstatus.json"
        with contextlib.suppress(OSError, http.client.HTTPException):
            answer = http_calls.get(url, credentials=self.credentials, timeout_s=10, ca_file=self.ca_file)
            return answer.status == http.HTTPStatus.OK
        return False

    def _write_configuration(self) -> None:
        own = {
            "node_name": self.name,
            "bind_address": self.address,
            "http_port": str(self.port),
            "username": self.username or "",
            "password": self.password or "",
        }
        sections = {"scrapyd": {**TEST_OPTIONS, **own, **self._options}, **self._sections}
        lines: list[str] = []
        for section, options in sections.items():
            lines.append(f"[{section}]")
            # Scrapyd reads its configuration with interpolation on: a bare percent sign would stop it.
            lines.extend(f"{name} = {value.replace('%', '%%')}" for name, value in options.items())
        path = self.folder / "scrapyd.conf"
        path.touch(mode=0o600)
        path.write_text("\n".join(lines) + "\n")


@contextlib.contextmanager
def running_nodes(
    count: int,
    *,
    folder: Path | None = None,
    credentials: tuple[str, str] | None = TEST_CREDENTIALS,
    options: Mapping[str, str] | None = None,
    at_once: int = 8,
) -> Iterator[list[ScrapydNode]]:
    """Start that many nodes, `node-1` and so on, a few at once; end all of them on every way out."""
    user, secret = credentials or (None, None)
    with contextlib.ExitStack() as stack:
        home = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nodes-")))
        nodes = [
            ScrapydNode(home / f"node-{i}", name=f"node-{i}", username=user, password=secret, options=options)
            for i in range(1, count + 1)
        ]
        for node in nodes:
            stack.callback(node.kill)
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(ScrapydNode.start, nodes))
        yield nodes
