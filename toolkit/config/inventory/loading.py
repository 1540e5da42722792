"""From a file to an `Inventory`, or to every mistake in it at once."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.config.inventory.document import Document, Place
from toolkit.config.inventory.drafts import GroupDraft, HostDraft, read_groups, read_hosts
from toolkit.config.inventory.inheritance import cycles, inherited, members
from toolkit.config.inventory.patterns import pick
from toolkit.config.inventory.references import References
from toolkit.config.inventory.variables import LABELS, SECTIONS, ValueReader, Variables
from toolkit.config.log_places import LogAddress, address_for_reading
from toolkit.config.options import Scope, keys, option
from toolkit.config.shipping_options import SHIPPED_LOGS_OPTIONS
from toolkit.config.values import Value
from toolkit.model.errors import InventoryError
from toolkit.model.hosts import Host, Provisioning, Secret, SshAddress
from toolkit.model.names import DEFAULT_CLUSTER, NodeName

_HINT = "`crawlctl docs inventory` describes every key; `crawlctl inventory check` looks again"
_OWN_VALUES = (
    *("redis", "cluster", "redis_admin", "signing_key", "trusted_keys"),
    *(each.name for each in SHIPPED_LOGS_OPTIONS),
)
_LOOPBACK = "127.0.0.1"
# Files of this machine that a host's variables name.
_PATHS = {"ssh": ("key", "config"), "provision": ("wheelhouse", "constraints", "requirements")}


@dataclass(frozen=True, slots=True)
class Inventory:
    """What one inventory says: hosts in file order; groups with all their hosts, those of their children included."""

    path: Path
    redis: Secret | None
    hosts: tuple[Host, ...]
    groups: Mapping[str, tuple[NodeName, ...]]
    cluster: str = DEFAULT_CLUSTER
    redis_admin: Secret | None = None
    signing_key: Secret | None = None
    trusted_keys: Path | None = None
    shipped_logs: LogAddress | None = None
    has_alerts: bool = False
    has_crons: bool = False

    def pick(self, pattern: str | None) -> tuple[Host, ...]:
        """Return the hosts that a pattern means, in file order; all of them for `None`.

        Raises:
            UsageError: the pattern is malformed.
            NotFoundError: a term of it names nothing, or it leaves no host.

        """
        return pick(pattern, self.hosts, self.groups)


def load(path: Path, *, resolve: bool = True, environ: Mapping[str, str] | None = None) -> Inventory:
    """Read an inventory whole, with every inherited variable in its place.

    Each value from elsewhere (`env`, `file`, `command`) is looked up once, whether a host uses it or not; with
    `resolve` false none is, and what it would set keeps its default, which is right for completion and listings.
    `environ` is the process's own environment unless given.

    Raises:
        ConfigurationError: the file cannot be read.
        InventoryError: something in it is wrong; it carries every mistake, in the order of the file.

    """
    document = Document.read(path)
    environ = os.environ if environ is None else environ
    references = References(folder=path.parent, environ=environ) if resolve else None
    inventory = _assembled(path, ValueReader(document, references))
    if document.mistakes or inventory is None:
        raise InventoryError(document.mistakes, hint=_HINT)
    return inventory


def _assembled(path: Path, reader: ValueReader) -> Inventory | None:
    document = reader.document
    if document.root is None:
        if not document.mistakes:
            document.blame(Place(1, 1), "the inventory is empty")
        return None
    entries = reader.known_entries(document.root, keys(Scope.INVENTORY), what="the inventory")
    parts = {entry.key: entry for entry in entries}
    shared: dict[str, Value] = {}
    for name in _OWN_VALUES:
        shared |= reader.value(option(Scope.INVENTORY, name), parts[name]) if name in parts else {}
    defaults = reader.variables(parts["defaults"].value, what="defaults") if "defaults" in parts else {}
    drafts = read_hosts(reader, parts["hosts"].value) if "hosts" in parts else ()
    groups = read_groups(reader, parts["groups"].value, hosts=drafts) if "groups" in parts else ()
    if not drafts and not document.mistakes:
        document.blame(parts["hosts"].place if "hosts" in parts else Place(1, 1), "the inventory names no hosts")
    for place, circle in cycles(groups):
        document.blame(place, circle)
    # What follows would only repeat the mistakes so far in other words.
    if document.mistakes:
        return None
    hosts = _hosts(drafts, groups, inherited(drafts, groups, defaults=defaults), folder=path.parent)
    if reader.references is not None:
        _check_hosts(document, drafts, hosts)
    keys_file = shared.get("trusted_keys")
    return Inventory(
        path,
        _secret(shared, "redis"),
        hosts,
        members(drafts, groups),
        cluster=str(shared.get("cluster") or DEFAULT_CLUSTER),
        redis_admin=_secret(shared, "redis_admin"),
        signing_key=_secret(shared, "signing_key"),
        trusted_keys=_at_home(path.parent, str(keys_file)) if keys_file else None,
        shipped_logs=address_for_reading(shared, (host.node for host in hosts), folder=path.parent),
        has_alerts="alerts" in parts,
        has_crons="crons" in parts,
    )


def _secret(shared: Mapping[str, Value], name: str) -> Secret | None:
    found = shared.get(name)
    return found if isinstance(found, Secret) else None


def _from(folder: Path, name: str) -> str:
    """Return the path that a name means from the inventory's folder on; `~` stays for whoever opens it."""
    return name if name.startswith("~") else str(folder / name)


