"""Writes the inventory that `crawlctl init` starts with: the annotated sample, or one of the user's deploy targets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from toolkit.config.inventory.finding import INVENTORY_NAME
from toolkit.config.inventory.ranges import NAME
from toolkit.config.paths import sample_file
from toolkit.config.project import DeployTarget
from toolkit.model.errors import ConfigurationError

_HINT = "without targets, `crawlctl init` writes an inventory of three nodes on this machine"
_FROM_HERE = "# What holds for every host"
_HOSTS = "# Every host by its name"
_EXAMPLES = "# To copy from"
_FIRST_KEY = re.compile(r"(?m)^[a-z]+:")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_YAML_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")


@dataclass(frozen=True, slots=True)
class _Target:
    """A deploy target whose URL is understood, under a name that a host may have."""

    name: str
    url: SplitResult
    port: int
    username: str | None
    has_password: bool


def annotated_inventory(targets: Sequence[DeployTarget] = ()) -> str:
    """Return an inventory with a comment for every part: the demo's own, or one of these targets' nodes.

    A password is never copied: where a target has one, its host takes it from an environment variable that is named
    after it (`CRAWLCTL_PASSWORD_EU_1`). Targets of the same URL become one host; a URL that is none becomes a comment.

    Raises:
        ConfigurationError: there are targets, but none of them has a URL of a node.

    """
    sample = sample_file(INVENTORY_NAME).read_text(encoding="utf-8")
    if not targets:
        return sample
    understood, refused = _understood(targets)
    if not understood:
        raise ConfigurationError("no [deploy] target in scrapy.cfg has an http or https URL", hint=_HINT)
    lines = [
        "# The inventory: which machines there are, and how their nodes are reached.",
        "# Its hosts were taken from the [deploy] sections of scrapy.cfg.",
        "# `crawlctl inventory check` finds every mistake in it; `crawlctl inventory show` prints what each host has.",
        "",
        "# The Redis that all nodes and operators share; without one, releases and jobs are not shared.",
        "# redis: redis://127.0.0.1:6379/0",
        "",
    ]
    annotated = "\n".join(lines) + "\n" + _part(sample, _FROM_HERE, upto=_HOSTS) + _comment(sample, _HOSTS)
    return (
        annotated
        + "hosts:\n"
        + "".join(f"  {line}\n" for line in _hosts(understood, refused))
        + "\n"
        + _part(sample, _EXAMPLES)
    )


def password_variable(host: str) -> str:
    """Return the environment variable that holds a host's password, unless its inventory says otherwise."""
    return "CRAWLCTL_PASSWORD_" + re.sub(r"[^A-Z0-9]", "_", host.upper())


def _part(sample: str, start: str, *, upto: str | None = None) -> str:
    rest = sample[sample.index(start) :]
    return rest if upto is None else rest[: rest.index(upto)]


def _comment(sample: str, start: str) -> str:
    """Return the comment lines that begin so, up to the key that they describe."""
    rest = _part(sample, start)
    key = _FIRST_KEY.search(rest)
    return rest[: key.start()] if key else rest


def _hosts(understood: Sequence[_Target], refused: Sequence[str]) -> Iterator[str]:
    for text in refused:
        yield f"# {text}"
    seen: dict[tuple[str | None, int, str], str] = {}
    for target in understood:
        where = (target.url.hostname, target.port, target.url.path.rstrip("/"))
        if where in seen:
            yield f"# target {_one_line(target.name)}: the same node as {seen[where]}"
            continue
        seen[where] = target.name
        yield from _host(target)


def _understood(targets: Iterable[DeployTarget]) -> tuple[list[_Target], list[str]]:
    understood: list[_Target] = []
    refused: list[str] = []
    for target in targets:
        url = _split(target.url)
        if url is None or url.hostname is None:
            refused.append(f"target {_one_line(target.name)}: it has no http or https URL that can be read")
            continue
        name = _free_name(target.name, {each.name for each in understood})
        port = url.port or _DEFAULT_PORTS[url.scheme]
        username = target.username or (unquote(url.username) if url.username else None)
        understood.append(_Target(name, url, port, username, target.has_password or bool(url.password)))
    return understood, refused


def _split(url: str | None) -> SplitResult | None:
    try:
        parts = urlsplit(url or "")
        is_good = parts.scheme in _DEFAULT_PORTS and parts.port != 0
    except ValueError:
        return None
    return parts if is_good else None


def _free_name(written: str, taken: set[str]) -> str:
    """Return the target's name with `-` for what no host's name may hold, and a number if it is taken."""
    wanted = _UNSAFE.sub("-", written).strip("-.") or "node"
    if wanted == "all" or not NAME.fullmatch(wanted):
        wanted = f"node-{wanted}"
    candidates = [wanted, *(f"{wanted}-{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in candidates if name not in taken)


def _host(target: _Target) -> Iterator[str]:
    yield f"{_text(target.name)}:"
    yield f"  address: {_text(target.url.hostname or '')}"
    yield f"  port: {target.port}"
    if target.url.scheme != "http":
        yield f"  scheme: {target.url.scheme}"
    path = target.url.path.rstrip("/")
    if path:
        yield f"  path: {_text(path)}"
    if target.username:
        yield f"  username: {_text(target.username)}"
    # Without a user name, scrapyd-client sends no password either.
    if target.username and target.has_password:
        yield f"  password: {{env: {password_variable(target.name)}}}  # scrapy.cfg has it; set the variable instead"


def _text(text: str) -> str:
    """Write a text so that YAML reads the same; a JSON string is one in YAML too."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _YAML_WORDS else json.dumps(text, ensure_ascii=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())
