"""Jobs that share a crawl: what makes them its workers, which crawl that is, and which could not join it. Pure."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from toolkit.cluster.crawls import CrawlState, live_workers, state_of
from toolkit.model.crawls import CrawlView
from toolkit.model.errors import RefusedError, UsageError
from toolkit.model.jobs import CRAWL_SETTING, RUN_SETTING
from toolkit.model.names import CrawlId, check_crawl
from toolkit.model.orders import Order


def crawl_settings(settings: Mapping[str, str], crawl: CrawlId | None, *, workers: int) -> dict[str, str]:
    """Return the settings of jobs that are scheduled together, with the crawl that they share.

    Several workers, or those of a named crawl, get a name for this run of it: one that comes late, when the others have
    ended the crawl already, then knows that there is nothing to do, and does not begin it anew.

    Raises:
        UsageError: the settings name a crawl too, or one whose name cannot be used.

    """
    named = settings.get(CRAWL_SETTING)
    if named is not None:
        check_crawl(named)
    if crawl is not None and named is not None:
        raise UsageError(f"--crawl and -s {CRAWL_SETTING} both name the crawl: give one of them")
    shared = {} if crawl is None else {CRAWL_SETTING: str(crawl)}
    if workers > 1 or crawl is not None or named is not None:
        shared[RUN_SETTING] = secrets.token_hex(8)
    return {**shared, **settings}


def refuse_to_join(view: CrawlView, spider: str) -> None:
    """Refuse jobs of a spider that could not join the crawl.

    Raises:
        RefusedError: the crawl is another spider's, or what is there must be moved first.

    """
    plan = view.plan
    if plan.spider != spider:
        raise RefusedError(
            f"the crawl {plan.crawl} is one of the spider {plan.spider}, not of {spider}",
            hint=f"give it another name with --crawl; crawlctl crawls clear {plan.crawl} forgets the old one",
        )
    if view.needs_migration is not None:
        raise RefusedError(f"the crawl {plan.crawl} cannot be worked on: {view.needs_migration}")


def default_joined(order: Order, crawl: CrawlId, view: CrawlView | None) -> str | None:
    """Say which crawl jobs join that name none, as far as they may: whether their spider shares one is not known here.

    `None` where there is nothing to say: one job without arguments, of a spider of which no crawl is known.
    """
    if view is None:
        is_plain = not order.args and order.count == 1
        return None if is_plain else f"its crawl is {crawl}, if the spider uses the frontier"
    plan = view.plan
    if plan.spider == order.spider and plan.project in {"", order.project}:
        return what_is_joined(crawl, view, workers=order.count)
    return (
        f"the crawl {crawl} belongs to the spider {plan.spider} of {plan.project}, and will refuse this one if it uses "
        "the frontier; --crawl NAME gives it a crawl of its own"
    )


def what_is_joined(crawl: CrawlId, view: CrawlView | None, *, workers: int) -> str:
    """Say how many workers a crawl gets, and what they find there."""
    text = f"{workers} worker(s) for the crawl {crawl}"
    if view is None:
        return text
    if live := live_workers(view):
        text += f", beside {len(live)} that work on it already"
    if view.pending:
        text += f"; {view.pending:,} entries wait"
    if state_of(view) is CrawlState.PAUSED:
        text += f"; it is paused: crawlctl crawls resume {crawl} lets it go on"
    return text
