"""What a node makes of its scrapyd.conf and environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from scrapyd.config import Config

from toolkit.config.log_places import LogAddress
from toolkit.config.options import Scope, options
from toolkit.model.errors import ConfigurationError, MissingExtraError
from toolkit.node.settings import NodeSettings
from toolkit.node.shipping_settings import ShippingSettings
from toolkit.node.stopping import OnStop
from toolkit.store.interfaces_logs import LogTerms

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
    assert settings.shipping is None
    for option in options(Scope.NODE):
        if option.default is not None and not option.name.startswith("ship_logs"):
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


def test_what_becomes_of_spiders_at_a_stop_is_told_or_follows_from_what_ends_with_scrapyd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(**own: str) -> tuple[OnStop, float | None, str | None]:
        found = NodeSettings.read(config({"redis": URL, **own}), environ={})
        return found.on_stop, found.stop_grace_s, found.node_id

    assert read() == (OnStop.LEAVE, None, None)
    assert read(on_stop="drain", stop_grace_s="3590", node_id="a") == (OnStop.DRAIN, 3590.0, "a")
    monkeypatch.setattr("os.getpid", lambda: 1)
    assert read() == (OnStop.CLOSE, None, None)
    assert read(on_stop="leave") == (OnStop.LEAVE, None, None)


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
        ({"redis": URL, "on_stop": "wait"}, "on_stop is leave or close or drain, not 'wait'"),
        ({"redis": URL, "stop_grace_s": "0"}, "stop_grace_s is a number from 1 to 1000000, not '0'"),
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


def test_logs_are_shipped_to_where_the_node_is_told(tmp_path: Path) -> None:
    def shipping(**own: str) -> ShippingSettings | None:
        return NodeSettings.read(config({"redis": URL, **own}), environ={}).shipping

    assert shipping(ship_logs="off", ship_logs_url="s3://logs/shop") is None
    to_redis = shipping(ship_logs="redis")
    assert to_redis == ShippingSettings(None, 5_000_000, LogTerms(keep_s=7 * 86_400, max_total_bytes=256_000_000))
    to_folder = shipping(ship_logs="folder", ship_logs_folder=str(tmp_path), ship_logs_max_mb="1", ship_logs_days="0.5")
    assert to_folder == ShippingSettings(LogAddress(str(tmp_path)), 1_000_000, LogTerms(43_200, 256_000_000))
    to_s3 = shipping(ship_logs="s3", ship_logs_url="s3://logs/shop/", ship_logs_endpoint="http://minio:9000/")
    assert to_s3 is not None
    assert to_s3.address == LogAddress("s3://logs/shop", endpoint="http://minio:9000")


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({"ship_logs": "folder"}, "ship_logs = folder needs ship_logs_folder"),
        ({"ship_logs": "s3"}, "ship_logs = s3 needs ship_logs_url"),
        ({"ship_logs": "s3", "ship_logs_url": "https://logs"}, "s3://bucket"),
        ({"ship_logs": "s3", "ship_logs_url": "s3://logs", "ship_logs_keys": "/nowhere/keys"}, "cannot be read"),
        ({"ship_logs": "ftp"}, "off or redis or folder or s3"),
    ],
)
def test_a_place_for_logs_that_cannot_be_one_stops_the_start(own: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        NodeSettings.read(config({"redis": URL, **own}), environ={})


def test_a_node_without_logs_has_none_to_ship() -> None:
    with pytest.raises(ConfigurationError, match="nothing to ship"):
        NodeSettings.read(config({"redis": URL, "ship_logs": "redis"}, logs_dir=""), environ={})


def test_a_node_without_the_extra_of_s3_says_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.node.shipping_settings.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match="obstore") as caught:
        NodeSettings.read(config({"redis": URL, "ship_logs": "s3", "ship_logs_url": "s3://logs"}), environ={})
    assert caught.value.hint == "pip install 'crawlctl[node,s3]'"


def test_the_programs_that_alerts_may_run_have_names_and_words() -> None:
    programs = "page=/usr/bin/page --team 'ops at night'; log = /usr/bin/logger"
    settings = NodeSettings.read(config({"redis": URL, "alert_commands": programs}), environ={})
    assert settings.alert_commands == {"page": ("/usr/bin/page", "--team", "ops at night"), "log": ("/usr/bin/logger",)}
    assert NodeSettings.read(config({"redis": URL}), environ={}).alert_commands == {}
    for wrong in ("/usr/bin/page", "page=/usr/bin/page 'ops", "rm it=/bin/rm"):
        with pytest.raises(ConfigurationError, match="alert_commands"):
            NodeSettings.read(config({"redis": URL, "alert_commands": wrong}), environ={})
