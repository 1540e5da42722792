"""The certificates of nodes that speak TLS by themselves, kept in the state folder beside their authority."""

from __future__ import annotations

import threading
from datetime import datetime
from pathlib import Path

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Host, Secret
from toolkit.provision import private_files
from toolkit.provision.own_authority import CERTIFICATE, FOLDER, HOSTS, KEY
from toolkit.trust.authority import Identity, new_authority, new_certificate, why_new

_MAKING = threading.Lock()


def certificate_of(host: Host, state_folder: Path, *, now: datetime) -> Identity:
    """Return the host's certificate and key, made or renewed if need be, by the authority of the state folder.

    The same ones at every call until their names change or they near their end. The authority is made at the first
    call, private to its owner.

    Raises:
        ConfigurationError: the files cannot be read or written, or the authority's are damaged.

    """
    authority = own_authority(state_folder, now=now)
    names = names_of(host)
    folder = private_files.make_folder(state_folder / FOLDER / HOSTS)
    certificate_file, key_file = folder / f"{host.name}.pem", folder / f"{host.name}.key"
    known = _read(certificate_file, key_file)
    if known is not None and why_new(known, authority, names, now=now) is None:
        return known
    fresh = new_certificate(authority, names, now=now)
    private_files.write(key_file, fresh.key.reveal())
    private_files.write(certificate_file, fresh.certificate)
    return fresh


def own_authority(state_folder: Path, *, now: datetime) -> Identity:
    """Return the authority of the state folder, made at the first call.

    Raises:
        ConfigurationError: its files cannot be read or written, or one of the two is missing.

    """
    # Many hosts are provisioned at once.
    with _MAKING:
        return _authority(private_files.make_folder(state_folder / FOLDER), now)


def _authority(folder: Path, now: datetime) -> Identity:
    certificate_file, key_file = folder / CERTIFICATE, folder / KEY
    known = _read(certificate_file, key_file)
    if known is not None:
        return known
    if certificate_file.exists():
        raise ConfigurationError(
            f"the authority's key {key_file} is missing",
            hint=f"bring it back; or rm -r {folder}, then crawlctl nodes provision makes all certificates anew",
        )
    key_file.unlink(missing_ok=True)  # Without its certificate it is of a making that was cut off.
    fresh = new_authority(folder.absolute().parent.parent.name or "authority", now=now)
    private_files.write(key_file, fresh.key.reveal())
    private_files.write(certificate_file, fresh.certificate)
    return fresh


def names_of(host: Host) -> tuple[str, ...]:
    """Return what the host's certificate is for: the address by which it is called, and its name where that is one."""
    return tuple(dict.fromkeys((host.address, host.name)))


def _read(certificate_file: Path, key_file: Path) -> Identity | None:
    certificate, key = private_files.read(certificate_file), private_files.read(key_file)
    return None if certificate is None or key is None else Identity(certificate, Secret(key))
