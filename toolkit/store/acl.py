"""The least rights that each role needs in Redis, as ACL rules (Redis 7). Pure.

| role | may |
|---|---|
| operator | all that `crawlctl` does: release, schedule, look, take crawls over; nothing that rules the server |
| node | take jobs and tell of them, read what is released, and give a crawl back what a lost worker held |
| spider | work on crawls, and nothing else: neither jobs nor releases, eggs, nodes or the audit are there for it |

A key that a script is given must be open to reading and writing, whatever it does with it (EVALSHA's key
specification). What a node only reads it reads by plain commands, so it cannot release anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from toolkit.model.errors import ConfigurationError
from toolkit.store.crawl_keys import GARBAGE, HOMES, REGISTRY, RUNS
from toolkit.store.keys import Keys


class Role(StrEnum):
    """Who speaks to Redis."""

    OPERATOR = "operator"
    NODE = "node"
    SPIDER = "spider"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONNECTION = frozenset(
    {"ping", "echo", "select", "time", "multi", "exec", "discard", "evalsha", "script|load", "client|setinfo"}
)
# What `lua/crawl_*.lua` calls, and what the projects of scrapy-redis are used to.
_FRONTIER = _words(
    "bitfield del exists expire get getrange hdel hexists hget hgetall hincrby hkeys hlen hmget hrandfield hset hsetnx"
    " hvals lindex llen lpop lpush lrange lrem lset ltrim persist rpop rpush sadd scard set setbit setrange sismember"
    " smembers spop srem sscan ttl type unlink xadd xlen zadd zcard zpopmax zpopmin zrange zrangebyscore zrem"
    " zremrangebyrank zremrangebyscore zscore zunionstore info wait"
)
_QUEUE = _words(
    "append blmpop del exists get hdel hexists hget hgetall hincrby hlen hmget hscan hset hvals incr lindex llen"
    " lpop lrange mget pexpire pexpireat publish pttl rpush sadd scard set smembers srem strlen subscribe type"
    " unlink unsubscribe zadd zcard zcount zrange zrangebylex zrangebyscore zrem zremrangebyrank zremrangebyscore"
    " zrevrange zrevrangebyscore zrevrank xrange xread xrevrange zscore client|info info wait"
)
_OPERATING = _words("hscan rename xadd xtrim acl|whoami")
# Not config|get: it tells the password of the default user.

COMMANDS = {
    Role.OPERATOR: _CONNECTION | _FRONTIER | _QUEUE | _OPERATING,
    Role.NODE: _CONNECTION | _FRONTIER | _QUEUE,
    Role.SPIDER: _CONNECTION | _FRONTIER,
}

_CRAWL_SUFFIXES = (":requests*", ":dupefilter*", ":start_urls", ":items", ":items:*")
_OURS = "crawlctl:{"
_NODE_READS = ("active", "offers", "projects", "releases:*", "rollouts:open")
_NODE_WRITES = (
    *("jobs", "jobs:*", "lines", "line:*", "places", "busy", "caps", "clock", "tokens", "nodes", "nodes:*", "wake"),
    *("changes", "eggs", "egg:*", "questions:*", "asker:*", "answer:*", "events", "watched", "duty:*"),
    *("crons", "crons:*", "measures", "samples", "samples:*", "alerts", "alerts:*", "logs:*"),
)


@dataclass(frozen=True, slots=True)
class RedisUser:
    """One user of a cluster: what it is called, and what it may do with which keys and channels."""

    role: Role
    name: str
    commands: tuple[str, ...]
    keys: tuple[str, ...]
    channels: tuple[str, ...]

    def rules(self, *password_sha256: str) -> tuple[str, ...]:
        """Return the arguments of ACL SETUSER after the name; what the user was before is forgotten."""
        return (
            *("reset", "on"),
            *(f"#{each}" for each in password_sha256),
            *self.keys,
            *(f"&{channel}" for channel in self.channels),
            *("-@all", *(f"+{command}" for command in self.commands)),
        )


def users_of(cluster: str, *, crawl_keys: tuple[str, ...] = ()) -> tuple[RedisUser, ...]:
    """Return the users of a cluster; `crawl_keys` are patterns of crawls' keys beside scrapy-redis' own names.

    Raises:
        ConfigurationError: the cluster's name cannot be one, or a pattern is none, or opens keys of a cluster.

    """
    keys = Keys(cluster)
    crawls = (*(f"~{key}" for key in (REGISTRY, RUNS, HOMES, GARBAGE)), *_crawl_patterns(crawl_keys))
    channels = (keys.wake,)
    node = (
        *(f"~{keys.prefix}{name}" for name in _NODE_WRITES),
        *(f"%R~{keys.prefix}{name}" for name in _NODE_READS),
    )
    return (
        _user(Role.OPERATOR, cluster, (f"~{keys.prefix}*", *crawls), channels),
        _user(Role.NODE, cluster, (*node, *crawls), channels),
        _user(Role.SPIDER, cluster, crawls, ()),
    )


def user_name(cluster: str, role: Role) -> str:
    """Return what the user of a role is called in Redis."""
    return f"crawlctl-{cluster}-{role}"


def _user(role: Role, cluster: str, keys: tuple[str, ...], channels: tuple[str, ...]) -> RedisUser:
    return RedisUser(role, user_name(cluster, role), tuple(sorted(COMMANDS[role])), keys, channels)


def _crawl_patterns(more: tuple[str, ...]) -> Iterator[str]:
    """Yield patterns of the keys that crawls have by default, none of which fits a key of any cluster.

    A project may be called `requests`, and then `releases:requests` is a key of its cluster. Patterns know no "but
    not", so what may stand before the suffix is spelled out: anything that differs from `crawlctl:{` somewhere.
    """
    for at, letter in enumerate(_OURS):
        for suffix in _CRAWL_SUFFIXES:
            yield f"~{_OURS[:at]}[^{letter}]*{suffix}"
    for end in range(1, len(_OURS) - 1):
        for suffix in _CRAWL_SUFFIXES:
            yield f"~{_OURS[:end]}{suffix}"
    for pattern in more:
        yield f"~{_checked(pattern)}"


def _checked(pattern: str) -> str:
    begins = re.split(r"[*?\[\\]", pattern, maxsplit=1)[0]
    if not pattern.isprintable() or any(mark in pattern for mark in " ~&%"):
        raise ConfigurationError(f"{pattern!r} cannot be a pattern of keys: write it as in 'mine:*'")
    if _OURS.startswith(begins) or begins.startswith(_OURS):
        raise ConfigurationError(
            f"the pattern {pattern!r} would open the clusters' own keys to spiders",
            hint="begin it with a name, as in 'mine:*'",
        )
    return pattern
