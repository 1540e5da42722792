"""Finds the Redis of a spider's process: what scrapy-redis' settings say, else the node's, as one URL of the store's.

Nothing is connected or looked up, and neither a message nor a log record holds a password.
"""

from __future__ import annotations

import logging
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from scrapy.settings import BaseSettings

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret
from toolkit.spider.crawl_plan import claim_of_this_process
from toolkit.spider.frontier_values import parameters
from toolkit.store.address import parse_address, split_url

REDIS_FILE = "redis_file"
"""The key of `claim.json` that names the file with the URL of the node's Redis."""

_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_OPTIONS = ("socket_timeout", "socket_connect_timeout", *_TLS_FILES)
_PLACE = ("url", "host", "port", "db", "username", "password", "unix_socket_path", "ssl")
_SETTINGS = {"REDIS_URL": "url", "REDIS_HOST": "host", "REDIS_PORT": "port", "REDIS_DB": "db"}
# What redis-py is told about texts, pools and retries: the frontier sees to these itself, so nobody misses them.
_NEEDLESS = frozenset(
    {
        "encoding",
        "encoding_errors",
        "decode_responses",
        "retry_on_timeout",
        "retry_on_error",
        "health_check_interval",
        "max_connections",
        "socket_keepalive",
        "socket_keepalive_options",
        "client_name",
        "protocol",
    }
)

logger = logging.getLogger(__name__)


def redis_url(settings: BaseSettings) -> Secret:
    """Return the URL of the Redis that the project's settings name, else the node's, else that of this machine.

    `REDIS_URL` wins over `REDIS_HOST`, both over `REDIS_PARAMS`; what a URL leaves out, `REDIS_PARAMS` adds.

    Raises:
        ConfigurationError: it cannot be understood, or the node's file cannot be read.

    """
    params = parameters(settings, "REDIS_PARAMS")
    params.update({name: settings.get(key) for key, name in _SETTINGS.items() if settings.get(key)})
    _warn_of_unknown(params)
    if not any(params.get(name) for name in ("url", "host", "unix_socket_path")):
        url = _url_of_the_node()
        if url is not None:
            return url
        logger.info("No REDIS_URL, and no node, says where the frontier's Redis is: it is taken to be on this machine")
    secret = Secret(_merged(str(params["url"]), params) if params.get("url") else _composed(params))
    parse_address(secret)
    return secret


def _warn_of_unknown(params: Mapping[str, Any]) -> None:
    unknown = sorted(name for name in params if name not in {*_PLACE, *_OPTIONS, *_NEEDLESS})
    if unknown:
        logger.warning("The frontier does not use these of REDIS_PARAMS: %s", ", ".join(unknown))


def _url_of_the_node() -> Secret | None:
    path = claim_of_this_process().get(REDIS_FILE)
    if not isinstance(path, str) or not path:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
        mode = Path(path).stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the node's file with the URL of its Redis cannot be read: {error}") from error
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ConfigurationError(f"{path} can be read by everybody on this machine", hint=f"chmod 600 {path}")
    url = Secret(text)
    parse_address(url)
    return url


def _composed(params: Mapping[str, Any]) -> str:
    credentials = _credentials(params)
    options = _options(params)
    if params.get("unix_socket_path"):
        options = {"db": str(params.get("db") or 0), **options}
        return f"unix://{credentials}{quote(str(params['unix_socket_path']))}?{urlencode(options)}"
    host = str(params.get("host") or "localhost")
    place = f"[{host}]" if ":" in host else host
    scheme = "rediss" if _is_yes(params.get("ssl")) else "redis"
    url = f"{scheme}://{credentials}{place}:{params.get('port') or 6379}/{params.get('db') or 0}"
    return url + _query(options)


def _merged(url: str, params: Mapping[str, Any]) -> str:
    """Return the URL with what it leaves out taken from the parameters; what the store does not know is left out."""
    try:
        parts = split_url(url)
    except ValueError:
        return url  # The store says what is wrong with it, without repeating it.
    said = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = {name: value for name, value in said.items() if name in {*_OPTIONS, "db"} or name.startswith("sentinel_")}
    _warn_of_unknown(dict.fromkeys(said.keys() - known.keys() - {"username", "password"}))
    place = parts.netloc if "@" in parts.netloc else _credentials({**params, **said}) + parts.netloc
    path = parts.path
    if params.get("db") and "db" not in known and not path.strip("/") and parts.scheme in {"redis", "rediss"}:
        path = f"/{params['db']}"
    query = {**_options(params), **known}
    if parts.scheme.startswith("redis") and not parts.scheme.startswith("rediss"):
        query = {name: value for name, value in query.items() if name not in _TLS_FILES}
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    return f"{parts.scheme}://{place}{path}{_query(query)}{fragment}"


def _credentials(params: Mapping[str, Any]) -> str:
    username, password = (quote(str(params.get(name) or ""), safe="") for name in ("username", "password"))
    return f"{username}:{password}@" if username or password else ""


def _options(params: Mapping[str, Any]) -> dict[str, str]:
    options = {name: _written(params[name]) for name in _OPTIONS if params.get(name) is not None}
    if "ssl_cert_reqs" in params and params["ssl_cert_reqs"] is None:
        options["ssl_cert_reqs"] = "none"
    return options


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    name = str(getattr(value, "name", value))  # `ssl.CERT_NONE` is what redis-py takes for "none".
    return name.removeprefix("CERT_").lower() if name.startswith("CERT_") else name


def _is_yes(value: object) -> bool:
    return value is True or str(value).lower() in {"1", "true", "yes"}


def _query(options: Mapping[str, str]) -> str:
    return f"?{urlencode(options)}" if options else ""
