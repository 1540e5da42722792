"""A whole cluster on this machine: Redis and every local host of an inventory brought up, kept, and taken down."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.model.errors import ConfigurationError, CrawlctlError
from toolkit.model.hosts import Host, Secret
from toolkit.model.names import NodeName
from toolkit.model.outcomes import Outcome, Outcomes
from toolkit.model.servers import LocalProcess
from toolkit.provision import local_nodes, local_servers, ports, private_files, processes, redis_server
from toolkit.provision.credentials import (
    NODES_FOLDER,
    REDIS_FOLDER,
    RedisAddress,
    local_password,
    redis_address,
    with_local_credentials,
    with_redis_password,
)
from toolkit.provision.keyring import Keyring
from toolkit.provision.local_nodes import SharedQueue
from toolkit.provision.local_servers import Answer
from toolkit.provision.redis_server import RedisServer

if TYPE_CHECKING:
    from toolkit.config.inventory import Inventory

REDIS = NodeName(redis_server.NAME)
_AT_ONCE = 16

OnProgress = Callable[[Outcome[LocalProcess]], None]


def up(
    inventory: Inventory, folder: Path, *, environ: Mapping[str, str], on_progress: OnProgress | None = None
) -> Outcomes[LocalProcess]:
    """Start the Redis and the local hosts of the inventory, in parallel, and keep them; idempotent.

    Redis comes first in the result, under the name `redis`, if its URL is one of this machine; another one that
    answers there is used as it is. With a Redis, here or elsewhere, hosts become nodes of the shared queue unless their
    kind is stock; without one, all are stock. A server that does not come up is an outcome. `on_progress` gets each
    outcome as soon as it is known, in the caller's thread. Interrupted, it stops what it had started and raises on.

    Raises:
        MissingExtraError: psutil is not installed.
        ConfigurationError: the folder or the password in it cannot be used.
        RefusedError: another `up` or `down` is at work in the folder.

    """
    processes.load_psutil()
    home = folder.resolve()
    with private_files.one_at_a_time(home, doing="up"):
        password = local_password(home)
        cancelled = threading.Event()
        first: list[Outcome[LocalProcess]] = []
        try:
            # Redis goes first: a node that finds none waits for seconds before it looks again.
            if wanted := redis_address(inventory.redis):
                first.append(_outcome(REDIS, lambda: _start_redis(wanted, password, home, environ, cancelled)))
                _tell(first, on_progress)
            queue = _queue_of(inventory, password, home, is_ours=wanted is not None and not _is_theirs(first))
            hosts = [host for host in with_local_credentials(inventory, home).hosts if host.is_local]
            starts = {host.name: _starter(host, home, queue, environ, cancelled) for host in hosts}
            return Outcomes((*first, *_all_or_none_of_ours(starts, home, cancelled, on_progress)))
        except BaseException:
            _stop_started(first, home)
            raise


def down(
    folder: Path,
    *,
    only: Collection[NodeName] | None = None,
    grace_s: float = local_servers.GRACE_S,
    on_progress: OnProgress | None = None,
) -> Outcomes[LocalProcess]:
    """End every node that was started in the folder, its spiders too, then its Redis; idempotent.

    With `only`, just those nodes, and the Redis goes on. Else also those whose hosts have left the inventory. Spiders
    close by themselves within `grace_s` seconds or are killed; what survives even that is an outcome. The data stay.

    Raises:
        MissingExtraError: psutil is not installed.
        RefusedError: another `up` or `down` is at work in the folder.

    """
    home = folder.resolve()
    if not home.is_dir():
        return Outcomes(())
    processes.load_psutil()
    with private_files.one_at_a_time(home, doing="down"):
        names = [name for name in _known_nodes(home) if only is None or name in only]
        return _stop_all(names, home, with_redis=only is None, grace_s=grace_s, on_progress=on_progress)


def _known_nodes(home: Path) -> list[NodeName]:
    nodes = home / NODES_FOLDER
    return sorted(NodeName(path.name) for path in nodes.iterdir() if path.is_dir()) if nodes.is_dir() else []


def _starter(
    host: Host, home: Path, queue: SharedQueue | None, environ: Mapping[str, str], cancelled: threading.Event
) -> Callable[[], LocalProcess]:
    own = queue if host.kind == "node" else None
    return lambda: local_nodes.start_node(host, home / NODES_FOLDER, queue=own, environ=environ, cancelled=cancelled)


def _queue_of(inventory: Inventory, generated: Secret, home: Path, *, is_ours: bool) -> SharedQueue | None:
    """Return the queue that the nodes share, with the password that its Redis has or will have."""
    if inventory.redis is None:
        return None
    wanted = redis_address(inventory.redis)
    has_password = wanted is None or wanted.password is not None
    url = with_redis_password(inventory.redis, generated) if is_ours and not has_password else inventory.redis
    return SharedQueue(url, inventory.cluster, Keyring.of(inventory, home).trusted_text())


def _is_theirs(first: Sequence[Outcome[LocalProcess]]) -> bool:
    """Tell whether somebody else's Redis is used as it is: it came up, and is no process of ours."""
    return any(outcome.value is not None and outcome.value.pid is None for outcome in first)


