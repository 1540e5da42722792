"""From a claimed job to a process: its folder, command line and environment, and whose fault it is when none comes.

On the reactor's thread, as Scrapyd does it: a folder and two small files cost less than a millisecond.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scrapyd.exceptions import ScrapydError
from scrapyd.launcher import get_crawl_args

from toolkit.model.errors import CrawlctlError, UntrustedError
from toolkit.model.jobs import Job
from toolkit.model.names import check_job_id
from toolkit.model.orders import Order, check_order
from toolkit.node.claims import Claim
from toolkit.node.environment import without_secrets
from toolkit.node.run import Run, SpawnedProcess
from toolkit.runs.folder import CLAIM, RUN_VARIABLE, RunFolder

# What no node could do for a job; every other refusal of the system is this node's affair: a full disk, a folder that
# is gone or somebody else's. A node that failed jobs for that would soon have failed all there are.
_OF_THE_JOB = frozenset({errno.E2BIG, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})


def folder_for(runs: Path, claim: Claim) -> RunFolder:
    """Make the claim's folder, with `claim.json` in it: from here on a later Scrapyd knows of the job.

    Raises:
        UsageError: the job's id is no file name.
        OSError: the disk is full, or worse.

    """
    check_job_id(claim.job_id)
    # No folder's name comes again: a process that was begun for an earlier claim, and comes late, finds its own gone.
    folder = RunFolder(runs / f"{claim.job_id}~{claim.token.partition(':')[0]}")
    folder.path.mkdir(mode=0o700)
    try:
        folder.write(CLAIM, claim.written())
        folder.touch_alive()
    except OSError:
        folder.remove()
        raise
    return folder


def message_of(job: Job) -> dict[str, Any]:
    """Return the job as Scrapyd's environment and command line want it.

    Raises:
        UsageError: no process could take its arguments, or Scrapyd would read them as something else.

    """
    args, settings = dict(job.args or {}), dict(job.settings or {})
    check_order(Order(job.project, job.spider, job.version or "", args=args, settings=settings))  # type: ignore[arg-type]
    named = {"_project": job.project, "_spider": job.spider, "_job": job.id, "settings": settings}
    return {**args, **named, **({"_version": job.version} if job.version else {})}


def environment_of(env: Mapping[str, str], folder: RunFolder) -> dict[str, str]:
    """Return Scrapyd's environment for a spider without what is only Scrapyd's, and with the way to its folder."""
    return {**without_secrets(env), RUN_VARIABLE: str(folder.path)}


def command_of(message: Mapping[str, Any], *, runner: str, python: str = sys.executable) -> list[str]:
    """Return the command line, as Scrapyd makes it; `python` is that of the release's environment, if it has one."""
    return [python, "-m", runner, "crawl", *get_crawl_args(dict(message))]


def spawn(run: Run) -> None:
    """Start the run's process: no pipes, which a restart of Scrapyd would break, but a file for what it prints.

    Raises:
        OSError: the system refuses.
        ValueError: the command line or the environment holds what no process takes.

    """
    with run.folder.output.open("ab") as output, Path(os.devnull).open("rb") as nothing:
        files = (nothing.fileno(), output.fileno(), output.fileno())
        run.machine.spawn(SpawnedProcess(run), args=run.args, env=run.env, files=files)


def is_of_the_node(error: BaseException) -> bool:
    """Tell whether the node, not the job, kept a process from starting: then the job goes back and another may try."""
    return isinstance(error, UntrustedError) or (isinstance(error, OSError) and error.errno not in _OF_THE_JOB)


def words_of(error: BaseException) -> str:
    """Say in a line why no process came of it."""
    if isinstance(error, CrawlctlError):
        return error.message
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return "its arguments and settings are longer than a process takes"
    text = str(error) or type(error).__name__
    return f"{type(error).__name__}: {text}" if not isinstance(error, ScrapydError | OSError) else text
