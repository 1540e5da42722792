"""What a provisioned node gets for its safety: whom it trusts, its certificate, Redis users for it and its spiders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.model.hosts import Host, Secret
from toolkit.provision.keyring import Keyring
from toolkit.provision.redis_users import has_credentials, known_roles, with_user
from toolkit.store.acl import Role

if TYPE_CHECKING:
    from toolkit.config.inventory import Inventory

TRUSTED_KEYS, TLS_CERT, TLS_KEY, SPIDER_REDIS = "trusted.keys", "tls.pem", "tls.key", "spider-redis.url"
READ_ANEW = frozenset({TRUSTED_KEYS, TLS_CERT, TLS_KEY, SPIDER_REDIS})
"""The files that a node reads again by itself; a change of them needs no restart."""


@dataclass(frozen=True, slots=True)
class NodeSecurity:
    """Files of the node's folder, for the service user alone; the lines of `[crawlctl]` that name them; its Redis."""

    files: Mapping[str, Secret] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    redis: Secret | None = None


def security_of(
    host: Host, inventory: Inventory, state_folder: Path, *, redis: Secret | None, now: datetime | None = None
) -> NodeSecurity:
    """Return what one node shall have; `redis` is the URL as the host reaches it.

    Where `crawlctl redis users` has made users, node and spiders get theirs, unless `provision.redis` has credentials
    of its own. The host's certificate is made, or renewed, if need be.

    Raises:
        ConfigurationError: a file of keys, certificates or passwords cannot be read or written, or is damaged.

    """
    files: dict[str, Secret] = {}
    settings: dict[str, str] = {}
    if (keys := Keyring.of(inventory, state_folder).trusted_text()) is not None:
        files[TRUSTED_KEYS] = Secret(keys)
        settings["trusted_keys"] = TRUSTED_KEYS
    if host.provision.tls == "generated":
        from toolkit.provision.certificates import certificate_of  # noqa: PLC0415 - only where there is TLS

        own = certificate_of(host, state_folder, now=now or datetime.now(UTC))
        files |= {TLS_CERT: Secret(own.certificate), TLS_KEY: own.key}
        settings |= {"tls_cert": TLS_CERT, "tls_key": TLS_KEY}
    has_its_own = host.provision.redis is not None and has_credentials(host.provision.redis)
    if redis is None or has_its_own or not all(known_roles(state_folder).values()):
        return NodeSecurity(files, settings, redis)
    spiders = with_user(redis, Role.SPIDER, state_folder, cluster=inventory.cluster)
    files[SPIDER_REDIS] = Secret(f"{spiders.reveal()}\n")
    settings["spider_redis_file"] = SPIDER_REDIS
    return NodeSecurity(files, settings, with_user(redis, Role.NODE, state_folder, cluster=inventory.cluster))
