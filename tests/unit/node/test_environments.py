"""The folder of environments: each made once, whole or not at all, and removed when nobody needs it."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from toolkit.model.errors import EggError
from toolkit.node.children import Children, Ended
from toolkit.node.environment_making import Recipe, Sources, last_words, limits, node_paths, recipe_for
from toolkit.node.environments import BEING_MADE, GRACE_S, Environments

LINES = ("tinydep==1.0",)


class Maker:
    """Makes environments that look like some, and can be told to fail, or to wait."""

    def __init__(self) -> None:
        self.made: list[tuple[str, ...]] = []
        self.error: Exception | None = None
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self, recipe: Recipe, target: Path, _sources: Sources, _children: Children) -> tuple[str, ...]:
        (target / "bin").mkdir(parents=True)
        (target / "bin" / "python").symlink_to(sys.executable)
        self.begun.set()
        self.may_end.wait(10)
        if self.error is not None:
            raise self.error
        self.made.append(recipe.lines)
        return recipe.lines


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "environments"
        self.maker = Maker()
        self.in_use: set[str] = set()
        self.now = 1000.0
        self.environments = self.next_life()

    def next_life(self) -> Environments:
        return Environments(self.folder, in_use=lambda: self.in_use, clock=lambda: self.now, make=self.maker)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_the_same_needs_share_one_environment_also_in_a_later_life(stage: Stage) -> None:
    name = stage.environments.ensure(LINES)
    assert stage.environments.ensure(LINES) == name
    assert stage.next_life().ensure(LINES) == name
    assert stage.environments.ensure(("tinydep==2.0",)) != name
    assert stage.maker.made == [LINES, ("tinydep==2.0",)]
    assert Path(stage.environments.python(name)).parent.parent == stage.folder / name


def test_no_environment_is_the_nodes_own_and_one_that_is_gone_is_said_so(stage: Stage) -> None:
    assert stage.environments.python(None) == sys.executable
    assert stage.environments.has(None)
    with pytest.raises(FileNotFoundError, match="environment of its release is gone"):
        stage.environments.python("0123456789abcdef")


def test_many_who_ask_at_once_wait_for_one(stage: Stage) -> None:
    stage.maker.may_end.clear()
    threads = [threading.Thread(target=lambda: stage.environments.ensure(LINES)) for _ in range(4)]
    for thread in threads:
        thread.start()
    stage.maker.begun.wait(10)
    assert list(stage.environments.shown({}).values()) == [BEING_MADE]
    stage.maker.may_end.set()
    for thread in threads:
        thread.join(10)
    assert stage.maker.made == [LINES]


@pytest.mark.parametrize("error", [EggError("no version of it"), OSError(28, "No space left on device")])
def test_one_that_cannot_be_made_leaves_nothing_and_can_be_tried_again(stage: Stage, error: Exception) -> None:
    stage.maker.error = error
    with pytest.raises(EggError, match=r"no version of it|No space left on device"):
        stage.environments.ensure(LINES)
    assert stage.names() == []
    stage.maker.error = None
    assert stage.environments.has(stage.environments.ensure(LINES))


def test_what_a_crash_has_left_is_removed_and_does_not_count(stage: Stage) -> None:
    name = recipe_for(LINES).name
    for half in (stage.folder / f".{name}.0a1b2c3d", stage.folder / name):
        (half / "bin").mkdir(parents=True)
    assert not stage.environments.has(name)
    assert stage.environments.ensure(LINES) == name
    stage.environments.drop_unused([name])
    assert stage.names() == [name]


def test_one_whose_python_is_gone_is_made_again(stage: Stage) -> None:
    name = stage.environments.ensure(LINES)
    python = stage.folder / name / "bin" / "python"
    python.unlink()
    python.symlink_to("/a/python/that/was/removed")
    assert not stage.environments.has(name)
    assert stage.environments.has(stage.environments.ensure(LINES))


def test_one_is_removed_when_for_a_while_nobody_needs_it_and_never_while_a_job_runs_in_it(stage: Stage) -> None:
    environments = stage.environments
    name = environments.ensure(LINES)
    environments.drop_unused([name])
    stage.now += 2 * GRACE_S
    stage.in_use = {name}
    environments.drop_unused([])
    assert environments.has(name)

    stage.in_use = set()
    environments.drop_unused([])
    stage.now += GRACE_S - 1
    environments.drop_unused([])
    assert environments.has(name)
    stage.now += 1
    environments.drop_unused([])
    assert stage.names() == []
    assert environments.shown({}) == {}


def test_one_that_is_asked_for_again_has_its_time_anew(stage: Stage) -> None:
    name = stage.environments.ensure(LINES)
    stage.environments.drop_unused([])
    stage.now += GRACE_S - 1
    stage.environments.ensure(LINES)
    stage.now += 1
    stage.environments.drop_unused([])
    assert stage.environments.has(name)


def test_what_is_shown_says_what_is_in_it_and_for_whom(stage: Stage) -> None:
    name = stage.environments.ensure(LINES)
    assert stage.environments.shown({name: [("shop", "v1"), ("shop", "v2")]}) == {
        name: "tinydep==1.0; needed by shop v1, shop v2"
    }
    assert "nobody" in stage.next_life().shown({})[name]


def test_an_environment_depends_on_its_needs_and_its_node_and_nothing_else() -> None:
    assert recipe_for(LINES) == recipe_for(LINES)
    assert recipe_for(LINES).name != recipe_for(("tinydep==1.1",)).name
    assert str(Path(sys.prefix) / "bin") not in node_paths()
    assert any(path.endswith("-packages") for path in node_paths())


def test_what_runs_every_spider_limits_the_packages_beside_it_but_not_what_the_release_names() -> None:
    found = set(limits(set()))
    assert any(line.startswith("redis>=") for line in found)
    assert any(line.startswith("setuptools<") for line in found)
    assert any(line.startswith("lxml>=") for line in found), "which Scrapy asks for"
    assert not any(line.startswith("lxml>=") for line in limits({"scrapy", "parsel"}))
    assert any(line.startswith("scrapy") for line in limits({"scrapy"})), "which Scrapyd asks for"


def test_a_resolvers_last_words_fit_into_a_line_and_hold_no_secret() -> None:
    said = "Using Python 3.11\nwarning: x\nerror: Failed to fetch: http://ann:hush@host/\n  cause: 401\n"
    assert last_words(Ended(1, b"", said.encode()), secrets=["ann", "hush"]) == (
        "Failed to fetch: http://***:***@host/; 401"
    )
    assert last_words(Ended(1, b"", b"Traceback (most recent call last):\n  x\nOSError: full\n")) == "OSError: full"
    assert last_words(Ended(-9, b"", b"")) == "it ended with SIGKILL and said nothing"
