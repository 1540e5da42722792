"""A node's own TLS: files that cannot serve stop the start with one line, and renewed ones are taken up."""

from __future__ import annotations

import contextlib
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from OpenSSL import SSL

from toolkit.model.errors import ConfigurationError
from toolkit.node import tls
from toolkit.node.tls import NodeTls
from toolkit.trust.authority import Identity, new_authority, new_certificate

NOW = datetime.now(UTC)
CA = new_authority("test", now=NOW)
OURS, OTHER = (new_certificate(CA, ("127.0.0.1", name), now=NOW) for name in ("node-1", "node-2"))


def lay(folder: Path, identity: Identity = OURS, *, key: str | None = None, mode: int = 0o600) -> tuple[Path, Path]:
    (folder / "tls.pem").write_text(identity.certificate)
    (folder / "tls.key").touch()
    (folder / "tls.key").chmod(mode)
    (folder / "tls.key").write_text(identity.key.reveal() if key is None else key)
    return folder / "tls.pem", folder / "tls.key"


def served(node: NodeTls) -> SSL.Context:
    return node.serverConnectionForTLS(None).get_context()


def spoken(node: NodeTls, most: int) -> str:
    """Let a client that knows no later version shake hands with the node in memory; return what they speak."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_cipher_list(b"ALL:@SECLEVEL=0")
    context.set_max_proto_version(most)
    client, server = SSL.Connection(context, None), node.serverConnectionForTLS(None)
    client.set_connect_state()
    server.set_accept_state()
    for _ in range(4):
        for side, other in ((client, server), (server, client)):
            with contextlib.suppress(SSL.WantReadError):
                side.do_handshake()
            with contextlib.suppress(SSL.WantReadError):
                other.bio_write(side.bio_read(65_536))
    return client.get_protocol_version_name()


def test_a_certificate_with_its_key_serves_tls_1_2_and_later(tmp_path: Path) -> None:
    node = NodeTls(*lay(tmp_path))
    assert spoken(node, SSL.TLS1_2_VERSION) == "TLSv1.2"
    assert spoken(node, SSL.TLS1_3_VERSION) == "TLSv1.3"
    with pytest.raises(SSL.Error):
        spoken(node, SSL.TLS1_1_VERSION)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    certificate, key = lay(tmp_path)
    with pytest.raises(ConfigurationError, match=r"tls_key .* cannot be read: No such file"):
        NodeTls(certificate, tmp_path / "no.key")
    with pytest.raises(ConfigurationError, match=r"tls_cert .* cannot be read: No such file"):
        NodeTls(tmp_path / "no.pem", key)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="tls_key is not the key of tls_cert"):
        NodeTls(*lay(tmp_path, key=OTHER.key.reveal()))


def test_a_key_that_everybody_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="chmod 600"):
        NodeTls(*lay(tmp_path, mode=0o644))


def test_what_is_no_certificate_or_no_key_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no private key") as caught:
        NodeTls(*lay(tmp_path, key="hunter2"))
    assert "hunter2" not in str(caught.value)
    certificate, key = lay(tmp_path)
    certificate.write_text("nothing")
    with pytest.raises(ConfigurationError, match="holds no certificate"):
        NodeTls(certificate, key)


def test_a_key_with_a_passphrase_asks_nobody_for_it(tmp_path: Path) -> None:
    sealed = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    with pytest.raises(ConfigurationError, match="without a passphrase"):
        NodeTls(*lay(tmp_path, key=sealed.decode()))


def test_a_renewed_certificate_is_taken_up_and_a_broken_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "LOOK_EVERY_S", 0)
    node = NodeTls(*lay(tmp_path))
    first = served(node)
    assert served(node) is first
    lay(tmp_path, OTHER)
    second = served(node)
    assert second is not first
    (tmp_path / "tls.pem").write_text("half a fi")
    assert served(node) is second
    shutil.rmtree(tmp_path)
    assert served(node) is second
