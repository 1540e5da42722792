"""How it is shown what was moved: items drained, listed and counted, crawls exported, imported and adopted."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toolkit.model.crawls import CrawlPlan
from toolkit.model.names import CrawlId
from toolkit.model.transfers import Adopted, CrawlCounts, Drained, Item
from toolkit.views.contract import time_text
from toolkit.views.view import Styled, View, plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

_ITEM_CHARS = 200


def drained_view(crawl: CrawlId, sink: str, done: Drained) -> View:
    """Show how many items went where; `known` were there already, `altered` hold what the sink cannot."""
    data = {
        "crawl": crawl,
        "sink": sink,
        "new": done.new,
        "known": done.known,
        "altered": done.altered,
        "has_repeated": done.has_repeated,
        "behind": [{"sink": each.sink, "held_until": time_text(each.held_until)} for each in done.behind],
    }
    row = (crawl, f"{done.new:,}", done.known or None, done.altered or None, sink)
    return View(
        data,
        lambda: plain_table(
            *("CRAWL", "NEW", "KNOWN", "ALTERED", "IN"),
            rows=[row],
            right=("NEW", "KNOWN"),
            optional={"KNOWN", "ALTERED"},
        ),
    )


def other_sinks(crawl: CrawlId, done: Drained) -> dict[str, str]:
    """Return what to say of other sinks and of items that came again, each line under what it is about. Pure."""
    lines = {}
    if done.has_repeated:
        lines["repeated"] = (
            "Redis did not know all items of this sink: it went back to an older state, or another drain writes to the "
            "same sink. Some items may have come again: a database knows them by their key, a file has them twice"
        )
    for each in done.behind:
        if each.held_until is None:
            lines[f"dropped {each.sink}"] = (
                f"{each.sink} had not read all that was dropped now; a drain with --keep holds items for 3 days"
            )
        else:
            lines[f"held {each.sink}"] = (
                f"{each.sink} has not read all of them; they stay for it until {time_text(each.held_until)} "
                f"(crawlctl items forget {crawl} {shlex.quote(each.sink)} lets them go)"
            )
    return lines


def items_view(items: Sequence[Item]) -> View:
    """Show items as they are in the crawl; what is no JSON is shown as text."""
    data = [{"key": each.key or None, "at": _at(each), "item": _content(each.body)} for each in items]
    rows = [(each.key or None, _at(each), _short(each.body)) for each in items]
    return View(data, lambda: plain_table("KEY", "AT", "ITEM", rows=rows, spare=("AT", "KEY"), optional={"KEY", "AT"}))


def item_count_view(crawl: CrawlId, count: int) -> View:
    """Show how many items of a crawl wait to be drained."""
    return View({"crawl": crawl, "items": count}, lambda: plain_table("CRAWL", "ITEMS", rows=[(crawl, f"{count:,}")]))


def moved_view(plan: CrawlPlan, counts: CrawlCounts, file: str) -> View:
    """Show how much of a crawl went into a file, or came out of it."""
    data = {
        "crawl": plan.crawl,
        "file": file,
        "entries": counts.entries,
        "seeds": counts.seeds,
        "seen_records": counts.seen,
    }
    row = (plan.crawl, f"{counts.entries:,}", f"{counts.seeds:,}", f"{counts.seen:,}", file)
    names = ("CRAWL", "ENTRIES", "SEEDS", "SEEN RECORDS", "FILE")
    return View(data, lambda: plain_table(*names, rows=[row], right=names[1:4]))


def adopted_view(crawl: CrawlId, done: Adopted) -> View:
    """Show what was taken over from scrapy-redis, and what was kept and why."""
    data = {
        "crawl": crawl,
        "requests": done.requests,
        "fingerprints": done.fingerprints,
        "kept": done.kept,
        "kept_in": done.kept_in if done.kept else None,
        "reasons": [{"why": why, "count": count} for why, count in done.reasons],
        "odd_fingerprints": done.fingerprints_kept,
    }
    return View(data, lambda: _adopted_screen(crawl, done))


def _adopted_screen(crawl: CrawlId, done: Adopted) -> RenderableType:
    rows: list[tuple[Any, ...]] = [
        ("crawl", crawl),
        ("requests", f"{done.requests:,} taken over"),
        ("fingerprints", f"{done.fingerprints:,} taken over"),
    ]
    if done.kept:
        rows.append(("kept", Styled(f"{done.kept:,} requests in {done.kept_in}", "yellow")))
        rows += [("", f"{count:,}: {why}") for why, count in done.reasons]
    if done.fingerprints_kept:
        rows.append(("odd", Styled(f"{done.fingerprints_kept:,} members that are no fingerprints", "yellow")))
    return plain_table("ADOPTED", "", rows=rows)


def _at(item: Item) -> str | None:
    return time_text(item.at) if item.id else None


def _content(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=str)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")


def _short(body: bytes) -> str:
    text = " ".join(body.decode("utf-8", "replace").split())
    return text if len(text) <= _ITEM_CHARS else f"{text[:_ITEM_CHARS]}…"
