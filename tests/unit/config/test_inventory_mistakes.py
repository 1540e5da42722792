"""Every mistake of an inventory is reported at its place, with the nearest right word, all at once."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolkit.config.inventory import load
from toolkit.model.errors import ConfigurationError, InventoryError


def mistakes(folder: Path, text: str | bytes) -> list[str]:
    """Give the mistakes as `line:column: text`."""
    path = folder / "inventory.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(InventoryError) as caught:
        load(path, environ={"SET": "secret-text", "EMPTY": ""})
    assert all(each.file == str(path) for each in caught.value.mistakes)
    return [f"{each.line}:{each.column}: {each.text}" for each in caught.value.mistakes]


def test_all_mistakes_come_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """\
redis: http://:hunter2@localhost:6379
defualts_: {}
hosts:
  node-1: {prot: 6800}
  node-2:
    port: 99999
    password: {env: CRAWL_PASSWORD}
    scheme: htps
  node-[3:1]:
groups:
  eu: {hosts: [node-1, nod-2], vars: {ssh: {usr: me}}}
  all: {hosts: [node-1]}
  empty: {hosts: []}
"""
    assert mistakes(tmp_path, text) == [
        (
            "1:8: redis is a URL that begins with redis://, rediss://, unix://, redis+sentinel:// or "
            "rediss+sentinel://, not with http://"
        ),
        "2:1: unknown key 'defualts_': did you mean 'defaults'?",
        "4:12: unknown key 'prot': did you mean 'port'?",
        "6:11: port is a whole number from 1 to 65535, not '99999'",
        "7:15: the environment variable CRAWL_PASSWORD is not set",
        "8:13: scheme is http or https, not 'htps': did you mean 'https'?",
        "9:3: range [3:1] runs backwards: write [1:3]",
        "11:24: no host 'nod-2' under hosts: did you mean 'node-2'?",
        "11:45: unknown key 'usr': did you mean 'user'?",
        "12:3: the group 'all' exists already: it is every host, and its variables are defaults",
        "13:11: the list of hosts of group 'empty' is empty",
    ]


ONE_MISTAKE = [
    ("", "1:1: the inventory is empty"),
    ("# only words\n", "1:1: the inventory is empty"),
    ("hosts:\n", "1:1: the inventory names no hosts"),
    ("redis: redis://h/0\n", "1:1: the inventory names no hosts"),
    ("- a\n", "1:1: the inventory is written as `name: value` lines"),
    ("hosts: {a: , a: }", "1:14: 'a' is written twice, first in line 1"),
    ("hosts:\n  a-[1:3]:\n  a-2:\n", "3:3: host 'a-2' is named twice, first in line 2"),
    ("hosts: [a]", "1:8: hosts is written as `name: value` lines"),
    ("hosts: {a: 6800}", "1:12: host a is written as `name: value` lines"),
    ("hosts: {a b: }", "1:9: 'a b' is no name of a host or group"),
    ("hosts: {all: }", "1:9: a host cannot be named 'all'"),
    ("hosts: {a: {port: '6800'}}", "1:19: port is a whole number from 1 to 65535, written without quotes"),
    ("hosts: {a: {port: 0}}", "1:19: port is a whole number from 1 to 65535, not '0'"),
    ("hosts: {a: {port: 68_00}}", "1:19: port is a whole number from 1 to 65535, not '68_00'"),
    ("hosts: {a: {port: [1]}}", "1:19: port is one value, not a list"),
    ("hosts: {a: {port: }}", "1:13: port has no value: it is a whole number from 1 to 65535"),
    ("hosts: {a: {timeout_s: 0}}", "1:24: timeout_s is a number greater than 0 and at most 86400, not '0'"),
    ("hosts: {a: {timeout_s: .inf}}", "1:24: timeout_s is a number greater than 0 and at most 86400, not '.inf'"),
    ("hosts: {a: {timeout_s: 1e999}}", "1:24: timeout_s is a number"),
    ("hosts: {a: {slots: 0}}", "1:20: slots is a whole number from 1 to 10000, not '0'"),
    ("hosts: {a: {address: 'http://x'}}", "1:22: address is a host name or IP address, without scheme, port or path"),
    ("hosts: {a: {address: -oProxyCommand=x}}", "1:22: address is a host name"),
    ("hosts: {a: {path: scrapyd}}", "1:19: path is a URL path that begins with /, not 'scrapyd'"),
    ("hosts: {a: {username: 'a:b'}}", "1:23: username is a text without colons and spaces, not 'a:b'"),
    ("hosts: {a: {connection: shh}}", "1:25: connection is local or ssh, not 'shh': did you mean 'ssh'?"),
    ("hosts: {a: {ssh: {user: -x}}}", "1:25: ssh.user is a user name, not '-x'"),
    ("hosts: {a: {labels: {'a:b': x}}}", "1:22: 'a:b' is no label"),
    ("hosts: {a: {labels: {a: }}}", "1:22: labels.a has no value"),
    ("hosts: {a: {groups: x}}", "1:13: unknown key 'groups': it belongs at the top of the file"),
    ("port: 1\nhosts: {a: }", "1:1: unknown key 'port': it is a host variable"),
    ("hosts: {a: {zzz: 1}}", "1:13: unknown key 'zzz': host a has address, port"),
    ("hosts: {a: {username: {evn: X}}}", "1:23: username is one value, or comes from {env: NAME}"),
    ("hosts: {a: {username: {env: X, file: y}}}", "1:23: username is one value, or comes from {env: NAME}"),
    ("hosts: {a: {username: {env: SET, dflt: y}}}", "1:34: unknown key 'dflt' beside 'env'"),
    ("hosts: {a: {username: {env: 'A B'}}}", "1:23: username from env wants the name of an environment variable"),
    ("hosts: {a: {username: {env: SETT}}}", "1:23: the environment variable SETT is not set: did you mean 'SET'?"),
    ("hosts: {a: {username: {env: EMPTY}}}", "1:23: the environment variable EMPTY is empty"),
    ("hosts: {a: {port: {env: NOT, default: x}}}", "1:39: port is a whole number from 1 to 65535, not 'x'"),
    ("hosts: {a: {username: {command: echo x}}}", "1:23: username from command wants a list of texts"),
    ("hosts: {a: {username: {command: []}}}", "1:23: username from command wants a list of texts"),
    ("hosts: {a: {address: x}, b: {address: X}}", "1:26: b listens where a does: http://X:6800"),
    ("hosts: {'a[1:9]': {connection: local}}", "1:9: a2 listens where a1 does: http://127.0.0.1:6800"),
    ("hosts: {a: {password: x}}", "1:9: a has a password but no username"),
    ("hosts: {a: }\ngroups: {g: }", "2:10: group 'g' is empty"),
    ("hosts: {a: }\ngroups: {g: {hosts: a}}", "2:21: hosts of group 'g' are a list of names"),
    ("hosts: {a: }\ngroups: {g: {hosts: }}", "2:14: the list of hosts of group 'g' is empty"),
    ("hosts: {a: }\ngroups: {g: {hosts: ['a[1:3]']}}", "2:22: no host 'a1' under hosts (and 2 more of a[1:3])"),
    ("hosts: {a: }\ngroups: {g: {hosts: ['*']}}", "2:22: '*' is no name of a host or group"),
    ("hosts: {a: }\ngroups: {g: {children: [h]}}", "2:25: no group 'h'"),
    ("hosts: {a: }\ngroups: {g: {children: [a]}}", "2:25: 'a' is a host: name it under hosts of group 'g'"),
    ("hosts: {a: }\ngroups: {a: {hosts: [a]}}", "2:10: group 'a' has the name of a host"),
    ("hosts: {a: }\ngroups: {g: {children: [g]}}", "2:25: groups hold each other in a circle: g > g"),
    (
        "hosts: {a: }\ngroups: {g: {children: [h]}, h: {children: [i]}, i: {children: [g], hosts: [a]}}",
        "2:65: groups hold each other in a circle: g > h > i > g",
    ),
    ("hosts: {a: {port: 1}\n", "2:1: this is not YAML: "),
    ("hosts:\n\ta: 1\n", "2:1: this is not YAML: "),
    ("hosts: *x", "1:8: this is not YAML: found undefined alias"),
    ("hosts: {a: }\n---\nb: 1\n", "2:1: this is not YAML: "),
    ("hosts: [n-[1:3]: ]", "1:11: this is not YAML: "),
    ("hosts: !!python/object:os.system {a: }", "1:8: the tag !!python/object:os.system has no meaning here"),
    ("hosts: {a: {username: !secret x}}", "1:23: the tag !secret has no meaning here"),
    ("hosts: {? [b] : 1, a: }", "1:11: a name is a plain text"),
    ("hosts: {a: {<<: 1}}", "1:17: << merges a mapping"),
    (b"hosts:\n  \xff: 1", "2:3: this is not UTF-8 text"),
    ("hosts:\n  a\x01: 1", "2:4: this character cannot stand in YAML"),
    ("redis: redis://:pa#ss@h/0\nhosts: {a: }", "1:8: redis is a URL like redis://HOST:PORT/DATABASE"),
    ("redis: redis://h:port/0\nhosts: {a: }", "1:8: redis is a URL like redis://HOST:PORT/DATABASE"),
    ("redis: {env: SET}\nhosts: {a: }", "1:8: what the environment variable SET gives is wrong: redis is a URL"),
]


@pytest.mark.parametrize(("text", "wanted"), ONE_MISTAKE)
def test_a_mistake_is_found_where_it_stands(tmp_path: Path, text: str | bytes, wanted: str) -> None:
    found = mistakes(tmp_path, text)
    assert len(found) == 1, found
    assert found[0].startswith(wanted)


@pytest.mark.parametrize("opener", ["[", "{a: ", "- ", "? "])
def test_a_file_nested_too_deep_is_refused_and_crashes_nothing(tmp_path: Path, opener: str) -> None:
    (found,) = mistakes(tmp_path, "hosts: {a: }\nx:\n  " + opener * 20_000)
    assert found.endswith("more than 50 levels deep")


def test_a_name_with_a_range_in_a_list_is_told_to_want_quotes(tmp_path: Path) -> None:
    (found,) = mistakes(tmp_path, "hosts: {a: }\ngroups: {g: {hosts: [n-[1:3]]}}")
    assert found.endswith("(inside [ ], a name with a range wants quotes)")


@pytest.mark.parametrize(
    "text",
    [
        "redis: http://:hunter2@h\nhosts: {a: }",
        "redis: hunter2\nhosts: {a: }",
        "redis: redis://:hun#ter2@h/0\nhosts: {a: }",
        "hosts: {a: {password: [hunter2]}}",
        "hosts: {a: {password: {hunter2: x}}}",
        'hosts: {a: {password: "hunter2\\nx"}}',
        "hosts: {a: {port: {command: [echo, hunter2]}}}",
        "hosts: {a: {username: u, password: {command: [sh, -c, 'echo hunter2; exit 3']}}}",
    ],
)
def test_no_mistake_repeats_a_secret(tmp_path: Path, text: str) -> None:
    assert not [found for found in mistakes(tmp_path, text) if "hunter2" in found.replace("unknown key", "")]


def test_a_file_that_is_not_there_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        load(tmp_path / "inventory.yaml")


WORDS = [
    "hosts",
    "groups",
    "defaults",
    "redis",
    "a",
    "b",
    "port",
    "vars",
    "children",
    "<<",
    "env",
    "[1:3]",
    "1",
    "&x",
    "*x",
]
trees = st.recursive(
    st.sampled_from([*WORDS, "null", "", "~", "!t x"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.lists(st.tuples(st.sampled_from(WORDS), inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        ),
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.one_of(trees, st.text(max_size=60)))
@example("x: &a {<<: *a, y: *a}\nhosts: *a")
@example("hosts: &h {a: }\ngroups: {g: &g {children: [g], hosts: *h, vars: *g}}")
def test_any_file_is_read_or_refused_with_places(text: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "inventory.yaml"
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            load(path, resolve=False)
        except InventoryError as error:
            found = error.mistakes
            lines = (
                text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + text.count("\u2029")
            )
        else:
            return
    assert found
    assert all(1 <= each.line <= lines + 2 and each.column >= 1 for each in found)