def _at_home(folder: Path, name: str) -> Path:
    """Return the path that a name means from the inventory's folder on; `~` stays what nobody has a home for."""
    try:
        return folder / Path(name).expanduser()
    except RuntimeError:
        return folder / name


def _hosts(
    drafts: Sequence[HostDraft],
    groups: Sequence[GroupDraft],
    variables: Mapping[NodeName, Variables],
    *,
    folder: Path,
) -> tuple[Host, ...]:
    belongs: defaultdict[NodeName, set[str]] = defaultdict(set)
    for group, names in members(drafts, groups).items():
        for name in names:
            belongs[name].add(group)
    return tuple(
        _host(draft.name, variables[draft.name], frozenset(belongs[draft.name]), folder=folder) for draft in drafts
    )


def _host(name: NodeName, variables: Variables, groups: frozenset[str], *, folder: Path) -> Host:
    fields: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {section: {} for section in (LABELS, *SECTIONS)}
    for key, value in variables.items():
        section, _, inner = key.partition(".")
        (parts[section] if inner else fields)[inner or key] = value
    fields.setdefault("address", _LOOPBACK if fields.get("connection") == "local" else str(name))
    for section, names in _PATHS.items():
        given = parts[section]
        given |= {each: _from(folder, given[each]) for each in names if given.get(each)}
    fields |= {"ssh": SshAddress(**parts["ssh"]), "provision": Provisioning(**parts["provision"])}
    if parts["provision"].get("tls") == "generated":
        fields.setdefault("scheme", "https")
    if fields.get("ca_file"):
        fields["ca_file"] = str(_at_home(folder, fields["ca_file"]))
    node = {key: value for key, value in parts["node"].items() if value is not None}
    return Host(name=name, labels=parts[LABELS], node=node, groups=groups, **fields)


def _check_hosts(document: Document, drafts: Sequence[HostDraft], hosts: Sequence[Host]) -> None:
    """Note what only the whole shows; of a range, only the first host that is wrong."""
    first_at: dict[tuple[str, int, str], Host] = {}
    blamed: set[tuple[Place, str]] = set()
    for draft, host in zip(drafts, hosts, strict=True):
        address = _LOOPBACK if host.address.casefold() == "localhost" else host.address.casefold()
        first = first_at.setdefault((address, host.port, host.path), host)
        if first is not host and (draft.place, "url") not in blamed:
            blamed.add((draft.place, "url"))
            document.blame(draft.place, f"{host.name} listens where {first.name} does: {host.url}")
        if host.password is not None and host.username is None and (draft.place, "username") not in blamed:
            blamed.add((draft.place, "username"))
            document.blame(draft.place, f"{host.name} has a password but no username")