def _tell(outcomes: Sequence[Outcome[LocalProcess]], on_progress: OnProgress | None) -> None:
    for outcome in outcomes:
        if on_progress:
            on_progress(outcome)


def _start_redis(
    wanted: RedisAddress, generated: Secret, home: Path, environ: Mapping[str, str], cancelled: threading.Event
) -> LocalProcess:
    server = RedisServer(home / REDIS_FOLDER, environ=environ)
    if not server.is_running:
        answer = redis_server.ping(wanted.address, wanted.port, wanted.password)
        if answer is Answer.OURS:
            server.stop()
            return LocalProcess(redis_server.NAME, wanted.place, "unchanged", None, "a Redis that was there already")
        if answer is Answer.UNAUTHORIZED:
            holder = ports.listener(wanted.address, wanted.port) or "a Redis"
            raise ConfigurationError(
                f"{holder} answers on {wanted.place} and wants another password",
                hint="put its password into the inventory's redis URL, or another port",
            )
    return server.start(wanted.port, wanted.password or generated, address=wanted.address, cancelled=cancelled)


def _all_or_none_of_ours(
    starts: Mapping[NodeName, Callable[[], LocalProcess]],
    home: Path,
    cancelled: threading.Event,
    on_progress: OnProgress | None,
) -> Outcomes[LocalProcess]:
    """Run the starts in parallel; if interrupted, stop again what they started, and raise on."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="up") as pool:
        futures = [pool.submit(_outcome, name, act) for name, act in starts.items()]
        try:
            return _gathered(futures, on_progress)
        except BaseException:
            cancelled.set()
            pool.shutdown(cancel_futures=True)
            _stop_started([future.result() for future in futures if not future.cancelled()], home)
            raise


def _stop_started(outcomes: Sequence[Outcome[LocalProcess]], home: Path) -> None:
    fresh = [o.node for o in outcomes if o.value and o.value.action in {"started", "restarted"}]
    nodes = [name for name in fresh if name != REDIS]
    _stop_all(nodes, home, with_redis=REDIS in fresh, grace_s=local_servers.GRACE_S, on_progress=None)


def _stop_all(
    names: Sequence[NodeName], home: Path, *, with_redis: bool, grace_s: float, on_progress: OnProgress | None
) -> Outcomes[LocalProcess]:
    def stop_node(name: NodeName) -> Outcome[LocalProcess]:
        return _outcome(name, lambda: local_nodes.stop_node(name, home / NODES_FOLDER, grace_s=grace_s))

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="down") as pool:
        nodes = _gathered([pool.submit(stop_node, name) for name in names], on_progress)
    if not (with_redis and (home / REDIS_FOLDER).is_dir()):
        return nodes
    # Redis goes last: spiders that are closing still write to it.
    server = RedisServer(home / REDIS_FOLDER, environ={})
    redis = _outcome(REDIS, lambda: server.stop(grace_s=grace_s))
    if on_progress:
        on_progress(redis)
    return Outcomes((*nodes, redis))


def _gathered(
    futures: Sequence[Future[Outcome[LocalProcess]]], on_progress: OnProgress | None
) -> Outcomes[LocalProcess]:
    for future in as_completed(futures):
        if on_progress:
            on_progress(future.result())
    return Outcomes(tuple(future.result() for future in futures))


def _outcome(name: NodeName, act: Callable[[], LocalProcess]) -> Outcome[LocalProcess]:
    began = time.monotonic()
    try:
        return Outcome(name, value=act(), seconds=time.monotonic() - began)
    except CrawlctlError as error:
        return Outcome(name, error=error, seconds=time.monotonic() - began)
