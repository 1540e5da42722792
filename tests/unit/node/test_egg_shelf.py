"""An egg comes onto the shelf whole and listed, or not at all; its listing is a real process of Scrapyd's runner."""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from scrapyd.config import Config
from scrapyd.webservice import spider_list
from support.eggs import broken_egg, egg_of, small_egg
from support.waiting import wait_until

from toolkit.model.errors import ConflictError, EggError
from toolkit.model.names import ProjectName, VersionName
from toolkit.node.catalogue import Catalogue, Surroundings
from toolkit.node.eggstorage import ProvenEggStorage
from toolkit.node.environment import without_secrets
from toolkit.node.environments import Environments
from toolkit.node.listing import SpiderLister
from toolkit.node.shelf import Shelf

SHOP, V1, V2 = ProjectName("shop"), VersionName("v1"), VersionName("v2")
EGG, OTHER = small_egg(("alpha", "beta")), small_egg(("alpha", "beta", "gamma"))
HERE = Surroundings("CPython 3.11.7", "aaaa")


def hanging_egg(pid_file: Path) -> bytes:
    """Return an egg whose listing starts a child, says so, and never ends."""
    source = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pid_file)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)\n"
    )
    settings = 'BOT_NAME = "small"\nSPIDER_MODULES = ["small.spiders"]\n'
    return egg_of({"__init__.py": "", "settings.py": settings, "spiders/__init__.py": source}, package="small")


