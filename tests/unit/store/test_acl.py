"""The rules of each Redis user cover what its part of crawlctl sends, and open nothing that is not its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path

import pytest

from toolkit.model.errors import ConfigurationError, StoreUnreachableError
from toolkit.model.hosts import Secret
from toolkit.store import acl
from toolkit.store.acl import COMMANDS, RedisUser, Role, users_of
from toolkit.store.connect import RedisDoor
from toolkit.store.keys import Keys
from toolkit.store.redis_errors import LACKS
from toolkit.store.redis_users import RedisUsers

STORE = Path(str(resources.files("toolkit.store")))
# What a script puts together at run time.
BUILT = {"crawl_commit": {"spop", "lpop"}, "crawl_rules": {"zpopmax", "zpopmin", "llen", "scard", "zcard"}}
BUILT |= {"crawl_seen": {"bitfield"}, "enqueue_rules": {"hset", "zadd"}}
OF_OPERATORS = {
    *("activate", "record", "sign", "note", "lock", "renew", "unlock", "forget", "forget_nodes", "offer"),
    *("withdraw_offer", "begin_rollout", "update_rollout", "add_jobs", "update_jobs", "set_aside", "list_items", "ask"),
    *("drop_items", "crawl_deliver"),
    *("crawl_bring", "crawl_clear", "crawl_controls", "crawl_limit", "crawl_remember", "crawl_unblock"),
    *("cancel", "change_pending", "retry", "put_alerts"),
}
OF_SPIDERS = {"crawl_join", "crawl_commit", "crawl_renew", "crawl_rejoin", "crawl_leave", "crawl_sweep"}
OF_BOTH = {"crawl_leave"}
PLAIN = {
    Role.SPIDER: ("redis_frontier", "redis_sweep"),
    Role.NODE: (
        *("redis_queue", "redis_nodes", "redis_calls", "redis_redials", "redis_jobs", "redis_eggs"),
        *("redis_crons", "redis_events", "redis_alerts", "redis_crawl_ends", "redis_logs", "redis_samples"),
    ),
    Role.OPERATOR: (
        *("redis_releases", "redis_audit", "redis_rollouts", "redis_crawls", "redis_crawl_views", "redis_crawl_seen"),
        *("redis_foreign", "redis_store", "redis_measures", "redis_crawl_sizes"),
    ),
}
NOT_COMMANDS = {"COUNT", "LIMIT", "WITHSCORES", "MAXLEN", "MINID", "LEFT", "WHOAMI", "BLOCK", "STREAMS", "WITHVALUES"}
NOT_OURS = {"redis_errors", "redis_health", "redis_settings", "redis_users"}


def scripts() -> list[str]:
    return sorted(path.stem for path in (STORE / "lua").glob("*.lua"))


def sent_by(script: str) -> set[str]:
    text = (STORE / "lua" / f"{script}.lua").read_text()
    found = {name.lower() for name in re.findall(r'redis\.p?call\("([A-Za-z]+)"', text)} | BUILT.get(script, set())
    included = re.search(r"^-- INCLUDES: (\w+)$", text, re.MULTILINE)
    return found | (sent_by(included[1]) if included else set())


def roles_of(script: str) -> Iterator[Role]:
    yield Role.OPERATOR
    if script not in OF_OPERATORS:
        yield Role.SPIDER if script in OF_SPIDERS else Role.NODE
    if script in OF_BOTH:
        yield Role.NODE


@pytest.mark.parametrize("script", scripts())
def test_whoever_runs_a_script_may_do_what_it_does(script: str) -> None:
    for role in roles_of(script):
        assert sent_by(script) <= COMMANDS[role], role


def test_a_script_builds_no_command_that_nobody_wrote_down() -> None:
    built = {
        path.stem for path in (STORE / "lua").glob("*.lua") if re.search(r"redis\.p?call\([^\"]", path.read_text())
    }
    assert built == set(BUILT)


@pytest.mark.parametrize("role", list(Role))
def test_each_role_may_send_the_plain_commands_of_its_modules(role: Role) -> None:
    for module in PLAIN[role]:
        sent = set(re.findall(r'"([A-Z]{3,})"', (STORE / f"{module}.py").read_text())) - NOT_COMMANDS
        assert {name.lower() for name in sent} <= COMMANDS[role], module


def test_every_module_that_speaks_to_redis_belongs_to_a_role() -> None:
    assert {path.stem for path in STORE.glob("redis_*.py")} == {
        each for part in PLAIN.values() for each in part
    } | NOT_OURS


def may_reach(user: RedisUser, key: str) -> bool:
    """Read Redis' patterns as Python's, which writes `[^` as `[!`."""
    patterns = [rule.partition("~")[2] for rule in user.keys if not rule.startswith("%R")]
    return any(fnmatchcase(key, pattern.replace("[^", "[!")) for pattern in patterns)


OPERATOR, NODE, SPIDER = users_of("main")


@pytest.mark.parametrize(
    "crawl", ["shop", "c", "crawl", "crawlctl", "crawlctlx", "cr:x", "requests", "über", "crawlctl-2", "a{main}b"]
)
@pytest.mark.parametrize("rest", ["requests", "requests:state", "dupefilter", "dupefilter:1:2", "start_urls", "items"])
def test_a_spider_reaches_every_key_that_a_crawl_has_by_default(crawl: str, rest: str) -> None:
    assert may_reach(SPIDER, f"{crawl}:{rest}")


@pytest.mark.parametrize("project", ["shop", "requests", "items", "start_urls", "dupefilter", "x:requests"])
def test_a_spider_reaches_no_key_of_any_cluster_whatever_its_projects_are_called(project: str) -> None:
    for cluster in ("main", "other"):
        keys = Keys(cluster)
        of_the_project = (keys.releases, keys.lock, keys.holders, keys.history)
        assert not any(may_reach(SPIDER, name(project)) for name in of_the_project)  # type: ignore[arg-type]
        plain = [value for value in vars(keys).values() if isinstance(value, str) and value.startswith("crawlctl:")]
        assert not any(may_reach(SPIDER, key) for key in [*plain, keys.egg("aa"), keys.line_prefix + project])


def test_a_node_writes_nothing_that_releases_code() -> None:
    keys = Keys("main")
    forbidden = (keys.active, keys.offers, keys.projects, keys.releases("shop"), keys.lock("shop"), keys.audit)  # type: ignore[arg-type]
    assert not any(may_reach(NODE, key) for key in (*forbidden, keys.rollouts, keys.history("items")))  # type: ignore[arg-type]
    assert all(may_reach(NODE, key) for key in keys.queue)
    assert "%R~crawlctl:{main}:active" in NODE.keys


def test_nobody_may_administer_or_read_the_servers_password() -> None:
    for user in (OPERATOR, NODE, SPIDER):
        assert not {"config", "config|get", "acl", "acl|setuser", "flushall", "keys", "eval"} & set(user.commands)
        assert not any(command.startswith(("acl|", "config|")) for command in user.commands if command != "acl|whoami")


def test_a_user_is_what_its_rules_say_and_nothing_that_it_was_before() -> None:
    rules = SPIDER.rules("ab" * 32)
    assert rules[:3] == ("reset", "on", f"#{'ab' * 32}")
    assert "-@all" in rules
    assert not any(rule.startswith("&") for rule in rules)
    assert "&crawlctl:{main}:wake" in NODE.rules("ab" * 32)


def test_patterns_of_ones_own_join_those_of_the_crawls() -> None:
    _, node, spider = users_of("main", crawl_keys=("mine:*",))
    assert "~mine:*" in spider.keys
    assert "~mine:*" in node.keys
    assert len(acl.users_of("main")[2].keys) == len(spider.keys) - 1


@pytest.mark.parametrize("pattern", ["*", "crawl*", "?rawlctl:*", "crawlctl:{main}:*", "[a-z]*", "a b", "x~*", ""])
def test_a_pattern_that_would_open_a_clusters_keys_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError):
        users_of("main", crawl_keys=(pattern,))


def test_redis_7_0_gets_no_rule_about_a_command_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    users, asked = RedisUsers(Secret("redis://127.0.0.1:1/0")), list[tuple[str, ...]]()

    def ask(_: RedisDoor, *command: str) -> str:
        asked.append(command)
        if "+client|setinfo" in command:
            raise StoreUnreachableError(f"the shared store: {LACKS}")
        return "OK"

    monkeypatch.setattr(RedisDoor, "ask", ask)
    users.put(users_of("main")[0], Secret("hunter2"))

    assert set(asked[0]) - set(asked[1]) == {"+client|setinfo"}
    assert len(asked) == 2
