"""The command line's front door: parse, run, and turn any end into an exit code.

It loads little itself, so that what can go on beside the loading begins at once.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from types import FrameType
from typing import Any

from toolkit.cli.errors import INTERRUPTED, ExitCode, described
from toolkit.cli.printer import Output, Printer
from toolkit.model.errors import CrawlctlError

# Loading libraries makes many objects, all of which stay: Python's default searches them for garbage again and again.
_GARBAGE_THRESHOLD = 50_000


def run(argv: Sequence[str] | None = None) -> None:
    """Run the command and leave the process with its exit code."""
    gc.set_threshold(_GARBAGE_THRESHOLD)
    code = main(sys.argv[1:] if argv is None else argv)
    gc.freeze()  # The process ends: what it holds need not be searched once more.
    sys.exit(code)


def main(argv: Sequence[str]) -> int:
    """Run the command and return its exit code; nothing but a bug shows a traceback, and that only when asked."""
    signal.signal(signal.SIGTERM, _interrupt)
    printer = Printer(_wanted_output(argv))
    try:
        with _head_start(argv):
            return _parsed(argv, printer)
    except CrawlctlError as error:
        code, description = described(error)
        printer.error(description)
        return int(code)
    except KeyboardInterrupt:
        printer.error(dict(INTERRUPTED))
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has gone; that is how `| head` ends, and no fault.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OK)
    except Exception as error:
        if os.environ.get("CRAWLCTL_DEBUG"):
            raise
        hint = "please report it; CRAWLCTL_DEBUG=1 shows the traceback"
        printer.error({"kind": "bug", "message": f"a bug in crawlctl: {type(error).__name__}: {error}", "hint": hint})
        return int(ExitCode.BUG)


def _parsed(argv: Sequence[str], printer: Printer) -> int:
    import typer

    from toolkit.cli.app import app
    from toolkit.cli.narrowed import narrowed

    words = list(argv) or ["--help"]
    try:
        code: Any = typer.main.get_command(narrowed(app, words))(words, prog_name="crawlctl", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except SystemExit as ended:
        # Parser and printer make an end of their own, with code 1, of a pipe whose reader has gone.
        if isinstance(ended.__context__, BrokenPipeError):
            raise ended.__context__ from None
        raise
    except Exception as error:
        if (told := _usage_error(error)) is None:
            raise
        if told["message"]:
            printer.error(told)
        return int(ExitCode.USAGE)
    return code if isinstance(code, int) else int(ExitCode.OK)


def _head_start(argv: Sequence[str]) -> AbstractContextManager[None]:
    """Let what takes longest in a deploy begin before the command line is read; a guess, and no harm if it is wrong."""
    if next((word for word in argv if not word.startswith("-")), None) != "deploy":
        return nullcontext()
    from toolkit.rollout.ahead import scrapy_loading_ahead

    return scrapy_loading_ahead(os.environ)


def _usage_error(error: Exception) -> dict[str, str | None] | None:
    """Describe what the parser did not understand; `None` for anything else.

    Typer brings its own copy of click in some releases, so its errors are known by what they can do.
    """
    if not hasattr(error, "format_message"):
        return None
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "crawlctl")
    # How a choice was converted is the parser's business; only what is wrong with it is told.
    message = error.format_message().replace(": Value error, ", ": ", 1)
    return {"kind": "usage", "message": message, "hint": f"{path} --help shows how"}


def _wanted_output(argv: Sequence[str]) -> Output:
    """Find the wished output in words that may not parse, so that even a usage error comes in that shape."""
    for word, value in pairwise([*argv, ""]):
        for text in (value if word == "--output" else "", word.removeprefix("--output=")):
            if text in set(Output):
                return Output(text)
    return Output.TABLE


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    run()
