"""Nodes of this machine: one Scrapyd process for each local host, with a folder of its own, with the plug-in or stock.

Neither Scrapyd nor the plug-in is ever imported here. Scrapyd's whole API has its door in `cluster`; this asks it only
who it is.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolkit.config.options import Scope, option
from toolkit.config.scrapyd_conf import render, render_stock
from toolkit.model.errors import ConfigurationError, MissingExtraError
from toolkit.model.hosts import Host, Secret
from toolkit.model.names import check_project
from toolkit.model.nodes import IS_STARTING
from toolkit.model.servers import LocalProcess
from toolkit.provision import local_servers
from toolkit.provision.environment import lean_environment
from toolkit.provision.keyring import TRUSTED as TRUSTED_KEYS
from toolkit.provision.local_servers import Answer, LocalServer
from toolkit.runs.folder import RUN_VARIABLE

LOG = "scrapyd.log"
REDIS_FILE = "redis.url"
NODE_PAGE = "crawlctl.json"
STOCK_PAGE = "daemonstatus.json"
DEFAULT_SLOTS = 4
# Scrapyd's own 5 s between two looks for work feels broken on a laptop; an idle node at 0.5 s costs nearly nothing.
POLL_INTERVAL_S = 0.5
_ASK_TIMEOUT_S = 5.0
_MAX_ANSWER_BYTES = 10_000_000
_SETUPTOOLS_HINT = "pip install 'setuptools<81'"


@dataclass(frozen=True, slots=True)
class SharedQueue:
    """Where the nodes of one cluster find their jobs: the Redis, and the cluster's name in it.

    `trusted_keys` is the list of the keys whose signatures count, where releases are signed.
    """

    redis: Secret
    cluster: str
    trusted_keys: str | None = None


def start_node(
    host: Host,
    folder: Path,
    *,
    queue: SharedQueue | None,
    environ: Mapping[str, str],
    cancelled: threading.Event | None = None,
) -> LocalProcess:
    """Start the host's node in `folder/<name>` and return when it answers under its own name; idempotent.

    With a queue it is a node of that; without one it is a stock Scrapyd. The host brings user name and password. They,
    and the Redis' URL, stand in files of mode 0600, never on a command line or in an environment. A node that runs with
    other settings is started anew: a node of the queue adopts its running jobs, a stock one's are ended first.

    Raises:
        MissingExtraError: Scrapyd is not installed.
        ConfigurationError: the host cannot be a local node, its port is taken, or the node died at start.
        RefusedError: the node runs but does not answer.

    """
    _check_installed()
    _check_possible(host)
    done = local_servers.start(_node(host, folder.resolve() / host.name, queue, environ), cancelled=cancelled)
    unfit = _asked(host, NODE_PAGE)[1].get("unfit") if queue else None
    return replace(done, note="; ".join(filter(None, [done.note, f"takes no job: {unfit}"]))) if unfit else done


def stop_node(name: str, folder: Path, *, grace_s: float = local_servers.GRACE_S) -> LocalProcess:
    """End the node in `folder/<name>` and its spiders; idempotent.

    Raises:
        RefusedError: some process is still there.

    """
    return local_servers.stop(name, folder.resolve() / name, grace_s=grace_s)


def settings(host: Host) -> dict[str, str]:
    """Return what the host's `scrapyd.conf` says apart from the defaults; folders lie beside the file."""
    return {
        "bind_address": host.address,
        "http_port": str(host.port),
        "unix_socket_path": "",
        "username": host.username or "",
        "password": host.password.reveal() if host.password else "",
        "node_name": host.name,
        "eggs_dir": "eggs",
        "logs_dir": "logs",
        "items_dir": "items",
        "dbs_dir": "dbs",
        "max_proc": str(host.slots or DEFAULT_SLOTS),
        "poll_interval": str(POLL_INTERVAL_S),
    }


def stock_settings(host: Host) -> dict[str, str]:
    """Return what the `scrapyd.conf` of a stock node says: it has no cluster to remember its ended jobs."""
    return settings(host) | {"jobstorage": "scrapyd.jobstorage.SqliteJobStorage"}


