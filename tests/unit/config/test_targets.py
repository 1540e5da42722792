"""The deploy targets of a scrapy.cfg as an inventory of last resort."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.config.inventory.targets import inventory_of_targets
from toolkit.config.project import DeployTarget
from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret


def test_each_target_is_a_host_with_its_prefix_and_credentials() -> None:
    targets = [
        DeployTarget("eu 1", "https://x.example.com/scrapyd/", username="me", password=Secret("pw")),
        DeployTarget("us", "http://10.0.0.9:6800"),
    ]
    one, two = inventory_of_targets(Path("scrapy.cfg"), targets).hosts
    assert (one.name, one.url, one.username, one.password) == (
        "eu-1",
        "https://x.example.com:443/scrapyd",
        "me",
        Secret("pw"),
    )
    assert (two.name, two.url, two.password) == ("us", "http://10.0.0.9:6800", None)


def test_a_node_named_by_two_targets_is_one_host() -> None:
    targets = [DeployTarget(name, "http://10.0.0.9:6800/") for name in ("default", "again")]
    assert [host.name for host in inventory_of_targets(Path("scrapy.cfg"), targets).hosts] == ["default"]


def test_targets_without_a_usable_url_are_no_inventory() -> None:
    with pytest.raises(ConfigurationError, match="http or https"):
        inventory_of_targets(Path("scrapy.cfg"), [DeployTarget("odd", "ftp://x")])
