"""Tries an egg on the operator's machine before any node is touched: in a clean process, as Scrapyd would run it."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from toolkit.model.errors import EggError
from toolkit.model.names import SpiderName
from toolkit.rollout.ahead import SPIDER_LIST, told, trial_environ
from toolkit.rollout.child import Finished, RunningChild
from toolkit.rollout.egg import Egg
from toolkit.rollout.pythons import check_python, choose_python

LIST_TIMEOUT_S = 60.0
_GRACE_S = 1.0  # between the time limit, at which the child says where it hangs, and its end
_TRACEBACK_LINES = 6
_SHOWN_CHARS = 80
_CANNOT = "the egg's spiders cannot be listed"


class Preflight:
    """An egg's spiders being listed, from entering the context on; leaving it ends what still runs.

    The caller can do other work meanwhile, and asks for the `spiders` when it needs them. The egg is imported in a
    process of its own, in an empty folder, without the caller's `PYTHON*` and `SCRAPY_*` variables; that process and
    what it started are gone afterwards if it overstays `timeout_s`. `root` is the project's folder; with
    `checks_python` it decides which Pythons will do, else it only helps to word a hint.

    Raises:
        EggError: on entering, the Python cannot be run.

    """

    def __init__(
        self,
        egg: Egg,
        *,
        root: Path | None = None,
        python: Path | None = None,
        checks_python: bool = False,
        timeout_s: float = LIST_TIMEOUT_S,
    ) -> None:
        self._egg = egg
        self._root = root
        self._python = python or choose_python(Path("/"), {})
        self._checks_python = checks_python
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        with ExitStack() as ending:
            folder = ending.enter_context(tempfile.TemporaryDirectory(prefix="crawlctl-preflight-"))
            work = Path(folder).resolve()
            self._place, self._answer, empty = work / "project.egg", work / "answer.json", work / "empty"
            self._place.write_bytes(self._egg.content)
            empty.mkdir()
            try:
                self._child = self._told_ahead(empty) or ending.enter_context(self._new(empty))
            except OSError as error:
                why = f"{self._python} cannot be run: {error.strerror or error}"
                raise EggError(f"{_CANNOT}: {why}") from error
            ending.callback(self._child.end)
            self._ends_at = time.monotonic() + self._timeout_s + _GRACE_S
            self._ending = ending.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.close()

    def spiders(self) -> tuple[SpiderName, ...]:
        """Wait for the end of the list and return the names, sorted, as Scrapy's own spider loader finds them.

        Raises:
            EggError: a module cannot be imported (with file, line and the traceback's end), importing does not end,
                prints or exits, two spiders share a name, or there are none; or the Python is one that the project
                or Scrapyd cannot use.

        """
        done = self._child.wait(max(0.0, self._ends_at - time.monotonic()))
        said = json.loads(self._answer.read_text(encoding="utf-8")) if self._answer.is_file() else None
        if self._checks_python and self._root:
            version = None if said is None else (said["python"][0], said["python"][1], said["python"][2])
            check_python(self._root, self._python, version=version)
        return _judge(said, done, _Wording(str(self._place), self._root, self._python), self._timeout_s)

    def _told_ahead(self, folder: Path) -> RunningChild | None:
        return told(self._python, folder=folder, egg=self._place, answer=self._answer, timeout_s=self._timeout_s)

    def _new(self, folder: Path) -> RunningChild:
        command: list[str | Path] = [self._python, SPIDER_LIST, self._place, self._answer, str(self._timeout_s)]
        return RunningChild(command, cwd=folder, env=trial_environ(os.environ))


def begin_preflight(
    root: Path, egg: Egg, *, environ: Mapping[str, str], timeout_s: float = LIST_TIMEOUT_S
) -> Preflight:
    """Return the trial of an egg under the project's own Python; it begins on entering its context."""
    return Preflight(egg, root=root, python=choose_python(root, environ), checks_python=True, timeout_s=timeout_s)


def preflight(
    root: Path, egg: Egg, *, environ: Mapping[str, str], timeout_s: float = LIST_TIMEOUT_S
) -> tuple[SpiderName, ...]:
    """Return the egg's spiders as the project's own Python lists them, or say why no node could run it.

    Raises:
        EggError: as `Preflight` says.

    """
    with begin_preflight(root, egg, environ=environ, timeout_s=timeout_s) as begun:
        return begun.spiders()


def list_spiders(
    egg: Egg, *, root: Path | None = None, python: Path | None = None, timeout_s: float = LIST_TIMEOUT_S
) -> tuple[SpiderName, ...]:
    """Return the egg's spiders as the given Python lists them, by default the one that runs this.

    Raises:
        EggError: as `Preflight` says.

    """
    with Preflight(egg, root=root, python=python, timeout_s=timeout_s) as begun:
        return begun.spiders()


class _Wording:
    """Words of one preflight: knows the egg's place, so that a file is named as the project names it."""

    def __init__(self, egg: str, root: Path | None, python: Path) -> None:
        self._prefix = f"{egg}/"
        self.root = root
        self.python = python

    def shorten(self, text: str) -> str:
        return text.replace(self._prefix, "")

    def where(self, frames: list[tuple[str, int]]) -> str | None:
        """Name the innermost line that is the project's own."""
        for file, line in reversed(frames):
            if file.startswith(self._prefix):
                return f"{self.shorten(file)}, line {line}"
        return None


def _judge(said: dict[str, Any] | None, done: Finished, wording: _Wording, timeout_s: float) -> tuple[SpiderName, ...]:
    if said is None:
        raise _silent(done, wording, timeout_s)
    if "no_scrapy" in said:
        why = f"{wording.python} cannot import Scrapy: {said['no_scrapy']}"
        raise EggError(f"{_CANNOT}: {why}", hint="install Scrapy there, or activate the project's environment")
    if "error" in said:
        raise _raised(said["error"], wording)
    if done.stdout:
        raise _printed(done.stdout, said["prints"], wording)
    if said["doubles"]:
        found = "; ".join(f"{name!r} is the name of {' and '.join(said['doubles'][name])}" for name in said["doubles"])
        raise EggError(f"two spiders share one name: {found}", hint="give each spider a name of its own")
    if not said["spiders"]:
        modules = ", ".join(said["modules"]) or "nothing"
        hint = "each spider is a subclass of scrapy.Spider with a `name`, in a module below SPIDER_MODULES"
        raise EggError(f"the egg has no spiders; SPIDER_MODULES names {modules}", hint=hint)
    for name in said["spiders"]:
        if not isinstance(name, str) or name.splitlines() != [name]:
            raise EggError(f"the spider name {name!r} is not one line of text, so Scrapyd could not list it")
    return tuple(SpiderName(name) for name in said["spiders"])


def _silent(done: Finished, wording: _Wording, timeout_s: float) -> EggError:
    """Word the end of a process that left no answer: hung, ended by its own code, or by a signal."""
    frames = [(file, int(line)) for file, line in re.findall(r'File "(.+?)", line (\d+) in', done.stderr)]
    if done.code is None:
        where = wording.where(frames[::-1])
        at = f"; it was at {where}" if where else ""
        hint = "a module must only define things while it is imported; the network and the database can wait"
        return EggError(f"{_CANNOT}: importing them did not end within {timeout_s:g} s{at}", hint=hint)
    how = f"was killed by signal {-done.code}" if done.code < 0 else f"ended with exit code {done.code}"
    return EggError(f"{_CANNOT}: the process that imports them {how}\n{wording.shorten(done.last_lines)}".rstrip())


def _raised(error: dict[str, Any], wording: _Wording) -> EggError:
    where = wording.where([(file, line) for file, line in error["frames"]])
    what = wording.shorten(error["text"])
    lines = wording.shorten(error["traceback"]).rstrip().splitlines()[-_TRACEBACK_LINES:]
    message = f"{_CANNOT}: {f'{where}: ' if where else ''}{what}\n" + "\n".join(f"  {line}" for line in lines)
    return EggError(message, hint=_hint_for(error, wording))


def _hint_for(error: dict[str, Any], wording: _Wording) -> str | None:
    kind, module = error["kind"], error["module"]
    if kind == "ModuleNotFoundError" and module:
        return _hint_for_missing(str(module).partition(".")[0], wording)
    if kind == "SystemExit":
        return (
            "a module must not end the process while it is imported; `if __name__ == '__main__':` keeps a script apart"
        )
    if kind in ("NotADirectoryError", "FileNotFoundError") and "project.egg" in error["text"]:
        return "an egg is one zip file: read package data with pkgutil.get_data() or importlib.resources, not open()"
    return None


def _hint_for_missing(top: str, wording: _Wording) -> str:
    root = wording.root
    if root and (root / f"{top}.py").is_file():
        return f"{top}.py lies beside scrapy.cfg, where only packages are packed: move it into the project's package"
    if root and (root / top).is_dir() and not (root / top / "__init__.py").is_file():
        return f"the folder {top} has no __init__.py, so it was not packed: add an empty one"
    where = f"install {top} on the nodes and for {wording.python}"
    return f"{where}, or name it in requirements.txt and use --include-dependencies"


def _printed(text: str, prints: list[tuple[str, int]], wording: _Wording) -> EggError:
    where = wording.where(prints[:1])
    first = text.strip().splitlines()[0][:_SHOWN_CHARS] if text.strip() else ""
    who = f"{where} prints" if where else "the project prints"
    why = "and Scrapyd takes each line printed for a spider's name"
    hint = "use logging instead of print, or print to sys.stderr"
    return EggError(f"{who} {first!r} to standard output while it is imported, {why}", hint=hint)
