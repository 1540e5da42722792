"""Where shipped logs lie beside Redis: a folder, or a bucket of S3, and what a client needs to reach that.

Nodes write there and operators read there, each with an address and keys of their own. Nothing here connects anywhere.
"""

from __future__ import annotations

import configparser
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from toolkit.config.shipping_options import FOLDER, S3
from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret
from toolkit.model.shipped import LogName

S3_SCHEME = "s3://"
ANSWER_S = 20
"""How long one call to S3 may take."""

_KEYS = {"aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key"}
_KEYS_HINT = "two lines under [default]: aws_access_key_id = …, aws_secret_access_key = …"


@dataclass(frozen=True, slots=True)
class LogAddress:
    """A folder (absolute) or an `s3://bucket/prefix`; the other fields are of S3 alone."""

    text: str
    endpoint: str | None = None
    region: str = "us-east-1"
    keys_file: Path | None = None

    @property
    def is_s3(self) -> bool:
        """It is a bucket, not a folder."""
        return self.text.startswith(S3_SCHEME)

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return self.text.removeprefix(S3_SCHEME).partition("/")[0]

    @property
    def prefix(self) -> str:
        """What the names of all objects begin with; empty, or with a slash at its end."""
        prefix = self.text.removeprefix(S3_SCHEME).partition("/")[2].strip("/")
        return f"{prefix}/" if prefix else ""

    def client_options(self) -> dict[str, Any]:
        """Return how a client of S3 is to be made. A secret is among it: it is for no log and no message.

        Raises:
            ConfigurationError: the file of keys cannot be read, is open to others, or holds none.

        """
        options: dict[str, Any] = {
            "region": self.region,
            "client_options": {"timeout": f"{ANSWER_S}s", "connect_timeout": "5s", "allow_http": True},
            "retry_config": {"max_retries": 2},
        }
        if self.endpoint is not None:
            options |= {"endpoint": self.endpoint, "virtual_hosted_style_request": False}
        if self.keys_file is not None:
            options |= {name: key.reveal() for name, key in read_keys(self.keys_file).items()}
        return options


def address_for_reading(
    shared: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]], *, folder: Path
) -> LogAddress | None:
    """Return where an operator reads what nodes shipped elsewhere than to Redis; `None` where nothing says it.

    `shared` are an inventory's own options, `nodes` the options of its nodes, the first of which that ships serves
    where the inventory is silent. Paths begin at `folder`.
    """
    node = next((each for each in nodes if each.get("ship_logs") in {FOLDER, S3}), {})
    text = shared.get("shipped_logs") or node.get("ship_logs_url") or node.get("ship_logs_folder")
    if not text:
        return None
    keys = shared.get("shipped_logs_keys")
    endpoint = shared.get("shipped_logs_endpoint") or node.get("ship_logs_endpoint")
    is_s3 = str(text).startswith(S3_SCHEME)
    return LogAddress(
        str(text).rstrip("/") if is_s3 else str(folder / Path(str(text)).expanduser()),
        endpoint=str(endpoint).rstrip("/") if endpoint else None,
        region=str(shared.get("shipped_logs_region") or node.get("ship_logs_region") or "us-east-1"),
        keys_file=folder / Path(str(keys)).expanduser() if keys else None,
    )


def read_keys(path: Path) -> Mapping[str, Secret]:
    """Return the keys in a file of AWS' form, by the names that clients give them.

    Raises:
        ConfigurationError: it cannot be read, is open to others, or holds none.

    """
    try:
        text, mode = path.read_text(encoding="utf-8"), path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the file of keys to the shipped logs, {path}, cannot be read: {error}") from error
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ConfigurationError(f"{path} can be read by everybody on this machine: chmod 600 {path}")
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        # The parser's own message would repeat the line.
        raise ConfigurationError(f"{path} is no file of keys", hint=_KEYS_HINT) from error
    section = parser["default"] if parser.has_section("default") else {}
    if not all(section.get(name) for name in _KEYS):
        raise ConfigurationError(f"{path} holds no {' and '.join(_KEYS)}", hint=_KEYS_HINT)
    keys = {ours: Secret(section[name]) for name, ours in _KEYS.items()}
    token = section.get("aws_session_token")
    return keys | ({"session_token": Secret(token)} if token else {})


def log_folder(name: LogName) -> str:
    """Return where a log's parts lie below a folder or prefix, with slashes; no name leads out of it."""
    return "/".join(_segment(part) for part in (name.project, name.spider, name.job_id, name.node))


def _segment(text: str) -> str:
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if set(quoted) <= {"."} else quoted
