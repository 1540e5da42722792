"""The Scrapy settings of the frontier, all of them `FRONTIER_…`: a part of the one table in `options.py`."""

from __future__ import annotations

from toolkit.config.option import Form, Option, Scope
from toolkit.model.crawls import DEFAULT_WORKER_LEASE_S, MAX_DELIVERIES, SeenKind
from toolkit.model.jobs import CRAWL_SETTING, RUN_SETTING

DOMAIN_LIMITS_SHAPE = (
    "pairs of a domain, or `*` for each other one, and its limits: "
    '`{"example.com": {"per_second": 2, "concurrency": 4}}`'
)

FRONTIER_OPTIONS: tuple[Option, ...] = (
    Option(
        CRAWL_SETTING,
        Scope.SPIDER,
        Form.TEXT,
        "The crawl that this process works on; crawls of different names do not mix, also those of one spider.",
        default_words="the spider's name; with arguments, and a digest of them",
    ),
    Option(
        RUN_SETTING,
        Scope.SPIDER,
        Form.TEXT,
        "What workers that were started together share; one that comes when their crawl is over has nothing to do.",
        default_words="written by crawlctl schedule --workers; else the job's id",
    ),
    Option(
        "FRONTIER_LEASE_S",
        Scope.SPIDER,
        Form.NUMBER,
        "How long a worker may be silent before what it holds goes back to the frontier.",
        default=DEFAULT_WORKER_LEASE_S,
        unit="seconds",
        minimum=1,
        maximum=3600,
    ),
    Option(
        "FRONTIER_SEEN",
        Scope.SPIDER,
        Form.CHOICE,
        "How the fingerprints of seen requests are kept: about 9, 84 or 6 bytes each.",
        default=SeenKind.PACKED.value,
        choices=tuple(kind.value for kind in SeenKind),
    ),
    Option(
        "FRONTIER_BLOOM_ERROR",
        Scope.SPIDER,
        Form.NUMBER,
        "With bloom, the share of new URLs that may wrongly be taken for seen ones, and so never be fetched.",
        default=1e-6,
        minimum=0,
        maximum=1e-6,
        is_above_minimum=True,
    ),
    Option(
        "FRONTIER_MAX_DELIVERIES",
        Scope.SPIDER,
        Form.INTEGER,
        "A request that was in the hands of so many workers when they died goes to the dead list.",
        default=MAX_DELIVERIES,
        unit="workers",
        minimum=2,
        maximum=1000,
    ),
    Option(
        "FRONTIER_DOMAIN_LIMITS",
        Scope.SPIDER,
        Form.LIMITS,
        "Requests per second and at once to a domain, one budget over all workers, until an operator sets others.",
        default_words="none",
        shape=DOMAIN_LIMITS_SHAPE,
    ),
    Option(
        "FRONTIER_OBEY_CRAWL_DELAY",
        Scope.SPIDER,
        Form.FLAG,
        "Whether the Crawl-delay of a robots.txt that Scrapy obeys becomes its domain's limit over all workers.",
        default=False,
    ),
    Option(
        "FRONTIER_JOURNAL_S",
        Scope.SPIDER,
        Form.NUMBER,
        "How far back Redis may fall, as after a failover, without anything being lost. The worker keeps what it sent "
        "in that time in its memory.",
        default=15.0,
        unit="seconds",
        minimum=0,
        maximum=600,
    ),
    Option(
        "FRONTIER_SEEN_CACHE",
        Scope.SPIDER,
        Form.INTEGER,
        "How many fingerprints known to be seen a worker remembers, to spare Redis the question.",
        default=50_000,
        unit="fingerprints",
        minimum=0,
        maximum=10_000_000,
    ),
    Option(
        "FRONTIER_MAX_OUTBOX",
        Scope.SPIDER,
        Form.INTEGER,
        "How much a worker collects while Redis is away before it waits.",
        default=10_000,
        unit="requests, endings and items",
        minimum=100,
        maximum=10_000_000,
    ),
)