def node_settings(host: Host, queue: SharedQueue) -> dict[str, str]:
    """Return what the section `[crawlctl]` says, what the host wishes under `node` included.

    A label that the section's form cannot hold stays in the inventory alone.
    """
    labels = option(Scope.NODE, "labels")
    pairs = [f"{name}={text.strip()}" for name, text in sorted(host.labels.items()) if "," not in text]
    trust = {} if queue.trusted_keys is None else {"trusted_keys": TRUSTED_KEYS}
    return trust | {
        "redis_file": REDIS_FILE,
        "cluster": queue.cluster,
        labels.name: ", ".join(pair for pair in pairs if re.search(labels.pattern or "", pair)),
        **{name: str(value) for name, value in host.node.items()},
    }


def ask(host: Host, *, page: str = STOCK_PAGE) -> Answer:
    """Ask who answers at the host's address; a node that is only just joining its cluster is not there yet."""
    answer, said = _asked(host, page)
    return Answer.NOBODY_YET if answer is Answer.OURS and said.get("unfit") == IS_STARTING else answer


def _asked(host: Host, page: str) -> tuple[Answer, Mapping[str, Any]]:
    """Return who answers a request for one of Scrapyd's pages with the host's credentials, and what it says."""
    token = base64.b64encode(f"{host.username}:{host.password.reveal() if host.password else ''}".encode()).decode()
    connection = http.client.HTTPConnection(host.address, host.port, timeout=_ASK_TIMEOUT_S)
    try:
        connection.request("GET", f"/{page}", headers={"Authorization": f"Basic {token}"})
        response = connection.getresponse()
        body = response.read(_MAX_ANSWER_BYTES)
    except (OSError, http.client.HTTPException):
        return Answer.NOBODY_YET, {}
    finally:
        connection.close()
    if response.status == HTTPStatus.UNAUTHORIZED:
        return Answer.UNAUTHORIZED, {}
    try:
        said = json.loads(body)
        is_ours = said["node_name"] == host.name
    except (ValueError, TypeError, KeyError):
        return Answer.SOMEBODY_ELSE, {}
    return (Answer.OURS, said) if is_ours else (Answer.SOMEBODY_ELSE, {})


def _node(host: Host, home: Path, queue: SharedQueue | None, environ: Mapping[str, str]) -> LocalServer:
    text = render(settings(host), crawlctl=node_settings(host, queue)) if queue else render_stock(stock_settings(host))
    secret = {REDIS_FILE: f"{queue.redis.reveal()}\n"} if queue else {}
    if queue and queue.trusted_keys is not None:
        secret[TRUSTED_KEYS] = queue.trusted_keys
    return LocalServer(
        name=host.name,
        address=host.address,
        port=host.port,
        home=home,
        # Scrapyd reads ./scrapyd.conf, then ~/.scrapyd.conf, then the closest scrapy.cfg upwards; the last one wins.
        # Under both names ours is last, and no scrapy.cfg of a project around the folder is found.
        files={"scrapyd.conf": text, "scrapy.cfg": text, **secret},
        argv=(sys.executable, "-m", "scrapyd", "--pidfile="),
        env=lean_environment(environ),
        ask=lambda: ask(host, page=NODE_PAGE if queue else STOCK_PAGE),
        log_name=LOG,
        override_hint="look into /etc/scrapyd/ and ~/.scrapyd.conf for settings that override it",
        death_hints={
            "No module named 'pkg_resources'": _SETUPTOOLS_HINT,
            "No module named scrapyd": "pip install 'crawlctl[local]'",
            "No space left": f"the disk of {home} is full: free some space there, then try again",
        },
        adopts=RUN_VARIABLE if queue else None,
    )


def _check_installed() -> None:
    if find_spec("scrapyd") is None:
        raise MissingExtraError("Scrapyd", "local")
    # The server starts without it; every job would fail (`scrapyd/runner.py`).
    if find_spec("pkg_resources") is None:
        raise ConfigurationError("Scrapyd needs pkg_resources, which this setuptools lacks", hint=_SETUPTOOLS_HINT)


def _check_possible(host: Host) -> None:
    check_project(host.name)
    if host.scheme != "http" or host.path:
        raise ConfigurationError(
            f"{host.name} is {host.url}, but a local node serves plain http without a path",
            hint="take `scheme` and `path` out, or say `connection: ssh` if the node is not this machine's to start",
        )
    if not (host.username and host.password):
        raise ConfigurationError(f"{host.name} has no user name and password", hint="set both, or neither")
    if ":" in host.username or any(mark in host.username + host.password.reveal() for mark in "\r\n"):
        raise ConfigurationError(
            f"{host.name}: the user name holds a colon, or it or the password a line break",
            hint="Scrapyd can take neither",
        )
