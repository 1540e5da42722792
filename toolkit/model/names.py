"""The identifiers that cross the wire, and the one rule that makes a name safe as a file name, a URL part and a key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from shlex import quote
from typing import NewType

from toolkit.model.errors import UsageError

NodeName = NewType("NodeName", str)
ProjectName = NewType("ProjectName", str)
SpiderName = NewType("SpiderName", str)
VersionName = NewType("VersionName", str)
JobId = NewType("JobId", str)
LineName = NewType("LineName", str)
"""A line of the queue: the pending jobs that the same nodes may take (`model/queue.py`)."""
Session = NewType("Session", str)
"""One life of a node's process."""
Token = NewType("Token", str)
"""The fencing token of one claim; no two claims ever have the same."""
CrawlId = NewType("CrawlId", str)
"""The name of a crawl within its Redis: `default_crawl`, unless another was given."""
WorkerName = NewType("WorkerName", str)
"""One process that works on a crawl, in its one life; no two processes ever have the same."""

DEFAULT_CLUSTER = "main"
"""The name of a cluster within its Redis, unless its inventory and its nodes say otherwise."""

MAX_NAME_CHARS = 200
_SHOWN_CHARS, _DIGEST_DIGITS = 100, 8
_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SAFE_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def check_project(text: str) -> ProjectName:
    """Return the project's name, or say why Scrapyd could not hold it.

    Scrapyd uses the name as a folder (`eggstorage.py`, `environ.py`), so separators and leading dots are refused.

    Raises:
        UsageError: the name is empty, too long, or has a character that is not a letter, digit, `_`, `-` or `.`.

    """
    return ProjectName(_checked(text, "project", _SAFE_NAME, "letters, digits, '_', '-' and '.'"))


def check_version(text: str) -> VersionName:
    """Return the version, or say why it would not survive Scrapyd's storage unchanged.

    Scrapyd 1.6 turns every other character into `_` (`eggstorage.py`), so `1.0` and `1_0` would overwrite each other.

    Raises:
        UsageError: the version has a character that is not a letter, digit, `_` or `-`.

    """
    return VersionName(_checked(text, "version", _SAFE_VERSION, "letters, digits, '_' and '-'"))


def check_job_id(text: str) -> JobId:
    """Return the job id, or say why it would not be safe as a log's file name.

    Scrapyd 1.6 accepts `../` in a job id at schedule time and loses the slot for good at spawn time.

    Raises:
        UsageError: the id has a character that is not a letter, digit, `_`, `-` or `.`, or begins with `.` or `-`.

    """
    return JobId(_checked(text, "job id", _SAFE_NAME, "letters, digits, '_', '-' and '.'"))


def check_crawl(text: str) -> CrawlId:
    """Return the crawl's id, or say why it cannot be part of a key in Redis, a file name and a command line.

    Raises:
        UsageError: it is empty, begins with `-`, or holds a space, a control character, `{`, `}`, `/` or `%`; or it is
            too long.

    """
    if re.search(r"[\s{}/%\x00-\x1f\x7f]", text) or not text or text.startswith("-"):
        raise UsageError(f"crawl id {text!r} cannot be used: no spaces, '{{', '}}', '/' or '%', and no '-' first")
    if len(text) > MAX_NAME_CHARS:
        raise UsageError(f"crawl id {text[:20]!r}… is longer than {MAX_NAME_CHARS} characters")
    return CrawlId(text)


def default_crawl(spider: str, arguments: Mapping[str, str]) -> CrawlId:
    """Return the id of the crawl that a spider works on with these arguments, unless another is named.

    It is the spider's name where there are none, so that scrapy-redis' key names stay. Operators and spider processes
    both get the id here. It is not checked: `check_crawl` refuses what cannot be one.
    """
    return crawl_of_digest(spider, digest_of(arguments)) if arguments else CrawlId(spider)


def crawl_of_digest(spider: str, digest: str) -> CrawlId:
    """Return the id of the crawl that a spider works on with the arguments of this digest, of which there are some."""
    return CrawlId(f"{spider}:{digest[:_DIGEST_DIGITS]}")


def digest_of(arguments: Mapping[str, str]) -> str:
    """Return what tells these arguments of a spider from others, whatever their order; also that there are none."""
    # Written as on a command line: a process cannot know at which of several `=` a name was meant to end.
    written = json.dumps(sorted(f"{name}={value}" for name, value in arguments.items()))
    return sha256(written.encode()).hexdigest()[:32]


def shown_arguments(arguments: Mapping[str, str]) -> str:
    """Return arguments as a command line has them, cut when they are long; empty for none."""
    text = " ".join(f"-a {quote(f'{name}={value}')}" for name, value in sorted(arguments.items()))
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def worker_of(job_id: JobId, token: Token) -> WorkerName:
    """Name the process that runs a job under one claim, as the frontier of its crawl knows it."""
    return WorkerName(f"{job_id}~{token}")


def job_of(worker: WorkerName) -> JobId:
    """Return the job whose process a worker is; of one that no node has started, its own name."""
    return JobId(worker.partition("~")[0])


def spider_problem(name: str) -> str | None:
    """Say why Scrapyd could not run a spider of this name, or return `None`.

    The name stands on a command line (`scrapy crawl NAME`) and in the path of the job's log, which Scrapyd 1.6 checks
    only when it starts the process, and then loses the slot for good.
    """
    if name.startswith("-"):
        return "a name that begins with '-' is read as an option"
    if "/" in name or "\0" in name or name in {"", ".", ".."}:
        return "its log would have no place, since the name is part of the log's path"
    return None


def _checked(text: str, what: str, allowed: re.Pattern[str], words: str) -> str:
    if not allowed.fullmatch(text):
        raise UsageError(f"{what} {text!r} cannot be used: {words} only, and a letter or digit first")
    if len(text) > MAX_NAME_CHARS:
        raise UsageError(f"{what} {text[:20]!r}… is longer than {MAX_NAME_CHARS} characters")
    return text
