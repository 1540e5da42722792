"""The one error tree. Every message says who, what and why; hints and exit codes live in `views/errors.py`.

CrawlctlError
├── UsageError                  the command line cannot be carried out as written
├── ConfigurationError          a file of the operator's is missing or wrong
│   ├── InventoryError          every mistake of one inventory, at once
│   ├── ProjectError            no Scrapy project there, or one that cannot be read
│   ├── EggError                the project cannot be built, or its egg cannot be listed
│   └── MissingExtraError       an optional part of crawlctl is not installed
├── NodeError                   one node's call failed
│   ├── NodeUnreachableError    no connection, or it broke
│   ├── NodeTimeoutError        it accepted, but did not answer in time
│   ├── NodeUnauthorizedError   it wants other credentials
│   ├── NodeAnswerError         its answer is not Scrapyd's
│   └── NodeRefusedError        Scrapyd said no, and why
├── HostError                   one host's step over SSH failed
│   ├── HostUnreachableError    no connection, or it broke, or it is too slow
│   │   └── HostTimeoutError     a command there outlived its time
│   ├── HostKeyError            its key is not the one that is known, or none is known
│   ├── HostUnauthorizedError   it does not let us in, or not as root
│   └── HostRefusedError        a command there failed, or the host is not fit for it
├── NodesFailedError            a call over several nodes failed on some
├── NothingReachableError       a call over several nodes reached none, or Redis is away
│   ├── StoreUnreachableError   the shared store does not answer
│   │   └── StoreUnreadableError it answers, but with a record that this crawlctl cannot read
│   └── DatabaseUnreachableError a database to move items or seeds does not answer, or cannot work
├── RefusedError                the cluster's state forbids it now
│   ├── LockHeldError           another rollout is under way
│   ├── ConflictError           it would overwrite something immutable
│   └── UntrustedError          it is not signed by a trusted key
├── NotFoundError               no such project, spider, release, job, crawl, host or topic
├── SinkError                   a sink of the alerts did not take a message
├── UnwritableError             a request holds something that cannot be kept outside its process
└── JobFailedError              the job that was waited for did not finish well
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


class CrawlctlError(Exception):
    """Any failure that crawlctl foresees; shown to the operator as one message and one hint."""

    hint: str | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if hint is not None:
            self.hint = hint


class UsageError(CrawlctlError):
    """The command line cannot be carried out as written."""


class ConfigurationError(CrawlctlError):
    """A file of the operator's is missing or wrong."""


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One thing wrong in a file, at a place that an editor can jump to (line and column count from 1)."""

    file: str
    line: int
    column: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.text}"


class InventoryError(ConfigurationError):
    """Every mistake of one inventory, at once, in the order of the file."""

    def __init__(self, mistakes: Sequence[Mistake], *, hint: str | None = None) -> None:
        self.mistakes = tuple(sorted(mistakes))
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes), hint=hint)


class InventoryMissingError(ConfigurationError):
    """No inventory was named, and none was found."""


class ProjectError(ConfigurationError):
    """There is no Scrapy project there, or it cannot be read."""


class EggError(ConfigurationError):
    """The project cannot be built into an egg, or the egg's spiders cannot be listed."""


class MissingExtraError(ConfigurationError):
    """An optional part of crawlctl is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} is not installed", hint=f"pip install 'crawlctl[{extra}]'")
        self.extra = extra


class NodeError(CrawlctlError):
    """One node's call failed; `node` is its name, `doing` what was asked of it, `why` the cause in its own words."""

    def __init__(self, node: str, doing: str, why: str) -> None:
        super().__init__(f"{node}: {doing}: {why}")
        self.node = node
        self.doing = doing
        self.why = why


class NodeUnreachableError(NodeError):
    """No connection could be made; nothing was sent."""


class NodeBrokenError(NodeUnreachableError):
    """The connection broke before an answer came; whether the node acted is unknown."""


class NodeTimeoutError(NodeError):
    """The node accepted the call but did not answer in time; whether it acted is unknown."""


class NodeUnauthorizedError(NodeError):
    """The node wants other credentials than the inventory holds (HTTP 401 or 403)."""


class NodeAnswerError(NodeError):
    """What answered is not Scrapyd, or not whole: no JSON, no `status`, an HTTP error, half a body."""


class NodeRefusedError(NodeError):
    """Scrapyd answered `"status": "error"`; `why` is its message."""


class HostError(CrawlctlError):
    """One host's step over SSH failed; `host` is its name, `doing` what was under way, `why` the cause."""

    def __init__(self, host: str, doing: str, why: str, *, hint: str | None = None) -> None:
        super().__init__(f"{host}: {doing}: {why}", hint=hint)
        self.host = host
        self.doing = doing
        self.why = why


class HostUnreachableError(HostError):
    """No connection could be made, or it broke; what was under way may have been done. Doing it again is safe."""


class HostTimeoutError(HostUnreachableError):
    """A command there outlived its time; it was ended where that was possible."""


class HostKeyError(HostError):
    """The host shows another key than the known one, or none is known; nothing was sent to it."""


class HostUnauthorizedError(HostError):
    """The host takes none of our keys or passwords, or the user may not become root there."""


class HostRefusedError(HostError):
    """A command on the host failed, or the host is not fit: its Python, its disk; `why` ends with its last words."""


class NodesFailedError(CrawlctlError):
    """A call over several nodes failed on some of them; the details are in the result shown beside it."""


class NothingReachableError(CrawlctlError):
    """A call over several nodes reached none of them."""


class StoreUnreachableError(NothingReachableError):
    """The shared store does not answer, or refuses; the message says so where a write may still have been done."""


class StoreUnreadableError(StoreUnreachableError):
    """The shared store holds a record that a newer crawlctl, or somebody else, wrote; it is left as it is."""


class DatabaseUnreachableError(NothingReachableError):
    """A database that items go to, or seeds come from, does not answer, or cannot work; what it has is whole."""


class RefusedError(CrawlctlError):
    """The state of the cluster forbids it now."""


class LockHeldError(RefusedError):
    """Another rollout of the same project is under way."""

    def __init__(self, project: str, *, who: str, since: datetime, why: str) -> None:
        super().__init__(f"{project} is locked by {who} since {since:%Y-%m-%d %H:%M:%S} UTC: {why}")
        self.project = project
        self.who = who
        self.since = since
        self.why = why


class ConflictError(RefusedError):
    """It would overwrite something that is immutable, or was changed meanwhile."""


class UntrustedError(RefusedError):
    """A release is not signed by a key that is trusted where it was to be used."""


class NotFoundError(CrawlctlError):
    """No such project, spider, release, job, crawl, host or topic."""


class SinkError(CrawlctlError):
    """A sink of the alerts did not take a message; the text names no path, no credential and no answer of its.

    With `is_refusal` it refuses this message for what it is, and would take others. `again_s` is the pause that it
    asks for.
    """

    def __init__(self, message: str, *, is_refusal: bool = False, again_s: float | None = None) -> None:
        super().__init__(message)
        self.is_refusal = is_refusal
        self.again_s = again_s


class UnwritableError(CrawlctlError):
    """A request cannot be written: `field` is the one that holds a value of the type `kind`, which has no wire form."""

    def __init__(self, message: str, *, field: str, kind: str) -> None:
        super().__init__(message)
        self.field = field
        self.kind = kind


class JobFailedError(CrawlctlError):
    """The job that was waited for did not finish well."""
