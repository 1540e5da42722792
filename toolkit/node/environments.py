"""The environments of this node's releases: one folder for each set of requirements, whole or not there at all.

Two releases with the same requirements share one; two that clash have one each, so both run side by side, and a
rollback finds its packages as they were. One that nobody needs any more is removed, never while a job runs in it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twisted.logger import Logger

from toolkit.model.errors import EggError
from toolkit.node.children import Children
from toolkit.node.environment_making import CACHE, Recipe, Sources, make, name_of, recipe_for

GRACE_S = 120.0
"""How long an environment is kept that nobody seems to need: an egg may just be on its way."""

BEING_MADE = "is being made"
_MADE = "made.json"
_MAX_SHOWN = 5
_log = Logger()

Make = Callable[[Recipe, Path, Sources, Children], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Made:
    """What is known of a whole environment: the requirements it was made for, and what was installed for them."""

    lines: tuple[str, ...]
    packages: tuple[str, ...]

    def __str__(self) -> str:
        named = {name_of(line) for line in self.lines}
        first = sorted(self.packages, key=lambda package: (name_of(package) not in named, package))
        shown = ", ".join(first[:_MAX_SHOWN])
        more = len(self.packages) - _MAX_SHOWN
        return f"{shown} and {more} more" if more > 0 else shown


class Environments:
    """The folder of environments; any thread may call. `in_use` tells those in which jobs run, whoever began them."""

    def __init__(
        self,
        folder: Path,
        *,
        sources: Sources | None = None,
        in_use: Callable[[], Collection[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
        make: Make = make,
    ) -> None:
        self._folder = folder
        self._sources = sources or Sources()
        self._in_use = in_use
        self._clock = clock
        self._make = make
        self._children = Children()
        self._lock = threading.Lock()
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._drafts: set[str] = set()
        self._unneeded_since: dict[str, float] = {}
        self._known = dict(self._look())

    def ensure(self, lines: Sequence[str]) -> str:
        """Return the name of an environment with these requirements; it is made first if it is not there.

        Several who ask for the same wait for one; a crash on the way leaves nothing that counts.

        Raises:
            EggError: it could not be made, and why.

        """
        recipe = recipe_for(lines)
        name = recipe.name
        with self._lock:
            lock = self._locks[name]
        with lock:
            with self._lock:
                self._unneeded_since[name] = self._clock()
            if not self.has(name):
                self._remove(name)
                self._build(recipe)
        return name

    def has(self, name: str | None) -> bool:
        """Tell whether an environment is there; none is asked for by `None`, and always there."""
        return name is None or ((self._folder / name / _MADE).is_file() and self._python(name).exists())

    def python(self, name: str | None) -> str:
        """Return the Python of an environment; without one, the node's own.

        Raises:
            FileNotFoundError: somebody has removed it.

        """
        if name is None:
            return sys.executable
        if not self.has(name):
            raise FileNotFoundError(errno.ENOENT, "the environment of its release is gone", str(self._folder / name))
        return str(self._python(name))

    def shown(self, needed: Mapping[str, Sequence[tuple[str, str]]]) -> Mapping[str, str]:
        """Say of each environment, by its name, what is in it and which versions need it. Costs next to nothing."""
        with self._lock:
            making = {draft.split(".")[1]: BEING_MADE for draft in self._drafts}
            known = dict(self._known)
        whole = {}
        for name, made in known.items():
            users = ", ".join(" ".join(each) for each in needed.get(name, ())) or "nobody: it will be removed"
            whole[name] = f"{made}; needed by {users}"
        return dict(sorted({**making, **whole}.items()))

    def drop_unused(self, needed: Collection[str]) -> None:
        """Remove those that for a while were neither needed nor run in, and what a crash has left half made."""
        now, kept = self._clock(), {*needed, *self._in_use()}
        self._drop_drafts()
        with self._lock:
            for name in self._known:
                if name in kept:
                    self._unneeded_since.pop(name, None)
                else:
                    self._unneeded_since.setdefault(name, now)
            gone = [name for name in self._known if now - self._unneeded_since.get(name, now) >= GRACE_S]
        for name in gone:
            with self._lock:
                lock = self._locks[name]
            if lock.acquire(blocking=False):
                try:
                    self._remove(name)
                    _log.info("The environment {name} is removed: no release needs it", name=name)
                finally:
                    lock.release()
        if gone:
            # What it kept for them would stay for good.
            shutil.rmtree(self._folder / CACHE, ignore_errors=True)

    def close(self) -> None:
        """End what is being made; who waits for it gets an `EggError`."""
        self._children.close()

    def _build(self, recipe: Recipe) -> None:
        draft = f".{recipe.name}.{secrets.token_hex(4)}"
        with self._lock:
            self._drafts.add(draft)
        began = self._clock()
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            packages = self._make(recipe, self._folder / draft, self._sources, self._children)
            made = Made(recipe.lines, packages)
            text = json.dumps({"needs": made.lines, "packages": made.packages})
            (self._folder / draft / _MADE).write_text(text, encoding="utf-8")
            os.sync()  # After a power failure, a folder of this name must not have files without their content.
            (self._folder / draft).replace(self._folder / recipe.name)
        except OSError as error:
            raise EggError(f"its environment could not be made: {error.strerror or error}") from error
        finally:
            with self._lock:
                self._drafts.discard(draft)
            shutil.rmtree(self._folder / draft, ignore_errors=True)
        with self._lock:
            self._known[recipe.name] = made
        seconds = self._clock() - began
        _log.info("Made the environment {name} in {s:.1f} s: {made}", name=recipe.name, s=seconds, made=str(made))

    def _remove(self, name: str) -> None:
        """Take an environment away, in one step for all who look."""
        with self._lock:
            self._known.pop(name, None)
            self._unneeded_since.pop(name, None)
        gone = self._folder / f".{name}.{secrets.token_hex(4)}"
        with contextlib.suppress(OSError):
            (self._folder / name).replace(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def _drop_drafts(self) -> None:
        """Remove what a crash left; this folder is this process' alone, so what is not its own is nobody's."""
        with self._lock:
            ours = set(self._drafts)
        for path in self._folder.glob(".*.*"):
            if path.name not in ours:
                shutil.rmtree(path, ignore_errors=True)

    def _python(self, name: str) -> Path:
        return self._folder / name / "bin" / "python"

    def _look(self) -> Iterator[tuple[str, Made]]:
        for path in self._folder.glob(f"*/{_MADE}"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                content = json.loads(path.read_text(encoding="utf-8"))
                if not path.parent.name.startswith("."):
                    yield path.parent.name, Made(tuple(content["needs"]), tuple(content["packages"]))
