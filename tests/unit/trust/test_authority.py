"""The authority's certificates are what TLS clients of everyday take, for the names that they were made for."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from toolkit.model.errors import ConfigurationError
from toolkit.model.hosts import Host, Provisioning, Secret
from toolkit.model.names import NodeName
from toolkit.provision.certificates import certificate_of, own_authority
from toolkit.trust.authority import Identity, ends_at, new_authority, new_certificate, why_new

NOW = datetime.now(UTC).replace(microsecond=0)
CA = new_authority("crawl", now=NOW)
NAMES = ("10.0.0.11", "node-1")


def shaken_hands(server: Identity, trusted: Identity, *, name: str, folder: Path) -> str | None:
    """Let a client and a server of Python's ssl meet in memory; return the version that they speak."""
    (folder / "s.pem").write_text(server.certificate + server.key.reveal())
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(folder / "s.pem")
    ours = ssl.create_default_context(cadata=trusted.certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ours.wrap_bio(to_client, to_server, server_hostname=name)
    answering = theirs.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, answering):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client.version()


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_trusts_the_authority_takes_the_certificate(name: str, tmp_path: Path) -> None:
    assert shaken_hands(new_certificate(CA, NAMES, now=NOW), CA, name=name, folder=tmp_path) == "TLSv1.3"


@pytest.mark.parametrize("name", ["10.0.0.12", "node-2"])
def test_it_is_not_taken_for_another_host(name: str, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken_hands(new_certificate(CA, NAMES, now=NOW), CA, name=name, folder=tmp_path)


def test_it_is_not_taken_by_who_trusts_another_authority(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken_hands(new_certificate(CA, NAMES, now=NOW), new_authority("x", now=NOW), name=NAMES[0], folder=tmp_path)


def test_a_nodes_certificate_cannot_make_others(tmp_path: Path) -> None:
    forged = new_certificate(new_certificate(CA, NAMES, now=NOW), ("10.0.0.99",), now=NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken_hands(forged, CA, name="10.0.0.99", folder=tmp_path)


def test_it_is_renewed_when_need_be_and_not_before() -> None:
    fresh = new_certificate(CA, NAMES, now=NOW)
    assert why_new(fresh, CA, NAMES, now=NOW) is None
    assert why_new(fresh, CA, NAMES, now=NOW + timedelta(days=336)) is None
    assert "it ends on" in (why_new(fresh, CA, NAMES, now=NOW + timedelta(days=338)) or "")
    assert "names or addresses" in (why_new(fresh, CA, ("10.0.0.12", "node-1"), now=NOW) or "")
    assert "authority" in (why_new(fresh, new_authority("x", now=NOW), NAMES, now=NOW) or "")
    assert "key" in (why_new(Identity(fresh.certificate, CA.key), CA, NAMES, now=NOW) or "")
    assert "authority" in (why_new(Identity("x", Secret("y")), CA, NAMES, now=NOW) or "")
    assert (ends_at(fresh.certificate) - NOW).days == 396


def test_a_host_keeps_its_certificate_in_private_files(tmp_path: Path) -> None:
    host = Host(NodeName("node-1"), address="10.0.0.11", provision=Provisioning(tls="generated"))
    first = certificate_of(host, tmp_path, now=NOW)
    assert certificate_of(host, tmp_path, now=NOW) == first
    assert certificate_of(host, tmp_path, now=NOW + timedelta(days=350)) != first
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 4
    assert {path.stat().st_mode & 0o077 for path in files} == {0}


def test_an_authority_without_its_key_is_not_replaced_behind_ones_back(tmp_path: Path) -> None:
    own_authority(tmp_path, now=NOW)
    (tmp_path / "authority" / "ca.key").unlink()
    with pytest.raises(ConfigurationError, match=r"key .* is missing"):
        own_authority(tmp_path, now=NOW)
