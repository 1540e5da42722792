"""What a store promises to processes that meet in it or die in it, tried on each back end with real processes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import end, quiet_environment, start
from support.waiting import wait_until

from toolkit.model.hosts import Secret
from toolkit.model.names import ProjectName
from toolkit.store.interfaces import Store
from toolkit.store.open import open_store

SOON_S = 60.0
BATCH = 40
PROJECTS = 100
TURNS = 25

PRELUDE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from toolkit.model.errors import LockHeldError
from toolkit.model.hosts import Secret
from toolkit.model.jobs import Job, JobState
from toolkit.model.releases import Release
from toolkit.store.open import open_store

name, url, folder, go = sys.argv[1:]
while not Path(go).exists():
    pass
store = open_store(Secret(url) if url else None, Path(folder))
"""

TAKE_EVERY_LOCK = f"""
for number in range({PROJECTS}):
    try:
        store.releases.lock(f"project-{{number}}", who=name, why="race", ttl_s=600)
        print(number, flush=True)
    except LockHeldError:
        pass
"""

# Each turn reads how many releases there are and records the next: without the lock, two would take the same number.
TAKE_TURNS = f"""
turns = 0
while turns < {TURNS}:
    try:
        lock = store.releases.lock("shop", who=name, why="turn", ttl_s=600)
    except LockHeldError:
        continue
    version = f"v{{len(store.releases.releases('shop')):04}}"
    store.releases.record(Release("shop", version, name + version, (), 1, None, datetime.now(UTC), name), lock)
    store.releases.unlock(lock)
    turns += 1
print("done", flush=True)
"""

ADD_WITHOUT_END = f"""
batch = 0
while True:
    at = datetime.now(UTC)
    store.jobs.add([
        Job(f"{{batch:05}}-{{number:03}}", "shop", "books", JobState.PENDING, scheduled_at=at)
        for number in range({BATCH})
    ])
    print(batch, flush=True)
    batch += 1
"""


class Actors:
    """Processes that open one store and wait for a common start."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def store(self) -> Store:
        return open_store(Secret(self._url) if self._url else None, self._folder / "state")

    def launch(self, name: str, program: str) -> None:
        arguments = [name, self._url, str(self._folder / "state"), str(self._folder / "go")]
        with (self._folder / name).open("wb") as output:
            self._processes[name] = start(
                [sys.executable, "-c", PRELUDE + program, *arguments],
                cwd=Path(__file__).parents[2],
                env=quiet_environment(self._folder),
                output=output,
            )

    def go(self) -> None:
        (self._folder / "go").touch()

    def lines(self, name: str) -> list[str]:
        return (self._folder / name).read_text().splitlines()

    def wait(self) -> None:
        for name, process in self._processes.items():
            assert process.wait(SOON_S) == 0, self.lines(name)

    def kill(self) -> None:
        for process in self._processes.values():
            end(process)


@pytest.fixture(params=["redis", "local"])
def actors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Actors]:
    actors = Actors(tmp_path, request.getfixturevalue("redis_url") if request.param == "redis" else "")
    yield actors
    actors.kill()


def test_of_processes_that_race_for_a_lock_exactly_one_gets_it(actors: Actors) -> None:
    names = ["ann", "bob", "eve"]
    for name in names:
        actors.launch(name, TAKE_EVERY_LOCK)
    actors.go()
    actors.wait()

    winners = {int(number): name for name in names for number in actors.lines(name)}
    taken = Counter(int(number) for name in names for number in actors.lines(name))
    assert taken == Counter(range(PROJECTS))
    store = actors.store()
    for number in range(PROJECTS):
        holder = store.releases.holder(ProjectName(f"project-{number}"))
        assert holder is not None
        assert holder.who == winners[number]
    store.close()


def test_processes_that_take_turns_under_the_lock_lose_no_write(actors: Actors) -> None:
    for name in ("ann", "bob"):
        actors.launch(name, TAKE_TURNS)
    actors.go()
    actors.wait()

    store = actors.store()
    releases = store.releases.releases(ProjectName("shop"))
    store.close()
    assert sorted(release.version for release in releases) == [f"v{number:04}" for number in range(2 * TURNS)]
    assert Counter(release.created_by for release in releases) == {"ann": TURNS, "bob": TURNS}


def test_a_process_killed_while_it_adds_leaves_whole_batches_and_all_acknowledged_ones(actors: Actors) -> None:
    actors.launch("ann", ADD_WITHOUT_END)
    actors.go()
    wait_until(lambda: len(actors.lines("ann")) > 10, deadline_s=SOON_S, what="ten batches to be added")
    actors.kill()

    store = actors.store()
    found = Counter(job.id.partition("-")[0] for job in store.jobs.unfinished())
    store.close()
    assert set(found.values()) == {BATCH}
    assert {int(number) for number in actors.lines("ann")} <= {int(batch) for batch in found}
