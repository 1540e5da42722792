"""Looks at the inventory and the files it names. Nothing is sent anywhere."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.config.inventory import Inventory, load
from toolkit.doctor.judged import ERROR, NOTE, WARNING, Judged, found, named
from toolkit.model.errors import InventoryError
from toolkit.model.findings import Diagnosis
from toolkit.model.hosts import Host, Secret
from toolkit.model.names import NodeName
from toolkit.store.address import parse_address

TARGETS_FILE = "scrapy.cfg"
CHECK_INVENTORY = "crawlctl inventory check"


@dataclass(frozen=True, slots=True)
class FileState:
    """A file of this machine; `mode` is `None` when there is none, or we may not look."""

    path: Path
    mode: int | None

    @property
    def is_for_others(self) -> bool:
        """Somebody else than its owner may read it."""
        return bool((self.mode or 0) & (stat.S_IRGRP | stat.S_IROTH))


@dataclass(frozen=True, slots=True)
class FileEvidence:
    """The inventory's own file, who has a secret written in it, and the files that hosts name by option."""

    file: FileState
    literal: tuple[str, ...] = ()
    named: tuple[tuple[NodeName, str, FileState], ...] = ()
    """Host, option, file."""


def look_at_files(inventory: Inventory, hosts: Sequence[Host]) -> FileEvidence:
    """Return what the inventory's file and those it names are like.

    Raises:
        ConfigurationError: the inventory has become unreadable meanwhile.

    """
    literal: tuple[str, ...] = ()
    if inventory.path.name != TARGETS_FILE:
        # Without looking anything up, a secret is known only where it is written out.
        written = load(inventory.path, resolve=False)
        literal = tuple(_literal(written))
    files = [(host.name, option, _state(path)) for host in hosts for option, path in _files_of(host)]
    return FileEvidence(_state(inventory.path), literal, tuple(files))


def judge_mistakes(error: InventoryError) -> list[Judged]:
    """Return each mistake of an inventory that cannot be read. Pure."""
    return [found("inventory-mistake", ERROR, str(each), command=CHECK_INVENTORY) for each in error.mistakes]


def mistaken(error: InventoryError) -> Diagnosis:
    """Return the diagnosis of an inventory that cannot be read: nothing else can be looked at. Pure."""
    findings = tuple(each.finding for each in judge_mistakes(error))
    return Diagnosis(findings, ("inventory-mistake",), ("everything else: the inventory cannot be read",))


def judge_files(evidence: FileEvidence, hosts: Sequence[Host]) -> list[Judged]:
    """Say what is wrong with the inventory and its files. Pure."""
    judged = [
        found(
            "inventory-password",
            WARNING,
            "has no user name and password in the inventory, so its node must let anybody in, or refuses us",
            node=host.name,
            command=f"crawlctl inventory show {host.name}",
        )
        for host in hosts
        if host.password is None and not host.is_local
    ]
    file = evidence.file
    if evidence.literal and file.is_for_others:
        what = f"{file.path} has the {named(evidence.literal)} written in it, and others may read it"
        judged.append(found("inventory-secret", WARNING, what, command=f"chmod 600 {file.path}"))
    judged += list(_judge_named(evidence))
    return judged


def _judge_named(evidence: FileEvidence) -> Iterator[Judged]:
    for name, option, file in evidence.named:
        if file.mode is None:
            text = f"names {file.path} as {option}, and there is no such file"
            yield found("inventory-file", ERROR, text, node=name, command=f"crawlctl inventory show {name}")
        elif option == "ssh.key" and file.is_for_others:
            text = f"has the SSH key {file.path}, which others may read: SSH refuses such a key"
            yield found("inventory-file", NOTE, text, node=name, command=f"chmod 600 {file.path}")


def _literal(written: Inventory) -> Iterator[str]:
    for name, url in (("Redis URL", written.redis), ("Redis URL of the administrator", written.redis_admin)):
        if url is not None and _holds_password(url):
            yield name
    if written.signing_key is not None:
        yield "signing key"
    for host in written.hosts:
        if host.password is not None:
            yield f"password of {host.name}"
        if host.ssh.password is not None or host.ssh.sudo_password is not None:
            yield f"SSH password of {host.name}"


def _holds_password(url: Secret) -> bool:
    address = parse_address(url)
    return address.password is not None or address.sentinel_password is not None


def _files_of(host: Host) -> Iterator[tuple[str, str]]:
    wishes = host.provision
    for option, path in (
        ("ssh.key", host.ssh.key),
        ("ssh.config", host.ssh.config),
        ("provision.wheelhouse", wishes.wheelhouse),
        ("provision.constraints", wishes.constraints),
        ("provision.requirements", wishes.requirements),
    ):
        if path is not None:
            yield option, path


def _state(path: str | Path) -> FileState:
    place = Path(path)
    try:
        place = place.expanduser()
        return FileState(place, stat.S_IMODE(place.stat().st_mode))
    except (OSError, RuntimeError):
        return FileState(place, None)
