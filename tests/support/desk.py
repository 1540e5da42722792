"""An operator's desk: a folder with an inventory where the real command runs, and what it says is looked through."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil
from support.cli import Finished, InventoryNode, RunningCrawlctl, inventory_for, run_crawlctl
from support.waiting import wait_until

FOREVER_S = "600"


class Desk:
    """Runs `crawlctl` in a folder, warm; nothing that it says may hold a secret or a traceback."""

    def __init__(self, folder: Path, *, secrets: Iterable[str] = ()) -> None:
        self.folder = folder
        self.secrets = tuple(secrets)
        folder.mkdir(parents=True, exist_ok=True)

    @classmethod
    def of(
        cls,
        nodes: Iterable[InventoryNode],
        redis_url: str | None,
        folder: Path,
        *,
        secrets: Iterable[str] = (),
        timeout_s: float | None = None,
    ) -> Desk:
        """Return a desk whose inventory names these nodes."""
        inventory_for(nodes, redis_url, folder / "inventory.yaml", timeout_s=timeout_s)
        return cls(folder, secrets=secrets)

    def run(
        self, *words: str, exit_code: int = 0, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Finished:
        """Run a command that ends with this exit code."""
        return self.read(run_crawlctl(*words, cwd=cwd or self.folder, env=env, warm=True), exit_code)

    def json(self, *words: str, exit_code: int = 0, env: Mapping[str, str] | None = None) -> Any:
        """Run a command with `--output json` and return what it printed."""
        return self.run(*words, "--output", "json", exit_code=exit_code, env=env).json()

    def error(self, *words: str, exit_code: int, env: Mapping[str, str] | None = None) -> str:
        """Run a command that fails alike for people and for programs; return its message and hint as one text."""
        told = self.run(*words, exit_code=exit_code, env=env)
        answer = self.json(*words, exit_code=exit_code, env=env)
        assert list(answer) == ["error"]
        assert list(answer["error"]) == ["kind", "message", "hint"]
        error = answer["error"]
        assert error["kind"]
        assert told.out == ""
        assert "error: " in told.err
        assert error["message"].splitlines()[0] in told.err
        assert not error["hint"] or f"hint: {error['hint']}" in told.err
        return f"{error['kind']}: {error['message']}\n{error['hint'] or ''}"

    def begin(self, *words: str, env: Mapping[str, str] | None = None) -> RunningCrawlctl:
        """Return a command to be entered; what it said is to be looked through by `read`."""
        return RunningCrawlctl(*words, cwd=self.folder, env=env, warm=True)

    def read(self, ended: Finished, exit_code: int) -> Finished:
        """Look through what a command said."""
        ended.expect(exit_code)
        shown = [secret for secret in self.secrets if secret in ended.out + ended.err]
        assert not shown, f"shows {shown}: {ended}"
        return ended

    def gives(self, node: str, timeout_s: float) -> None:
        """Let each call to one node take so many seconds, whatever the others get."""
        path = self.folder / "inventory.yaml"
        inventory = json.loads(path.read_text())
        inventory["hosts"][node]["timeout_s"] = timeout_s
        path.write_text(json.dumps(inventory))

    def job(self, job_id: str, *, exit_code: int = 0) -> dict[str, Any]:
        """Return what `jobs show` tells of a job."""
        shown: dict[str, Any] = self.json("jobs", "show", job_id, exit_code=exit_code)
        return shown

    def start_job(self, spider: str, *words: str) -> dict[str, Any]:
        """Schedule one job and return it when its process is there, and the cluster knows that it runs."""
        job: dict[str, Any] = self.json("schedule", spider, *words)["jobs"][0]
        wait_until(lambda: process_of(job["id"]), deadline_s=60, what=f"the process of {job['id']}")
        # A node tells of a process only after its start.
        wait_until(lambda: self.job(job["id"])["state"] == "running", deadline_s=60, what=f"{job['id']} to be running")
        return job

    def start_sleeper(self, *words: str) -> dict[str, Any]:
        """Schedule one job that sleeps until it is stopped, and return it when it does."""
        return self.start_job("quick", "-a", f"sleep_s={FOREVER_S}", *words)

    def marks(self, spider: str, *words: str) -> set[str]:
        """Run jobs to their end and return which release's code they ran, as their items tell."""
        jobs = self.json("schedule", spider, "--wait", *words)
        items = [item for job in jobs for item in self.items(job["id"])]
        assert len(items) == len(jobs)
        return {item["release"] for item in items}

    def items(self, job_id: str) -> list[Any]:
        """Return the items of a job."""
        return self.run("items", job_id).jsonl()

    def active(self, project: str = "market") -> str:
        """Return the version that is active."""
        found = [row["version"] for row in self.json("releases", project) if row["active"]]
        assert len(found) == 1, f"one release is active, not {found}"
        return str(found[0])

    def cancel_all(self) -> None:
        """Leave no job behind that a node knows of."""
        ended = run_crawlctl("cancel", "--all", "--yes", "--grace", "0", cwd=self.folder, warm=True)
        assert ended.exit_code in {0, 4}, ended


def process_of(job_id: str) -> psutil.Process | None:
    """Return the spider's own process, if there is one now."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            if f"_job={job_id}" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                return process
    return None


def alive(pids: Iterable[int]) -> list[int]:
    """Return those of the processes that still run; one that waits only for its parent to look is gone."""
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
    return found


def kill_spider(job_id: str) -> None:
    """Kill a spider as the kernel does when memory is short."""
    process = process_of(job_id)
    assert process is not None, f"{job_id} has no process"
    process.kill()


def seconds_of(act: Callable[[], object]) -> float:
    """Return how long it took."""
    began = time.monotonic()
    act()
    return time.monotonic() - began
