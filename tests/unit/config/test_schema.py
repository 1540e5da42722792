"""The JSON Schema and the loader say the same of an inventory's form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from toolkit.config.inventory import load
from toolkit.config.inventory.schema import json_schema
from toolkit.config.paths import sample_file
from toolkit.model.errors import InventoryError

GOOD = [
    "hosts: {a: }",
    "redis: rediss+sentinel://h:1/main/2\nhosts: {a: }",
    "redis: rediss://h:1/2\nhosts: {a: {port: 1, scheme: https, path: /x, timeout_s: 0.5, slots: 3}}",
    "redis: null\ndefaults:\ngroups:\nhosts: {'a[1:3].x': {labels: {a: 1, b: yes, c: x}}}",
    "hosts: {a: {ssh: {user: u, port: 22, key: k}}}",
    "hosts: {a: {username: null, password: null, slots: null, labels: , ssh: }}",
    "hosts: {a: {username: 12, password: 34}}",
    "hosts: {a: {address: '::1', connection: local, kind: stock}}",
    "redis: redis://h\ncluster: staging-2\nhosts: {a: }",
    "hosts: {a: {username: {env: NOT_SET, default: me}, ssh: {user: {command: [echo, x]}}}}",
    "hosts: {a: , b: }\ngroups: {g: {hosts: [a], vars: {port: 7}}, h: {children: [g], vars: }}",
]
BAD = [
    "redis: redis://h",
    "redis: 6379\nhosts: {a: }",
    "hosts: {a: {path: 7}}",
    "cluster: a b\nhosts: {a: }",
    "cluster: null\nhosts: {a: }",
    "hosts: {a: {kind: plugin}}",
    "hosts: ",
    "hosts: []",
    "hosts: {}",
    "hosts: {a: 1}",
    "hosts: {-a: }",
    "hosts: {all: }",
    "hosts: {'a[1-3]': }",
    "hosts: {a: }\nextra: 1",
    "hosts: {a: {prot: 1}}",
    "hosts: {a: {port: 0}}",
    "hosts: {a: {port: 65536}}",
    "hosts: {a: {port: x}}",
    "hosts: {a: {port: '1'}}",
    "hosts: {a: {port: null}}",
    "hosts: {a: {timeout_s: 0}}",
    "hosts: {a: {timeout_s: -1}}",
    "hosts: {a: {slots: 0}}",
    "hosts: {a: {scheme: ftp}}",
    "hosts: {a: {path: x}}",
    "hosts: {a: {address: 'http://x'}}",
    "hosts: {a: {username: 'a:b'}}",
    "hosts: {a: {password: ''}}",
    "hosts: {a: {connection: paramiko}}",
    "hosts: {a: {labels: [x]}}",
    "hosts: {a: {labels: {'a=b': x}}}",
    "hosts: {a: {labels: {a: null}}}",
    "hosts: {a: {ssh: {host: x}}}",
    "hosts: {a: {ssh: {user: -x}}}",
    "hosts: {a: {username: {env: 'A B'}}}",
    "hosts: {a: {username: {env: A, file: b}}}",
    "hosts: {a: {username: {file: a, default: b}}}",
    "hosts: {a: {username: {command: echo}}}",
    "hosts: {a: {username: {}}}",
    "redis: mysql://h\nhosts: {a: }",
    "hosts: {a: }\ngroups: {g: }",
    "hosts: {a: }\ngroups: {g: {}}",
    "hosts: {a: }\ngroups: {g: {hosts: []}}",
    "hosts: {a: }\ngroups: {g: {hosts: {a: }}}",
    "hosts: {a: }\ngroups: {g: {hosts: [a], port: 1}}",
    "hosts: {a: }\ngroups: {all: {hosts: [a]}}",
    "hosts: {a: }\ngroups: {'g*': {hosts: [a]}}",
]


def is_valid(text: str) -> bool:
    return bool(Draft202012Validator(json_schema()).is_valid(yaml.safe_load(text)))


def is_loaded(folder: Path, text: str) -> bool:
    path = folder / "inventory.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        load(path)
    except InventoryError:
        return False
    return True


def test_the_schema_is_a_schema_and_json() -> None:
    Draft202012Validator.check_schema(json_schema())
    assert json.loads(json.dumps(json_schema())) == json_schema()


def test_the_sample_fits_the_schema() -> None:
    assert is_valid(sample_file("inventory.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("text", GOOD)
def test_loader_and_schema_accept_the_same(tmp_path: Path, text: str) -> None:
    assert is_valid(text)
    assert is_loaded(tmp_path, text)


@pytest.mark.parametrize("text", BAD)
def test_loader_and_schema_refuse_the_same(tmp_path: Path, text: str) -> None:
    assert not is_valid(text)
    assert not is_loaded(tmp_path, text)


def test_every_option_is_described_for_editors() -> None:
    properties = json_schema()["$defs"]["variables"]["properties"]
    assert properties["port"]["default"] == 6800
    assert properties["port"]["description"].endswith(".")
