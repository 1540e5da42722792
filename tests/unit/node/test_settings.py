"""What a node makes of its scrapyd.conf and environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from scrapyd.config import Config

from toolkit.config.options import Scope, options
from toolkit.model.errors import ConfigurationError
from toolkit.node.settings import NodeSettings

URL = "redis://:s3cret@redis.example:6379/2"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scrapyd reads a scrapyd.conf that lies where it is started."""
    monkeypatch.chdir(tmp_path)


def config(own: Mapping[str, str] | None = None, **scrapyd: str) -> Config:
    made = Config()
    made.cp.add_section("crawlctl")
    for name, value in (own or {}).items():
        made.cp.set("crawlctl", name, value)
    for name, value in scrapyd.items():
        made.cp.set("scrapyd", name, value)
    return made


def test_with_a_redis_alone_everything_else_is_the_tables_default() -> None:
    settings = NodeSettings.read(config({"redis": URL}, node_name="node-7", max_proc="3"), environ={})

    assert settings.redis.reveal() == URL
    assert (settings.name, settings.slots, settings.address) == ("node-7", 3, "127.0.0.1:6800")
    for option in options(Scope.NODE):
        if option.default is not None:
            assert getattr(settings, option.name) == option.default, option.name


def test_an_empty_value_counts_as_none() -> None:
    settings = NodeSettings.read(config({"redis": URL, "lease_s": "", "labels": "", "address": ""}), environ={})

    assert settings.lease_s == 15.0
    assert settings.labels == {}


def test_the_environment_wins_over_the_file_and_the_file_over_the_option(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("redis://of-the-file:1/0\n")
    file.chmod(0o600)
    both = config({"redis": URL, "redis_file": str(file)})

    settings = NodeSettings.read(both, environ={})
    assert (settings.redis.reveal(), settings.redis_file) == ("redis://of-the-file:1/0", file)
    settings = NodeSettings.read(both, environ={"CRAWLCTL_REDIS": "redis://env:1/0"})
    assert (settings.redis.reveal(), settings.redis_file) == ("redis://env:1/0", None)


def test_labels_and_address_are_read() -> None:
    own = {"redis": URL, "labels": "region = eu, size=big", "address": "10.0.0.7:6811"}
    settings = NodeSettings.read(config(own), environ={})

    assert settings.labels == {"region": "eu", "size": "big"}
    assert settings.address == "10.0.0.7:6811"


def test_scrapyds_own_environment_variables_name_the_address() -> None:
    environ = {"SCRAPYD_BIND_ADDRESS": "::1", "SCRAPYD_HTTP_PORT": "7000"}

    assert NodeSettings.read(config({"redis": URL}), environ=environ).address == "[::1]:7000"


def test_slots_are_counted_as_scrapyd_counts_them() -> None:
    settings = NodeSettings.read(config({"redis": URL}, max_proc="0", max_proc_per_cpu="2"), environ={})

    assert settings.slots % 2 == 0
    assert settings.slots >= 2


def test_folders_are_absolute() -> None:
    settings = NodeSettings.read(config({"redis": URL}, dbs_dir="dbs", logs_dir=""), environ={})

    assert settings.state_dir == Path.cwd() / "dbs" / "node"
    assert settings.logs_dir is None


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({}, "this node has no Redis"),
        ({"redis": URL, "lease": "3"}, "no option 'lease': did you mean 'lease_s'?"),
        ({"redis": URL, "lease_s": "soon"}, "lease_s is a number from 1 to 3600, not 'soon'"),
        ({"redis": "http://:s3cret@x"}, "redis is a URL"),
        ({"redis_file": "/not/there"}, "redis_file /not/there cannot be read"),
        ({"redis": "redis://:s3/cret@x:1/0"}, "redis"),
    ],
)
def test_what_is_wrong_is_told_and_no_secret_with_it(own: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        NodeSettings.read(config(own), environ={})

    assert words in refusal.value.message
    assert "s3" not in refusal.value.message
