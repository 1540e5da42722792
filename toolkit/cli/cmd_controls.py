"""The commands that steer a crawl while it runs: crawls pause, resume, tune, limit, block, unblock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli.command import CrawlArgument, command
from toolkit.cli.durations import seconds
from toolkit.cli.session import Session

if TYPE_CHECKING:
    from toolkit.cluster.crawls import Obeyed

AS_THE_SPIDER_SAYS = -1
PatternsArgument = Annotated[
    list[str],
    typer.Argument(metavar="PATTERN", help="Domains, their subdomains too, or patterns for URLs as '*/calendar/*'."),
]

TimeoutOption = Annotated[
    str, typer.Option(metavar="DURATION", help="How long to wait for the workers, as in 15s, 10m.")
]


def add_to(crawls: typer.Typer) -> None:
    """Register these commands below `crawls`."""
    command(
        crawls, "crawlctl crawls pause products", "crawlctl crawls pause products --timeout 10m", audit="crawls pause"
    )(pause)
    command(crawls, "crawlctl crawls resume products", audit="crawls resume")(resume)
    command(
        crawls,
        "crawlctl crawls tune products --concurrency 4 --delay 0.5",
        "crawlctl crawls tune products --reset",
        audit="crawls tune",
    )(tune)
    command(
        crawls,
        "crawlctl crawls limit products example.com --per-second 2 --concurrency 4",
        "crawlctl crawls limit products '*' --concurrency 8",
        "crawlctl crawls limit products example.com --none",
        audit="crawls limit",
    )(limit)
    command(crawls, "crawlctl crawls block products ads.example.com '*/calendar/*'", audit="crawls block")(block)
    command(
        crawls,
        "crawlctl crawls unblock products ads.example.com",
        "crawlctl crawls unblock products",
        audit="crawls unblock",
    )(unblock)


def pause(session: Session, crawl: CrawlArgument, timeout: TimeoutOption = "15s") -> None:
    """Let no worker take a new entry, and wait until all have heard of it and finished or handed back what they hold.

    No entry is given out from the moment that this begins; the end of the wait changes nothing about it.
    """
    session.audit(crawl)
    _pause(session, crawl, is_paused=True, within_s=float(seconds(timeout)))


def resume(session: Session, crawl: CrawlArgument, timeout: TimeoutOption = "15s") -> None:
    """Let a paused crawl go on, and wait until a worker has heard of it."""
    session.audit(crawl)
    _pause(session, crawl, is_paused=False, within_s=float(seconds(timeout)))


def tune(
    session: Session,
    crawl: CrawlArgument,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many requests at once, of each worker and slot.")
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0, max=86_400, help="How long between two requests of a worker to the same site."
        ),
    ] = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Put what is not given back to what the spider says by itself.")
    ] = False,
) -> None:
    """Change how hard each worker of a crawl works, without a restart; a tune of one job wins over it."""
    from toolkit.cluster.crawls import look
    from toolkit.model.errors import UsageError
    from toolkit.views.crawls import controls_view

    session.audit(crawl, detail=f"concurrency {concurrency}, delay {delay}, reset {reset}")
    if concurrency is None and delay is None and not reset:
        raise UsageError("there is nothing to change", hint="give --concurrency N, --delay SECONDS or both, or --reset")
    crawl_id = look(session.shared.crawls, crawl).plan.crawl
    unsaid = AS_THE_SPIDER_SAYS if reset else None
    controls = session.shared.crawls.control(
        crawl_id,
        concurrency=unsaid if concurrency is None else concurrency,
        delay_s=unsaid if delay is None else delay,
    )
    session.printer.say("each worker obeys with its next commit, within seconds")
    session.printer.show(controls_view(crawl_id, controls))


def limit(
    session: Session,
    crawl: CrawlArgument,
    domain: Annotated[
        str, typer.Argument(metavar="DOMAIN", help="A domain; '*' is each that has no limit of its own.")
    ],
    per_second: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="How many requests a second, of all workers together.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many requests at once, of all workers together.")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Take the domain's limit away.")] = False,
) -> None:
    """Set what all workers of a crawl together may ask of a domain. It replaces the one before."""
    from toolkit.cluster.crawls import domain_limit, look
    from toolkit.model.errors import UsageError
    from toolkit.views.crawls import limits_view

    session.audit(crawl, detail=f"{domain}: per second {per_second}, concurrency {concurrency}")
    if none is (per_second is not None or concurrency is not None):
        raise UsageError("give --per-second NUMBER, --concurrency N or both, or --none alone")
    wanted = domain_limit(domain, per_second=per_second, concurrency=concurrency)
    crawl_id = look(session.shared.crawls, crawl).plan.crawl
    session.printer.show(limits_view(session.shared.crawls.limit(crawl_id, wanted)))


def block(session: Session, crawl: CrawlArgument, pattern: PatternsArgument) -> None:
    """Let no worker fetch from domains, or what matches a pattern; such entries go aside until it is lifted."""
    from toolkit.cluster.crawls import block_pattern, look
    from toolkit.views.crawls import controls_view

    session.audit(crawl, detail=" ".join(pattern))
    wanted = [block_pattern(text) for text in pattern]
    crawl_id = look(session.shared.crawls, crawl).plan.crawl
    session.printer.show(controls_view(crawl_id, session.shared.crawls.block(crawl_id, wanted)))


def unblock(
    session: Session,
    crawl: CrawlArgument,
    pattern: Annotated[
        list[str] | None, typer.Argument(metavar="PATTERN", help="Blocks, as show tells them; all without any.")
    ] = None,
) -> None:
    """Lift blocks; the entries that were put aside for them go back into the queue, also when the crawl is over."""
    from toolkit.cluster.crawls import block_pattern, blocks_to_lift, look
    from toolkit.views.crawls import counted_view

    session.audit(crawl, detail=" ".join(pattern or ["all"]))
    view = look(session.shared.crawls, crawl)
    wanted = blocks_to_lift(view, [block_pattern(text) for text in pattern or ()])
    count = session.shared.crawls.unblock(view.plan.crawl, wanted)
    session.printer.show(counted_view(view.plan.crawl, "unblocked", count))


def _pause(session: Session, crawl: str, *, is_paused: bool, within_s: float) -> None:
    """Write the wish, look until the workers have heard of it, and tell what was verified."""
    from toolkit.cluster.crawls import pause as pause_crawl
    from toolkit.model.errors import NodesFailedError
    from toolkit.views.crawls import obeyed_view

    looks: list[Obeyed] = []
    try:
        with session.printer.busy(lambda: _what_is_waited_for(looks[-1:])):
            done = pause_crawl(
                session.shared.crawls, crawl, is_paused=is_paused, within_s=within_s, on_look=looks.append
            )
    except KeyboardInterrupt:
        if looks:
            session.printer.say(f"{crawl} is {'paused' if is_paused else 'resumed'} all the same")
        raise
    session.printer.show(obeyed_view(done))
    if is_paused and done.is_settled and done.in_flight:
        session.printer.say(f"{done.in_flight} entries are still being worked on; no worker gets a new one")
    if not is_paused and not done.workers:
        session.printer.say(f"no worker of {crawl} is there to go on; crawlctl schedule starts some", style="yellow")
    if not done.is_settled:
        text = f"{done.workers - done.heard} of {done.workers} worker(s) have not heard of it yet; the wish stays"
        hint = f"crawlctl crawls show {crawl} tells when each was last heard of; a busy callback hears it later"
        raise session.failed(NodesFailedError(text, hint=hint))


def _what_is_waited_for(looks: list[Obeyed]) -> str:
    told = "".join(f": {each.heard} of {each.workers} have, {each.in_flight} in flight" for each in looks)
    return f"waiting for the workers to hear of it{told}"
