"""Lists the spiders of one egg, in a process started for that: `python spider_list.py EGG ANSWER TIMEOUT_S`.

Without arguments it loads Scrapy first and then waits for four lines on standard input: the folder to work in, and
these three.

It runs under the project's Python, where crawlctl need not be installed, so it imports nothing but the standard library
and the Scrapy that it finds there, and keeps to what Python 3.10 knows. The answer goes to a file: the project's code
may print what it likes.
"""

from __future__ import annotations

import configparser
import contextlib
import faulthandler
import gc
import importlib
import json
import os
import sys
import traceback
import zipfile
from types import FrameType
from typing import Any

_MAX_PRINTS = 5
# Loading Scrapy makes hundreds of thousands of objects that stay; Python's default searches them again and again.
_GARBAGE_THRESHOLD = 100_000


class _Witness:
    """Stands in for standard output, and remembers which lines of the egg wrote to it."""

    def __init__(self, stream: Any, egg: str) -> None:
        self._stream = stream
        self._egg = egg
        self.places: list[list[Any]] = []

    def write(self, text: str) -> int:
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the one way to see who is printing
        while frame is not None and not frame.f_code.co_filename.startswith(self._egg):
            frame = frame.f_back
        if frame is not None and text.strip() and len(self.places) < _MAX_PRINTS:
            self.places.append([frame.f_code.co_filename, frame.f_lineno])
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def wait_for_egg() -> None:
    """Load Scrapy, which takes longest, and list the egg that is named then; at the end of input, end."""
    with contextlib.suppress(ImportError):  # Said when the egg is there.
        for name in ("scrapy.spiderloader", "scrapy.utils.misc", "scrapy.utils.project"):
            importlib.import_module(name)
    folder, *order = (sys.stdin.readline().rstrip("\n") for _ in range(4))
    if not all(order):
        return
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if _shadows_what_is_loaded(order[0]):
        # Scrapyd would find the egg's own module first, so it must be in front before anything is loaded.
        os.execv(sys.executable, [sys.executable, __file__, *order])  # noqa: S606 - itself again
    main(*order)


def main(egg: str, answer_path: str, timeout_s: str) -> None:
    """Write the spiders or what went wrong to `answer_path`, as JSON; after `timeout_s`, say where it hangs."""
    faulthandler.dump_traceback_later(float(timeout_s))
    sys.path.insert(0, egg)
    witness = _Witness(sys.stdout, egg)
    sys.stdout = witness
    try:
        answer = _list(egg)
    except BaseException as error:  # noqa: BLE001 - a project may raise anything, SystemExit too
        answer = _failure(error)
    faulthandler.cancel_dump_traceback_later()
    answer |= {"prints": witness.places, "python": sys.version_info[:3]}
    with open(answer_path, "w", encoding="utf-8") as file:  # noqa: PTH123 - as above
        json.dump(answer, file)
    gc.freeze()  # What was loaded goes with the process: there is no need to search it for garbage first.


def _shadows_what_is_loaded(egg: str) -> bool:
    with zipfile.ZipFile(egg) as archive:
        tops = {name.partition("/")[0].partition(".")[0] for name in archive.namelist()}
    return not tops.isdisjoint({name.partition(".")[0] for name in sys.modules})


def _list(egg: str) -> dict[str, Any]:
    parser = configparser.RawConfigParser(delimiters=("=",), strict=False)
    with zipfile.ZipFile(egg) as archive:
        parser.read_string(archive.read("EGG-INFO/entry_points.txt").decode())
    os.environ["SCRAPY_SETTINGS_MODULE"] = parser.get("scrapy", "settings").partition(":")[0].strip()

    try:
        from scrapy.utils.misc import load_object  # noqa: PLC0415 - the egg must be in front first
        from scrapy.utils.project import get_project_settings  # noqa: PLC0415 - likewise
    except ImportError as error:
        return {"no_scrapy": str(error)}

    settings = get_project_settings()
    settings.set("LOG_ENABLED", value=False, priority="cmdline")
    loader: Any = load_object(settings.get("SPIDER_LOADER_CLASS")).from_settings(settings.frozencopy())
    places = getattr(loader, "_found", {})
    doubles = {name: [f"{module}.{cls}" for module, cls in found] for name, found in places.items() if len(found) > 1}
    return {"spiders": sorted(loader.list()), "doubles": doubles, "modules": settings.getlist("SPIDER_MODULES")}


def _failure(error: BaseException) -> dict[str, Any]:
    frames = [[frame.filename, frame.lineno] for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append([error.filename, error.lineno])
    return {
        "error": {
            "text": "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()[-1],
            "kind": type(error).__name__,
            "module": getattr(error, "name", None),
            "frames": frames,
            "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
        }
    }


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - plain text, as in sys.path
    sys.path[:] = [folder for folder in sys.path if folder != here]
    gc.set_threshold(_GARBAGE_THRESHOLD)
    if sys.argv[1:]:
        main(*sys.argv[1:4])
    else:
        wait_for_egg()
