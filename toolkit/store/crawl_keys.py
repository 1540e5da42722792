"""The names of the keys of one crawl: four are scrapy-redis' own, which its users know; the others stand below one.

`<requests>` is `<crawl>:requests` unless `SCHEDULER_QUEUE_KEY` says otherwise, and so on.

| key | type | holds |
|---|---|---|
| `<requests>` | sorted set | the pending entries, whatever their order |
| `<seen>` | set | with `set`: the fingerprints, as scrapy-redis keeps them |
| `<seen>:<epoch>:<n>` | set | with `packed`: integers, one of many such sets |
| `<seen>:<epoch>:b<g>:<n>` | string | with `bloom`: a shard of generation g |
| `<seeds>` | list, set or sorted set | seeds that nobody has taken |
| `<items>` | stream or list | items that were delivered |
| `<requests>:state` | hash | the crawl's counts, kinds, and who runs `start()` |
| `<requests>:workers` | sorted set | worker → when its lease ends, in milliseconds |
| `<requests>:standings` | hash | worker → token, last commit, pages, when, marks |
| `<requests>:inflight:<worker>` | hash | entry → score, since when (ms), and member |
| `<requests>:suspects` | sorted set | entries that two workers or more died with |
| `<requests>:dead` | hash | entry → why, when, score and member (msgpack) |
| `<requests>:blocked` | hash | entry → score and member |
| `<requests>:starts` | set | fingerprints of what `start()` brought unfiltered |
| `<requests>:runs` | set | the runs of all workers that came since the crawl was begun |
| `<requests>:controls` | string | what operators wish (JSON) |
| `<requests>:limits` | hash | domain → how many a second, how many at once |
| `<requests>:due` | sorted set | domain with waiting entries → when the next may go, in milliseconds |
| `<requests>:domain:<domain>` | sorted set | the entries that wait for their domain's turn |
| `<requests>:budgets` | hash | domain → tokens and since when; `#` and domain → how many are in flight |
| `<requests>:rate` | hash | `p` or `i` and tens of seconds → pages or items |
| `<requests>:staging` | hash | entry in hand → how many of its items went ahead |
| `<requests>:staged:<id>` | list | those items, until they are delivered |
| `<requests>:outgoing` | list | acknowledged entries whose items are being delivered: id, how many are |
| `<requests>:drains` | hash | sink → the last item of the stream that it has, until when items are held for it (ms) |
| `crawlctl:crawls` | hash | crawl → what its workers brought (JSON) |
| `crawlctl:runs` | sorted set | crawl and run → when that run was over, in milliseconds; kept for a week; |
| | | and crawl, last worker, pages and items (JSON) → when the crawl was over |
| `crawlctl:workers` | hash | worker → its crawl |
| `crawlctl:garbage` | list | seen sets that were cleared and are dropped part by part |
"""

from __future__ import annotations

from toolkit.model.crawls import CrawlKeys
from toolkit.model.errors import ConfigurationError
from toolkit.model.names import CrawlId, WorkerName

CLUSTERS = "crawlctl:{"
REGISTRY, RUNS, HOMES, GARBAGE = "crawlctl:crawls", "crawlctl:runs", "crawlctl:workers", "crawlctl:garbage"


def default_keys(crawl: CrawlId) -> CrawlKeys:
    """Return the names that a crawl has unless its settings say otherwise: scrapy-redis' own."""
    return CrawlKeys(
        requests=f"{crawl}:requests", seen=f"{crawl}:dupefilter", seeds=f"{crawl}:start_urls", items=f"{crawl}:items"
    )


class FrontierKeys:
    """The key names of one crawl.

    Raises:
        ConfigurationError: one is of crawlctl's own names: who may work on crawls alone could have put it into their
            registry, so that somebody with more rights works on it for him.

    """

    def __init__(self, keys: CrawlKeys) -> None:
        for key in (keys.requests, keys.seen, keys.seeds, keys.items):
            if key.startswith(CLUSTERS) or key in {REGISTRY, RUNS, HOMES, GARBAGE}:
                raise ConfigurationError(f"a crawl's key cannot be {key!r}: crawlctl keeps something else there")
        below = f"{keys.requests}:"
        self.requests, self.seen, self.seeds, self.items = keys.requests, keys.seen, keys.seeds, keys.items
        self.state = f"{below}state"
        self.workers = f"{below}workers"
        self.standings = f"{below}standings"
        self.hands_prefix = f"{below}inflight:"
        self.suspects = f"{below}suspects"
        self.dead = f"{below}dead"
        self.blocked = f"{below}blocked"
        self.starts = f"{below}starts"
        self.controls = f"{below}controls"
        self.limits = f"{below}limits"
        self.due = f"{below}due"
        self.domain_prefix = f"{below}domain:"
        self.budgets = f"{below}budgets"
        self.rate = f"{below}rate"
        self.drains = f"{below}drains"

    @property
    def all(self) -> tuple[str, ...]:
        """The keys that every script of a crawl gets, in the order of `lua/crawl_rules.lua`."""
        return (
            *(self.requests, self.seen, self.seeds, self.items, self.state),
            *(self.workers, self.standings, self.hands_prefix, self.suspects, self.dead),
            *(self.blocked, self.starts, self.controls, self.limits, self.due),
            *(self.domain_prefix, self.budgets, self.rate, GARBAGE),
            *(REGISTRY, RUNS, HOMES),
        )

    def hands(self, worker: WorkerName) -> str:
        """Name the hash of what a worker holds."""
        return f"{self.hands_prefix}{worker}"

    def domain(self, domain: str) -> str:
        """Name the queue of a domain that has a budget."""
        return f"{self.domain_prefix}{domain}"
