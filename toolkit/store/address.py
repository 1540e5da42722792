"""Where a Redis is, as its URL says it. Pure: nothing is looked up or connected, and no message repeats the URL.

    redis://[[user]:password@]host[:port][/db]       one server
    rediss://…                                       the same over TLS
    unix://[[user]:password@]/path/to/socket[?db=0]  one server of this machine
    redis+sentinel://[[user]:password@]host[:port],host[:port]/service[/db]
    rediss+sentinel://…                              the master that Sentinel names, followed when it moves

After `?`: `db`, `socket_timeout`, `socket_connect_timeout` (seconds), `sentinel_username`, `sentinel_password`; for TLS
`ssl_ca_certs`, `ssl_certfile`, `ssl_keyfile`, `ssl_cert_reqs` (required, optional or none), `ssl_check_hostname`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NoReturn
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret

REDIS_PORT = 6379
SENTINEL_PORT = 26379
CONNECT_TIMEOUT_S = 3.0
ANSWER_TIMEOUT_S = 5.0
_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
_FORMS = "write redis://[:password@]host:port/db, and any of / ? # @ % in the password as %2F %3F %23 %40 %25"
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_SCHEME = re.compile(r"[A-Za-z+]+")
_PLACE = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?)\]|(?P<name>[^:\[\]/\s]*))(?::(?P<port>[0-9]{1,5}))?"
)
_NO_BRACKETS, _BRACKETS = str.maketrans("[]", "\ue000\ue001"), str.maketrans("\ue000\ue001", "[]")
_SECONDS = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?")
_TLS_WORDS = {
    "ssl_cert_reqs": ("required", "optional", "none"),
    "ssl_check_hostname": ("yes", "no", "true", "false", "1", "0"),
}
_OPTIONS = (
    *("db", "socket_timeout", "socket_connect_timeout", "sentinel_username", "sentinel_password"),
    *_TLS_OPTIONS,
)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """One Redis: `hosts` are its own address, or with a `service` those of its Sentinels; times are in seconds."""

    hosts: tuple[tuple[str, int], ...] = ()
    socket_path: str | None = None
    service: str | None = None
    db: int = 0
    username: str | None = None
    password: Secret | None = None
    sentinel_username: str | None = None
    sentinel_password: Secret | None = None
    tls: Mapping[str, str] | None = None
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    answer_timeout_s: float = ANSWER_TIMEOUT_S

    def __str__(self) -> str:
        """Name the place without any credential, as messages show it."""
        if self.socket_path is not None:
            return self.socket_path
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        return f"{self.service} by Sentinel {hosts}" if self.service else hosts


def parse_address(url: Secret) -> RedisAddress:
    """Return the address that the URL means; what it leaves out gets Redis' own defaults.

    Raises:
        ConfigurationError: it cannot be understood; the message holds nothing of the URL but its scheme, an option's
            name or a database number.

    """
    parts = _split(url.reveal())
    options = _options(parts.query)
    scheme, _, kind = parts.scheme.partition("+")
    username, password, place = _credentials(parts.netloc)
    path = [unquote(part) for part in parts.path.split("/") if part]
    common = RedisAddress(
        username=username,
        password=password,
        sentinel_username=options.get("sentinel_username"),
        sentinel_password=Secret(options["sentinel_password"]) if "sentinel_password" in options else None,
        tls={name: options[name] for name in _TLS_OPTIONS if name in options} if scheme == "rediss" else None,
        connect_timeout_s=_seconds(options, "socket_connect_timeout", CONNECT_TIMEOUT_S),
        answer_timeout_s=_seconds(options, "socket_timeout", ANSWER_TIMEOUT_S),
    )
    if scheme == "unix":
        return _at_socket(common, unquote(parts.path), options)
    if kind == "sentinel":
        return _by_sentinel(common, place, path, options)
    return _at_host(common, place, path, options)


def split_url(text: str) -> SplitResult:
    """Return the parts of a Redis URL, whose place may be several addresses, also IPv6 ones.

    Raises:
        ValueError: it has none.

    """
    # From 3.11.12, 3.12.9 and 3.13.2 on, `urlsplit` refuses brackets that do not begin the place.
    return SplitResult(*(part.translate(_BRACKETS) for part in urlsplit(text.translate(_NO_BRACKETS))))


def _split(text: str) -> SplitResult:
    scheme, found, _ = text.partition("://")
    if not found or not _SCHEME.fullmatch(scheme):
        raise ConfigurationError("the Redis URL has no scheme", hint=_FORMS)
    if scheme.lower() not in _SCHEMES:
        raise ConfigurationError(
            f"the Redis URL's scheme {scheme[:30]!r} is unknown; there are {', '.join(_SCHEMES)}", hint=_FORMS
        )
    try:
        parts = split_url(text)
    except ValueError:
        _unreadable()
    # An unescaped / ? or # in the password ends the host early: its rest, with the @, is then found further right.
    is_socket = parts.scheme == "unix"
    if parts.fragment or "@" in parts.query or ("@" in parts.path and not is_socket):
        _unreadable()
    return parts


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS:
            near = difflib.get_close_matches(name, _OPTIONS, n=1)
            raise ConfigurationError(
                f"the Redis URL has an unknown option {name[:30]!r}" + (f", did you mean {near[0]!r}?" if near else ""),
                hint=f"known are {', '.join(_OPTIONS)}",
            )
    for name, words in _TLS_WORDS.items():
        if name in options and options[name].lower() not in words:
            raise ConfigurationError(f"the Redis URL's {name} is none of {', '.join(words)}", hint=f"{name}={words[0]}")
    return options


def _credentials(netloc: str) -> tuple[str | None, Secret | None, str]:
    credentials, _, place = netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    return unquote(username) or None, Secret(unquote(password)) if password else None, place


def _at_host(common: RedisAddress, place: str, path: list[str], options: Mapping[str, str]) -> RedisAddress:
    if len(path) > 1 or "," in place:
        _unreadable()
    return replace(common, hosts=(_host(place, REDIS_PORT),), db=_database(path[0] if path else options.get("db", "0")))


def _at_socket(common: RedisAddress, path: str, options: Mapping[str, str]) -> RedisAddress:
    if not path.strip("/"):
        raise ConfigurationError("the Redis URL names no socket", hint="write unix:///path/to/redis.sock?db=0")
    return replace(common, socket_path=path, db=_database(options.get("db", "0")))


def _by_sentinel(common: RedisAddress, place: str, path: list[str], options: Mapping[str, str]) -> RedisAddress:
    service, *rest = path or [""]
    if not service or not place or len(rest) > 1:
        raise ConfigurationError(
            "the Redis URL names no Sentinel or no service", hint="write redis+sentinel://host1:26379,host2/mymaster/0"
        )
    hosts = tuple(_host(part, SENTINEL_PORT) for part in place.split(","))
    return replace(common, hosts=hosts, service=service, db=_database(rest[0] if rest else options.get("db", "0")))


def _host(place: str, default_port: int) -> tuple[str, int]:
    found = _PLACE.fullmatch(place)
    if found is None:
        _unreadable()
    port = int(found["port"] or default_port)
    if not 0 < port < 65536:  # noqa: PLR2004 - the range of TCP ports
        raise ConfigurationError("the Redis URL's port is not between 1 and 65535", hint=_FORMS)
    return found["six"] or found["name"] or "localhost", port


def _database(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 6:  # noqa: PLR2004 - far beyond any server's limit
        raise ConfigurationError("the Redis URL's database is not a number such as 0", hint=_FORMS)
    return int(text)


def _seconds(options: Mapping[str, str], name: str, default_s: float) -> float:
    if name not in options:
        return default_s
    if not _SECONDS.fullmatch(options[name]) or float(options[name]) == 0:
        raise ConfigurationError(f"the Redis URL's {name} is not a number of seconds above 0", hint=f"{name}=5 for 5 s")
    return float(options[name])


def _unreadable() -> NoReturn:
    raise ConfigurationError("the Redis URL cannot be understood", hint=_FORMS)
