"""The process of one job, and of a listing, in place of Scrapyd's: `python -m toolkit.node.runner crawl SPIDER …`.

For a job that a node gave out, it registers in the job's folder before anything of the project is loaded, listens for
its node, adds the reporter, has feeds write each item at once, and records how it ended. Without such a folder it is
Scrapyd's runner, and nothing more.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from signal import SIGINT
from typing import TYPE_CHECKING, Any

from toolkit.runs.folder import CLAIM, EXIT, RunFolder
from toolkit.runs.process import kill_rest_of_own_group
from toolkit.runs.registration import NOT_OURS, register_this_process
from toolkit.runs.report import Exit, exit_of
from toolkit.runs.watchdog import Watchdog, lease_of

if TYPE_CHECKING:
    from scrapy.settings import Settings

REPORTER = "toolkit.spider.extensions.Reporter"
FEED_FILES, SCRAPYS_FEED_FILES = (
    f"{module}.FileFeedStorage" for module in ("toolkit.spider.extensions", "scrapy.extensions.feedexport")
)
SECRETS = ("SCRAPYD_USERNAME", "SCRAPYD_PASSWORD", "CRAWLCTL_REDIS")


def main() -> None:
    """Do what the command line says, as `scrapyd.runner` does, and for a job also what its node counts on.

    Raises:
        SystemExit: always, with Scrapy's exit code, or with 75 before anything of the project was loaded.

    """
    for name in SECRETS:
        os.environ.pop(name, None)
    folder = RunFolder.of_this_process() if sys.argv[1:2] == ["crawl"] else None
    if folder is None:
        _run_scrapy(with_reporter=False)
        return
    # A group of its own, for all that the spider starts to be ended with it; a leader has one already.
    with contextlib.suppress(PermissionError):
        os.setsid()
    refusal = register_this_process(folder)
    if refusal is not None:
        sys.stderr.write(f"{folder.path.name} is not run here: {refusal}\n")
        sys.exit(NOT_OURS)
    _run_job(folder)


def _run_job(folder: RunFolder) -> None:
    claim = folder.read(CLAIM) or {}
    watchdog = Watchdog(folder, lease_s=lease_of(claim.get("lease_s")))
    # Registered first and so called last, after the threads and the exit functions of the project.
    last = _LastWord(folder, watchdog)
    atexit.register(last.write)
    watchdog.start()
    try:
        _run_scrapy(with_reporter=True)
    except BaseException as error:
        last.ended_by = error
        _let_go_of_threads()
        raise


def _let_go_of_threads() -> None:
    """End the reactor's threads, which it leaves behind, and Python waits for without end, when it is left by force.

    So it is after `sys.exit` in a callback: Scrapy's own command hangs then, and would keep its slot for ever.
    """
    pool = getattr(sys.modules.get("twisted.internet.reactor"), "threadpool", None)
    if pool is not None:
        pool.stop()


class _LastWord:
    """Writes `exit.json` when Python ends, however it came to that; not in a child that the spider forked."""

    def __init__(self, folder: RunFolder, watchdog: Watchdog) -> None:
        self._folder = folder
        self._watchdog = watchdog
        self._pid = os.getpid()
        self.ended_by: BaseException | None = None

    def write(self) -> None:
        if os.getpid() != self._pid:
            return
        # Without the folder, or a free byte on the disk, there is nobody to tell.
        with contextlib.suppress(OSError):
            self._folder.write(EXIT, exit_of(exit_by(self.ended_by, node_was_lost=self._watchdog.node_was_lost)))
        if self._watchdog.node_was_lost:
            # Otherwise the node does this.
            kill_rest_of_own_group()


def exit_by(error: BaseException | None, *, node_was_lost: bool = False) -> Exit:
    """Return how Python ends when this leaves the main module."""
    if isinstance(error, KeyboardInterrupt):
        return Exit(signal=SIGINT.name, node_was_lost=node_was_lost)
    code = error.code if isinstance(error, SystemExit) else error and 1
    if isinstance(code, int):
        return Exit(exit_code=code & 0xFF, node_was_lost=node_was_lost)
    # Python prints any other code and ends with 1.
    return Exit(exit_code=0 if code is None else 1, node_was_lost=node_was_lost)


def _run_scrapy(*, with_reporter: bool) -> None:
    # Not at the top: nothing slow may come before the registration.
    from toolkit.node.activation import project_environment  # noqa: PLC0415

    with project_environment(os.environ["SCRAPY_PROJECT"]):
        from scrapy.cmdline import execute  # noqa: PLC0415 - reads the project's environment
        from scrapy.utils.project import get_project_settings  # noqa: PLC0415

        if not with_reporter:
            execute()
            return
        settings = get_project_settings()
        add_reporter(settings)
        write_items_at_once(settings)
        execute(settings=settings)


def add_reporter(settings: Settings) -> None:
    """Add the reporter to the extensions that Scrapy has of itself.

    There it survives whatever a project, its add-ons, its spiders or a command line make of `EXTENSIONS`, and Scrapy
    does not list it among the settings that the project has changed. A project is rid of it by setting it to `None`.
    """
    _set_base(settings, "EXTENSIONS_BASE", {**settings.getdict("EXTENSIONS_BASE"), REPORTER: 0})


def write_items_at_once(settings: Settings) -> None:
    """Replace Scrapy's own storage of feeds in local files; one that a project names in `FEED_STORAGES` stays."""
    storages = settings.getdict("FEED_STORAGES_BASE")
    ours = {scheme: FEED_FILES for scheme, each in storages.items() if each == SCRAPYS_FEED_FILES}
    _set_base(settings, "FEED_STORAGES_BASE", {**storages, **ours})


def _set_base(settings: Settings, name: str, value: dict[str, Any]) -> None:
    settings.set(name, value, priority=settings.getpriority(name) or 0)


if __name__ == "__main__":
    main()
