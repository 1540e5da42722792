"""The inventory that a user starts with can be used as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.config.inventory import Inventory, load
from toolkit.config.inventory.sample import annotated_inventory, password_variable
from toolkit.config.paths import sample_file
from toolkit.config.project import DeployTarget
from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret


def loaded(folder: Path, text: str, environ: dict[str, str] | None = None) -> Inventory:
    path = folder / "inventory.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, environ=environ or {})


def test_without_targets_it_is_the_sample_itself() -> None:
    assert annotated_inventory() == sample_file("inventory.yaml").read_text(encoding="utf-8")


def test_every_target_becomes_a_host(tmp_path: Path) -> None:
    targets = [
        DeployTarget("default", "http://localhost:6800/"),
        DeployTarget("eu 1", "https://x.example.com/scrapyd/", username="me", password=Secret("s3cret")),
        DeployTarget("again", "https://x.example.com/scrapyd"),
        DeployTarget("null", "http://[::1]"),
        DeployTarget("broken", "ftp://x"),
    ]
    text = annotated_inventory(targets)
    environ = {password_variable("eu-1"): "hunter2"}
    hosts = loaded(tmp_path, text, environ).hosts
    assert [(host.name, host.url) for host in hosts] == [
        ("default", "http://localhost:6800"),
        ("eu-1", "https://x.example.com:443/scrapyd"),
        ("null", "http://[::1]:80"),
    ]
    assert (hosts[1].username, hosts[1].password) == ("me", Secret("hunter2"))
    assert "# target again: the same node as eu-1" in text
    assert "# target broken: it has no http or https URL" in text


def test_a_password_within_a_url_is_not_copied() -> None:
    text = annotated_inventory([DeployTarget("a", "http://me:hunter2@x:6800")])
    assert "hunter2" not in text
    assert "username: me" in text
    assert "{env: CRAWLCTL_PASSWORD_A}" in text


def test_targets_without_any_url_are_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        annotated_inventory([DeployTarget("a", None)])
    assert "crawlctl init" in (caught.value.hint or "")


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(max_size=12), st.integers(1, 9)), min_size=1, max_size=5))
def test_whatever_the_targets_are_called_the_result_loads(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[str, int]]
) -> None:
    targets = [
        DeployTarget(name, f"http://x:{port}", username="u", password=Secret("s3cret")) for name, port in written
    ]
    text = annotated_inventory(targets)
    names = {line.strip().rstrip(":").strip('"') for line in text.splitlines()}
    environ = {password_variable(name): "p" for name in names}
    hosts = loaded(tmp_path_factory.getbasetemp(), text, environ).hosts
    assert len(hosts) == len({port for _, port in written})
