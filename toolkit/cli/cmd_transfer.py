"""The commands that move things: items drain, list, count; crawls export, import, adopt."""

from __future__ import annotations

import os
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli import cmd_jobs
from toolkit.cli.command import CRAWLS, CrawlArgument, ProjectOption, YesOption, command, subcommands
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolkit.model.crawls import CrawlKeys, CrawlPlan
    from toolkit.model.names import CrawlId
    from toolkit.model.transfers import Adopted, Drained
    from toolkit.store.interfaces_foreign import Foreign
    from toolkit.transfer.sinks import Sink
    from toolkit.transfer.sources import Source

LOOK_TWICE_S = 1.0


class Seen(StrEnum):
    """How the seen set of an adopted crawl is kept; the words of `FRONTIER_SEEN`."""

    PACKED = "packed"
    SET = "set"
    BLOOM = "bloom"


def add_to(app: typer.Typer, crawls: typer.Typer) -> None:
    """Register these commands, some of them below `crawls`."""
    help_text = "Fetch, list and count what crawls have found, or print the items of one job: `crawlctl items ID`."
    items = subcommands(app, "items", help_text, panel=CRAWLS, otherwise="job")
    cmd_jobs.add_items_to(items)
    command(
        items,
        "crawlctl items drain products --to products.jsonl",
        "crawlctl items drain products --to - | jq .price",
        "crawlctl items drain products --to-file ~/.sink --follow",
        "CRAWLCTL_SINK=postgresql://ann:secret@db/shop crawlctl items drain products --table products",
        audit="items drain",
    )(drain)
    command(items, "crawlctl items list products --limit 3", name="list")(list_)
    command(items, "crawlctl items count products")(count)
    command(items, "crawlctl items forget products postgresql://db/shop#items", audit="items forget")(forget)
    command(crawls, "crawlctl crawls export products products.jsonl.gz")(export)
    command(
        crawls,
        "crawlctl crawls import products.jsonl.gz",
        "crawlctl crawls import products.jsonl.gz --crawl products-2",
        name="import",
        audit="crawls import",
    )(import_)
    command(
        crawls,
        "crawlctl crawls adopt products --project shop",
        "crawlctl crawls adopt products --lifo --as products-2",
        "crawlctl crawls adopt products --trust-pickle",
        audit="crawls adopt",
    )(adopt)


def drain(
    session: Session,
    crawl: CrawlArgument,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="A file for JSON lines, - for stdout, or a URL: sqlite:///, postgresql://, mongodb://; "
            "else $CRAWLCTL_SINK.",
        ),
    ] = None,
    to_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A file that holds that URL, so that no process list shows its password."),
    ] = None,
    table: Annotated[str, typer.Option(metavar="NAME", help="The table or collection; made if missing.")] = "items",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as items come, until interrupted.")] = False,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Leave the items in the crawl, for other sinks; hold new ones for this one 3 days."
        ),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Begin with the first item that is still there, not after the last drained.")
    ] = False,
    batch: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="How many items go at once.")] = 500,
) -> None:
    """Move a crawl's items into a file or a database, each once, however often the drain is ended and started again."""
    from toolkit.model.names import check_crawl
    from toolkit.transfer.address import find_place
    from toolkit.transfer.drain import drain as drain_all
    from toolkit.transfer.drain import follow as drain_for_ever
    from toolkit.transfer.sinks import open_sink
    from toolkit.transfer.sources import open_source

    crawl_id = check_crawl(crawl)
    session.audit(crawl_id)
    place = find_place(to, file=to_file, environ=os.environ)
    with closing(open_sink(place, table=table)) as sink, closing(_foreign(session)) as foreign:
        source = open_source(session.shared.crawls, foreign, crawl_id, keeps=keep, again=again, waits=follow)
        if follow:
            _run(session, source, sink, drain_for_ever(source, sink, batch=batch, say=session.printer.say))
        else:
            _run(session, source, sink, drain_all(source, sink, batch=batch))


def list_(
    session: Session,
    crawl: CrawlArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many at most.")] = 20,
) -> None:
    """List the first items that wait to be drained; nothing is changed."""
    from toolkit.model.names import check_crawl
    from toolkit.transfer.sources import first_items
    from toolkit.views.transfer import items_view

    with closing(_foreign(session)) as foreign:
        found = first_items(session.shared.crawls, foreign, check_crawl(crawl), limit=limit)
    session.printer.show(items_view(found))


