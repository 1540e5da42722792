"""Starts the Python that will try an egg before there is an egg: loading Scrapy takes longer than all else.

Nothing of the project is loaded ahead, so what the trial finds stays the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from toolkit.rollout.child import RunningChild, clean_environ

SPIDER_LIST = Path(__file__).with_name("spider_list.py")  # a script: it imports Scrapy, which this process never does

_WAITING: ContextVar[dict[Path, RunningChild] | None] = ContextVar("waiting", default=None)


@contextmanager
def scrapy_loading_ahead(environ: Mapping[str, str]) -> Iterator[None]:
    """Let the Python that is most likely asked for load Scrapy meanwhile; it is gone at the end of the block."""
    active = environ.get("VIRTUAL_ENV")
    python = Path(active, "bin", "python") if active else Path(sys.executable)
    with ExitStack() as ending:
        waiting: dict[Path, RunningChild] = {}
        with suppress(OSError):  # The trial itself says what is wrong with that Python.
            child = RunningChild([python, SPIDER_LIST], cwd=Path("/"), env=trial_environ(environ), waits=True)
            waiting[python] = ending.enter_context(child)
        token = _WAITING.set(waiting)
        ending.callback(_WAITING.reset, token)
        yield


def told(python: Path, *, folder: Path, egg: Path, answer: Path, timeout_s: float) -> RunningChild | None:
    """Return the process of that Python that waits, once it was told what to list; `None` if there is none."""
    child = (_WAITING.get() or {}).pop(python, None)
    if child is None:
        return None
    try:
        child.tell(f"{folder}\n{egg}\n{answer}\n{timeout_s}\n")
    except OSError:
        return None
    return child


def trial_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which an egg is tried."""
    return {**clean_environ(environ), "PYTHONIOENCODING": "UTF-8"}
