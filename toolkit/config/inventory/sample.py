"""Writes the inventory that `crawlctl init` starts with: the annotated sample, or one of the user's deploy targets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from toolkit.config.inventory.finding import INVENTORY_NAME
from toolkit.config.inventory.targets import Target, read_urls
from toolkit.config.paths import sample_file
from toolkit.config.project import DeployTarget

_FROM_HERE = "# What holds for every host"
_HOSTS = "# Every host by its name"
_EXAMPLES = "# To copy from"
_FIRST_KEY = re.compile(r"(?m)^[a-z]+:")
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*")
_YAML_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")


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
    understood, remarks = read_urls(targets)
    hosts = [line for target in understood for line in _host(target)]
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
        + "".join(f"  {line}\n" for line in [*(f"# {remark}" for remark in remarks), *hosts])
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


def _host(target: Target) -> Iterator[str]:
    yield f"{_text(target.name)}:"
    yield f"  address: {_text(target.address)}"
    yield f"  port: {target.port}"
    if target.scheme != "http":
        yield f"  scheme: {target.scheme}"
    if target.path:
        yield f"  path: {_text(target.path)}"
    if target.username:
        yield f"  username: {_text(target.username)}"
    # Without a user name, scrapyd-client sends no password either.
    if target.username and target.password:
        yield f"  password: {{env: {password_variable(target.name)}}}  # scrapy.cfg has it; set the variable instead"


def _text(text: str) -> str:
    """Write a text so that YAML reads the same; a JSON string is one in YAML too."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _YAML_WORDS else json.dumps(text, ensure_ascii=False)
