"""Every form of a Redis URL is understood, and none that is wrong gives its password away."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret
from toolkit.store.address import RedisAddress, parse_address
from toolkit.store.connect import connect


def address(url: str) -> RedisAddress:
    return parse_address(Secret(url))


@pytest.mark.parametrize(
    ("url", "hosts", "db"),
    [
        ("redis://", (("localhost", 6379),), 0),
        ("redis://redis.example.com", (("redis.example.com", 6379),), 0),
        ("redis://10.0.0.1:7000/", (("10.0.0.1", 7000),), 0),
        ("redis://10.0.0.1:7000/3", (("10.0.0.1", 7000),), 3),
        ("redis://10.0.0.1?db=4", (("10.0.0.1", 6379),), 4),
        ("redis://[::1]:7000/1", (("::1", 7000),), 1),
        ("redis://user:pw@[fe80::1%eth0]", (("fe80::1%eth0", 6379),), 0),
        ("REDIS://host:1", (("host", 1),), 0),
    ],
)
def test_a_server_is_named_by_host_port_and_database(url: str, hosts: tuple[tuple[str, int], ...], db: int) -> None:
    found = address(url)
    assert (found.hosts, found.db, found.service, found.tls) == (hosts, db, None, None)


def test_a_socket_is_named_by_its_path() -> None:
    found = address("unix://:pw@/run/redis/my%20socket?db=2")
    assert (found.socket_path, found.db, found.password) == ("/run/redis/my socket", 2, Secret("pw"))
    assert str(found) == "/run/redis/my socket"


def test_sentinels_are_named_with_their_service() -> None:
    found = address("redis+sentinel://u:pw@s1,s2:26380,[::1]:26381/mymaster/2?sentinel_password=sp")
    assert found.hosts == (("s1", 26379), ("s2", 26380), ("::1", 26381))
    assert (found.service, found.db, found.username) == ("mymaster", 2, "u")
    assert (found.password, found.sentinel_password) == (Secret("pw"), Secret("sp"))
    assert str(found) == "mymaster by Sentinel s1:26379,s2:26380,[::1]:26381"


def test_tls_has_its_options() -> None:
    found = address("rediss://host?ssl_ca_certs=/etc/ca.pem&ssl_check_hostname=no")
    assert found.tls == {"ssl_ca_certs": "/etc/ca.pem", "ssl_check_hostname": "no"}
    assert address("rediss://host").tls == {}


def test_timeouts_may_be_chosen() -> None:
    found = address("redis://host?socket_timeout=0.5&socket_connect_timeout=2")
    assert (found.answer_timeout_s, found.connect_timeout_s) == (0.5, 2)
    assert (address("redis://host").answer_timeout_s, address("redis://host").connect_timeout_s) == (5, 3)


@given(user=st.text(min_size=1), password=st.text(min_size=1))
def test_an_escaped_password_of_any_characters_is_understood_and_never_shown(user: str, password: str) -> None:
    try:
        url = f"redis://{quote(user, safe='')}:{quote(password, safe='')}@host:6379/0"
    except UnicodeEncodeError:
        return
    found = address(url)
    assert (found.username, found.password) == (user, Secret(password))
    assert str(found) == "host:6379"


@given(st.text(alphabet="s3cret:/?#@[]%&=,", min_size=1, max_size=12))
def test_an_unescaped_password_is_never_shown_whatever_is_made_of_it(password: str) -> None:
    try:
        found = address(f"redis://:MARK{password}MARK@host:6379/0")
    except ConfigurationError as error:
        shown = f"{error.message} {error.hint}"
    else:
        shown = repr(found) + str(found)
    assert "MARK" not in shown


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "no scheme"),
        ("localhost:6379", "no scheme"),
        ("http://host", "'http' is unknown; there are redis, rediss"),
        ("redis://host:99999", "not between 1 and 65535"),
        ("redis://host:0", "not between 1 and 65535"),
        ("redis://host:port", "cannot be understood"),
        ("redis://host/db", "not a number"),
        ("redis://host/-1", "not a number"),
        ("redis://host/٣", "not a number"),
        ("redis://host?db=", "not a number"),
        ("redis://host/0/1", "cannot be understood"),
        ("redis://h1,h2", "cannot be understood"),
        ("redis://[::1", "cannot be understood"),
        ("redis://host#0", "cannot be understood"),
        ("redis://:p/w@host", "cannot be understood"),
        ("redis://:p?w@host", "cannot be understood"),
        ("redis://host?socket_timout=3", "unknown option 'socket_timout', did you mean 'socket_timeout'"),
        ("redis://host?socket_timeout=soon", "not a number of seconds"),
        ("redis://host?socket_timeout=0", "not a number of seconds"),
        ("unix://", "names no socket"),
        ("redis+sentinel://host", "names no Sentinel or no service"),
        ("redis+sentinel:///mymaster", "names no Sentinel or no service"),
    ],
)
def test_a_url_that_is_wrong_is_told_with_a_way_out(url: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why.replace("?", r"\?")) as caught:
        connect(Secret(url))
    assert caught.value.hint