def count(session: Session, crawl: CrawlArgument) -> None:
    """Count the items that wait to be drained."""
    from toolkit.model.names import check_crawl
    from toolkit.transfer.sources import count_items
    from toolkit.views.transfer import item_count_view

    crawl_id = check_crawl(crawl)
    with closing(_foreign(session)) as foreign:
        session.printer.show(item_count_view(crawl_id, count_items(session.shared.crawls, foreign, crawl_id)))


def forget(
    session: Session,
    crawl: CrawlArgument,
    sink: Annotated[str, typer.Argument(metavar="SINK", help="The sink, by the name that items drain gives it.")],
) -> None:
    """Hold no more items for a sink that is not used any more; the next drain to another drops them."""
    from toolkit.model.names import check_crawl
    from toolkit.views.crawls import counted_view

    crawl_id = check_crawl(crawl)
    session.audit(crawl_id, detail=sink)
    session.shared.crawls.forget_sink(crawl_id, sink)
    session.printer.show(counted_view(crawl_id, "sink forgotten"))


def export(
    session: Session,
    crawl: CrawlArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; gzip where it ends in .gz.")],
    force: Annotated[bool, typer.Option("--force", help="Also while workers live, and move things.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace the file if it is there, without asking.")] = False,
) -> None:
    """Write a whole crawl to a file: entries, seeds, seen set, controls, budgets; not its items. Nothing is removed."""
    from toolkit.cluster.crawls import look
    from toolkit.model.errors import UsageError
    from toolkit.transfer.exchange import export_crawl
    from toolkit.views.transfer import moved_view

    view = look(session.shared.crawls, crawl)
    if file.exists() and not yes and not session.printer.confirm(f"Replace {file}?"):
        raise session.failed(UsageError("nothing was written", hint="--yes says it beforehand"))
    with session.printer.busy(lambda: f"writing {file}"):
        _, counts = export_crawl(session.shared.crawls, view.plan.crawl, file, force=force)
    session.printer.show(moved_view(view.plan, counts, str(file)))
    if view.items_waiting:
        session.printer.say(f"its {view.items_waiting:,} items are not in the file: crawlctl items drain {crawl}")


def import_(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that crawls export wrote.")],
    crawl: Annotated[
        str | None, typer.Option("--crawl", metavar="NAME", help="Import it under another name.", show_default=False)
    ] = None,
) -> None:
    """Bring a crawl that was exported into this Redis; refused where a crawl of its name has anything already."""
    from toolkit.model.names import check_crawl
    from toolkit.transfer.exchange import import_crawl
    from toolkit.views.transfer import moved_view

    name = None if crawl is None else check_crawl(crawl)
    session.audit(name or "as the file says", detail=f"from {file.name}")
    with closing(_foreign(session)) as foreign, session.printer.busy(lambda: f"reading {file}"):
        plan, counts = import_crawl(session.shared.crawls, foreign, file, name=name)
    session.printer.show(moved_view(plan, counts, str(file)))


def adopt(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="SPIDER", help="The spider's name: its keys begin with it.")],
    as_: Annotated[str | None, typer.Option("--as", metavar="CRAWL", help="The crawl's name, if another.")] = None,
    requests: Annotated[
        str | None, typer.Option(metavar="KEY", help="The queue's key.", show_default="SPIDER:requests")
    ] = None,
    dupefilter: Annotated[
        str | None, typer.Option(metavar="KEY", help="The dupefilter's key.", show_default="SPIDER:dupefilter")
    ] = None,
    project: ProjectOption = None,
    lifo: Annotated[bool, typer.Option("--lifo", help="The queue is a LifoQueue; Redis cannot tell.")] = False,
    seen: Annotated[Seen, typer.Option(help="How the seen set is kept from now on.")] = Seen.PACKED,
    trust_pickle: Annotated[
        bool,
        typer.Option(
            "--trust-pickle",
            help="Read also what is more than plain data: whoever could write to that Redis can run code here.",
        ),
    ] = False,
    yes: YesOption = False,
) -> None:
    """Take over what scrapy-redis left in Redis, its queue and its dupefilter, and go on where it stopped."""
    from toolkit.model.errors import RefusedError, UsageError
    from toolkit.model.names import check_crawl
    from toolkit.transfer.adopt import old_keys
    from toolkit.views.transfer import adopted_view

    crawl_id = check_crawl(as_ or name)
    old = old_keys(check_crawl(name), requests=requests, seen=dupefilter)
    with closing(_foreign(session)) as foreign:
        plan = _plan_of(foreign, old, crawl_id, spider=name, project=project or "", is_lifo=lifo, seen=seen)
        if not yes and not session.printer.confirm(_question(foreign, old, trust_pickle=trust_pickle)):
            raise session.failed(UsageError("nothing was taken over", hint="--yes says it beforehand"))
        session.audit(crawl_id, detail=f"from the keys of {name}")
        done = _adopted(session, foreign, plan, old, trust_pickle=trust_pickle)
    session.printer.show(adopted_view(crawl_id, done))
    session.printer.say(f"its fingerprints are scrapy-redis' own: {_FINGERPRINTER}")
    if done.kept:
        text = f"{done.kept:,} request(s) could not be taken over, and stay in {done.kept_in}"
        hint = None if trust_pickle else "--trust-pickle reads them too, and runs whatever code they name"
        raise session.failed(RefusedError(text, hint=hint))


