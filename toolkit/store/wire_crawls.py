"""The wire format of the frontier: plans and controls as JSON, fingerprints in the form of each kind of seen set."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from hashlib import sha1
from typing import Any

from toolkit.model.crawls import (
    Controls,
    CrawlKeys,
    CrawlPlan,
    DomainLimit,
    EntryId,
    ItemsKind,
    Leased,
    QueueOrder,
    SeedsKind,
    SeenKind,
)
from toolkit.model.errors import StoreUnreadableError
from toolkit.model.names import CrawlId
from toolkit.store.envelope import read, write
from toolkit.store.fields import Fields

SEED = 128
"""Added to the ninth byte of a member that is a seed (`lua/crawl_rules.lua`)."""

ID_BYTES = 8
ROOTS = 1024
"""How many groups of a packed seen set the first bits of a fingerprint choose from (`lua/crawl_seen.lua`)."""

_SHARD_BITS = 8_388_608
_EXACT, _GREATEST = 2**53, 2**1000
_PLACE = re.compile(rb"://([A-Za-z0-9.\-_:@\[\]%+~!$&'()*,;=]+)")


def write_plan(plan: CrawlPlan) -> str:
    """Return what the registry of crawls keeps of a plan."""
    keys = plan.keys
    return write(
        {
            "crawl": plan.crawl,
            "spider": plan.spider,
            "project": plan.project,
            "keys": {"requests": keys.requests, "seen": keys.seen, "seeds": keys.seeds, "items": keys.items},
            "order": plan.order,
            "seen": plan.seen,
            "bloom_error": plan.bloom_error,
            "seeds": plan.seeds,
            "items": plan.items,
            "fingerprints": plan.fingerprints,
            "persists": plan.persists,
            "max_deliveries": plan.max_deliveries,
            "bot": plan.bot,
            "digest": plan.digest,
            "arguments": plan.arguments,
            "is_named": plan.is_named,
        }
    )


def read_plan(body: str | bytes) -> CrawlPlan:
    """Return the plan of a crawl.

    Raises:
        StoreUnreadableError: it is none, or of a newer format.

    """
    fields = read(body, "crawl")
    keys = Fields(fields.maybe_mapping("keys") or {}, what="crawl")
    return CrawlPlan(
        crawl=CrawlId(fields.text("crawl")),
        spider=fields.text("spider"),
        project=fields.text("project"),
        keys=CrawlKeys(keys.text("requests"), keys.text("seen"), keys.text("seeds"), keys.text("items")),
        order=fields.choice("order", QueueOrder),
        seen=fields.choice("seen", SeenKind),
        bloom_error=fields.number("bloom_error"),
        seeds=fields.choice("seeds", SeedsKind),
        items=fields.choice("items", ItemsKind),
        fingerprints=fields.text("fingerprints"),
        persists=fields.flag("persists"),
        max_deliveries=fields.whole("max_deliveries"),
        bot=fields.maybe_text("bot") or "",
        digest=fields.maybe_text("digest") or "",
        arguments=fields.maybe_text("arguments") or "",
        is_named=fields.maybe_flag("is_named"),
    )


def write_controls(controls: Controls) -> str:
    """Return the controls as the scripts read them; plain numbers, so that Redis' JSON keeps them."""
    return json.dumps(
        {
            "version": controls.version,
            "is_paused": controls.is_paused,
            "concurrency": controls.concurrency,
            "delay_s": controls.delay_s,
            "blocks": list(controls.blocks),
        }
    )


def read_controls(body: str | bytes | None) -> Controls:
    """Return the controls; none were ever set where there is no body.

    Raises:
        StoreUnreadableError: it is no JSON object of ours.

    """
    if not body:
        return Controls()
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise StoreUnreadableError("a crawl's controls in the shared store are not a JSON object")
    fields = Fields(content, what="crawl's controls")
    return Controls(
        version=fields.whole("version"),
        is_paused=fields.flag("is_paused"),
        concurrency=fields.maybe_whole("concurrency"),
        delay_s=fields.maybe_number("delay_s"),
        blocks=tuple(fields.texts("blocks")),
    )


