"""The one table from an error to its exit code and its hint, and how an error is told."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from toolkit.model import errors


class ExitCode(IntEnum):
    """What a command's end means to a script; a number once given keeps its meaning."""

    OK = 0
    BUG = 1
    USAGE = 2
    CONFIGURATION = 3
    SOME_FAILED = 4
    NOTHING_REACHABLE = 5
    REFUSED = 6
    NOT_FOUND = 7
    JOB_FAILED = 8
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: "everything asked for was done, and verified",
    ExitCode.BUG: "a bug in crawlctl",
    ExitCode.USAGE: "the command line cannot be carried out as written",
    ExitCode.CONFIGURATION: "a file is missing or wrong: inventory, project, egg",
    ExitCode.SOME_FAILED: "it failed on some nodes; the table says on which and why",
    ExitCode.NOTHING_REACHABLE: "no node, not the Redis, or not the database could be reached",
    ExitCode.REFUSED: "the state of the cluster forbids it: a lock, a conflict",
    ExitCode.NOT_FOUND: "no such project, spider, release, job, crawl, host or topic",
    ExitCode.JOB_FAILED: "the job that was waited for did not finish well",
    ExitCode.INTERRUPTED: "interrupted; what was begun was ended or undone",
}

INTERRUPTED: Mapping[str, str | None] = {"kind": "interrupted", "message": "interrupted", "hint": None}

# The first class that an error is an instance of decides, so the special ones stand before the general ones.
TABLE: tuple[tuple[type[errors.CrawlctlError], str, ExitCode, str | None], ...] = (
    (errors.UsageError, "usage", ExitCode.USAGE, "crawlctl COMMAND --help shows examples"),
    (errors.InventoryError, "inventory", ExitCode.CONFIGURATION, "mend these places, then: crawlctl inventory check"),
    (errors.ProjectError, "project", ExitCode.CONFIGURATION, None),
    (errors.EggError, "egg", ExitCode.CONFIGURATION, "crawlctl build --check tries it without any node"),
    (errors.ConfigurationError, "configuration", ExitCode.CONFIGURATION, None),
    (errors.NodeUnauthorizedError, "unauthorized", ExitCode.SOME_FAILED, "set username and password in the inventory"),
    (errors.NodeUnreachableError, "unreachable", ExitCode.NOTHING_REACHABLE, "crawlctl status shows every node"),
    (errors.NodeTimeoutError, "timeout", ExitCode.NOTHING_REACHABLE, "raise timeout_s in the inventory if it is slow"),
    (errors.NodeError, "node", ExitCode.SOME_FAILED, None),
    (errors.HostKeyError, "host_key", ExitCode.REFUSED, "crawlctl docs bare-hosts says how keys are checked"),
    (errors.HostUnreachableError, "host_unreachable", ExitCode.NOTHING_REACHABLE, "crawlctl doctor looks at the way"),
    (
        errors.HostUnauthorizedError,
        "host_unauthorized",
        ExitCode.SOME_FAILED,
        "set ssh.user and ssh.key",
    ),
    (errors.HostError, "host", ExitCode.SOME_FAILED, None),
    (errors.NodesFailedError, "nodes_failed", ExitCode.SOME_FAILED, None),
    (errors.StoreUnreachableError, "store_unreachable", ExitCode.NOTHING_REACHABLE, "crawlctl up starts a local Redis"),
    (errors.DatabaseUnreachableError, "database_unreachable", ExitCode.NOTHING_REACHABLE, "mend it, then start again"),
    (errors.NothingReachableError, "nothing_reachable", ExitCode.NOTHING_REACHABLE, "crawlctl status shows every node"),
    (errors.LockHeldError, "locked", ExitCode.REFUSED, "wait for it, or take the lock over: --steal"),
    (errors.ConflictError, "conflict", ExitCode.REFUSED, None),
    (errors.RefusedError, "refused", ExitCode.REFUSED, None),
    (errors.NotFoundError, "not_found", ExitCode.NOT_FOUND, None),
    (errors.SinkError, "sink", ExitCode.SOME_FAILED, "crawlctl alerts list shows how it fares"),
    (errors.JobFailedError, "job_failed", ExitCode.JOB_FAILED, "crawlctl logs ID shows its log"),
    (errors.CrawlctlError, "error", ExitCode.BUG, None),
)


def described(error: errors.CrawlctlError) -> tuple[ExitCode, dict[str, str | None]]:
    """Return the exit code of an error, and its kind, message and hint as JSON shows them."""
    for kind, name, code, hint in TABLE:
        if isinstance(error, kind):
            return code, {"kind": name, "message": error.message, "hint": error.hint or hint}
    raise AssertionError(f"{type(error).__name__} is missing in the table")
