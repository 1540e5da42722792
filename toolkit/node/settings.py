"""What a node is told by its scrapyd.conf and its environment. Read once, at start; nothing here connects anywhere."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.config import options
from toolkit.config.nearest import did_you_mean
from toolkit.config.options import REDIS_VARIABLE, Scope
from toolkit.config.values import parse_value
from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Secret
from toolkit.model.names import NodeName
from toolkit.node.shipping_settings import ShippingSettings, read_shipping
from toolkit.node.stopping import OnStop, takes_all_with_it
from toolkit.store.address import parse_address

if TYPE_CHECKING:
    from scrapyd.config import Config

SECTION = "crawlctl"
"""The section of scrapyd.conf that is ours."""

_NO_REDIS = f"this node has no Redis: set the environment variable {REDIS_VARIABLE}, or redis_file in [{SECTION}]"


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """All that the plug-in goes by; folders are absolute. `slots` is how many jobs run at once (Scrapyd's max_proc).

    `redis_file` is the file that `redis` was read from, if it was; `spider_redis_file` the spiders' own. `tls` are the
    files of certificate and key.
    """

    name: NodeName
    redis: Secret
    redis_file: Path | None
    spider_redis_file: Path | None
    trusted_keys: Path | None
    tls: tuple[Path, Path] | None
    cluster: str
    lease_s: float
    slots: int
    address: str
    labels: Mapping[str, str]
    state_dir: Path
    node_id: str | None
    on_stop: OnStop
    stop_grace_s: float | None
    logs_dir: Path | None
    items_dir: str
    min_memory_mb: int
    min_disk_mb: int
    max_egg_mb: int
    listing_timeout_s: float
    history_days: float
    history_jobs: int
    finished_to_keep: int
    runner: str
    wheelhouse: Path | None
    index_file: Path | None
    environment_timeout_s: float
    redial_command: tuple[str, ...]
    redial_share: float
    redial_min_interval_s: float
    redial_timeout_s: float
    alert_commands: Mapping[str, tuple[str, ...]]
    shipping: ShippingSettings | None

    @classmethod
    def read(cls, config: Config, *, environ: Mapping[str, str] = os.environ) -> NodeSettings:
        """Return the settings that Scrapyd's configuration means.

        Raises:
            ConfigurationError: no Redis is named, or an option of `[crawlctl]` is unknown or has no value of its kind.

        """
        own = _own_values(config)
        logs_dir = _path(config.get("logs_dir", "logs"))
        return cls(
            name=NodeName(config.get("node_name", socket.gethostname())),
            redis=_redis(own, environ),
            redis_file=_redis_file(own, environ),
            spider_redis_file=_spider_redis_file(own),
            trusted_keys=_path(own["trusted_keys"]),
            tls=_tls(own),
            cluster=own["cluster"],
            lease_s=float(own["lease_s"]),
            slots=_slots(config),
            address=own["address"] or _address(config, environ),
            labels=_labels(own["labels"] or ""),
            state_dir=Path(own["state_dir"] or Path(config.get("dbs_dir", "dbs")) / "node").absolute(),
            node_id=own["node_id"],
            on_stop=_on_stop(own),
            stop_grace_s=None if own["stop_grace_s"] is None else float(own["stop_grace_s"]),
            logs_dir=logs_dir,
            items_dir=config.get("items_dir", "") or "",
            min_memory_mb=own["min_memory_mb"],
            min_disk_mb=own["min_disk_mb"],
            max_egg_mb=own["max_egg_mb"],
            listing_timeout_s=float(own["listing_timeout_s"]),
            history_days=float(own["history_days"]),
            history_jobs=own["history_jobs"],
            finished_to_keep=config.getint("finished_to_keep", 100),
            runner=config.get("runner", "scrapyd.runner"),
            wheelhouse=_path(own["wheelhouse"]),
            index_file=_index_file(own),
            environment_timeout_s=float(own["environment_timeout_s"]),
            redial_command=_words(own["redial_command"] or "", "redial_command"),
            redial_share=float(own["redial_share"]),
            redial_min_interval_s=float(own["redial_min_interval_s"]),
            redial_timeout_s=float(own["redial_timeout_s"]),
            alert_commands=_programs(own["alert_commands"] or ""),
            shipping=read_shipping(own, logs_dir=logs_dir),
        )


def _own_values(config: Config) -> dict[str, Any]:
    """Return every option's value, its default where nothing is written."""
    known = {each.name: each for each in options.options(Scope.NODE)}
    values: dict[str, Any] = {name: each.default for name, each in known.items()}
    for name, text in config.items(SECTION, default=[]):
        if name in known and text:
            values[name] = parse_value(known[name], text)
        elif name not in known and name not in config.cp.defaults():
            raise ConfigurationError(f"[{SECTION}] has no option {name!r}{did_you_mean(name, known)}")
    return values


def _redis(own: Mapping[str, Any], environ: Mapping[str, str]) -> Secret:
    """Return the URL; the environment wins over the file, the file over the option."""
    option = options.option(Scope.NODE, "redis")
    if text := environ.get(REDIS_VARIABLE):
        url = parse_value(option, text)
    elif (file := _redis_file(own, environ)) is not None:
        url = parse_value(option, _one_line(file))
    else:
        url = own["redis"]
    if not isinstance(url, Secret):
        raise ConfigurationError(_NO_REDIS)
    parse_address(url)
    return url


def _redis_file(own: Mapping[str, Any], environ: Mapping[str, str]) -> Path | None:
    file = own["redis_file"]
    return None if environ.get(REDIS_VARIABLE) or not file else Path(file).absolute()


def _spider_redis_file(own: Mapping[str, Any]) -> Path | None:
    """Return the file for the spiders, once its URL was seen to be one: a spider would only stumble over it."""
    path = _path(own["spider_redis_file"])
    if path is not None:
        url = parse_value(options.option(Scope.NODE, "redis"), _one_line(path, "spider_redis_file"))
        if isinstance(url, Secret):
            parse_address(url)
    return path


def _tls(own: Mapping[str, Any]) -> tuple[Path, Path] | None:
    cert, key = _path(own["tls_cert"]), _path(own["tls_key"])
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise ConfigurationError(f"[{SECTION}] names one of tls_cert and tls_key: TLS needs both")
    return cert, key


def _on_stop(own: Mapping[str, Any]) -> OnStop:
    """Return what the option says, else what this process is: spiders cannot outlive the Scrapyd of a container."""
    if own["on_stop"] is not None:
        return OnStop(own["on_stop"])
    try:
        process_1 = Path("/proc/1/comm").read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        process_1 = ""
    return OnStop.CLOSE if takes_all_with_it(os.getpid(), os.getppid(), process_1) else OnStop.LEAVE


def _index_file(own: Mapping[str, Any]) -> Path | None:
    path = _path(own["index_file"])
    if path is not None:
        _one_line(path, "index_file")
    return path


def _path(text: str | None) -> Path | None:
    return Path(text).absolute() if text else None


def _one_line(path: Path, option: str = "redis_file") -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{option} {path} cannot be read: {error}") from error
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ConfigurationError(f"{option} {path} can be read by everybody on this machine: chmod 600 {path}")
    return text


def _slots(config: Config) -> int:
    """Count as Scrapyd does (`launcher.py`)."""
    return int(config.getint("max_proc", 0)) or multiprocessing.cpu_count() * int(config.getint("max_proc_per_cpu", 4))


def _address(config: Config, environ: Mapping[str, str]) -> str:
    """Say where Scrapyd listens, as `app.py` reads it; the environment wins there."""
    host = environ.get("SCRAPYD_BIND_ADDRESS") or config.get("bind_address", "127.0.0.1")
    port = environ.get("SCRAPYD_HTTP_PORT") or config.getint("http_port", 6800)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _programs(text: str) -> dict[str, tuple[str, ...]]:
    pairs = (part.partition("=") for part in text.split(";") if part.strip())
    return {name.strip(): _words(words, "alert_commands") for name, _, words in pairs}


def _words(text: str, option: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigurationError(f"[{SECTION}] {option} cannot be read as words: {error}") from error


def _labels(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(",") if part.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}