def write_limit(limit: DomainLimit) -> str:
    """Return a budget as the scripts read it: how many a second and how many at once, 0 for any number."""
    return f"{limit.per_second or 0:g} {limit.concurrency or 0}"


def read_limit(domain: str, text: str) -> DomainLimit:
    """Return a budget."""
    per_second, _, concurrency = text.partition(" ")
    return DomainLimit(domain, float(per_second) or None, int(concurrency) or None)


def form_of(fingerprint: bytes, kind: SeenKind) -> tuple[bytes | str | int, int]:
    """Return a fingerprint as the scripts want it for a kind of seen set, and its root (packed only).

    A fingerprinter of one's own may make it of any length, and with few bits that differ: so it is hashed once more.
    """
    if kind is SeenKind.SET:
        return fingerprint.hex(), 0
    even = sha1(fingerprint, usedforsecurity=False).digest()
    if kind is SeenKind.PACKED:
        return int.from_bytes(even[4:12], "big") >> 1, int.from_bytes(even[:2], "big") % ROOTS
    return even, 0


def score_of(priority: int) -> int | str:
    """Return the score of a request's priority: the greatest first. Redis keeps scores as floats."""
    return -priority if -_EXACT < priority < _EXACT else f"{-max(-_GREATEST, min(_GREATEST, priority)):.17g}"


def member_of(leased: Leased) -> bytes:
    """Return an entry as it lies in the queue."""
    return leased.entry + bytes([min(leased.deaths, SEED - 1) + (SEED if leased.is_seed else 0)]) + leased.body


def read_member(member: bytes, score: str | bytes) -> Leased:
    """Return an entry as its worker gets it."""
    mark = member[ID_BYTES] if len(member) > ID_BYTES else 0
    return Leased(
        EntryId(member[:ID_BYTES]),
        member[ID_BYTES + 1 :],
        is_seed=mark >= SEED,
        deaths=mark % SEED,
        score=score if isinstance(score, str) else score.decode("ascii"),
    )


def bloom_shape(error: float) -> tuple[int, int]:
    """Return how many URLs one shard of the first generation takes, and how many bits each sets there.

    The first generation gets half of the error that was asked for, each further one half of what is left, and so one
    bit more (`lua/crawl_seen.lua`).
    """
    bits = math.ceil(-math.log2(error / 2))
    return int(_SHARD_BITS * math.log(2) / bits), bits


def bloom_loss(counts: Sequence[int], error: float) -> float:
    """Return how many new URLs a filter with these counts by generation has wrongly taken for seen, on the average."""
    capacity, bits = bloom_shape(error)
    lost, older = 0.0, 0.0
    for generation, count in enumerate(counts):
        shards, k = 4 ** min(generation, 6), bits + generation
        fits = capacity * bits / k * shards
        fill = count / fits
        # The chance rises with the fill as (1 - 2^-fill)^k; its mean over a filling is taken at 32 points.
        means = [(1 - 2 ** -(fill * (i + 0.5) / 32)) ** k for i in range(32)]
        lost += count * (older + sum(means) / 32)
        older += (1 - 2**-fill) ** k
    return lost


def read_standing(text: str) -> tuple[str, int, int, int, str]:
    """Return a worker's standing: token, number of its last commit, pages, when in milliseconds, marks."""
    token, number, pages, at_ms, marks = text.split(" ")
    return token, int(number), int(pages), int(at_ms), marks


def host_of(body: bytes) -> str:
    """Return the domain of the first URL in an entry's body, in lower case, as the scripts see it; empty for none."""
    found = _PLACE.search(body)
    place = found[1].rpartition(b"@")[2].decode("ascii").lower() if found else ""
    return place.partition("]")[0] + "]" if place.startswith("[") else place.partition(":")[0]


def pairs(flat: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the pairs of a flat answer."""
    return list(zip(flat[::2], flat[1::2], strict=True))
