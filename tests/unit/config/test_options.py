"""The option table agrees with the nouns that it fills, and describes itself."""

from __future__ import annotations

from toolkit.config.options import OPTIONS, Scope, keys, markdown_table, option, options
from toolkit.model.hosts import Host
from toolkit.model.names import NodeName


def test_every_default_is_that_of_a_plain_host() -> None:
    plain = Host(name=NodeName("node-1"))
    for each in options(Scope.HOST):
        if each.name not in ("address", "labels", "password"):
            holder = plain.ssh if each.name.startswith("ssh.") else plain
            assert getattr(holder, each.name.removeprefix("ssh.")) == each.default, each.name


def test_every_variable_is_a_field_of_a_host_and_every_field_a_variable() -> None:
    fields = set(Host.__dataclass_fields__) - {"name", "groups"}
    assert set(keys(Scope.HOST)) == fields
    assert keys(Scope.HOST, within="ssh") == ("user", "port", "key")


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
