"""The shared store over TLS: a real Redis behind a small door of the standard library's that speaks it."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.certificates import make_certificate
from support.redis_server import RedisServer

from toolkit.model.errors import ConfigurationError, StoreUnreachableError
from toolkit.model.hosts import Secret
from toolkit.store.open import open_store

FOLDER = Path("/nonexistent")


def forward(client: ssl.SSLSocket, port: int) -> None:
    """Carry bytes between the TLS client and the plain server until one of them ends."""
    with client, socket.create_connection(("127.0.0.1", port)) as server:
        while True:
            ready = [client] if client.pending() else select.select([client, server], [], [])[0]
            for source in ready:
                chunk = source.recv(65536)
                if not chunk:
                    return
                (server if source is client else client).sendall(chunk)


@pytest.fixture
def tls_port(redis_server: RedisServer, redis_url: str, tmp_path: Path) -> Iterator[int]:
    """Give a port on which the Redis speaks TLS only."""
    assert redis_url
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return
                try:
                    client = context.wrap_socket(plain, server_side=True)
                except OSError:
                    plain.close()
                    continue
                threading.Thread(target=forward, args=(client, redis_server.port), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_a_certificate_of_the_named_authority_is_trusted(tls_port: int, tmp_path: Path) -> None:
    store = open_store(Secret(f"rediss://127.0.0.1:{tls_port}/0?ssl_ca_certs={tmp_path}/node.pem"), FOLDER)
    assert store.jobs.unfinished() == ()
    store.close()


def test_a_certificate_of_nobody_known_is_refused(tls_port: int) -> None:
    with pytest.raises(StoreUnreachableError, match="certificate is not trusted") as caught:
        open_store(Secret(f"rediss://127.0.0.1:{tls_port}/0"), FOLDER)
    assert "ssl_ca_certs" in str(caught.value.hint)


def test_a_certificate_of_another_host_is_refused(tls_port: int, tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachableError, match="certificate is not trusted"):
        open_store(Secret(f"rediss://localhost:{tls_port}/0?ssl_ca_certs={tmp_path}/node.pem"), FOLDER)


def test_checks_may_be_given_up_by_name(tls_port: int) -> None:
    url = f"rediss://127.0.0.1:{tls_port}/0?ssl_cert_reqs=none"
    open_store(Secret(url), FOLDER).close()


def test_an_authority_file_that_is_not_there_is_told(tls_port: int) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no file /nonexistent\.pem") as caught:
        open_store(Secret(f"rediss://127.0.0.1:{tls_port}/0?ssl_ca_certs=/nonexistent.pem"), FOLDER)
    assert caught.value.hint


def test_an_authority_file_that_is_none_is_told(tls_port: int, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(StoreUnreachableError) as caught:
        open_store(Secret(f"rediss://127.0.0.1:{tls_port}/0?ssl_ca_certs={tmp_path}/empty.pem"), FOLDER)
    assert "a wrong TLS file" in str(caught.value.hint)


def test_a_mode_of_checking_that_does_not_exist_is_told(tls_port: int) -> None:
    with pytest.raises(ConfigurationError, match="ssl_cert_reqs is none of required, optional, none"):
        open_store(Secret(f"rediss://127.0.0.1:{tls_port}/0?ssl_cert_reqs=maybe"), FOLDER)


def test_plain_talk_to_a_tls_port_is_told(tls_port: int) -> None:
    with pytest.raises(StoreUnreachableError) as caught:
        open_store(Secret(f"redis://127.0.0.1:{tls_port}/0?socket_timeout=2"), FOLDER)
    assert "rediss:// if it has TLS" in str(caught.value.hint)
