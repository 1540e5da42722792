"""The option table agrees with the nouns that it fills, and describes itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.config.options import OPTIONS, Option, Scope, keys, markdown_table, option, options
from toolkit.config.values import parse_value
from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Host, Provisioning, SshAddress
from toolkit.model.names import DEFAULT_CLUSTER, NodeName
from toolkit.model.nodes import DEFAULT_LEASE_S
from toolkit.store.interfaces_queue import MAX_EGG_BYTES
from toolkit.store.keys import Keys

ROOT = Path(__file__).parents[3]


def test_every_default_is_that_of_a_plain_host() -> None:
    plain = Host(name=NodeName("node-1"))
    for each in options(Scope.HOST):
        section, _, inner = each.name.rpartition(".")
        if section == "node":
            assert each.default is None, each.name  # the node's own default holds
        elif each.name not in ("address", "labels", "password"):
            holder = getattr(plain, section) if section else plain
            assert getattr(holder, inner) == each.default, each.name


def test_every_variable_is_a_field_of_a_host_and_every_field_a_variable() -> None:
    fields = set(Host.__dataclass_fields__) - {"name", "groups"}
    assert set(keys(Scope.HOST)) == fields
    assert keys(Scope.HOST, within="ssh") == tuple(SshAddress.__dataclass_fields__)
    assert keys(Scope.HOST, within="provision") == tuple(Provisioning.__dataclass_fields__)


def test_no_option_is_written_twice() -> None:
    assert len({(each.scope, each.name) for each in OPTIONS}) == len(OPTIONS)


def test_every_meaning_is_one_sentence() -> None:
    assert all(each.meaning.endswith(".") and "\n" not in each.meaning for each in OPTIONS)


def test_the_table_of_a_scope_has_a_line_for_each_option() -> None:
    lines = markdown_table(Scope.HOST).splitlines()
    assert len(lines) == 2 + len(options(Scope.HOST))
    assert "| `timeout_s` | a number greater than 0 and at most 86400, in seconds | `10.0` |" in "\n".join(lines)


def test_a_type_is_said_in_words() -> None:
    assert option(Scope.HOST, "port").type_words == "a whole number from 1 to 65535"
    assert option(Scope.HOST, "scheme").type_words == "http or https"


@pytest.mark.parametrize("each", [each for each in OPTIONS if each.default is not None], ids=lambda each: each.name)
def test_a_default_is_a_value_of_its_option(each: Option) -> None:
    if (each.scope, each.name) != (Scope.HOST, "path"):
        text = f"{each.default:g}" if isinstance(each.default, float) else str(each.default)
        assert parse_value(each, text) is not None


def test_a_node_and_its_inventory_mean_the_same_cluster_unless_told_otherwise() -> None:
    defaults = {option(scope, "cluster").default for scope in (Scope.INVENTORY, Scope.NODE)}
    assert defaults == {DEFAULT_CLUSTER}
    assert option(Scope.NODE, "lease_s").default == DEFAULT_LEASE_S
    assert option(Scope.NODE, "max_egg_mb").default == MAX_EGG_BYTES // 1_000_000


@pytest.mark.parametrize("scope", [Scope.INVENTORY, Scope.NODE])
def test_a_cluster_has_a_name_exactly_if_the_store_can_use_it(scope: Scope) -> None:
    for name in ("main", "a.b-c_D1", "", "x" * 101, "a b", "{a}", "é"):
        assert _takes(option(scope, "cluster"), name) is _is_a_cluster(name), name


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "labels",
            ["", "region=eu", "region = eu, size=big", "a/b=", "x=1,y=2", "a=b=c"],
            ["region", "=eu", "a=1,,", "a=1,b"],
        ),
        ("address", ["node-1:6800", "192.0.2.1:1", "[::1]:6800"], ["node-1", "http://node-1:1", ":6800", "::1:6800"]),
        ("redis", ["redis://:p@h:1/0", "unix:///r.sock"], ["h:6379", "redis://h/x", "http://h"]),
        ("lease_s", ["1", "0.5e1", "3600"], ["0.5", "0", "3601", "15s", ""]),
        ("redis_file", ["redis.url", "/etc/a b/c"], ["", " "]),
        ("max_egg_mb", ["1", "64"], ["0", "6.4"]),
    ],
)
def test_a_node_s_option_takes_what_it_says(name: str, good: list[str], bad: list[str]) -> None:
    wanted = option(Scope.NODE, name)
    assert [text for text in good if not _takes(wanted, text)] == []
    assert [text for text in bad if _takes(wanted, text)] == []


def test_a_refused_redis_url_of_a_node_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_value(option(Scope.NODE, "redis"), "http://:hunter2@h")
    assert "hunter2" not in caught.value.message


def test_the_option_table_loads_nothing_that_a_node_does_without() -> None:
    code = "import sys; import toolkit.config.options, toolkit.config.values; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(ended.stdout.split())
    assert {"yaml", "typer", "rich", "redis", "urllib3"} & loaded == set()
    assert not [name for name in loaded if name.startswith(("toolkit.config.inventory", "toolkit.store"))]


def _takes(wanted: Option, text: str) -> bool:
    try:
        parse_value(wanted, text)
    except ConfigurationError:
        return False
    return True


def _is_a_cluster(name: str) -> bool:
    try:
        Keys(name)
    except ConfigurationError:
        return False
    return True
