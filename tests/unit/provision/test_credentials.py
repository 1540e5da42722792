"""The generated password: made once, private, and filled in exactly where it belongs."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.config.inventory import Inventory
from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Host, Secret
from toolkit.model.names import NodeName
from toolkit.provision.credentials import (
    local_password,
    read_local_password,
    redis_address,
    with_local_credentials,
)


def inventory(*hosts: Host, redis: str | None = None) -> Inventory:
    return Inventory(Path("inventory.yaml"), Secret(redis) if redis else None, hosts, {})


def host(**fields: object) -> Host:
    return Host(NodeName("node-1"), **{"connection": "local", **fields})  # type: ignore[arg-type]


def keeps_redis_at(folder: Path, place: str) -> None:
    (folder / "redis").mkdir(exist_ok=True)
    (folder / "redis" / "address").write_text(place + "\n")


def test_a_password_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    first = local_password(tmp_path / "state")
    assert len(first.reveal()) >= 30
    assert local_password(tmp_path / "state") == first
    assert (tmp_path / "state" / "password").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["password"]


def test_many_first_callers_agree_on_one_password(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        made = set(pool.map(local_password, [tmp_path] * 64))
    assert len(made) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622, 0o660])
def test_a_password_that_others_could_read_or_set_is_refused(tmp_path: Path, mode: int) -> None:
    local_password(tmp_path)
    (tmp_path / "password").chmod(mode)
    with pytest.raises(ConfigurationError, match="others") as caught:
        read_local_password(tmp_path)
    assert "rm " in (caught.value.hint or "")


def test_an_empty_password_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "password").touch(0o600)
    with pytest.raises(ConfigurationError, match="holds no password"):
        local_password(tmp_path)


def test_bytes_that_are_no_text_are_reported(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigurationError, match="not text"):
        read_local_password(tmp_path)


def test_without_a_generated_password_the_inventory_stays_as_it_is(tmp_path: Path) -> None:
    before = inventory(host(), redis="redis://127.0.0.1:6390/0")
    assert with_local_credentials(before, tmp_path / "never") is before


def test_local_hosts_without_a_password_get_the_generated_one(tmp_path: Path) -> None:
    password = local_password(tmp_path)
    before = inventory(
        host(),
        host(username="me"),
        host(username="me", password=Secret("mine")),
        host(connection="ssh"),
    )
    after = with_local_credentials(before, tmp_path).hosts
    assert [(h.username, h.password) for h in after] == [
        ("crawlctl", password),
        ("me", password),
        ("me", Secret("mine")),
        (None, None),
    ]


@pytest.mark.parametrize(
    ("url", "place", "is_completed"),
    [
        ("redis://127.0.0.1:6390/0", "127.0.0.1:6390", True),
        ("redis://localhost:6390", "127.0.0.1:6390", True),
        ("redis://127.0.0.1:6390/0?protocol=3", "127.0.0.1:6390", True),
        ("redis://[::1]:6390/0", "::1:6390", True),
        ("redis://127.0.0.1:6390/0", "127.0.0.1:6391", False),
        ("redis://127.0.0.1:6390/0", "", False),
        ("redis://:own@127.0.0.1:6390/0", "127.0.0.1:6390", False),
        ("redis://someone@127.0.0.1:6390/0", "127.0.0.1:6390", False),
        ("redis://redis.example.com:6390/0", "127.0.0.1:6390", False),
        ("rediss://127.0.0.1:6390/0", "127.0.0.1:6390", False),
        ("unix:///run/redis.sock", "127.0.0.1:6390", False),
        ("redis://127.0.0.1/0", "127.0.0.1:6379", False),
        ("redis://127.0.0.1:port/0", "127.0.0.1:6390", False),
    ],
)
def test_the_redis_url_gets_the_password_only_where_our_redis_listens(
    tmp_path: Path, url: str, place: str, *, is_completed: bool
) -> None:
    password = local_password(tmp_path).reveal()
    keeps_redis_at(tmp_path, place)
    after = with_local_credentials(inventory(redis=url), tmp_path).redis
    assert after is not None
    if is_completed:
        parts = urlsplit(after.reveal())
        assert parts.password == password
        assert after.reveal().replace(f":{password}@", "") == url
    else:
        assert after == Secret(url)


@given(password=st.text(min_size=1), port=st.integers(1, 65535))
def test_any_password_in_a_redis_url_is_understood(password: str, port: int) -> None:
    try:
        encoded = quote(password, safe="")
    except UnicodeEncodeError:
        return
    found = redis_address(Secret(f"redis://:{encoded}@localhost:{port}/0"))
    assert found is not None
    assert found.password == Secret(password)
    assert found.place == f"127.0.0.1:{port}"


@given(st.text())
def test_no_text_for_a_redis_url_is_a_crash(text: str) -> None:
    redis_address(Secret(text))
    redis_address(Secret("redis://" + text))


def test_filling_in_loads_no_psutil_and_no_redis() -> None:
    code = (
        "import sys, toolkit.provision.credentials; print({'psutil', 'redis', 'yaml', 'subprocess'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
