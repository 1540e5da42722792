"""Where shipped logs lie, and with which keys one gets there: nothing leads out of the place, no key is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.config.inventory import load
from toolkit.config.log_places import LogAddress, log_folder, read_keys
from toolkit.model.errors import ConfigurationError
from toolkit.model.names import JobId, NodeName, ProjectName, SpiderName
from toolkit.model.shipped import LogName

SECRET = "wJalrXUtnFEMI"


def keys_file(folder: Path, text: str, *, mode: int = 0o600) -> Path:
    path = folder / "keys"
    path.touch(mode=mode)
    path.chmod(mode)
    path.write_text(text)
    return path


def inventory(folder: Path, text: str) -> LogAddress | None:
    path = folder / "inventory.yaml"
    path.write_text(text)
    return load(path).shipped_logs


def test_keys_are_read_as_aws_tools_keep_them(tmp_path: Path) -> None:
    text = f"[default]\naws_access_key_id = AKIA%1\naws_secret_access_key = {SECRET}\naws_session_token = t\n[other]\n"
    keys = read_keys(keys_file(tmp_path, text))
    assert {name: key.reveal() for name, key in keys.items()} == {
        "access_key_id": "AKIA%1",
        "secret_access_key": SECRET,
        "session_token": "t",
    }
    assert SECRET not in repr(keys)


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (f"[default]\naws_access_key_id = {SECRET}\n", 0o600, "holds no aws_access_key_id and aws_secret_access_key"),
        (f"aws_secret_access_key = {SECRET}\n", 0o600, "is no file of keys"),
        (f"[default]\n{SECRET}\n", 0o600, "is no file of keys"),
        (f"[default]\naws_access_key_id = a\naws_secret_access_key = {SECRET}\n", 0o644, "chmod 600"),
    ],
)
def test_a_file_that_holds_no_keys_or_is_open_to_all_is_refused_without_a_word_of_it(
    tmp_path: Path, text: str, mode: int, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        read_keys(keys_file(tmp_path, text, mode=mode))
    assert SECRET not in f"{caught.value.message} {caught.value.hint}"


def test_no_name_leads_out_of_the_folder_of_its_log() -> None:
    odd = LogName(ProjectName(".."), SpiderName("a/../b c"), JobId("job-1"), NodeName("."))
    assert log_folder(odd) == "%2E%2E/a%2F..%2Fb%20c/job-1/%2E"
    assert log_folder(LogName(ProjectName("shop"), SpiderName("böcker"), JobId("j"), NodeName("n.1"))) == (
        "shop/b%C3%B6cker/j/n.1"
    )


def test_an_inventory_says_where_to_read_or_its_nodes_do(tmp_path: Path) -> None:
    hosts = "hosts: {node-1: {node: {ship_logs: s3, ship_logs_url: 's3://crawl/logs', ship_logs_keys: /etc/keys}}}\n"
    assert inventory(tmp_path, "hosts: {node-1: {}}\n") is None
    assert inventory(tmp_path, hosts) == LogAddress("s3://crawl/logs")
    named = "shipped_logs: s3://mirror/logs/\nshipped_logs_endpoint: http://minio:9000\nshipped_logs_keys: my.keys\n"
    assert inventory(tmp_path, named + hosts) == LogAddress(
        "s3://mirror/logs", endpoint="http://minio:9000", keys_file=tmp_path / "my.keys"
    )
    assert inventory(tmp_path, f"shipped_logs: share\n{hosts}") == LogAddress(str(tmp_path / "share"))
    bucket = LogAddress("s3://mirror/a/b")
    assert (bucket.bucket, bucket.prefix, LogAddress("s3://mirror").prefix) == ("mirror", "a/b/", "")