_FINGERPRINTER = 'REQUEST_FINGERPRINTER_CLASS = "toolkit.spider.fingerprinters.ScrapyRedisFingerprinter" keeps them'


def _foreign(session: Session) -> Foreign:
    from toolkit.model.errors import ConfigurationError
    from toolkit.store.foreign import open_foreign

    _ = session.shared
    if session.inventory.redis is None:
        raise ConfigurationError("the inventory names no redis")
    return open_foreign(session.inventory.redis)


def _plan_of(
    foreign: Foreign, old: CrawlKeys, crawl: CrawlId, *, spider: str, project: str, is_lifo: bool, seen: Seen
) -> CrawlPlan:
    """Find out what is there, and that nobody works on it."""
    import time

    from toolkit.model.crawls import SeenKind
    from toolkit.transfer.adopt import found_plan, refuse_while_changing

    plan = found_plan(foreign, old, crawl, spider=spider, project=project, is_lifo=is_lifo, seen=SeenKind(seen.value))
    refuse_while_changing(foreign, old, wait=lambda: time.sleep(LOOK_TWICE_S))
    return plan


def _adopted(session: Session, foreign: Foreign, plan: CrawlPlan, old: CrawlKeys, *, trust_pickle: bool) -> Adopted:
    from toolkit.model.transfers import Adopted
    from toolkit.transfer.adopt import adopt as take_over

    done = Adopted()
    with session.printer.busy(lambda: f"{done.fingerprints:,} fingerprints, {done.requests:,} requests taken over"):
        for step in take_over(session.shared.crawls, foreign, plan, old=old, trust_pickle=trust_pickle):
            done = step
    return done


def _run(session: Session, source: Source, sink: Sink, steps: Iterator[Drained]) -> None:
    """Show how far a drain has come while it runs, and what it did when it has ended, also by Ctrl-C."""
    from toolkit.model.errors import CrawlctlError
    from toolkit.model.transfers import Drained
    from toolkit.views.transfer import other_sinks

    done, told = Drained(), set[str]()
    try:
        with session.printer.busy(lambda: f"{done.new + done.known:,} items drained"):
            for step in steps:
                done = step
                _tell_once(session, told, other_sinks(source.crawl, done))
    except CrawlctlError:
        if done.new:
            session.printer.say(f"{done.new:,} items were drained before this")
        raise
    except KeyboardInterrupt:
        _tell_drained(session, source, sink, done)
        raise
    _tell_drained(session, source, sink, done)


def _tell_once(session: Session, told: set[str], lines: Mapping[str, str]) -> None:
    """Say what was not said before: a drain that runs for days finds the same again with every batch."""
    for about, line in lines.items():
        if about not in told:
            session.printer.say(line, style="yellow")
    told.update(lines)


def _tell_drained(session: Session, source: Source, sink: Sink, done: Drained) -> None:
    from toolkit.transfer.sink_lines import STDOUT
    from toolkit.views.transfer import drained_view

    if sink.identity == STDOUT:
        session.printer.has_shown = True
        session.printer.say(f"{done.new:,} items drained")
    else:
        session.printer.show(drained_view(source.crawl, sink.shown, done))
    if done.altered:
        session.printer.say(f"{done.altered:,} of them hold what the sink cannot, and were altered", style="yellow")


def _question(foreign: Foreign, old: CrawlKeys, *, trust_pickle: bool) -> str:
    amount = f"{foreign.length(old.requests):,} requests and {foreign.length(old.seen):,} fingerprints"
    trusted = " This runs whatever code those pickles name, as you, on this machine." if trust_pickle else ""
    return f"Take over {amount} of {old.requests} and {old.seen}, which scrapy-redis cannot use any more?{trusted}"