def loud_egg() -> bytes:
    """Return an egg whose listing prints without end."""
    settings = 'BOT_NAME = "small"\nSPIDER_MODULES = ["small.spiders"]\n'
    source = 'while True:\n    print("x" * 100_000)\n'
    return egg_of({"__init__.py": "", "settings.py": settings, "spiders/__init__.py": source}, package="small")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in the folder of a node: its scrapyd.conf there is what the runner reads."""
    (tmp_path / "scrapyd.conf").write_text("[scrapyd]\neggs_dir = eggs\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    spider_list.cache.clear()
    return tmp_path


def open_shelf(*, timeout_s: float = 60, max_egg_bytes: int = 1_000_000) -> Shelf:
    return Shelf(
        eggs=ProvenEggStorage(Config()),
        catalogue=Catalogue(Path("state/catalogue.json")),
        lister=SpiderLister(runner="scrapyd.runner", timeout_s=timeout_s),
        environments=Environments(Path("state/environments")),
        max_egg_bytes=max_egg_bytes,
    )


def take(shelf: Shelf, egg: bytes, version: VersionName = V1, *, digest: str | None = None) -> tuple[str, ...]:
    with shelf.staged(SHOP, io.BytesIO(egg), digest=digest) as staged:
        proof = shelf.prove(staged)
        shelf.publish(staged, version, proof, replaces=shelf.held_digest(SHOP, version))
    return proof.spiders


def no_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an egg was listed that need not be")

    monkeypatch.setattr(SpiderLister, "spiders", refuse)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "eggs").rglob("*")) if (folder / "eggs").exists() else []


def test_an_egg_is_there_with_its_spiders(folder: Path) -> None:
    shelf = open_shelf()
    assert take(shelf, EGG, digest=hashlib.sha256(EGG).hexdigest().upper()) == ("alpha", "beta")
    assert files(folder) == ["shop", "v1.egg"]
    assert shelf.catalogue.versions() == {SHOP: (V1,)}
    assert spider_list.cache["shop"] == {"v1": ["alpha", "beta"]}


@pytest.mark.parametrize(
    ("egg", "words"),
    [
        (broken_egg(), "No module named 'a_module_that_is_not_there'"),
        (egg_of({"__init__.py": ""}, package="small"), "small.settings"),
        (b"no zip at all", "not a ZIP file"),
    ],
)
def test_a_broken_egg_leaves_nothing_behind(folder: Path, egg: bytes, words: str) -> None:
    shelf = open_shelf()
    with pytest.raises(EggError, match=words):
        take(shelf, egg)
    assert files(folder) == []
    take(shelf, EGG)
    with pytest.raises(EggError, match=words):
        take(shelf, egg)
    assert shelf.held_digest(SHOP, V1) == hashlib.sha256(EGG).hexdigest()
    assert shelf.catalogue.spiders(SHOP, V1) == ("alpha", "beta")


def test_an_egg_that_was_changed_on_its_way_or_is_too_large_leaves_nothing_behind(folder: Path) -> None:
    with pytest.raises(EggError, match="was changed on its way"):
        take(open_shelf(), EGG, digest="0" * 64)
    with pytest.raises(EggError, match=r"too large: 0.0 MB; this node takes 0.0001 MB \(max_egg_mb\)"):
        take(open_shelf(max_egg_bytes=100), EGG)
    assert files(folder) == []


def test_a_listing_that_hangs_ends_at_its_deadline_with_all_that_it_started(folder: Path) -> None:
    # A busy machine needs seconds before the egg's code runs at all; the egg itself would never end.
    with pytest.raises(EggError, match="longer than 15 s"):
        take(open_shelf(timeout_s=15), hanging_egg(folder / "pids"))
    pids = [int(pid) for pid in (folder / "pids").read_text().split()]
    wait_until(lambda: not any(is_alive(pid) for pid in pids), deadline_s=20, what="both processes to be gone")
    assert files(folder) == []


def test_a_node_that_stops_does_not_wait_for_a_listing(folder: Path) -> None:
    shelf = open_shelf()
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(error_of(lambda: take(shelf, hanging_egg(folder / "pids")))))
    thread.start()
    wait_until((folder / "pids").exists, deadline_s=60, what="the listing to begin")
    shelf.close()
    thread.join(30)
    assert len(said) == 1
    assert error_of(lambda: take(shelf, EGG)) == "this node is stopping"


def test_a_listing_that_prints_without_end_is_ended() -> None:
    with pytest.raises(EggError, match="printed more than 4 MB"):
        take(open_shelf(), loud_egg())


def test_bytes_that_were_proven_are_not_listed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    take(open_shelf(), EGG)
    no_listing(monkeypatch)
    later = open_shelf()
    assert take(later, EGG, V2) == ("alpha", "beta")
    assert later.catalogue.versions() == {SHOP: (V2,)}


def test_two_uploads_of_one_version_at_a_time_are_not_both_ok() -> None:
    shelf = open_shelf()
    with shelf.staged(SHOP, io.BytesIO(EGG)) as mine:
        proof = shelf.prove(mine)
        take(shelf, OTHER)
        with pytest.raises(ConflictError, match="somebody else has just uploaded shop v1"):
            shelf.publish(mine, V1, proof, replaces=None)
    assert shelf.held_digest(SHOP, V1) == hashlib.sha256(OTHER).hexdigest()


def test_an_egg_brought_by_hand_is_proven_where_it_lies() -> None:
    shelf = open_shelf()
    shelf.eggs.put(io.BytesIO(EGG), SHOP, V1)
    assert shelf.catalogue.versions() == {}
    assert shelf.prove_held(SHOP, V1, HERE)
    assert shelf.catalogue.spiders(SHOP, V1) == ("alpha", "beta")
    assert not shelf.prove_held(SHOP, V1, HERE)


def test_after_a_restart_an_untouched_egg_is_not_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = open_shelf()
    shelf.eggs.put(io.BytesIO(EGG), SHOP, V1)
    shelf.prove_held(SHOP, V1, HERE)
    no_listing(monkeypatch)
    monkeypatch.setattr(ProvenEggStorage, "digest", lambda *_: pytest.fail("it was read"))
    later = open_shelf()
    spider_list.cache.clear()
    assert later.prove_held(SHOP, V1, HERE)
    assert later.catalogue.versions() == {SHOP: (V1,)}
    assert spider_list.cache["shop"] == {"v1": ["alpha", "beta"]}


def test_an_egg_that_comes_by_two_ways_at_once_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, listings, both = open_shelf(), [], threading.Barrier(2)
    really = SpiderLister.spiders

    def counted(self: SpiderLister, *args: Any, **more: Any) -> Any:
        listings.append(args)
        return really(self, *args, **more)

    def bring(version: VersionName) -> None:
        with shelf.staged(SHOP, io.BytesIO(EGG)) as staged:
            both.wait()
            shelf.publish(staged, version, shelf.prove(staged), replaces=None)

    monkeypatch.setattr(SpiderLister, "spiders", counted)
    ways = [threading.Thread(target=bring, args=(version,)) for version in (V1, V2)]
    for way in ways:
        way.start()
    for way in ways:
        way.join(60)
    assert len(listings) == 1
    assert shelf.catalogue.versions() == {SHOP: (V1, V2)}


def test_an_egg_that_was_merely_touched_is_read_and_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = open_shelf()
    shelf.eggs.put(io.BytesIO(EGG), SHOP, V1)
    shelf.prove_held(SHOP, V1, HERE)
    no_listing(monkeypatch)
    os.utime(shelf.eggs.path(SHOP, V1), (1, 1))
    assert shelf.prove_held(SHOP, V1, HERE)
    assert shelf.catalogue.versions() == {SHOP: (V1,)}


@pytest.mark.parametrize("change", ["bytes", "packages"])
def test_a_version_is_proven_anew_when_its_egg_or_the_packages_changed(change: str) -> None:
    shelf = open_shelf()
    shelf.eggs.put(io.BytesIO(EGG), SHOP, V1)
    shelf.prove_held(SHOP, V1, HERE)
    if change == "bytes":
        shelf.eggs.put(io.BytesIO(OTHER), SHOP, V1)
    assert shelf.prove_held(SHOP, V1, HERE if change == "bytes" else Surroundings("CPython 3.11.7", "bbbb"))
    expected = ("alpha", "beta", "gamma") if change == "bytes" else ("alpha", "beta")
    assert shelf.catalogue.spiders(SHOP, V1) == expected


def test_what_was_taken_away_by_hand_does_not_count() -> None:
    shelf = open_shelf()
    take(shelf, EGG)
    shelf.eggs.path(SHOP, V1).unlink()
    assert shelf.prove_held(SHOP, V1, HERE)
    assert shelf.catalogue.versions() == {}


def test_a_dropped_version_is_in_no_list() -> None:
    shelf = open_shelf()
    take(shelf, EGG)
    take(shelf, OTHER, V2)
    shelf.drop("shop", "v1")
    assert shelf.catalogue.versions() == {SHOP: (V2,)}
    shelf.drop("shop")
    assert (shelf.catalogue.versions(), spider_list.cache.get("shop")) == ({}, None)


def test_a_listing_is_told_no_secret() -> None:
    told = without_secrets(
        {
            "PATH": "/bin",
            "CRAWLCTL_REDIS": "redis://:secret@host",
            "CRAWLCTL_PASSWORD": "x",
            "SCRAPYD_PASSWORD": "x",
            "SCRAPYD_USERNAME": "x",
            "KEPT_AS": "node-1",
        }
    )
    assert told == {"PATH": "/bin", "KEPT_AS": "node-1"}


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def error_of(work: Callable[[], object]) -> str:
    try:
        work()
    except EggError as error:
        return error.message
    return "no error"
