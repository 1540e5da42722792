"""The commands about crawls: crawls list, show, seed, peek, requeue, clear; those that steer are in cmd_controls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli import cmd_controls, cmd_transfer
from toolkit.cli.command import CRAWLS, CrawlArgument, YesOption, command, subcommands
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolkit.model.crawls import CrawlView, Shelf

EntriesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="ENTRY", help="Ids of entries, as peek shows them; all without any.")
]


def add_to(app: typer.Typer) -> None:
    """Register these commands."""
    crawls = subcommands(
        app,
        "crawls",
        "List crawls that several spiders share, as `crawlctl crawls` alone does, show one, feed it, or steer it.",
        panel=CRAWLS,
        default="list",
    )
    command(crawls, "crawlctl crawls list --output json", name="list")(list_)
    command(crawls, "crawlctl crawls show products", name="show")(show)
    command(
        crawls,
        "crawlctl crawls seed products https://example.com/ https://example.com/sale",
        "crawlctl crawls seed products --from urls.txt",
        "crawlctl crawls seed products --sql postgresql://ann@db/shop --query 'SELECT url, category FROM pages'",
        audit="crawls seed",
    )(seed)
    cmd_controls.add_to(crawls)
    command(crawls, "crawlctl crawls peek products", "crawlctl crawls peek products --dead --limit 100")(peek)
    command(
        crawls,
        "crawlctl crawls requeue products",
        "crawlctl crawls requeue products 0006484f2a9b1c00",
        audit="crawls requeue",
    )(requeue)
    command(
        crawls,
        "crawlctl crawls clear products",
        "crawlctl crawls clear products --keep-seen --yes",
        audit="crawls clear",
    )(clear)
    cmd_transfer.add_to(app, crawls)


def list_(session: Session) -> None:
    """List the crawls that are known, with what waits, what is under way, and who works."""
    from toolkit.views.crawls import crawls_view

    session.printer.show(crawls_view(session.shared.crawls.views()))


def show(session: Session, crawl: CrawlArgument) -> None:
    """Show all that is known of one crawl: its counts, its workers and their leases, its domains and their budgets."""
    from toolkit.cluster.crawls import report
    from toolkit.views.crawls import crawl_view

    session.printer.show(crawl_view(report(session.shared.crawls, session.store.jobs, crawl)))


def seed(
    session: Session,
    crawl: CrawlArgument,
    seeds: Annotated[
        list[str] | None, typer.Argument(metavar="SEED", help="URLs, or JSON objects with a field url.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Push every line of a file; - is stdin.")
    ] = None,
    sql: Annotated[
        str | None, typer.Option("--sql", metavar="URL", help="Push the rows that --query finds in this database.")
    ] = None,
    sql_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file that holds that URL, so that no process list shows its password."),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="SQL", help="The query; its column url is the seed, the others go with it.")
    ] = None,
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Push them unchecked, for a spider that makes something else of a seed.")
    ] = False,
) -> None:
    """Push seeds to a crawl, whether its workers run already or not; all are checked before the first is pushed."""
    from toolkit.model.names import check_crawl
    from toolkit.views.crawls import counted_view

    session.audit(crawl)
    crawl_id = check_crawl(crawl)
    found = _seeds(seeds or [], file, sql, sql_file, query, is_checked=not as_is)
    count = session.shared.crawls.seed(crawl_id, found)
    session.printer.show(counted_view(crawl_id, "seeded", count))
    _say_who_takes_them(session, crawl)


def peek(
    session: Session,
    crawl: CrawlArgument,
    in_flight: Annotated[bool, typer.Option("--in-flight", help="Those in the hands of workers.")] = False,
    suspect: Annotated[bool, typer.Option("--suspect", help="Those that run alone: workers died with them.")] = False,
    dead: Annotated[bool, typer.Option("--dead", help="Those that nobody can work on, and why.")] = False,
    blocked: Annotated[bool, typer.Option("--blocked", help="Those aside until their block is lifted.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many at most.")] = 20,
) -> None:
    """Look at pending entries, those next to be taken first, or at others; nothing is changed."""
    from toolkit.cluster.crawls import look
    from toolkit.cluster.entries import read_entry
    from toolkit.views.crawls import entries_view

    shelf = _shelf(in_flight=in_flight, suspect=suspect, dead=dead, blocked=blocked)
    crawl_id = look(session.shared.crawls, crawl).plan.crawl
    found = session.shared.crawls.peek(crawl_id, shelf, limit=limit)
    session.printer.show(entries_view([read_entry(entry) for entry in found]))


def requeue(session: Session, crawl: CrawlArgument, entry: EntriesArgument = None) -> None:
    """Put dead entries back into the queue, with no death counted."""
    from toolkit.cluster.crawls import look
    from toolkit.cluster.entries import entry_ids
    from toolkit.model.errors import NotFoundError
    from toolkit.views.crawls import counted_view

    session.audit(crawl, detail=f"{len(entry or ())} entries named" if entry else "all that are dead")
    crawl_id = look(session.shared.crawls, crawl).plan.crawl
    wanted = list(dict.fromkeys(entry_ids(entry))) if entry else None
    count = session.shared.crawls.requeue(crawl_id, wanted)
    session.printer.show(counted_view(crawl_id, "requeued", count))
    if wanted is not None and count < len(wanted):
        text = f"{len(wanted) - count} of {len(wanted)} are not on the dead list of {crawl_id}"
        raise session.failed(NotFoundError(text, hint=f"crawlctl crawls peek {crawl_id} --dead shows it"))


def clear(
    session: Session,
    crawl: CrawlArgument,
    force: Annotated[bool, typer.Option("--force", help="Also while workers live; they lose what they hold.")] = False,
    keep_seen: Annotated[
        bool, typer.Option("--keep-seen", help="Remember what was seen, and fetch none again.")
    ] = False,
    items: Annotated[bool, typer.Option("--items", help="Also the items that nobody has fetched yet.")] = False,
    yes: YesOption = False,
) -> None:
    """Forget a crawl: its entries, its seeds, what was seen. Refused while workers live; it asks first."""
    from toolkit.cluster.crawls import look, refuse_to_clear
    from toolkit.model.errors import UsageError
    from toolkit.views.crawls import counted_view

    view = look(session.shared.crawls, crawl)
    refuse_to_clear(view, force=force)
    question = _question(view, keep_seen=keep_seen, items=items)
    if not yes and not session.printer.confirm(question):
        raise session.failed(UsageError("nothing was cleared", hint="--yes says it beforehand"))
    session.audit(crawl, detail=f"force {force}, seen kept {keep_seen}, items too {items}")
    session.shared.crawls.clear(view.plan.crawl, force=force, keep_seen=keep_seen, keep_items=not items)
    session.printer.show(counted_view(view.plan.crawl, "cleared"))


def _seeds(
    seeds: Sequence[str],
    file: Path | None,
    sql: str | None,
    sql_file: Path | None,
    query: str | None,
    *,
    is_checked: bool,
) -> Iterator[bytes]:
    from toolkit.model.errors import UsageError
    from toolkit.transfer.address import read_secret
    from toolkit.transfer.seeds import read_seeds, sql_query

    if sql is not None and sql_file is not None:
        raise UsageError("--sql and --sql-file both name a database: give one")
    sql = sql if sql_file is None else read_secret(sql_file)
    if (sql is None) is not (query is None):
        raise UsageError("--sql names a database and --query what to read there: give both")
    if not seeds and file is None and sql is None:
        raise UsageError(
            "there is nothing to push: name seeds, or a file with --from, or a query with --sql and --query"
        )
    rows = None if sql is None or query is None else sql_query(sql, query)
    return read_seeds(seeds, file=file, query=rows, are_checked=is_checked)


def _say_who_takes_them(session: Session, crawl: str) -> None:
    """Tell what keeps the seeds waiting, so that a crawl that does not begin is no riddle."""
    from toolkit.cluster.crawls import CrawlState, look, start_hint, state_of
    from toolkit.model.errors import NotFoundError

    try:
        view = look(session.shared.crawls, crawl)
    except NotFoundError as unknown:
        session.printer.say(
            f"{unknown.message}: the seeds wait in {crawl}:start_urls until one joins it", style="yellow"
        )
        return
    if state_of(view) is CrawlState.PAUSED:
        session.printer.say(f"{crawl} is paused; crawlctl crawls resume {crawl} lets it go on", style="yellow")
    elif (hint := start_hint(view)) is not None:
        session.printer.say(f"no worker of {crawl} is there to take them; {hint} starts one", style="yellow")


def _shelf(*, in_flight: bool, suspect: bool, dead: bool, blocked: bool) -> Shelf:
    from toolkit.model.crawls import Shelf
    from toolkit.model.errors import UsageError

    asked = {Shelf.IN_FLIGHT: in_flight, Shelf.SUSPECT: suspect, Shelf.DEAD: dead, Shelf.BLOCKED: blocked}
    wanted = [shelf for shelf, is_asked in asked.items() if is_asked]
    if len(wanted) > 1:
        raise UsageError(f"one shelf at a time: {' or '.join(f'--{shelf.value}' for shelf in wanted)}")
    return wanted[0] if wanted else Shelf.PENDING


def _question(view: CrawlView, *, keep_seen: bool, items: bool) -> str:
    from toolkit.cluster.crawls import live_workers

    entries = view.pending + view.in_flight + view.dead + view.blocked
    lost = [f"{entries:,} entries", f"{view.seeds:,} seeds"]
    lost += [] if keep_seen else [f"{view.seen:,} seen requests"]
    lost += [f"{view.items_waiting:,} items"] if items else []
    live = live_workers(view)
    while_alive = f", while {len(live)} worker(s) live" if live else ""
    return f"Clear {view.plan.crawl} ({', '.join(lost)}){while_alive}?"
